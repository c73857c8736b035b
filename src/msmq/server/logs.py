"""The daemon's log: one line for each event, for people or for programs.

``text`` is for reading, ``json`` has one object in each line for log collectors. A stranger must not be able to fill
the disk with log lines, so the same message is written a few times a minute and then only counted.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
FORMATS: Final = ("text", "json")
_REPEATS: Final = 10
_INTERVAL_S: Final = 60.0
_TEMPLATES: Final = 1_000


class JsonFormatter(logging.Formatter):
    """One JSON object for each line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class Repeats(logging.Filter):
    """Lets the same message (the same template of the same logger) through a few times a minute.

    The number of suppressed messages is logged with the next one that passes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, repeats: int = _REPEATS) -> None:
        super().__init__()
        self._clock = clock
        self._repeats = repeats
        self._seen: dict[tuple[str, str], list[float]] = {}  # since when, how many passed, how many did not

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            return True
        key = (record.name, str(record.msg))
        now = self._clock()
        if key not in self._seen and len(self._seen) >= _TEMPLATES:
            self._seen.clear()  # templates are few; somebody must be logging data as a template
        entry = self._seen.setdefault(key, [now, 0, 0])
        if now - entry[0] >= _INTERVAL_S:
            entry[:2] = now, 0
        if entry[1] >= self._repeats:
            entry[2] += 1
            return False
        entry[1] += 1
        if entry[2]:
            record.msg = f"{record.getMessage()} (and {entry[2]:.0f} more like this)"
            record.args = ()
            entry[2] = 0
        return True


def set_up(level: str, form: str = "text", stream: TextIO | None = None) -> None:
    """Log to ``stream``, standard error if none is given, in one of the :data:`FORMATS`."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(TEXT_FORMAT))
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.getLevelNamesMapping().get(level.upper(), logging.INFO))
