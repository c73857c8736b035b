"""The real disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from msmq.store import RealDisk, StoreLockedError, system


def test_files(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "made" / "here")
    file = disk.open("a", create=True)
    file.pwrite(b"abc", 2)
    assert (file.size(), file.pread(10, 0), file.pread(2, 3)) == (5, b"\0\0abc", b"bc")
    file.allocate(10)
    assert file.pread(100, 4) == b"c" + bytes(5)
    file.allocate(3)
    assert file.size() == 10
    file.truncate(4)
    file.fdatasync()
    file.uncache(0, 4)
    assert file.pread(10, 0) == b"\0\0ab"
    file.close()
    disk.rename("a", "b")
    disk.sync_directory()
    assert disk.names() == ["b"]
    disk.unlink("b")
    assert disk.names() == []
    assert disk.free_bytes() > 0
    assert disk.where == str(tmp_path / "made" / "here")


def test_who_finds_no_room_waits_for_that_of_deleted_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread deletes them, in their order, and whoever has them deleted does not wait for that."""
    disk = RealDisk(tmp_path)
    for name in ("1", "2", "new"):
        disk.open(name, create=True).close()
    may_go = threading.Event()
    seen: list[list[str]] = []
    allocate, sync_directory = system.allocate, system.sync_directory

    def sync_slowly(path: Path) -> None:
        seen.append(sorted(disk.names()))
        may_go.wait()
        sync_directory(path)

    def allocate_what_there_is(fd: int, size: int) -> None:
        may_go.set()
        if "2" in disk.names():
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(fd, size)

    monkeypatch.setattr(system, "sync_directory", sync_slowly)
    monkeypatch.setattr(system, "allocate", allocate_what_there_is)
    disk.remove("1")
    disk.remove("2")
    assert "2" in disk.names(), "the first one has not gone for good"
    file = disk.open("new")
    file.allocate(1000)
    assert (file.size(), disk.names()) == (1000, ["new"])
    assert seen == [["2", "new"], ["new"]]
    monkeypatch.setattr(disk, "names", lambda: ["2"])
    with pytest.raises(OSError, match="No space left"):
        file.allocate(2000)  # nothing is deleted any more
    file.close()


def test_behind_a_file_that_cannot_be_deleted_none_is(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.open("2", create=True).close()
    disk.remove("1")

    def remove_until_it_is_known() -> None:
        while True:
            disk.remove("2")

    with pytest.raises(FileNotFoundError):
        remove_until_it_is_known()
    disk.unlock()
    assert disk.names() == ["2"]


def test_a_disk_is_as_quick_as_its_usual_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that took long does not count: the process may have been waiting for something else."""
    clock, taken_s = [0.0], [0.0]

    def sync(descriptor: int) -> None:
        clock[0] += taken_s[0]

    monkeypatch.setattr("msmq.store.disk.perf_counter", lambda: clock[0])
    monkeypatch.setattr("msmq.store.system.sync_data", sync)
    disk = RealDisk(tmp_path)
    file = disk.open("a", create=True)
    assert disk.is_quick, "until it is known"
    for seconds, times, quick in ((0.02, 4, True), (0.02, 1, False), (0.0003, 9, True), (0.02, 5, False)):
        taken_s[0] = seconds
        for _ in range(times):
            file.fdatasync()
        assert disk.is_quick is quick
    file.close()


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RealDisk(tmp_path).open("a")
    with pytest.raises(FileNotFoundError):
        RealDisk(tmp_path / "no", create=False).names()


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    RealDisk(tmp_path / "store").open("a", create=True).close()
    assert (tmp_path / "store").stat().st_mode & 0o077 == 0
    assert (tmp_path / "store" / "a").stat().st_mode & 0o077 == 0


def test_short_writes_and_reads_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).open("a", create=True)
    write, read, calls = system.write_at, system.read_at, list[int]()

    def write_little(fd: int, pieces: Sequence[bytes], offset: int) -> int:
        calls.append(len(pieces))
        return write(fd, b"".join(pieces)[:3], offset)

    monkeypatch.setattr(system, "write_pieces_at", write_little)
    monkeypatch.setattr(system, "read_at", lambda fd, length, offset: read(fd, min(4, length), offset))
    file.pwrite(b"0123456789", 1)
    assert file.pread(20, 0) == b"\x000123456789"
    file.pwritev([b"ab", b"", b"cdef", b"", b"ghi"], 11)
    assert file.pread(20, 11) == b"abcdefghi"
    assert calls == [1, 1, 1, 1, 5, 3, 1]
    file.close()


def test_many_pieces_are_written_in_several_calls(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("a", create=True)
    pieces = [b"%d," % number for number in range(5_000)]
    file.pwritev(pieces, 7)
    assert file.pread(50_000, 0) == bytes(7) + b"".join(pieces)
    file.pwritev([], 0)
    file.close()


def test_one_process_owns_the_directory(tmp_path: Path) -> None:
    first, second = RealDisk(tmp_path), RealDisk(tmp_path)
    first.lock("LOCK")
    with pytest.raises(StoreLockedError, match=f"in use by process {os.getpid()};") as caught:
        second.lock("LOCK")
    assert caught.value.pid == os.getpid()
    first.unlock()
    second.lock("LOCK")
    second.unlock()
    second.unlock()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = "import sys; from msmq.store import RealDisk; d = RealDisk(sys.argv[1]); d.lock('LOCK'); print('x'); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin
    assert child.stdout
    child.stdout.readline()
    disk = RealDisk(tmp_path)
    with pytest.raises(StoreLockedError) as caught:
        disk.lock("LOCK")
    assert caught.value.pid == child.pid
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    disk.lock("LOCK")
    disk.unlock()
