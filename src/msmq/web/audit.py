"""The record of changes: who did what, from where, and with what result. It only grows, by a JSON line for each."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

_KEPT: Final = 1_000
_LARGEST_BYTES: Final = 16 << 20
_audit = logging.getLogger("msmq.audit")


class Audit:
    """Writes lines to a file, if there is one, and remembers the latest."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lines: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines()[-_KEPT:]:
                try:
                    self._lines.append(json.loads(line))
                except ValueError:
                    continue  # cut off by a crash

    def note(self, who: str, whence: str, what: str, outcome: str, **details: Any) -> None:
        """Record a change, or an attempt."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "who": who,
            "whence": whence,
            "what": what,
            "outcome": outcome,
            **details,
        }
        self._lines.append(line)
        text = json.dumps(line, ensure_ascii=True, default=str)
        _audit.info("%s", text)
        if self._file is not None:
            if self._file.exists() and self._file.stat().st_size > _LARGEST_BYTES:
                self._file.replace(self._file.with_suffix(".old"))
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as file:
                file.write(text + "\n")

    def newest_first(self) -> list[dict[str, Any]]:
        return list(reversed(self._lines))
