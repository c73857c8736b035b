"""The operations that the store needs of a disk, and the real disk. :mod:`msmq.testing.disk` has one that loses
power.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Final, Protocol, TypeAlias

from msmq.store import system
from msmq.store.errors import StoreError, StoreLockedError

_QUICK_S: Final = 0.001
"""Syncing in a thread instead may take longer than this, because the thread has to wait for the interpreter."""
_SAMPLES: Final = 9
_MOST_PIECES: Final = 1024
"""The most pieces that systems take in one call."""
_BUSY_ERRORS = (BlockingIOError, PermissionError)


class DiskFile(Protocol):
    """An open file. Failures are OSErrors. Nothing is durable before :meth:`fdatasync` has returned."""

    def size(self) -> int: ...

    def pread(self, length: int, offset: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""

    def pwrite(self, data: bytes, offset: int) -> None:
        """Write all of ``data``."""

    def pwritev(self, pieces: Sequence[bytes], offset: int) -> None:
        """Write all of some pieces, one after another."""

    def fdatasync(self) -> None:
        """Make the content and the size durable."""

    def allocate(self, size: int) -> None:
        """Extend the file with zeros to at least this size, so that writing there needs no more space."""

    def truncate(self, size: int) -> None: ...

    def uncache(self, offset: int, length: int) -> None:
        """Give back memory: nobody will read these bytes again. They stay in the file."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory. Changes of its names are durable only after :meth:`sync_directory`."""

    @property
    def where(self) -> str:
        """The name of the disk for messages."""

    @property
    def is_quick(self) -> bool:
        """True if a sync takes so little time that the caller may simply wait for it."""

    def names(self) -> list[str]: ...

    def open(self, name: str, *, create: bool = False) -> DiskFile: ...

    def unlink(self, name: str) -> None: ...

    def remove(self, name: str) -> None:
        """Delete a file for good. It may be there for a while yet, but not longer than those that are removed later,
        whatever happens meanwhile. Its name is not used again."""

    def rename(self, old: str, new: str) -> None: ...

    def sync_directory(self) -> None: ...

    def free_bytes(self) -> int: ...

    def lock(self, name: str) -> None:
        """Own the directory until :meth:`unlock` or the end of the process, or raise StoreLockedError."""

    def unlock(self) -> None: ...


Answered: TypeAlias = Callable[[StoreError | None], None]
"""Called with the outcome of something that was sent: None, or the error."""


class FarDisk(Disk, Protocol):
    """A disk on other computers. A sync takes a round trip, so the next one may begin before the last is answered."""

    @property
    def ahead_bytes(self) -> int:
        """How much must have gathered to be worth sending before the last answer; with less, waiting for more is
        better."""

    def send(self, answered: Answered) -> None:
        """Begin to make durable what was written so far. ``answered`` is called with None when that is done, by the
        event loop that runs now and in the order of these calls.

        If it is called with StoreFullError there is no room; everything that was sent afterwards is refused as well,
        and all of it is sent again with the next call after the last of these answers. Any other error is final.
        """


