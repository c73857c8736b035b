"""Make files durable, before the messages in them are removed from their queue.

Spark leaves what it writes into a local folder to the operating system, which may keep it in memory for half a minute.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msmq.store.system import sync_data, sync_directory

_MODE: Final = "r+b" if os.name == "nt" else "rb"
"""Windows can sync only files that are open for writing."""


def make_durable(path: Path) -> None:
    """Make sure that a file, or a folder with everything in it, is on the disk with its name; do nothing if it does not
    exist."""
    if not path.exists():
        return
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            _sync_file(Path(folder, name))
        sync_directory(Path(folder))
    if not path.is_dir():
        _sync_file(path)
    sync_directory(path.parent)


def _sync_file(path: Path) -> None:
    with path.open(_MODE) as file:
        sync_data(file.fileno())
