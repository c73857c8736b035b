"""README.md and the pages of docs: what they tell to type works, page by page, and some pasted twice."""

from __future__ import annotations

import os
import pkgutil
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from msmq.cli import app
from msmq.directory.local import LocalDirectory
from msmq.server.config import from_table
from tests import ready
from tests.cli.support import Live, serving
from tests.test_readme import ROOT, text_of

PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
TWICE = ["README.md", "docs/client.md"]
ONCE = ["docs/tutorial/first-steps.md", "docs/celery.md", "docs/decode-json.md"]
ONCE += [f"docs/how-to/{page}.md" for page in ("api", "accounts", "decode", "serve", "store")]
ONCE += [
    f"docs/how-to/{page}.md"
    for page in ("backup", "harden", "migrate", "monitor", "troubleshoot", "try-windows")
]
ONCE += ["docs/how-to/upgrade.md", "docs/index.md"]
"""Pages whose blocks are typed into one terminal, in order; those of the first list a second time, too."""
PYTHON_ELSEWHERE = {
    "docs/how-to/directory.md": "test_pages",
    "docs/how-to/embed.md": "test_readme",
    "docs/how-to/join-domain.md": "test_join_domain",
    "docs/how-to/remote-read.md": "test_pages",
    "docs/how-to/rpc.md": "test_pages",
    "docs/how-to/secure.md": "test_pages",
    "docs/how-to/spark.md": "spark/test_readme_example",
    "docs/how-to/trace.md": "telemetry/test_spans",
    "docs/pipelines.md": "spark/test_readme_example",
}
"""Pages whose Python needs parts of its own, such as a domain or Spark, and the tests that run it. The block of
README.md on Spark is run there too."""
SHELL_ELSEWHERE = {
    "docs/how-to/console.md": "test_pages",
    "docs/how-to/directory.md": "test_pages",
    "docs/how-to/join-domain.md": "test_join_domain",
    "docs/how-to/remote-read.md": "test_pages",
    "docs/pipelines.md": "cli/test_pipeline",
}
"""The same for their commands."""
ELSEWHERE = (
    "make",
    "tcpdump",
    "systemctl",
    "pip",
    "apt",
    "podman",
    "docker",
    "helm",
    "kubectl",
    "spark-submit",
    ". ",
    "msmq serve",
    "msmq top",
    "msmq ping",
)
"""What has no end, wants other hosts or the system's administrator, or has been done already."""
PLACEHOLDERS = {
    "DIRECTORY": "stopped/data/store",
    "DIR/store": "stopped/data/store",
    "DATA": "stopped/data",
    "FILE": "accounts",
    "HOST": "127.0.0.1",
    "msmq.pcap": str(ROOT / "samples" / "session.pcap"),
    "packet.bin": str(ROOT / "samples" / "session.pcap"),
    ".venv/bin/msmq": "msmq",
}


class Block(NamedTuple):
    page: str
    language: str
    text: str

    @property
    def lines(self) -> Iterator[str]:
        """The commands of a block of shell."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                yield line.strip()


BLOCKS = [
    Block(page, language, text)
    for page in PAGES
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)
]
COMMANDS = [
    (block.page, shlex.split(command, comments=True))
    for block in BLOCKS
    if block.language == "sh"
    for line in block.lines
    for command in re.split(r" \| |\$\(|\)\"", line.replace('"$(', "| $("))
    if command.strip().startswith(("msmq ", ".venv/bin/msmq "))
]
NAMED = sorted(
    {
        (page, words)
        for page in PAGES
        for words in re.findall(r"`msmq ([a-z][a-z -]*?)(?:[` ](?=[^a-z]|$)|`)", text_of(page))
    }
)


@cache
def every_command() -> Any:
    """All commands, built once: that takes longer than what is asked of them."""
    return typer.main.get_command(app)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that some words name, and the rest of the words."""
    command = every_command()
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=lambda given: " ".join(given)[:60])
def test_a_command_line_is_one(page: str, words: list[str]) -> None:
    """Its command and its options are there."""
    arguments = words[1:]
    while arguments and arguments[0].startswith("--"):
        arguments = arguments[2:]
    command, rest = command_of(arguments)
    if not hasattr(command, "commands"):
        command.make_context("msmq", rest[: rest.index(">")] if ">" in rest else rest)


@pytest.mark.parametrize(("page", "words"), NAMED)
def test_a_command_that_is_named_is_there(page: str, words: str) -> None:
    command, _ = command_of(words.split())
    assert command.help


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "toml"], ids=lambda block: block.page
)
def test_a_configuration_can_be_read(block: Block, tmp_path: Path) -> None:
    table = tomllib.loads(block.text)
    if "hosts" in table:
        (tmp_path / "enterprise.toml").write_text(block.text)
        assert LocalDirectory.load(tmp_path / "enterprise.toml").addresses
    else:
        assert from_table(table)


