"""Files that have to survive a power failure before messages are removed from their queue.

Spark leaves what it writes into a local folder to the operating system, which may keep it in memory for half a minute.
File systems of clusters and object stores answer for a file when it is closed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow.fs as files


def make_durable(system: files.FileSystem, path: str) -> None:
    """See that a file, or a folder with all that is in it, is on the disk with its name; nothing if there is none."""
    if not isinstance(system, files.LocalFileSystem) or not os.path.exists(path):
        return
    for each in _inside(path):
        _flush(each)
    _flush(os.path.dirname(path))


def _inside(path: str) -> Iterator[str]:
    """What a folder holds, before the folder itself."""
    for folder, _, names in os.walk(path, topdown=False):
        yield from (os.path.join(folder, name) for name in names)
        yield folder
    if not os.path.isdir(path):
        yield path


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
