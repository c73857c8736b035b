"""Processes whose clocks are wrong. What they measure with the monotonic clock stays right."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.ha.postgres import ROOT, give_away


@cache
def _library() -> Path:
    made = ROOT / "build" / "faketime"
    found = subprocess.run(
        [ROOT / "scripts" / "faketime.sh", made], check=True, capture_output=True, text=True
    )
    return Path(found.stdout.strip())


class Clock:
    """The clock of one process and its children, which can be set while they run."""

    def __init__(self, directory: Path, name: str) -> None:
        self._file = directory / f"clock-{name}"
        self._library = directory / "libfaketime.so.1"
        if not self._library.exists():  # where the user of the servers can read it
            shutil.copy(_library(), self._library)
            give_away(self._library)
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, ahead_s: int) -> None:
        """Let it be ahead of the right time, or behind it."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead_s:+d}")
        give_away(new)
        new.replace(self._file)
