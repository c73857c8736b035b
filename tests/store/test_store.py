"""Appending and committing."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from random import Random

import pytest

from msmq.errors import EncodeError
from msmq.store import (
    Batch,
    Entry,
    RealDisk,
    Store,
    StoreError,
    StoreFailedError,
    StoreFullError,
    StoreLockedError,
    StoreOptions,
)
from msmq.store.layout import OFFSET_BITS, segment_name
from msmq.testing import SimulatedDisk
from tests.store.support import SMALL, STORE_ID, committed, head, new_store, numbers, open_store, payload, put


def test_records_have_addresses_that_rise() -> None:
    store = new_store()
    addresses = []
    for number in range(100):
        addresses.append(put(store, number))
        if number % 7 == 0:
            store.commit()
    assert addresses == sorted(set(addresses))
    assert 0 not in addresses
    assert all(address % 8 == 0 for address in addresses)


def test_a_payload_may_come_in_two_parts() -> None:
    store = new_store()
    given = [(b"ab", b"c"), (b"", b"c"), (b"abc", b""), (b"", b"")]
    addresses = [store.append(1, head(number), parts) for number, parts in enumerate(given)]
    addresses.append(store.append(1, head(4)))
    wanted = [*map(b"".join, given), b""]
    for _ in range(2):
        assert [store.read(address) for address in addresses] == wanted
        found = store.read_many(
            [(address, len(each)) for address, each in zip(addresses, wanted, strict=True)],
            [len(each) // 2 for each in wanted],
        )
        assert found == (
            [each[: len(each) // 2] for each in wanted],
            [each[len(each) // 2 :] for each in wanted],
        )
        store.commit()


def test_a_head_has_its_size() -> None:
    store = new_store()
    for wrong in (b"", bytes(39), bytes(41)):
        with pytest.raises(EncodeError, match="40 bytes"):
            store.append(1, wrong)
    assert store.pending == 0


def test_many_records_are_released_like_one_after_another() -> None:
    one_by_one, together = (new_store() for _ in range(2))
    for store in (one_by_one, together):
        records = [(put(store, number, 100 + number), 100 + number) for number in range(200)]
        store.commit()
        assert len({address >> OFFSET_BITS for address, _ in records}) > 1
        if store is together:
            store.release_all([address for address, _ in records[:150]], [size for _, size in records[:150]])
        else:
            for address, size in records[:150]:
                store.release(address, size)
    assert one_by_one.live_bytes == together.live_bytes
    together.release_all([], [])


@pytest.mark.parametrize("in_front", [0, 8])
def test_a_run_of_records_goes_as_they_go_one_by_one(in_front: int) -> None:
    """Through several segments, of one size and of many; what is on disk is the same to the last byte."""
    disks = SimulatedDisk(), SimulatedDisk()
    one_by_one, together = (new_store(disk) for disk in disks)
    for number in range(1, 60):
        heads = [head(1000 * number + each) for each in range(number)]
        sizes = [in_front + (37 * (each if number % 3 else number) % 200) for each in range(number)]
        payloads = [payload(each, size) for each, size in enumerate(sizes)]
        for store in (one_by_one, together):
            store.reserve(sum(sizes), number)
        expected = [one_by_one.append(1, *record) for record in zip(heads, payloads, strict=True)]
        fronts = b"".join(one + other[:in_front] for one, other in zip(heads, payloads, strict=True))
        assert together.append_all(1, fronts, [each[in_front:] for each in payloads]) == expected
        assert together.appended == one_by_one.appended
        assert together.pending == one_by_one.pending
        assert [together.read(address) for address in expected] == payloads
        assert not together.is_durable(expected[0], expected[0])
        assert not together.is_durable(expected[-1], expected[-1])
        for store in (one_by_one, together):
            store.append(2, head(number), b"in between", live=False)
        if number % 4:
            assert committed(together) == committed(one_by_one) > 0
    for store in (one_by_one, together):
        store.commit()
    assert len(disks[0].names()) > 3
    for name in disks[0].names():
        first, second = (disk.open(name) for disk in disks)
        assert first.pread(1 << 20, 0) == second.pread(1 << 20, 0), name
    for store in (one_by_one, together):
        store.close()  # which writes the last index
    for name in disks[0].names():
        first, second = (disk.open(name) for disk in disks)
        assert first.pread(1 << 20, 0) == second.pread(1 << 20, 0), name
    with pytest.raises(EncodeError, match="40 bytes"):
        together.append_all(1, head(1)[:10], [b""])


def test_a_run_of_records_that_finds_no_room_leaves_nothing_behind() -> None:
    """Some of them would have fitted into what is left of the segment."""
    store = new_store(options=StoreOptions(4096, 4096, limit_bytes=2 * 4096))
    put(store, 1)
    run = b"".join(map(head, range(2, 90)))
    with pytest.raises(StoreFullError):
        store.append_all(1, run, [payload(number, 100) for number in range(2, 90)])
    assert (store.appended, store.pending) == (1, 1)
    addresses = store.append_all(1, run[: 20 * 40], [payload(number, 100) for number in range(2, 22)])
    store.commit()
    assert [store.read(each) for each in addresses] == [payload(number, 100) for number in range(2, 22)]


def test_durable_follows_appended() -> None:
    store = new_store()
    assert (store.appended, store.durable, store.pending, committed(store)) == (0, 0, 0, 0)
    put(store, 1, 4)
    put(store, 2, 5)
    assert (store.appended, store.durable, store.pending) == (2, 0, 2)
    batch = store.take()
    assert batch
    assert batch.size == 48 + 56 + 64
    put(store, 3)
    assert (store.appended, store.durable, store.pending) == (3, 0, 1)
    store.write(batch)
    assert store.durable == 0
    store.completed(batch)
    assert (store.appended, store.durable) == (3, 2)
    store.commit()
    assert (store.appended, store.durable, store.pending) == (3, 3, 0)
    writes = store.durable
    store.commit()
    assert store.durable == writes
    assert store.take() is None


def test_a_full_batch_gets_no_more() -> None:
    """Who waits for the first events need not wait for all that came after them."""
    disk = SimulatedDisk()
    store = new_store(disk, StoreOptions(4096, 1 << 16, largest_batch_bytes=1000))
    for number in range(5):
        store.reserve(500)
        put(store, number, 500)
    sizes = []
    while (batch := store.take()) is not None:
        store.write(batch)
        store.completed(batch)
        sizes.append(batch.records)
        assert store.durable == sum(sizes)
        assert numbers(open_after_crash(disk)) == list(range(store.durable))
    assert sizes == [2, 2, 1]
    assert store.durable == store.appended


def test_a_batch_goes_on_in_the_next_segment_however_full_it_is() -> None:
    store = new_store(SimulatedDisk(), StoreOptions(4096, 4096, largest_batch_bytes=1000))
    for _ in range(3):
        store.reserve(6000, 6)
        for number in range(6):
            put(store, number, 1000)
    sizes = []
    while (batch := store.take()) is not None:
        store.write(batch)
        store.completed(batch)
        sizes.append(batch.records)
    assert sizes == [6, 6, 6]


def test_nothing_is_durable_before_it_is_synced() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    for number in range(20):
        put(store, number, 10)
        writes, syncs = disk.writes, disk.syncs
        batch = store.take()
        assert batch
        assert (disk.writes, disk.syncs) == (writes, syncs)
        store.write(batch)
        assert (disk.writes, disk.syncs, store.durable) == (writes + 1, syncs + 1, number)
        store.completed(batch)
        assert (disk.writes, disk.syncs, store.durable) == (writes + 1, syncs + 1, number + 1)
        # If it were not so, this would lose the record.
        copy = open_after_crash(disk)
        assert numbers(copy) == list(range(number + 1))


def open_after_crash(disk: SimulatedDisk) -> list[Entry]:
    """What a crash now would leave, on a disk with the same durable content."""
    other = SimulatedDisk()
    for name in disk.names():
        file = other.open(name, create=True)
        file.pwrite(disk.durable_content(name), 0)
        file.close()
    return open_store(other)[1]


def test_one_sync_serves_everyone() -> None:
    disk = SimulatedDisk()
    store = new_store(disk, StoreOptions())
    for number in range(1000):
        put(store, number, 100)
    writes, syncs = disk.writes, disk.syncs
    store.commit()
    assert (disk.writes, disk.syncs) == (writes + 1, syncs + 1)
    assert store.durable == 1000


def test_one_batch_at_a_time() -> None:
    store = new_store()
    put(store, 1)
    first = store.take()
    assert first
    put(store, 2)
    with pytest.raises(AssertionError):
        store.commit()
    with pytest.raises(AssertionError):
        store.close()
    store.write(first)
    store.completed(first)
    with pytest.raises(AssertionError):
        store.completed(first)


def test_batches_that_are_under_way_together_are_completed_in_order() -> None:
    """And all of them can be read, though none is durable."""
    store = new_store()
    batches, addresses = [], []
    for number in range(60):
        addresses.append(put(store, number, 300))
        batch = store.take()
        assert batch
        store.put(batch)
        batches.append(batch)
    assert len(store._space.segments) > 1
    assert not store.durable
    assert store.read_many([(address, 300) for address in addresses], bytes(len(addresses)))[1] == [
        store.read(address) for address in addresses
    ]
    with pytest.raises(AssertionError):
        store.completed(batches[1])
    for number, batch in enumerate(batches, start=1):
        store.seal(batch)
        store.completed(batch)
        assert store.durable == number
    store.close()


def test_what_is_reserved_comes_into_one_batch() -> None:
    store = new_store()
    rng = Random(1)
    for _ in range(200):
        count = rng.randint(1, 6)
        sizes = [rng.randint(0, 900) for _ in range(count)]
        store.reserve(sum(sizes), records=count)
        addresses = [put(store, 1, size) for size in sizes]
        assert len({address >> 32 for address in addresses}) == 1


def test_before_recovery_nothing_can_be_written() -> None:
    disk = SimulatedDisk()
    store = Store.open(disk, SMALL)
    with pytest.raises(StoreError, match="not recovered"):
        store.append(1, head(1))
    with pytest.raises(StoreError, match="not recovered"):
        store.commit()
    store.close()
    assert disk.names() == ["FORMAT"]


def test_after_closing_nothing_can_be_written() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        put(store, 2)
    with pytest.raises(StoreError, match="closed"):
        store.reserve(0, freeing=True)
    assert numbers(open_store(disk)[1]) == [1]


def test_one_process_opens_a_store() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    with pytest.raises(StoreLockedError):
        Store.open(disk)
    store.close()
    new_store(disk)


def test_a_failed_sync_is_final() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    disk.failing_syncs = 1
    with pytest.raises(StoreFailedError, match=r"Input/output error.*restart"):
        store.commit()
    assert store.durable == 0
    for call in (store.take, store.commit, lambda: put(store, 2), lambda: store.reserve(0, freeing=True)):
        with pytest.raises(StoreFailedError):
            call()


def test_a_failed_write_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    monkeypatch.setattr(disk, "claim", raising(errno.EIO))
    with pytest.raises(StoreFailedError):
        store.commit()
    monkeypatch.undo()
    with pytest.raises(StoreFailedError):
        store.commit()


def test_a_write_without_room_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems promise space and do not have it."""
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    batch = store.take()
    assert batch
    monkeypatch.setattr(disk, "claim", raising(errno.ENOSPC))
    with pytest.raises(StoreFullError, match="set aside"):
        store.write(batch)
    put(store, 2)
    monkeypatch.undo()
    store.write(batch)
    store.completed(batch)
    store.close()
    assert numbers(open_store(disk)[1]) == [1, 2]


