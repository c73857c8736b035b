"""What operating systems do differently: reading and writing at an offset, syncing, reserving space, locking."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

_ZEROS: Final = bytes(1 << 20)
_one_seeks: Final = Lock()


def read_seeking(fd: int, length: int, offset: int) -> bytes:
    """Read like ``os.pread``, where that is missing: a descriptor has one position, which threads share."""
    with _one_seeks:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, length)


def write_seeking(fd: int, data: bytes | bytearray | memoryview, offset: int) -> int:
    """Write like ``os.pwrite``, where that is missing."""
    with _one_seeks:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.write(fd, data)


def write_joined(fd: int, pieces: Sequence[bytes | memoryview], offset: int) -> int:
    """Write like ``os.pwritev``, where that is missing."""
    return write_at(fd, b"".join(pieces), offset)


def keep_cached(fd: int, offset: int, length: int) -> None:
    """Do nothing, where systems cannot be told which bytes of a file need no memory."""


def fill(fd: int, size: int) -> None:
    """Extend a file by writing zeros, where space cannot be reserved otherwise."""
    end = os.fstat(fd).st_size
    while end < size:
        end += write_at(fd, _ZEROS[: size - end], end)


if sys.platform == "win32":
    import msvcrt

    OPEN_FLAGS: Final = os.O_BINARY
    _LOCKED_BYTE: Final = 1 << 20
    """Far behind the text of the file, which others may read."""

    read_at = read_seeking
    write_at = write_seeking
    write_pieces_at = write_joined
    sync_data = os.fsync
    allocate = fill
    uncache = keep_cached

    def sync_directory(path: Path) -> None:
        """Do nothing: the file system keeps a journal of names, and a directory cannot be opened to sync it."""

    def lock(fd: int) -> None:
        """Lock a file until it is closed, or raise an OSError."""
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    OPEN_FLAGS: Final = os.O_CLOEXEC

    read_at = os.pread
    write_at = os.pwrite

    if sys.platform == "darwin":
        allocate = fill
        write_pieces_at = write_joined
        uncache = keep_cached

        def sync_data(fd: int) -> None:
            """Sync a file down to the drive; other calls leave data in the drive's memory."""
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

    else:
        sync_data = os.fdatasync
        write_pieces_at = os.pwritev

        def allocate(fd: int, size: int) -> None:
            """Extend a file with zeros to at least this size."""
            os.posix_fallocate(fd, 0, size)

        def uncache(fd: int, offset: int, length: int) -> None:
            """Give back the memory in which the system keeps these bytes of a file."""
            os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)

    def sync_directory(path: Path) -> None:
        """Make changes of the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(fd: int) -> None:
        """Lock a file until it is closed, or raise an OSError."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
