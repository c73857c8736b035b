"""The repository keeps its own rules: what review would otherwise have to look for every time."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts import conformance, lock

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "msmq"
TESTS = ROOT / "tests"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LONGEST_MODULE_LINES = 600
MADE = {".git", ".venv", "build", "dist", "site", "__pycache__", "generated"}
MADE |= {".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache", ".hypothesis"}

# Written in pieces, or this file would be the first to break its own rule.
FOREIGN = [
    r"(?<![\w.~])/" + "(root|work|farm|home)/",
    r"\." + "library",
    "opt/" + "(pypi|wheels)",
    "--(extra-)?" + "index-url",
    "--find-" + "links",
    "--trusted-" + "host ",
]
PLAIN_INSTALL = {"typer", "rich", "cryptography", "pyspnego", "protobuf", "uvloop", "zlib-ng"}
PLAIN_INSTALL |= {"grpcio", "grpcio-health-checking", "grpcio-reflection"}
# Distributions whose modules have another name.
PLAIN_MODULES = {"grpc", "grpc_health", "grpc_reflection", "google", "spnego", "zlib_ng"}
# These rooms take time, randomness, files and sockets as arguments (see ARCHITECTURE.md).
PURE_ROOMS = ["errors", "wire", "security", "admission", "manager", "transfer", "routing"]
# A module without a test module of its own, and why.
UNMIRRORED: dict[str, str] = {
    "__init__.py": "gives the client by its names: tests/client/test_import",
    "__main__.py": "one call of the command line, which tests/cli runs as a program",
    "client/watcher.py": "only protocols: tests/telemetry watches connections",
    "client/stream.py": "only protocols: those who carry calls are in test_line and test_several",
    "wire/headers.py": "large enough for three: test_base_header, test_user_header, test_message_properties",
}


def project_files() -> list[Path]:
    """Every file that is, or would be, in version control."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\0")
        found = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        found = [path for path in ROOT.rglob("*") if not MADE & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in found if path.is_file())


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def source_modules() -> list[Path]:
    return sorted(path for path in SRC.rglob("*.py") if not MADE & set(path.relative_to(SRC).parts))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")


def places(path: Path, nodes: Iterator[ast.AST]) -> list[str]:
    return [
        f"{name_of(path)}:{node.lineno}" for node in nodes if isinstance(node, ast.expr | ast.excepthandler)
    ]


