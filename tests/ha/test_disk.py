"""The disk of a leader, on a log that is a list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from msmq.ha.cache import Cache
from msmq.ha.disk import ReplicatedDisk
from msmq.ha.errors import NotLeaderError
from msmq.ha.log import NumberedRow, Row
from msmq.store import RealDisk, Store, StoreError, StoreFullError, StoreOptions
from tests.ha.support import Log

SMALL = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=8192)
HEAD = bytes(40)


def numbered(log: Log) -> Iterator[NumberedRow]:
    rows = [row for batch in log.batches for row in batch]
    return (NumberedRow(number, row) for number, row in enumerate(rows, start=1))


def opened(disk: ReplicatedDisk | RealDisk) -> tuple[Store, list[tuple[int, bytes]]]:
    store = Store.open(disk, SMALL, new_id=bytes(range(16)))
    found = [(kind, address) for kind, _, _, address, _ in store.recover()]
    return store, [(kind, store.read(address)) for kind, address in found]


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def disk(log: Log, tmp_path: Path) -> ReplicatedDisk:
    return ReplicatedDisk(RealDisk(tmp_path / "leader"), log)


def test_what_lies_between_two_syncs_is_one_batch_of_rows(disk: ReplicatedDisk, log: Log) -> None:
    store, _ = opened(disk)
    before = len(log.batches)
    for number in range(10):
        store.append(1, HEAD, b"order %d" % number)
    assert len(log.batches) == before
    store.commit()
    (batch,) = log.batches[before:]
    assert [row.segment for row in batch] == [1]
    assert batch[0].data is not None
    assert b"order 9" in batch[0].data


def test_whoever_has_the_rows_has_the_store(disk: ReplicatedDisk, log: Log, tmp_path: Path) -> None:
    """Segments that were left, sealed and dropped included."""
    store, _ = opened(disk)
    written = []
    for number in range(300):
        address = store.append(1, HEAD, b"order %d" % number * 9)
        written.append((number, address))
        store.commit()
        if number % 3:
            store.append(2, HEAD, b"", live=False)
            store.release(address)
    store.commit()
    assert log.dropped == sorted(log.dropped)
    standing = [(1, b"order %d" % number * 9) for number, _ in written if not number % 3]
    for end in ("at once", "closed"):
        cache = Cache(RealDisk(tmp_path / end))
        cache.apply(numbered(log))
        cache.keep({row.segment for _, row in numbered(log)} - set(log.dropped))
        cache.close()
        copy, found = opened(RealDisk(tmp_path / end))
        assert [each for each in found if each in standing] == standing
        assert not copy.report.damaged
        copy.close()
        if end == "at once":
            store.close()


def test_a_batch_that_found_no_room_goes_once_when_there_is_room(disk: ReplicatedDisk, log: Log) -> None:
    store, _ = opened(disk)
    store.append(1, HEAD, b"order")
    log.failure = StoreFullError("no room")
    for _ in range(3):
        with pytest.raises(StoreFullError):
            store.commit()
    log.failure = None
    store.commit()
    assert sum(b"order" in (row.data or b"") for row in log.batches[-1]) == 1
    assert store.durable == store.appended


def test_a_leader_that_is_lost_says_nothing_more(disk: ReplicatedDisk, log: Log) -> None:
    store, _ = opened(disk)
    store.append(1, HEAD, b"order")
    log.failure = NotLeaderError("another instance leads")
    with pytest.raises(NotLeaderError):
        store.commit()
    assert not store.durable
    log.failure = None
    with pytest.raises(NotLeaderError):
        store.append(1, HEAD, b"x" * 9000)
    store.close()
    assert disk.unsettled == {1}
    assert not any(b"order" in (row.data or b"") for batch in log.batches for row in batch)


def test_zeros_at_the_end_are_nobody_elses_business(disk: ReplicatedDisk, log: Log) -> None:
    file = disk.open("00000001.log", create=True)
    file.allocate(4096)
    file.truncate(2048)
    file.pwrite(b"12345678", 0)
    file.truncate(4)
    file.fdatasync()
    assert log.batches == [[Row(1, 0, b"12345678"), Row(1, 4, None)]]
    assert (file.size(), file.pread(9, 0)) == (4, b"1234")
    file.close()


def test_rows_of_a_deleted_segment_are_not_sent(disk: ReplicatedDisk, log: Log) -> None:
    for name in ("00000001.log", "00000002.log"):
        file = disk.open(name, create=True)
        file.pwrite(b"rows", 0)
        file.close()
    disk.unlink("00000001.log")
    disk.ship()
    assert log.batches == [[Row(2, 0, b"rows")]]
    assert not log.dropped, "its number may be used again before somebody gets round to dropping it"
    assert not disk.unsettled
    disk.unlink("00000002.log")
    assert log.dropped == [2]
    assert disk.unsettled == {2}


def test_what_was_refused_goes_again_in_order(log: Log, tmp_path: Path) -> None:
    """With what was sent behind it, and without what was deleted meanwhile."""
    waiting = log.held = []
    disk = ReplicatedDisk(RealDisk(tmp_path / "leader"), log)
    answers: list[StoreError | None] = []
    for number in (1, 2, 3):
        file = disk.open(f"0000000{number}.log", create=True)
        file.pwrite(b"rows", 0)
        file.close()
        disk.send(answers.append)
    assert disk.unsettled == {1, 2, 3}
    waiting[0](None)
    full = StoreFullError("no room")
    waiting[1](full)
    assert disk.unsettled == {2, 3}
    disk.unlink("00000002.log")
    waiting[2](full)
    assert answers == [None, full, full]
    disk.send(answers.append)
    assert log.batches[3:] == [[Row(3, 0, b"rows")]]
    waiting[3](None)
    assert disk.unsettled == {2}
