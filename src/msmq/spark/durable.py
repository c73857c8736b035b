"""Files that have to survive a power failure before messages are removed from their queue.

Spark leaves what it writes into a local folder to the operating system, which may keep it in memory for half a minute.
File systems of clusters and object stores answer for a file when it is closed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pyarrow.fs as files

from msmq.store.system import sync_data, sync_directory

_MODE: Final = "r+b" if os.name == "nt" else "rb"
"""Windows syncs only what may be written."""


def make_durable(system: files.FileSystem, path: str) -> None:
    """See that a file, or a folder with all that is in it, is on the disk with its name; nothing if there is none."""
    if not isinstance(system, files.LocalFileSystem) or not os.path.exists(path):
        return
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            _sync_file(Path(folder, name))
        sync_directory(Path(folder))
    if not os.path.isdir(path):
        _sync_file(Path(path))
    sync_directory(Path(path).parent)


def _sync_file(path: Path) -> None:
    with path.open(_MODE) as file:
        sync_data(file.fileno())