def raising(number: int) -> object:
    def raise_it(_: int) -> None:
        raise OSError(number, os.strerror(number))

    return raise_it


def test_a_disk_that_fails_when_a_segment_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    monkeypatch.setattr(disk, "claim", raising(errno.EIO))
    with pytest.raises(StoreFailedError):
        store.reserve(10_000)
    with pytest.raises(StoreFailedError):
        put(store, 1)


def test_flags_and_kinds_have_one_byte() -> None:
    store = new_store()
    for kind, flags in ((256, 0), (0, 256), (-1, 0)):
        with pytest.raises(Exception, match="format requires"):
            store.append(kind, head(1), flags=flags)
    assert store.pending == 0
    assert store.append(255, head(1), flags=255)


def test_a_real_disk(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "store")
    store = Store.open(disk, SMALL, new_id=STORE_ID)
    assert list(store.recover()) == []
    for number in range(100):
        put(store, number)
        if number % 10 == 9:
            store.commit()
    store.close()
    store, entries = open_store(RealDisk(tmp_path / "store"))
    assert numbers(entries) == list(range(100))
    wanted = [(address, size) for _, _, _, address, size in entries]
    assert store.read_many(wanted, bytes(100))[1] == [payload(number) for number in range(100)]
    store.close()
    assert {"LOCK", "FORMAT", segment_name(1)} <= set(os.listdir(tmp_path / "store"))


