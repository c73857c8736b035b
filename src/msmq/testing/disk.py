"""A disk in memory that loses what was not synced.

Each file keeps its durable content and the changes made since its last sync; the directory does so for its names.
:meth:`SimulatedDisk.crash` decides, sector by sector, how far each change got: a sector holds what it held after any
number of the changes, independently of its neighbours, and the same goes for the sizes of files; each change of a name
survives or not. POSIX promises no more, and real disks behave better.

Everything is deterministic: all chance comes from the generator given to :meth:`SimulatedDisk.crash`.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from msmq.store.errors import StoreLockedError

SECTOR_SIZE: Final = 512
NEVER: Final = -1


class PowerLoss(Exception):  # noqa: N818 - it is an event, and no error of anyone's
    """The power is off. Nothing works until :meth:`SimulatedDisk.crash` has been called."""


@dataclass(frozen=True, slots=True)
class _Write:
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        end = self.offset + len(self.data)
        if end > len(content):
            content.extend(bytes(end - len(content)))
        content[self.offset : end] = self.data

    def sectors(self, size: int) -> range:
        return range(self.offset // SECTOR_SIZE, -(-(self.offset + len(self.data)) // SECTOR_SIZE))


@dataclass(frozen=True, slots=True)
class _Resize:
    size: int

    def apply(self, content: bytearray) -> None:
        if self.size < len(content):
            del content[self.size :]
        else:
            content.extend(bytes(self.size - len(content)))

    def sectors(self, size: int) -> range:
        return range(min(self.size, size) // SECTOR_SIZE, -(-max(self.size, size) // SECTOR_SIZE))


@dataclass(slots=True)
class _Inode:
    durable: bytearray = field(default_factory=bytearray)
    content: bytearray = field(default_factory=bytearray)
    """What the operating system shows: the durable content with all changes."""
    changes: list[_Write | _Resize] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)

    def change(self, change: _Write | _Resize) -> None:
        self.changes.append(change)
        change.apply(self.content)

    def sync(self) -> None:
        for change in self.changes:
            change.apply(self.durable)
        self.changes.clear()

    def crash(self, rng: Random | None) -> None:
        if rng is not None and self.changes:
            self.durable = self._survivor(rng)
        self.changes.clear()
        self.content = bytearray(self.durable)

    def _survivor(self, rng: Random) -> bytearray:
        states = [bytearray(self.durable)]
        touched: set[int] = set()
        for change in self.changes:
            touched.update(change.sectors(len(states[-1])))
            states.append(bytearray(states[-1]))
            change.apply(states[-1])
        last = len(states) - 1
        # Often nothing or everything reaches the disk, which would be rare with independent sectors.
        low, high = rng.choice(((0, 0), (last, last), (0, last), (0, last)))
        result = bytearray(self.durable)
        for sector in sorted(touched):
            start = sector * SECTOR_SIZE
            piece = states[rng.randint(low, high)][start : start + SECTOR_SIZE]
            _Write(start, bytes(piece.ljust(SECTOR_SIZE, b"\0"))).apply(result)
        _Resize(len(states[rng.randint(low, high)])).apply(result)
        return result


class _File:
    """An open file, which dies with the process that opened it."""

    def __init__(self, disk: SimulatedDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.lives
        self._closed = False

    def _use(self) -> _Inode:
        assert not self._closed, "the file is closed"
        assert self._life == self._disk.lives, "the file was opened before a crash"
        self._disk.require_power()
        return self._inode

    def size(self) -> int:
        return len(self._use().content)

    def pread(self, length: int, offset: int) -> bytes:
        inode = self._use()
        if inode.unreadable and not inode.unreadable.isdisjoint(_Write(offset, bytes(length)).sectors(0)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return bytes(inode.content[offset : offset + length])

    def pwrite(self, data: bytes | bytearray, offset: int) -> None:
        inode = self._use()
        self._disk.claim(offset + len(data) - len(inode.content))
        self._disk.writes += 1
        change = _Write(offset, bytes(data))
        inode.unreadable.difference_update(change.sectors(0))
        inode.change(change)
        self._disk.step()

    def pwritev(self, pieces: Sequence[bytes], offset: int) -> None:
        self.pwrite(b"".join(pieces), offset)

    def fdatasync(self) -> None:
        inode = self._use()
        self._disk.step()
        self._disk.syncs += 1
        if self._disk.failing_syncs:
            # The operating system marks the pages clean in any case: what was written may be lost.
            self._disk.failing_syncs -= 1
            inode.changes.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        inode.sync()

    def allocate(self, size: int) -> None:
        inode = self._use()
        if size > len(inode.content):
            try:
                self._disk.claim(size - len(inode.content))
            except OSError:
                self._disk.settle()
                self._disk.claim(size - len(inode.content))
            inode.change(_Resize(size))
            self._disk.step()

    def truncate(self, size: int) -> None:
        inode = self._use()
        self._disk.claim(size - len(inode.content))
        inode.change(_Resize(size))
        self._disk.step()

    def uncache(self, offset: int, length: int) -> None:
        assert offset + length <= self.size(), "these bytes do not exist"
        self._disk.uncached.append((offset, length))

    def close(self) -> None:
        self._use()
        self._closed = True


class SimulatedDisk:
    """A disk for one store. ``capacity`` is its size in bytes, or None for no limit.

    ``writes`` and ``syncs`` count these operations; ``operations`` counts all at which the power can fail.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.writes = 0
        self.syncs = 0
        self.operations = 0
        self.uncached: list[tuple[int, int]] = []
        """Where in their files the bytes are that need no memory any more, and how many."""
        self.failing_syncs = 0
        """How many of the next syncs fail with EIO."""
        self.is_quick = False
        """True if the caller waits for its writes; otherwise they happen in the background while others go on."""
        self.lingering = 0
        """How many files that were removed may still be there."""
        self.lives = 0
        self._crash_at = NEVER
        self._powerless = False
        self._locked = False
        self._durable_names: dict[str, _Inode] = {}
        self._names: dict[str, _Inode] = {}
        self._name_changes: list[dict[str, _Inode | None]] = []
        self._removed: deque[str] = deque()

    where = "the simulated disk"

    # --- what the store asks for --------------------------------------------------------------------------

    def names(self) -> list[str]:
        self.require_power()
        return list(self._names)

    def open(self, name: str, *, create: bool = False) -> _File:
        self.require_power()
        if name not in self._names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            self._rename({name: _Inode()})
        return _File(self, self._names[name])

    def unlink(self, name: str) -> None:
        self.require_power()
        self._rename({name: None})

    def remove(self, name: str) -> None:
        """Delete a file later, as the thread of a real disk does, when too many are ``lingering``."""
        self.require_power()
        self._removed.append(name)
        self.settle(self.operations % (self.lingering + 1))

    def settle(self, left: int = 0) -> None:
        """Delete the oldest of the files that were removed, until not more than ``left`` of them are still there."""
        while len(self._removed) > left:
            self.unlink(self._removed.popleft())
            self.sync_directory()

    def rename(self, old: str, new: str) -> None:
        self.require_power()
        self._rename({old: None, new: self._names[old]})

    def sync_directory(self) -> None:
        self.require_power()
        self.step()
        self.syncs += 1
        self._durable_names = dict(self._names)
        self._name_changes.clear()

    def free_bytes(self) -> int:
        return 1 << 40 if self.capacity is None else max(0, self.capacity - self.used_bytes)

    def lock(self, name: str) -> None:
        self.require_power()
        if self._locked:
            raise StoreLockedError(self.where, os.getpid())
        self._locked = True

    def unlock(self) -> None:
        self.settle()
        self._locked = False

    def _rename(self, change: dict[str, _Inode | None]) -> None:
        self._name_changes.append(change)
        _apply(change, self._names)
        self.step()

    # --- faults -------------------------------------------------------------------------------------------

    def crash_at(self, operation: int) -> None:
        """Turn the power off at the ``operation``-th operation from now; that operation may or may not happen."""
        self._crash_at = self.operations + operation

    def spare_power(self) -> None:
        """Cancel :meth:`crash_at`."""
        self._crash_at = NEVER

    def crash(self, rng: Random | None = None) -> None:
        """Turn the power off and on again. ``rng`` decides what survives of the changes that were not synced; without
        it none of them does."""
        names = dict(self._durable_names)
        for change in self._name_changes:
            if rng is not None and rng.random() < 0.5:
                _apply(change, names)
        for inode in {id(inode): inode for inode in (*self._names.values(), *names.values())}.values():
            inode.crash(rng)
        self._durable_names, self._names = names, dict(names)
        self._name_changes.clear()
        self.kill()

    def kill(self) -> None:
        """End the process without warning. What it wrote is still there, though it is not durable."""
        self.lives += 1
        self._locked = False
        self._powerless = False
        self._crash_at = NEVER
        self._removed.clear()
        self.failing_syncs = 0

    def flip(self, name: str, offset: int, mask: int = 0x01) -> None:
        """Damage a byte on the disk."""
        inode = self._names[name]
        inode.durable[offset] ^= mask
        inode.content[offset] ^= mask

    def spoil(self, name: str, start: int, end: int) -> bool:
        """Make all sectors unreadable that lie between two offsets, until they are written again. Returns whether there
        are any."""
        sectors = range(-(-start // SECTOR_SIZE), end // SECTOR_SIZE)
        self._names[name].unreadable.update(sectors)
        return len(sectors) > 0

    def durable_content(self, name: str) -> bytes:
        return bytes(self._names[name].durable)

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in self._names.values())

    @property
    def powerless(self) -> bool:
        """True while the power is off."""
        return self._powerless

    @property
    def unsynced(self) -> bool:
        """True if a crash could lose anything now."""
        return bool(self._name_changes) or any(inode.changes for inode in self._names.values())

    def require_power(self) -> None:
        if self._powerless:
            raise PowerLoss("there is no power")

    def claim(self, more: int) -> None:
        if more > 0 and self.capacity is not None and self.used_bytes + more > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def step(self) -> None:
        self.operations += 1
        if self.operations == self._crash_at:
            self._powerless = True
            raise PowerLoss(f"at operation {self.operations}")


def _apply(change: dict[str, _Inode | None], names: dict[str, _Inode]) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
