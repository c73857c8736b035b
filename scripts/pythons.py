"""Interpreters that this machine does not have, for `make smoke`: unpacked into build/pythons.

They come through Go's module proxy, where the module go-embed-python carries whole builds of Python. Versions that it
does not have must be on the path.
"""

from __future__ import annotations

import gzip
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = "github.com/kluctl/go-embed-python"
VERSIONS = {
    "3.11": "v0.0.0-3.11.11-20241219-1",
    "3.12": "v0.0.0-3.12.3-20240415-1",
    "3.13": "v0.0.0-3.13.1-20241219-1",
    "3.14": "v0.0.0-3.14.6-20260610-1",
}
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def get(version: str) -> str | None:
    """The path of an interpreter of this version; None when it cannot be had."""
    place = ROOT / "build" / "pythons" / version
    program = place / "bin" / f"python{version}"
    machine = MACHINES.get(platform.machine())
    if not program.exists():
        if version not in VERSIONS or shutil.which("go") is None or sys.platform != "linux" or not machine:
            return None
        print(f"fetching Python {version}", file=sys.stderr)
        command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSIONS[version]}"]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd="/")
        unpack(
            Path(json.loads(told.stdout)["Dir"], "python", "internal", "data", f"linux-{machine}"),
            place,
        )
    return str(program)


def unpack(source: Path, place: Path) -> None:
    """Write the files of the module as its list says; large ones are compressed there."""
    shutil.rmtree(place, ignore_errors=True)
    new = place.with_name(f"{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for entry in json.loads((source / "files.json").read_text(encoding="utf-8"))["files"]:
        target, packed = new / entry["name"], source / f"{entry['name']}.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        if link := entry.get("symlink"):
            target.symlink_to(link)
        elif packed.exists():
            target.write_bytes(gzip.decompress(packed.read_bytes()))
        elif (source / entry["name"]).is_file():
            shutil.copyfile(source / entry["name"], target)
        else:
            target.mkdir(exist_ok=True)
            continue
        if not link:
            target.chmod(entry["perm"] & 0o777)
    new.rename(place)
