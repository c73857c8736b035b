"""Logging each thing once, so that strangers who can cause it at will cannot fill the log."""

from __future__ import annotations

import logging
from typing import Final

_MOST: Final = 64


class Complaints:
    """Logs each reason once at level warning, and after that only at level debug."""

    def __init__(self, log: logging.Logger, about: str = "a message is refused") -> None:
        self._log = log
        self._about = about
        self._heard: set[str] = set()

    def hear(self, reason: str) -> None:
        new = reason not in self._heard and len(self._heard) < _MOST
        if new:
            self._heard.add(reason)
        self._log.log(logging.WARNING if new else logging.DEBUG, "%s: %s", self._about, reason)
