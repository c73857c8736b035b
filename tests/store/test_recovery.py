"""Opening a store again."""

from __future__ import annotations

from random import Random

import pytest

from msmq.store import DamagedRecordError, Entry, Store, StoreFailedError, StoreOptions
from msmq.store.layout import ROW, TRAILER_SIZE, footprint, place, segment_name
from msmq.testing import PowerLoss, SimulatedDisk
from tests.store.support import SMALL, committed, head, new_store, numbers, open_store, payload, put


def filled(disk: SimulatedDisk, count: int = 30) -> Store:
    """A store with several segments, each record in a batch of its own."""
    store = new_store(disk)
    for number in range(count):
        store.reserve(500)
        put(store, number)
        store.commit()
    return store


def cut_off(disk: SimulatedDisk, store: Store, records: list[int]) -> None:
    """The power goes when a batch was written and not synced."""
    for number in records:
        put(store, number, 1000)
    disk.crash_at(2)
    with pytest.raises(PowerLoss):
        store.commit()


def reopened(disk: SimulatedDisk, store: Store) -> tuple[Store, list[Entry]]:
    store.close()
    return open_store(disk)


def segments(disk: SimulatedDisk) -> list[str]:
    return sorted(name for name in disk.names() if name.endswith(".log"))


def test_after_a_clean_end_only_indexes_are_read() -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    store, entries = open_store(disk)
    assert numbers(entries) == list(range(30))
    report = store.report
    assert (report.scanned, report.batches, report.records) == (0, 30, 30)
    assert (report.torn, report.damaged) == ([], [])
    assert report.bytes == 30 * (48 + 552)
    assert report.segments > 2


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("where", ["a record", "the last batch", "behind it", "the end"])
def test_sectors_that_cannot_be_read_cost_what_lies_there_and_nothing_else(where: str, killed: bool) -> None:
    disk, large = SimulatedDisk(), StoreOptions(smallest_segment_bytes=1 << 17, largest_segment_bytes=1 << 17)
    store = new_store(disk, options=large)
    addresses = []
    for number in range(50):
        store.reserve(1_500)
        addresses.append(put(store, number, 1_500))
        store.commit()
    if killed:
        disk.kill()
    else:
        store.close()
    name, bad = segments(disk)[0], 49 if where == "the last batch" else 20
    offset, data_end = place(addresses[bad])[1], place(addresses[-1])[1] + footprint(1_500)
    if where == "the end":  # a trailer, or nothing yet
        size = len(disk.durable_content(name))
        disk.spoil(name, (size - TRAILER_SIZE) // 512 * 512, size + 511)
    elif where == "behind it":  # an index, or nothing yet
        disk.spoil(name, data_end, data_end + 50 * ROW.size)
    else:
        disk.spoil(name, offset, offset + footprint(1_500))
    store, entries = open_store(disk, large)
    hit = where in ("a record", "the last batch")
    found = [number for number in range(50) if not (killed and hit and number == bad)]
    assert numbers(entries) == found
    assert (len(store.report.damaged), len(store.report.torn)) == (
        int(killed and hit),
        int(killed and not hit),
    )
    for number in found:
        if hit and number == bad:
            with pytest.raises(DamagedRecordError):
                store.read(addresses[number])
        else:
            assert store.read(addresses[number]) == payload(number, 1_500)
    put(store, 50)
    assert numbers(reopened(disk, store)[1]) == [*found, 50]


def test_a_sector_that_cannot_be_read_for_once_is_not_overwritten() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    address = put(store, 1, 1_500)
    store.commit()
    disk.kill()
    name, offset = segments(disk)[0], place(address)[1]
    disk.spoil(name, offset, offset + footprint(1_500))
    store, entries = open_store(disk)
    assert (numbers(entries), len(store.report.damaged)) == ([], 1)
    disk.kill()
    disk._names[name].unreadable.clear()
    store, entries = open_store(disk)
    assert (numbers(entries), store.report.damaged) == ([1], [])
    assert store.read(address) == payload(1, 1_500)


def test_entries_tell_all_about_a_record() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    address = store.append(7, head(1), b"abc", flags=9)
    store.close()
    store, entries = open_store(disk)
    assert entries == [(7, 9, head(1), address, 3)]
    assert store.read(address) == b"abc"


def test_after_a_crash_the_last_segment_is_scanned_and_sealed() -> None:
    disk = SimulatedDisk()
    filled(disk)
    disk.crash()
    store, entries = open_store(disk)
    assert numbers(entries) == list(range(30))
    assert store.report.scanned >= 1
    store.close()
    store, entries = open_store(disk)
    assert numbers(entries) == list(range(30))
    assert store.report.scanned == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_tail_is_dropped_and_said(seed: int) -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    end = committed(store)
    cut_off(disk, store, [2, 3])
    disk.crash(Random(seed))
    store, entries = open_store(disk)
    assert numbers(entries) in ([1], [1, 2, 3])
    if store.report.torn:
        assert numbers(entries) == [1]
        assert [(torn.file, torn.offset) for torn in store.report.torn] == [(segment_name(1), end)]
    assert store.report.damaged == []
    again, entries_again = reopened(disk, store)
    assert entries_again == entries
    assert again.report.torn == []


def test_tails_are_torn_at_all() -> None:
    torn = 0
    for seed in range(20):
        disk = SimulatedDisk()
        cut_off(disk, new_store(disk), [1, 2, 3])
        disk.crash(Random(seed))
        torn += len(open_store(disk)[0].report.torn)
    assert torn > 3


def test_numbers_and_addresses_are_never_used_again() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    first = put(store, 1)
    disk.crash_at(2)
    with pytest.raises(PowerLoss):
        store.commit()
    disk.crash()
    store, entries = open_store(disk)
    assert entries == []
    assert place(put(store, 2))[0] > place(first)[0] + 1  # behind the old active segment and the old spare


def test_what_a_killed_process_wrote_is_made_durable_before_it_counts() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    disk.crash_at(2)
    with pytest.raises(PowerLoss):
        store.commit()
    disk.kill()
    _, entries = open_store(disk)
    assert numbers(entries) == [1]
    disk.crash()
    _, entries = open_store(disk)
    assert numbers(entries) == [1]


def test_after_a_failed_sync_the_page_cache_is_not_believed() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    disk.failing_syncs = 1
    with pytest.raises(StoreFailedError):
        store.commit()
    disk.kill()
    _, entries = open_store(disk)
    assert numbers(entries) == [1]
    disk.crash()
    _, entries = open_store(disk)
    assert numbers(entries) == [1]


@pytest.mark.parametrize("operation", range(1, 7))
def test_a_commit_over_the_ends_of_segments_is_whole_or_gone(operation: int) -> None:
    """Three batches on disk, each synced before the next is written."""
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 0)
    store.commit()
    for number in range(1, 20):
        put(store, number, 1000)
    batch = store.take()
    assert batch
    assert len(batch.chunks) == 3
    disk.crash_at(operation)
    with pytest.raises(PowerLoss):
        store.write(batch)
    disk.crash()
    _, entries = open_store(disk)
    assert numbers(entries) == [0]