def test_no_trace_of_a_machine_or_registry() -> None:
    pattern = re.compile("|".join(FOREIGN))
    found = []
    for path in project_files():
        for number, line in enumerate((text_of(path) or "").splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{name_of(path)}:{number}: {line.strip()[:80]}")
    assert not found


def test_modules_are_a_page_or_three() -> None:
    modules = [*source_modules(), *TESTS.rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert not {name: length for name, length in lengths.items() if length > LONGEST_MODULE_LINES}


def test_every_module_says_what_it_is() -> None:
    assert not [name_of(path) for path in source_modules() if not ast.get_docstring(tree(path))]


def test_every_directory_is_a_package() -> None:
    """One without ``__init__.py`` can be imported, but import-linter does not see it."""
    directories = {path.parent for path in source_modules()}
    assert not [name_of(path) for path in sorted(directories) if not (path / "__init__.py").exists()]


def test_nothing_is_put_off_in_the_code() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert not [
        name_of(path) for path in source_modules() if pattern.search(path.read_text(encoding="utf-8"))
    ]


def test_no_bare_except() -> None:
    found = []
    for path in source_modules():
        handlers = (node for node in ast.walk(tree(path)) if isinstance(node, ast.ExceptHandler))
        found += places(path, (handler for handler in handlers if handler.type is None))
    assert not found


def test_only_the_command_line_prints() -> None:
    found = []
    for path in source_modules():
        if path.relative_to(SRC).parts[0] == "cli":
            continue
        calls = (node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
        found += places(path, (func for func in calls if isinstance(func, ast.Name) and func.id == "print"))
    assert not found


def is_only_a_front(path: Path) -> bool:
    """Whether a package's ``__init__`` holds nothing but its docstring, imports and plain names."""
    plain = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    body = [node for node in tree(path).body if not isinstance(node, ast.Expr)]
    return path.name == "__init__.py" and all(isinstance(node, plain) for node in body)


def mirrors(path: Path) -> list[Path]:
    """The test modules of a source module: ``test_<module>*.py`` in its mirrored directory, or those of its
    package as a whole one directory up."""
    inner = path.relative_to(SRC).with_suffix("")
    if inner.name in ("__init__", "__main__"):
        inner = inner.parent
    found: list[Path] = []
    for part in (inner, inner.parent):
        if part.name:
            stem = part.name.strip("_")
            beside = TESTS / part.parent
            found += [*beside.glob(f"test_{stem}.py"), *beside.glob(f"test_{stem}_*.py")]
    return found


def test_the_test_tree_mirrors_the_source_tree() -> None:
    modules = [path for path in source_modules() if not is_only_a_front(path)]
    lonely = {path.relative_to(SRC).as_posix() for path in modules if not mirrors(path)}
    assert lonely == UNMIRRORED.keys()


def test_exported_names_exist() -> None:
    for path in source_modules():
        if path.name == "__main__.py":
            continue
        module = importlib.import_module(module_name(path))
        exported = getattr(module, "__all__", [])
        assert len(exported) == len(set(exported)), f"{module.__name__}: a name twice in __all__"
        missing = [name for name in exported if not hasattr(module, name)]
        assert not missing, f"{module.__name__}: {missing} in __all__ only"


def test_packages_export_what_they_gather() -> None:
    for path in source_modules():
        if path.name != "__init__.py" or not is_only_a_front(path):
            continue
        imports = [
            node
            for node in tree(path).body
            if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        ]
        gathered = {alias.asname or alias.name for node in imports for alias in node.names}
        public = {name for name in gathered if not name.startswith("_")}
        exported = set(getattr(importlib.import_module(module_name(path)), "__all__", []))
        assert public <= exported, f"{name_of(path)}: not in __all__: {sorted(public - exported)}"


def marked_ids(path: Path) -> Iterator[tuple[int, str]]:
    """Every literal id of a ``mark.spec(...)`` call, with its line."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.lineno, argument.value


def test_spec_marks_name_known_rows() -> None:
    known = conformance.load_inventory(conformance.Home(ROOT).inventory)
    files = [path for path in TESTS.rglob("test_*.py") if path.name != "test_conformance.py"]
    assert not [
        f"{name_of(path)}:{line}: {i}" for path in files for line, i in marked_ids(path) if i not in known
    ]


def test_rulings_name_known_rows() -> None:
    known = conformance.load_inventory(conformance.Home(ROOT).inventory)
    prefixes = "|".join({row_id.partition("-")[0] for row_id in known})
    text = (ROOT / "docs" / "rulings.md").read_text(encoding="utf-8")
    named = re.findall(rf"\b(?:{prefixes})-[0-9.]+-\w+", text)
    assert named
    assert not [row_id for row_id in named if row_id not in known]


@pytest.mark.parametrize("page", [path for path in project_files() if path.suffix == ".md"], ids=name_of)
def test_the_commands_the_pages_name_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(
        re.findall(r"(?:`|^\s*(?:\$ )?)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert named <= targets


MAPS = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "docs" / "glossary.md",
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_the_modules_the_maps_name_exist(page: Path) -> None:
    """A module, or a module with a name that stands in it, such as `manager.mailbox.positions` or `web.jobs`."""
    rooms = {path.name for path in SRC.iterdir() if path.is_dir()}
    for name in re.findall(r"`(?:msmq\.)?([a-z_]+(?:\.\w+)*)`", page.read_text(encoding="utf-8")):
        parts = name.split(".")
        if parts[0] not in rooms:
            continue
        path = SRC
        while parts and (path / parts[0]).is_dir():
            path /= parts.pop(0)
        module = path / "__init__.py"
        if parts and (path / f"{parts[0]}.py").exists():
            module = path / f"{parts.pop(0)}.py"
        for part in parts:
            assert re.search(rf"\b{part}\b", module.read_text(encoding="utf-8")), f"{page.name} names {name}"


def test_the_architecture_is_a_map() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_every_pure_room_is_under_the_import_rule() -> None:
    contracts = {contract["id"]: contract for contract in PYPROJECT["tool"]["importlinter"]["contracts"]}
    existing = {
        f"msmq.{room}" for room in PURE_ROOMS if (SRC / room).exists() or (SRC / f"{room}.py").exists()
    }
    assert set(contracts["pure"]["source_modules"]) == existing


def distribution(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower()


def test_a_plain_install_stays_small() -> None:
    assert {distribution(entry) for entry in PYPROJECT["project"]["dependencies"]} == PLAIN_INSTALL


def test_modules_need_no_extra_to_be_imported() -> None:
    """Packages of an extra are imported where they are used, or in the room named after the extra."""
    ours = {*sys.stdlib_module_names, *PLAIN_INSTALL, *PLAIN_MODULES, "msmq"}
    found = []
    for path in source_modules():
        if path.relative_to(SRC).parts[0] in PYPROJECT["project"]["optional-dependencies"]:
            continue
        for node in tree(path).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found += [
                f"{name_of(path)}:{node.lineno}: {name}" for name in names if name.split(".")[0] not in ours
            ]
    assert not found


def test_the_lock_file_pins_everything_asked_for() -> None:
    text = lock.LOCK.read_text(encoding="utf-8")
    pinned = {name.lower() for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
    assert {distribution(entry) for entry in lock.wanted(PYPROJECT)} <= pinned
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