def is_there(name: str) -> bool:
    """Whether a dotted name is that of a module in msmq, or of something in one."""
    for place in ("", "msmq.", "msmq.cli.", "msmq.manager."):
        with suppress(ImportError, AttributeError):
            pkgutil.resolve_name(place + name)
            return True
    return False


def test_parts_of_the_code_that_are_named_are_there() -> None:
    """On the pages about the code; elsewhere a dotted name may begin with a variable of an example."""
    pages = [page for page in PAGES if page.startswith(("docs/decisions/", "docs/glossary"))]
    names = {
        (page, name)
        for page in ["ARCHITECTURE.md", *pages]
        for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", text_of(page))
        if not name.endswith((".py", ".toml", ".md", ".proto", ".tsv", ".pcap"))
    }
    assert len(names) > 50
    foreign = {"msmq.audit"}  # a logger
    assert not [(page, name) for page, name in sorted(names) if name not in foreign and not is_there(name)]


def test_targets_of_make() -> None:
    known = re.findall(r"^([a-z-]+):.*##", text_of("Makefile"), re.MULTILINE)
    lines = [line for block in BLOCKS if block.language == "sh" for line in block.lines]
    used = {line.split()[1] for line in lines if line.startswith("make ")}
    assert used <= set(known)


def test_all_python_is_run() -> None:
    """A page that gets its first Python block gets a test that runs it."""
    with_python = {block.page for block in BLOCKS if block.language == "python"}
    assert with_python - {*TWICE, *ONCE} == PYTHON_ELSEWHERE.keys()
    for page, module in PYTHON_ELSEWHERE.items():
        assert page in text_of(f"tests/{module}.py")


def test_all_commands_are_run() -> None:
    """A page that gets its first command gets a test that runs it."""
    with_shell = {block.page for block in BLOCKS if block.language == "sh" and commands(block)}
    assert with_shell - {*TWICE, *ONCE} == SHELL_ELSEWHERE.keys()
    for page, module in SHELL_ELSEWHERE.items():
        assert page in text_of(f"tests/{module}.py")


def program(text: str) -> str:
    """A program, or what is to be inside of one."""
    if "import " in text:
        return text
    start = "import asyncio\nimport msmq\n\nasync def main():\n    async with msmq.connect() as mq:\n"
    return f"{start}{textwrap.indent(text, ' ' * 8)}\n\nasyncio.run(main())\n"


def commands(block: Block) -> str:
    captured = f"cat {ROOT / 'samples' / 'session.pcap'} | "
    lines = [re.sub(r"^tcpdump [^|]* \| ", captured, line) for line in block.lines]
    lines = [re.sub(r" \| jq .*", " > /dev/null", line) for line in lines if not line.startswith(ELSEWHERE)]
    asking = ("msmq user add", "msmq user password")
    text = "\n".join(f"echo Secret-1 | {line}" if line.startswith(asking) else line for line in lines)
    for placeholder, value in PLACEHOLDERS.items():
        text = re.sub(rf"(?<![\w/]){re.escape(placeholder)}(?![\w])", value, text)
    return text


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, Path]]:
    """A queue manager that runs, with the queue of the first steps, and a directory with the data of another."""
    directory = tmp_path_factory.mktemp("pages")
    (directory / "samples").symlink_to(ROOT / "samples")
    with serving(directory / "stopped"):
        pass
    with serving(directory / "live") as live:
        live.good("queue", "create", ".\\private$\\orders")
        yield live, directory


@pytest.mark.parametrize("page", [*TWICE, *ONCE])
def test_a_page_is_pasted_from_its_first_block_to_its_last(page: str, terminal: tuple[Live, Path]) -> None:
    """It needs no page before it but the first steps, and none disturbs it."""
    live, directory = terminal
    environment = {
        **os.environ,
        "MSMQ_SERVER": live.socket,
        "PATH": f"{Path(ready.msmq()).parent}:{os.environ['PATH']}",
    }
    for block in [block for block in BLOCKS if block.page == page] * (2 if page in TWICE else 1):
        # What is for Spark is run by tests/spark/test_readme_example.py, which finds the rows it wrote.
        if "pyspark" in block.text:
            continue
        if block.language == "python":
            command = [sys.executable, "-c", program(block.text)]
        elif block.language == "sh" and commands(block):
            command = ["sh", "-euc", commands(block)]
        else:
            continue
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{page}:\n{block.text}\n{done.stdout}\n{done.stderr}"
