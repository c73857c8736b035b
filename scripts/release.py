"""Give the next release its number: `make release VERSION=0.2.0`.

One number, in one command: pyproject.toml, ``msmq.__version__``, the chart and the changelog, whose section
"Unreleased" gets it and the date, with a new empty one above. ``--check`` changes nothing and says whether all of them
agree. Nothing is committed, tagged or published; that stays with whoever releases.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORM = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?(?:\.dev\d+)?")
PLACES = {
    "pyproject.toml": r'^version = "([^"]+)"$',
    "src/msmq/__init__.py": r'^__version__ = "([^"]+)"$',
    "packaging/helm/msmq/Chart.yaml": r'^appVersion: "([^"]+)"$',
}
"""The files that say the version, and where."""
UNRELEASED = "## [Unreleased]\n"


class ReleaseError(Exception):
    """The release cannot be made like this; the text says why."""


def versions(read: Callable[[str], str]) -> dict[str, str]:
    """What each file says."""
    found = {}
    for name, pattern in PLACES.items():
        match = re.search(pattern, read(name), re.MULTILINE)
        if match is None:
            raise ReleaseError(f"{name} says no version")
        found[name] = match[1]
    return found


def with_version(name: str, text: str, version: str) -> str:
    def numbered(match: re.Match[str]) -> str:
        return match[0].replace(match[1], version)

    return re.sub(PLACES[name], numbered, text, count=1, flags=re.MULTILINE)


def with_release(changelog: str, version: str, day: str) -> str:
    """The changelog with what was unreleased under the new version."""
    before, heading, after = changelog.partition(UNRELEASED)
    if not heading:
        raise ReleaseError("CHANGELOG.md has no section Unreleased")
    if f"## [{version}]" in changelog:
        raise ReleaseError(f"CHANGELOG.md has a section {version} already")
    if not re.match(r"\s*### ", after):
        raise ReleaseError("nothing is unreleased: the section Unreleased of CHANGELOG.md is empty")
    return f"{before}{UNRELEASED}\n## [{version}] - {day}\n{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?")
    parser.add_argument("--check", action="store_true", help="only say whether all places agree")
    options = parser.parse_args()

    def read(name: str) -> str:
        return (ROOT / name).read_text(encoding="utf-8")

    try:
        said = versions(read)
        if len(set(said.values())) > 1:
            raise ReleaseError(", ".join(f"{name} says {version}" for name, version in said.items()))
        if options.check:
            print(f"all places say {next(iter(said.values()))}")
            return
        if not options.version or not FORM.fullmatch(options.version):
            raise ReleaseError("say a version like 0.2.0 or 0.2.0rc1: make release VERSION=0.2.0")
        texts = {name: with_version(name, read(name), options.version) for name in PLACES}
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        texts["CHANGELOG.md"] = with_release(read("CHANGELOG.md"), options.version, day)
    except ReleaseError as error:
        sys.exit(f"release: {error}")
    for name, text in texts.items():
        (ROOT / name).write_text(text, encoding="utf-8")
    print(
        f"{', '.join(texts)} say {options.version}; look at them, commit, tag v{options.version}, make package"
    )


if __name__ == "__main__":
    main()
