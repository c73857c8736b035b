"""Looking at a store without opening it."""

from __future__ import annotations

import pytest

from msmq.store import NotAStoreError, StoreLockedError
from msmq.store.inspection import inspect
from msmq.store.layout import place, segment_name
from msmq.testing import PowerLoss, SimulatedDisk
from tests.store.support import STORE_ID, head, new_store, put


def filled(disk: SimulatedDisk) -> list[int]:
    """Thirty records in several segments; gives their addresses."""
    store = new_store(disk)
    addresses = []
    for number in range(30):
        store.reserve(500)
        addresses.append(put(store, number))
        store.append(2, head(number), live=False)
        store.commit()
    store.close()
    return addresses


@pytest.mark.parametrize("thorough", [False, True])
def test_a_sound_store(thorough: bool) -> None:
    disk = SimulatedDisk()
    filled(disk)
    before = {name: disk.durable_content(name) for name in disk.names()}
    heard: list[tuple[int, int]] = []
    found = inspect(disk, thorough=thorough, progress=lambda done, total: heard.append((done, total)))
    assert (found.store_id, found.format_version, found.last_sequence) == (STORE_ID, 1, 30)
    assert sum(segment.records for segment in found.segments) == 60
    assert sum(segment.standing_records for segment in found.segments) == 30
    assert sum(segment.standing_bytes for segment in found.segments) == 30 * 552
    assert sum(segment.passing_bytes for segment in found.segments) == 30 * 56
    assert sum(segment.batches for segment in found.segments) == 30
    assert [segment.name for segment in found.segments] == sorted(name for name in before if "log" in name)
    assert all(segment.sealed for segment in found.segments)
    assert (found.torn, found.damaged) == ([], [])
    assert heard[-1][0] == heard[-1][1] == sum(segment.file_bytes for segment in found.segments)
    assert before == {name: disk.durable_content(name) for name in disk.names()}
    disk.lock("LOCK")  # it was given back


def test_an_empty_store() -> None:
    disk = SimulatedDisk()
    new_store(disk).close()
    found = inspect(disk)
    assert (found.segments, found.last_sequence) == ([], 0)


def test_damage_is_placed() -> None:
    disk = SimulatedDisk()
    addresses = filled(disk)
    for address in (addresses[3], addresses[29]):
        number, offset = place(address)
        disk.flip(segment_name(number), offset + 70)
    assert inspect(disk).damaged == []  # that takes reading everything
    found = inspect(disk, thorough=True)
    assert [(damage.file, damage.offset) for damage in found.damaged] == [
        (segment_name(place(address)[0]), place(address)[1]) for address in (addresses[3], addresses[29])
    ]
    assert sum(segment.records for segment in found.segments) == 58


def test_a_damaged_index_is_damage() -> None:
    disk = SimulatedDisk()
    filled(disk)
    segment = inspect(disk).segments[1]
    disk.flip(segment.name, segment.record_bytes + 30)
    (damage,) = inspect(disk, thorough=True).damaged
    assert (damage.file, damage.offset) == (segment.name, segment.record_bytes)


def test_an_index_without_its_records_is_damage() -> None:
    disk = SimulatedDisk()
    filled(disk)
    segment = inspect(disk).segments[0]
    file = disk.open(segment.name)
    file.pwrite(bytes(segment.record_bytes), 0)
    file.close()
    (damage,) = inspect(disk, thorough=True).damaged
    assert damage.file == segment.name


def test_a_missing_segment_is_damage() -> None:
    disk = SimulatedDisk()
    filled(disk)
    names = [segment.name for segment in inspect(disk).segments]
    disk.unlink(names[1])
    (damage,) = inspect(disk).damaged
    assert damage.file == names[2]
    assert "missing before this file" in damage.reason


def test_a_torn_tail_is_no_damage() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    put(store, 1)
    store.commit()
    file = disk.open(segment_name(1))
    for number in (2, 3):
        put(store, number, 1000)
    disk.crash_at(2)
    with pytest.raises(PowerLoss):
        store.commit()
    disk.kill()
    file = disk.open(segment_name(1))
    file.pwrite(bytes(512), 1024)
    file.fdatasync()
    file.close()
    found = inspect(disk, thorough=True)
    assert found.damaged == []
    assert [torn.offset for torn in found.torn] == [600]
    assert [segment.sealed for segment in found.segments] == [False, False]


def test_what_is_no_store() -> None:
    disk = SimulatedDisk()
    with pytest.raises(NotAStoreError, match="no FORMAT file"):
        inspect(disk)
    assert disk.names() == []


def test_a_store_in_use() -> None:
    disk = SimulatedDisk()
    new_store(disk)
    with pytest.raises(StoreLockedError):
        inspect(disk)
