"""The list of parts of a release (SBOM), in the form of CycloneDX 1.6, from requirements/run.lock and pyproject.toml.

It names the versions that a release was tested with, with the checksums of every file of theirs that may be installed.
`pip install msmq` may take newer ones; whoever wants exactly these installs with the lock.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts import lock

ROOT = Path(__file__).resolve().parent.parent
NAME = "msmq.cdx.json"


def locked(text: str) -> dict[str, tuple[str, list[str]]]:
    """Version and checksums of each package of a lock file."""
    found = {}
    for entry in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]:
        name, version = re.match(r"([\w.-]+)==([^\s;\\]+)", entry).groups()  # type: ignore[union-attr]
        found[name.lower()] = (version, sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))
    return found


def document(pyproject: dict[str, Any], lock_text: str, time_s: int) -> dict[str, Any]:
    """The whole list. It depends on nothing but its arguments, its serial number included."""
    project = pyproject["project"]
    packages = locked(lock_text)
    building = {
        re.split(r"[\s\[<>=!~;]", entry, maxsplit=1)[0].lower()
        for group in pyproject["tool"]["msmq"]["lock"]["run_groups"]
        for entry in lock.group_requirements(pyproject["dependency-groups"], group)
    }
    itself = f"pkg:pypi/{project['name']}@{project['version']}"
    direct = {
        re.split(r"[\s\[<>=!~;]", entry, maxsplit=1)[0].lower() for entry in lock.wanted_to_run(pyproject)
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{itself}#{time_s}#{lock_text}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": itself,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": itself,
            },
        },
        "components": [
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "scope": "excluded" if name in building else "required",
                "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
            }
            for name, (version, hashes) in sorted(packages.items())
        ],
        "dependencies": [
            {
                "ref": itself,
                "dependsOn": [f"pkg:pypi/{name}@{packages[name][0]}" for name in sorted(direct - building)],
            }
        ],
    }


def write(directory: Path, time_s: int) -> Path:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = document(pyproject, lock.RUN_LOCK.read_text(encoding="utf-8"), time_s)
    path = directory / NAME
    path.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return path
