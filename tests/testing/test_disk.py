"""The simulated disk keeps its promises and no others."""

from __future__ import annotations

import errno
import os
from random import Random

import pytest

from msmq.store import StoreLockedError
from msmq.testing import PowerLoss, SimulatedDisk
from msmq.testing.disk import SECTOR_SIZE


def with_file(data: bytes = b"", capacity: int | None = None) -> SimulatedDisk:
    """A disk with one durable file ``a``."""
    disk = SimulatedDisk(capacity)
    file = disk.open("a", create=True)
    file.pwrite(data, 0)
    file.fdatasync()
    file.close()
    disk.sync_directory()
    return disk


def content(disk: SimulatedDisk, name: str = "a") -> bytes:
    file = disk.open(name)
    return file.pread(file.size(), 0)


def test_it_behaves_like_a_disk() -> None:
    disk = SimulatedDisk()
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    file = disk.open("a", create=True)
    file.pwrite(b"abc", 2)
    assert (file.size(), file.pread(9, 0)) == (5, b"\0\0abc")
    file.allocate(8)
    file.allocate(1)
    file.truncate(7)
    file.truncate(4)
    assert content(disk) == b"\0\0ab"
    disk.rename("a", "b")
    assert disk.names() == ["b"]
    disk.unlink("b")
    assert disk.names() == []
    with pytest.raises(AssertionError, match="closed"):
        close_twice(disk)


def close_twice(disk: SimulatedDisk) -> None:
    file = disk.open("c", create=True)
    file.close()
    file.close()


def test_what_is_synced_survives_and_nothing_else_needs_to() -> None:
    disk = with_file(b"old")
    file = disk.open("a")
    file.pwrite(b"new!", 0)
    assert disk.unsynced
    disk.crash()
    assert content(disk) == b"old"
    file = disk.open("a")
    file.pwrite(b"new!", 0)
    file.fdatasync()
    assert not disk.unsynced
    for seed in range(5):
        disk.crash(Random(seed))
        assert content(disk) == b"new!"


def test_sectors_survive_one_by_one_and_whole() -> None:
    seen = set()
    for seed in range(200):
        disk = with_file(b"a" * 4 * SECTOR_SIZE)
        file = disk.open("a")
        file.pwrite(b"b" * 2 * SECTOR_SIZE, SECTOR_SIZE // 2)
        disk.crash(Random(seed))
        result = content(disk)
        pieces = [result[at : at + SECTOR_SIZE] for at in range(0, len(result), SECTOR_SIZE)]
        half = SECTOR_SIZE // 2
        assert pieces[0] in (b"a" * SECTOR_SIZE, b"a" * half + b"b" * half)
        assert pieces[1] in (b"a" * SECTOR_SIZE, b"b" * SECTOR_SIZE)
        assert pieces[2] in (b"a" * SECTOR_SIZE, b"b" * half + b"a" * half)
        assert pieces[3] == b"a" * SECTOR_SIZE
        seen.add(result)
    assert len(seen) == 8


def test_sizes_survive_or_not() -> None:
    sizes = set()
    for seed in range(50):
        disk = with_file(b"ab")
        file = disk.open("a")
        file.allocate(2000)
        file.pwrite(b"x", 2500)
        file.truncate(100)
        disk.crash(Random(seed))
        sizes.add(len(content(disk)))
    assert sizes == {2, 100, 2000, 2501}


def test_names_need_a_sync_of_their_own() -> None:
    disk = SimulatedDisk()
    file = disk.open("a", create=True)
    file.fdatasync()
    disk.crash()
    assert disk.names() == []
    outcomes = set()
    for seed in range(50):
        disk = with_file()
        disk.open("b", create=True)
        disk.rename("a", "c")
        disk.crash(Random(seed))
        outcomes.add(tuple(sorted(disk.names())))
    assert outcomes == {("a",), ("c",), ("a", "b"), ("b", "c")}


def test_a_killed_process_loses_nothing_it_wrote() -> None:
    disk = with_file(b"old")
    disk.lock("LOCK")
    file = disk.open("a")
    file.pwrite(b"new", 0)
    disk.kill()
    assert content(disk) == b"new"
    disk.lock("LOCK")
    with pytest.raises(AssertionError, match="before a crash"):
        file.pread(1, 0)
    disk.crash()
    assert content(disk) == b"old"


def test_the_power_goes_at_any_operation() -> None:
    for operation in range(1, 6):
        disk = SimulatedDisk()
        disk.crash_at(operation)
        file = None
        with pytest.raises(PowerLoss, match=f"at operation {operation}"):  # noqa: PT012
            file = disk.open("a", create=True)
            file.pwrite(b"x", 0)
            file.fdatasync()
            disk.sync_directory()
            disk.unlink("a")
        for call in (disk.names, lambda disk=disk: disk.open("a"), disk.sync_directory):
            with pytest.raises(PowerLoss):
                call()
        disk.crash()
        assert disk.names() == (["a"] if operation == 5 else [])


def test_a_full_disk() -> None:
    disk = with_file(b"abc", capacity=10)
    assert disk.free_bytes() == 7
    file = disk.open("a")
    file.pwrite(b"xy", 1)
    for call in (lambda: file.pwrite(b"xy", 9), lambda: file.allocate(11), lambda: file.truncate(11)):
        with pytest.raises(OSError, match="No space") as caught:
            call()
        assert caught.value.errno == errno.ENOSPC
    file.allocate(10)
    assert disk.free_bytes() == 0
    assert SimulatedDisk().free_bytes() > 1 << 30


def test_a_failing_sync_loses_what_was_written() -> None:
    disk = with_file(b"old")
    file = disk.open("a")
    file.pwrite(b"new", 0)
    disk.failing_syncs = 1
    with pytest.raises(OSError, match="Input/output"):
        file.fdatasync()
    file.fdatasync()
    assert content(disk) == b"new"  # the page cache shows it
    disk.crash()
    assert content(disk) == b"old"


def test_flipped_bits_stay() -> None:
    disk = with_file(b"abc")
    disk.flip("a", 1, 0x20)
    assert content(disk) == disk.durable_content("a") == b"aBc"
    disk.crash()
    assert content(disk) == b"aBc"


def test_sectors_that_cannot_be_read() -> None:
    disk = with_file(b"abc" * 1_000)
    assert not disk.spoil("a", 1, 1_023), "there is no whole sector"
    assert disk.spoil("a", 1, 1_600)
    disk.crash()
    file = disk.open("a")
    assert (file.pread(512, 0), file.pread(1_464, 1_536)) == ((b"abc" * 171)[:512], b"abc" * 488)
    for start, length in ((511, 2), (0, 3_000), (1_535, 1), (1_000, 10)):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            file.pread(length, start)
    file.pwrite(b"!" * 512, 512)
    assert file.pread(512, 512) == b"!" * 512
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.pread(1, 1_024)


def test_one_owner() -> None:
    disk = SimulatedDisk()
    disk.lock("LOCK")
    with pytest.raises(StoreLockedError):
        disk.lock("LOCK")
    disk.unlock()
    disk.lock("LOCK")


def test_counters() -> None:
    disk = with_file(b"abc")
    assert (disk.writes, disk.syncs, disk.operations, disk.used_bytes) == (1, 2, 4, 3)