def test_the_first_part_of_a_commit_is_kept_when_the_header_of_the_second_is_damaged() -> None:
    """Salvaged records prove as well as headers that what came before them was durable."""
    disk = SimulatedDisk()
    store = new_store(disk)
    for number in range(6):
        put(store, number, 1000)
    store.commit()
    disk.kill()
    first, second, *_ = segments(disk)
    disk.flip(first, disk.open(first).size() - 1)
    disk.flip(second, 20)
    store, entries = open_store(disk)
    assert numbers(entries) == list(range(6))
    assert {damage.file for damage in store.report.damaged} == {second}


def test_a_damaged_index_is_replaced_by_the_records() -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    name = segments(disk)[1]
    size = len(disk.durable_content(name))
    for offset in (size - 1, size - TRAILER_SIZE - 1):
        disk.flip(name, offset)
        store, entries = open_store(disk)
        assert numbers(entries) == list(range(30))
        assert (store.report.scanned, store.report.damaged) == (1, [])
        store.close()


def test_damage_in_the_middle_costs_one_record_and_is_said() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    addresses = [put(store, number) for number in range(5)]
    store.commit()
    put(store, 5)
    store.commit()
    disk.kill()
    _, offset = place(addresses[2])
    disk.flip(segment_name(1), offset + 100)
    before = disk.durable_content(segment_name(1))
    for _ in range(2):
        store, entries = open_store(disk)
        assert numbers(entries) == [0, 1, 3, 4, 5]
        assert [(damage.file, damage.offset) for damage in store.report.damaged] == [
            (segment_name(1), offset)
        ]
        disk.kill()
    assert disk.durable_content(segment_name(1)) == before  # left for whoever wants to look


def test_a_missing_segment_is_said_and_costs_no_other() -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    names = segments(disk)
    disk.unlink(names[1])
    store, entries = open_store(disk)
    assert 0 < len(entries) < 30
    (damage,) = store.report.damaged
    assert damage.file == names[2]
    assert "are missing" in damage.reason


def test_a_middle_segment_of_which_nothing_is_left() -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    names = segments(disk)
    file = disk.open(names[1])
    size = file.size()
    file.pwrite(b"\xff" * size, 0)
    file.fdatasync()
    file.close()
    store, entries = open_store(disk)
    assert 0 < len(entries) < 30
    assert store.report.damaged[0].file == names[1]
    put(store, 99)
    store.close()
    _, entries = open_store(disk)
    assert numbers(entries)[-1] == 99


def test_empty_segments_are_removed() -> None:
    disk = SimulatedDisk()
    new_store(disk)
    disk.kill()
    store, _ = open_store(disk)
    assert len(segments(disk)) == 2
    store.close()
    assert segments(disk) == []


def test_an_unreadable_disk_is_told() -> None:
    disk = SimulatedDisk()
    filled(disk)
    disk.kill()
    disk.failing_syncs = 1
    store = Store.open(disk, SMALL)
    with pytest.raises(StoreFailedError, match="restart"):
        list(store.recover())
    with pytest.raises(StoreFailedError):
        store.reserve(1)


def test_a_full_disk_can_be_opened() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    disk.kill()
    disk.capacity = disk.used_bytes - 2 * 16384
    store, entries = open_store(disk)
    assert numbers(entries) == list(range(30))
    assert store.read(entries[3][3]) == payload(3)


def test_records_can_be_read_and_released_meanwhile() -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    store = Store.open(disk, SMALL)
    for _, _, number, address, size in store.recover():
        assert store.read(address, size) == payload(int.from_bytes(number, "little"))
        store.release(address, size)
    assert store.live_bytes == 0
    put(store, 1)
    for _ in range(10):
        store.commit()
        put(store, 1)
    assert len(segments(disk)) <= 3
