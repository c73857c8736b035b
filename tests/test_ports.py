"""Ports that tests are given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
MANY = 100


def test_no_two_processes_are_given_the_same_port() -> None:
    ours = {free_port() for _ in range(MANY)}
    program = f"from tests.ports import free_port; print(*(free_port() for _ in range({MANY})))"
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    theirs = {int(port) for port in told.stdout.split()}
    assert len(ours) == len(theirs) == MANY
    assert not ours & theirs
