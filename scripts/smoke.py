"""Install the wheel into clean environments, one for each Python that can be had, and knock at every door there.

`make smoke` takes the Pythons on the path from 3.11 to 3.14 and fetches those that are missing if it can
(scripts/pythons.py), `make smoke PYTHONS="/path/to/python3.14 ..."` takes those it is given. Nothing but the wheel and
what pip finds for it gets in, so this shows what `pip install msmq` would.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts import package, pythons

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = "capture,celery,web"


def found(names: list[str]) -> dict[str, str]:
    """The interpreters by version; one that does not start or has no venv is none."""
    interpreters: dict[str, str] = {}
    for name in names or [f"python{version}" for version in VERSIONS]:
        place = shutil.which(name)
        question = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        asked = place and subprocess.run([place, "-c", question], capture_output=True, text=True, check=False)
        if place and asked and asked.returncode == 0:
            interpreters[asked.stdout.strip()] = place
        elif names:
            sys.exit(f"smoke: {name} is no Python with venv")
    if not names:
        fetched = {each: pythons.get(each) for each in VERSIONS if each not in interpreters}
        interpreters |= {version: place for version, place in fetched.items() if place}
    return dict(sorted(interpreters.items()))


def newest_pip(scratch: Path) -> str:
    """A pip that is run from its wheel: not every interpreter brings one, and an old one may not know a new Python."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
    subprocess.run([*command, "--dest", str(scratch), "pip"], check=True)
    (wheel,) = scratch.glob("pip-*.whl")
    return str(wheel / "pip")


def knock(python: str, pip: str, wheel: Path, scratch: Path) -> bool:
    """Whether every door of a clean environment answers."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(scratch)], check=True)
    inside = str(scratch / "bin" / "python")
    install = [inside, pip, "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*install, f"{wheel}[{EXTRAS}]"], check=True)
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = [inside, "-I", str(ROOT / "scripts" / "doors.py")]
    return subprocess.run(program, cwd=scratch, env=outside, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", help="interpreters; those on the path when none are given")
    options = parser.parse_args()
    interpreters = found(options.pythons)
    bad = []
    with tempfile.TemporaryDirectory(prefix="msmq-smoke-") as place:
        scratch = Path(place)
        made = package.build(ROOT, scratch / "dist", package.epoch(ROOT))
        wheel = next(path for path in made if path.suffix == ".whl")
        pip = newest_pip(scratch)
        for version, python in interpreters.items():
            if not knock(python, pip, wheel, scratch / version):
                bad.append(version)
    missing = [version for version in VERSIONS if version not in interpreters]
    if missing and not options.pythons:
        print(f"not tried, because there is no such interpreter here: Python {', '.join(missing)}")
    if bad or not interpreters:
        sys.exit(f"smoke: not everything answered on Python {', '.join(bad) or 'any version'}")


if __name__ == "__main__":
    main()
