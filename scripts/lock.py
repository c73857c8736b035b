"""Write requirements/dev.lock and requirements/run.lock: every package, pinned and hashed.

The first has all of the development environment; the second only what the queue manager needs to run, with the
same pins, so that `make run` does not wait for what tests and documentation need. The input is pyproject.toml alone
(runtime dependencies, and the groups and extras that ``[tool.msmq.lock]`` names). pip-tools does the work, in a
throw-away environment of its own. The public index is the only source, whatever this machine's pip is configured to
use, so that the hashes cover every platform and the result does not depend on where it was made. Run it with the
oldest Python the project supports, best with Debian's own: a newer one would pin packages that the oldest cannot
install.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "dev.lock"
RUN_LOCK = LOCK.with_name("run.lock")
HEADER = """\
# Every package of the development environment, pinned and hashed, from pyproject.toml.
# Made by `make lock`; do not edit.
"""
RUN_HEADER = """\
# What the queue manager needs to run, and to be installed from its source; the pins are those of dev.lock.
# Made by `make lock`; do not edit.
"""


def group_requirements(groups: dict[str, list[Any]], name: str) -> list[str]:
    """The requirements of a dependency group, its included groups resolved (PEP 735)."""
    found: list[str] = []
    for entry in groups[name]:
        found += [entry] if isinstance(entry, str) else group_requirements(groups, entry["include-group"])
    return found


def wanted(pyproject: dict[str, Any]) -> list[str]:
    """Every direct requirement that goes into the lock file."""
    project, lock = pyproject["project"], pyproject["tool"]["msmq"]["lock"]
    found = list(project["dependencies"])
    for extra in lock["extras"]:
        found += project["optional-dependencies"][extra]
    for group in lock["groups"]:
        found += group_requirements(pyproject["dependency-groups"], group)
    return sorted(set(found))


def wanted_to_run(pyproject: dict[str, Any]) -> list[str]:
    """Every direct requirement of what is run, without tests, documentation and the heavier extras."""
    project, lock = pyproject["project"], pyproject["tool"]["msmq"]["lock"]
    found = list(project["dependencies"])
    for extra in lock["run_extras"]:
        found += project["optional-dependencies"][extra]
    for group in lock["run_groups"]:
        found += group_requirements(pyproject["dependency-groups"], group)
    return sorted(set(found))


def without_local_sources() -> dict[str, str]:
    """The environment, minus every pip setting that could name another package source."""
    foreign = re.compile(r"PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CONFIG_FILE)")
    kept = {name: value for name, value in os.environ.items() if not foreign.fullmatch(name)}
    return kept | {"PIP_CONFIG_FILE": os.devnull}


def main() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    oldest = pyproject["project"]["requires-python"].removeprefix(">=")
    if oldest != f"{sys.version_info.major}.{sys.version_info.minor}":
        sys.exit(f"lock: run with Python {oldest}, the oldest supported: make lock PYTHON=python{oldest}")
    LOCK.parent.mkdir(exist_ok=True)
    environment = without_local_sources()
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(Path(scratch, "venv"), with_pip=True)
        tools = Path(scratch, "venv", "bin")
        subprocess.run([tools / "pip", "install", "--quiet", "pip-tools"], env=environment, check=True)
        # Known pins stay unless they no longer fit; remove the file to move them all.
        known = LOCK.read_text() if LOCK.exists() else ""
        everything = resolve(wanted(pyproject), known, Path(scratch), environment)
        LOCK.write_text(HEADER + everything.removeprefix(HEADER))
        to_run = resolve(wanted_to_run(pyproject), everything, Path(scratch), environment)
        RUN_LOCK.write_text(RUN_HEADER + to_run.removeprefix(HEADER))
    print(f"wrote {LOCK.relative_to(ROOT)} and {RUN_LOCK.relative_to(ROOT)}")


def resolve(requirements: list[str], known: str, scratch: Path, environment: dict[str, str]) -> str:
    """The lock of some requirements; packages that ``known`` pins keep their versions if they can."""
    source, result = scratch / "wanted.in", scratch / "wanted.lock"
    source.write_text("\n".join(requirements) + "\n")
    result.write_text(known)
    command = [
        str(scratch / "venv" / "bin" / "pip-compile"),
        "--quiet",
        "--generate-hashes",
        "--allow-unsafe",
    ]
    command += ["--strip-extras", "--no-header", "--no-annotate", "--no-emit-options", "--no-emit-index-url"]
    command += ["--no-emit-find-links", "--no-emit-trusted-host", f"--output-file={result}", str(source)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return result.read_text()


if __name__ == "__main__":
    main()