class Pace:
    """Measures how long the last syncs of a disk took. A single slow one means little, as the process may have waited
    for a processor, so the median counts. Until it is known, a disk is taken to be quick."""

    def __init__(self) -> None:
        self._taken_s: deque[float] = deque([0.0] * _SAMPLES, _SAMPLES)

    def took(self, seconds: float) -> None:
        self._taken_s.append(seconds)

    @property
    def is_quick(self) -> bool:
        return sorted(self._taken_s)[_SAMPLES // 2] <= _QUICK_S


class Wastebasket:
    """Files that a thread deletes, one after the other. That of a large file takes many milliseconds, in which nobody
    else has to wait."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "msmq-wastebasket")
        self._last: Future[None] | None = None

    def put(self, path: Path) -> None:
        """Have a file deleted; raises the OSError that one of those before has met."""
        if self._last is not None and self._last.done():
            self._last.result()
        self._last = self._thread.submit(self._delete, self._last, path)

    @staticmethod
    def _delete(before: Future[None] | None, path: Path) -> None:
        if before is not None:
            before.result()  # none goes before an older one has gone for good
        path.unlink()
        system.sync_directory(path.parent)

    def empty(self) -> bool:
        """Wait until it is empty. Returns whether anything was in it since the last time."""
        last, self._last = self._last, None
        if last is not None:
            last.result()
        return last is not None


class RealFile:
    """A file of the operating system."""

    def __init__(self, path: Path, pace: Pace, wastebasket: Wastebasket, *, create: bool) -> None:
        self._pace = pace
        self._wastebasket = wastebasket
        self._fd = os.open(path, os.O_RDWR | system.OPEN_FLAGS | (os.O_CREAT if create else 0), 0o600)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, length: int, offset: int) -> bytes:
        data = system.read_at(self._fd, length, offset)
        if len(data) == length or not data:
            return data
        # One call returns at most 2 GiB, and a signal may cut it short.
        return data + self.pread(length - len(data), offset + len(data))

    def pwrite(self, data: bytes, offset: int) -> None:
        self.pwritev((data,), offset)

    def pwritev(self, pieces: Sequence[bytes], offset: int) -> None:
        left = deque(memoryview(piece) for piece in pieces)
        while left:
            written = system.write_pieces_at(self._fd, list(islice(left, _MOST_PIECES)), offset)
            offset += written
            while left and written >= len(left[0]):
                written -= len(left.popleft())
            if written:
                left[0] = left[0][written:]

    def fdatasync(self) -> None:
        began_s = perf_counter()
        system.sync_data(self._fd)
        self._pace.took(perf_counter() - began_s)

    def allocate(self, size: int) -> None:
        if size > self.size():
            try:
                system.allocate(self._fd, size)
            except OSError:
                if not self._wastebasket.empty():
                    raise
                system.allocate(self._fd, size)  # there may be room now

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def uncache(self, offset: int, length: int) -> None:
        system.uncache(self._fd, offset, length)

    def close(self) -> None:
        os.close(self._fd)


class RealDisk:
    """A directory of the operating system; with ``create`` it is created if it does not exist."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        self._lock_fd: int | None = None
        self._pace = Pace()
        self._wastebasket = Wastebasket()
        if create:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def is_quick(self) -> bool:
        return self._pace.is_quick

    def names(self) -> list[str]:
        return os.listdir(self.path)

    def open(self, name: str, *, create: bool = False) -> RealFile:
        return RealFile(self.path / name, self._pace, self._wastebasket, create=create)

    def unlink(self, name: str) -> None:
        (self.path / name).unlink()

    def remove(self, name: str) -> None:
        self._wastebasket.put(self.path / name)

    def rename(self, old: str, new: str) -> None:
        (self.path / old).replace(self.path / new)

    def sync_directory(self) -> None:
        system.sync_directory(self.path)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free

    def lock(self, name: str) -> None:
        fd = os.open(self.path / name, os.O_RDWR | os.O_CREAT | system.OPEN_FLAGS, 0o600)
        try:
            system.lock(fd)
        except _BUSY_ERRORS as error:
            owner = system.read_at(fd, 32, 0).strip()
            os.close(fd)
            raise StoreLockedError(self.where, int(owner) if owner.isdigit() else None) from error
        # The file stays when the lock is released: unlinking it would let two processes lock two files. The text has a
        # fixed width and replaces the old one, which works on a full disk too.
        system.write_at(fd, f"{os.getpid():<10}\n".encode(), 0)
        self._lock_fd = fd

    def settle(self) -> None:
        """Wait until everything that was removed is gone."""
        self._wastebasket.empty()

    def unlock(self) -> None:
        with suppress(OSError):  # the next start deletes what is left
            self.settle()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None