def test_batches_are_written_in_another_thread(tmp_path: Path) -> None:
    store, _ = open_store(RealDisk(tmp_path))
    written = 0
    while written < 60:
        put(store, written)
        written += 1
        batch = store.take()
        assert batch
        thread = threading.Thread(target=store.write, args=(batch,))
        thread.start()
        for _ in range(5):  # what arrives meanwhile shares the next sync
            address = put(store, written)
            assert store.read(address) == payload(written)
            written += 1
        thread.join()
        store.completed(batch)
    store.close()
    store, entries = open_store(RealDisk(tmp_path))
    assert numbers(entries) == list(range(written))
    store.close()


def test_a_commit_on_a_full_disk_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)

    def refuse(batch: Batch) -> None:
        raise StoreFullError("full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", refuse)
        for _ in range(2):
            with pytest.raises(StoreFullError):
                store.commit()
        put(store, 2)
    store.commit()
    store.close()
    assert numbers(open_store(disk)[1]) == [1, 2]


def test_a_store_that_failed_in_the_middle_of_a_batch_can_be_closed() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    disk.failing_syncs = 1
    with pytest.raises(StoreFailedError):
        store.commit()
    store.close()


def test_a_store_that_fails_while_it_closes_closes_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a closed file may be that of another file by then."""
    disk = SimulatedDisk()
    store = new_store(disk)
    store.reserve(3000)
    put(store, 1)
    monkeypatch.setattr(disk, "unlink", raising(errno.EIO))
    with pytest.raises(StoreFailedError, match="Input/output error"):
        store.close()
    monkeypatch.undo()
    assert numbers(open_store(disk)[1]) == [1]


def test_what_waits_to_be_written_is_not_durable() -> None:
    store = new_store()
    first = put(store, 1)
    assert not store.is_durable(first, first)
    store.commit()
    second = put(store, 2)
    assert store.is_durable(first, first)
    assert not store.is_durable(first, second)
    batch = store.take()
    assert batch is not None
    assert not store.is_durable(second, second), "it is being written"
    third = put(store, 3)
    store.write(batch)
    store.completed(batch)
    assert store.is_durable(first, second)
    assert not store.is_durable(third, third)
