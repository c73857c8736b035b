"""What is released: the same bytes from the same source, whole, and with a list of its parts."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from scripts import lock, package, release, sbom

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TIME_S = 1_700_000_000


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    package.build(ROOT, directory, TIME_S)
    return directory


def test_a_second_build_elsewhere_gives_the_same_bytes(dist: Path) -> None:
    assert not package.differences(dist, TIME_S)


def test_a_build_at_another_time_is_told_from_it(dist: Path) -> None:
    assert package.differences(dist, TIME_S + 86_400)


def test_the_checksums_are_those_of_all_files(dist: Path) -> None:
    lines = (dist / package.SUMS).read_text().splitlines()
    said = {name: digest for digest, name in (line.split("  ") for line in lines)}
    others = [path for path in dist.iterdir() if path.name not in (package.SUMS, ".gitignore")]
    assert said == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in others}
    assert len(said) == 3


def test_the_wheel_is_whole_and_works_without_the_source(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    source = ROOT / "src"
    wanted = {
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {path for path in wanted if not (tmp_path / path).is_file()} == set()
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import msmq.cli as c; "
        "assert c.__file__.startswith(sys.argv[1]), c.__file__; sys.argv = ['msmq', '--version']; c.main()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert PYPROJECT["project"]["version"] in shown.stdout


def test_the_source_archive_builds_the_wheel(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/msmq/py.typed"} <= names
    assert not {name for name in names if name.startswith(("tests/", "build/", "."))} - {".gitignore"}


def test_the_list_of_parts_names_everything_that_is_run(dist: Path) -> None:
    found = json.loads((dist / sbom.NAME).read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    required = {each["name"] for each in found["components"] if each["scope"] == "required"}
    direct = {entry.split(">=")[0].split("[")[0] for entry in PYPROJECT["project"]["dependencies"]}
    assert direct <= required
    assert all(each["hashes"] for each in found["components"])
    references = {each["bom-ref"] for each in found["components"]}
    assert set(found["dependencies"][0]["dependsOn"]) <= references


def test_what_runs_is_pinned_as_in_development() -> None:
    """`make test` tests the versions that `make run` and a release name."""
    everything = sbom.locked(lock.LOCK.read_text(encoding="utf-8"))
    to_run = sbom.locked(lock.RUN_LOCK.read_text(encoding="utf-8"))
    assert {name: version for name, (version, _) in to_run.items()}.items() <= {
        name: version for name, (version, _) in everything.items()
    }.items()
    direct = {entry.split(">=")[0].split("[")[0].lower() for entry in lock.wanted_to_run(PYPROJECT)}
    assert direct <= to_run.keys() < everything.keys()


def test_all_places_say_the_same_version() -> None:
    said = release.versions(lambda name: (ROOT / name).read_text(encoding="utf-8"))
    assert set(said.values()) == {PYPROJECT["project"]["version"]}


def test_a_release_takes_what_was_unreleased() -> None:
    text = "# Changelog\n\n## [Unreleased]\n\n### Added\n- A thing.\n\n## [0.1.0] - 2020-01-01\n"
    changed = release.with_release(text, "0.2.0", "2026-01-02")
    assert changed.index("[Unreleased]") < changed.index("[0.2.0] - 2026-01-02") < changed.index("A thing")
    with pytest.raises(release.ReleaseError, match="nothing is unreleased"):
        release.with_release(changed, "0.3.0", "2026-01-03")
    with pytest.raises(release.ReleaseError, match="already"):
        release.with_release(text, "0.1.0", "2026-01-03")


def test_the_version_is_written_into_every_place() -> None:
    for name in release.PLACES:
        text = release.with_version(name, (ROOT / name).read_text(encoding="utf-8"), "9.8.7")
        assert '"9.8.7"' in text


def test_before_the_first_release_nothing_has_changed() -> None:
    """Somebody who reads the first list knows nothing that could have been changed or mended since."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[\d", text, re.MULTILINE)
    assert released or set(re.findall(r"^### (.*)", text, re.MULTILINE)) <= {"Added", "Security"}
