"""Gives the queue managers in a process of tests their keys (tests/keys.py)."""

from __future__ import annotations

from tests.keys import Keys


def pytest_runtestloop() -> None:
    Keys().use()
