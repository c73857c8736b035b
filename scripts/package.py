"""Build what is released into dist/: wheel, source archive, list of parts (SBOM) and checksums.

The same source gives the same bytes: every time in the archives is SOURCE_DATE_EPOCH, which is that of the last commit
unless the caller says otherwise, and nothing else of the machine gets in. ``--check`` builds twice, the second time
from a copy in another place with another umask, and compares.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts import sbom

ROOT = Path(__file__).resolve().parent.parent
BEFORE_GIT = 1_580_601_600
"""The time in archives that are built from an unpacked archive, where there is no commit to ask."""
SOURCES = ("src", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore")
SUMS = "SHA256SUMS"


def epoch(root: Path) -> int:
    """The time that stands in all archives."""
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(said)
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(asked.stdout) if asked.returncode == 0 and asked.stdout.strip() else BEFORE_GIT


def build(root: Path, directory: Path, time_s: int) -> list[Path]:
    """Wheel, source archive, SBOM and checksums of the source in ``root``."""
    directory.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time_s)}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory), "--target"]
    for target in ("sdist", "wheel"):
        subprocess.run([*command, target], cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
    parts = sbom.write(directory, time_s)
    made = sorted([*directory.glob("msmq-*.whl"), *directory.glob("msmq-*.tar.gz"), parts])
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (directory / SUMS).write_text(sums, encoding="utf-8")
    return [*made, directory / SUMS]


def differences(directory: Path, time_s: int) -> list[str]:
    """The names of what a second build, elsewhere and with another umask, makes otherwise than ``directory`` has it."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "somewhere", "else")
        copy.mkdir(parents=True)
        for name in SOURCES:
            place = ROOT / name
            if place.is_dir():
                shutil.copytree(place, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(place, copy / name)
        before = os.umask(0o077)
        try:
            again = build(copy, Path(scratch, "dist"), time_s)
        finally:
            os.umask(before)
        return [path.name for path in again if path.read_bytes() != (directory / path.name).read_bytes()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=ROOT / "dist")
    parser.add_argument("--check", action="store_true", help="build a second time and compare")
    options = parser.parse_args()
    time_s = epoch(ROOT)
    made = build(ROOT, options.directory, time_s)
    for path in made:
        print(f"{path.stat().st_size:>10,}  {path.name}")
    if options.check:
        if unlike := differences(options.directory, time_s):
            sys.exit(f"package: not reproducible: {', '.join(unlike)}")
        print("a second build gave the same bytes")


if __name__ == "__main__":
    main()
