"""The program that `make smoke` runs in clean environments, here in this one: every door answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts import doors, smoke

ROOT = Path(__file__).resolve().parents[2]


def test_every_door_answers() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "doors.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in (*doors.DOORS, *(name for name, _ in doors.OPTIONAL.values())):
        assert f"yes  {name}" in done.stdout
    assert "kept over a restart" in done.stdout


def test_interpreters_are_found_by_what_they_are() -> None:
    assert smoke.found([sys.executable]) == {".".join(map(str, sys.version_info[:2])): sys.executable}
