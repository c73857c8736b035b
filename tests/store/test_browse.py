"""Segments read one by one, without the store: everything in them, sealed or not, sound or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.store import Damage, NotAStoreError, RealDisk, StoreLockedError
from msmq.store.browse import Record, SegmentFile, records, segments
from msmq.store.layout import place, segment_name
from tests.store.support import DELETE, PUT, head, new_store, payload, put

COUNT = 40


def fill(path: Path, *, close: bool = True) -> list[int]:
    """Records in several segments; gives their addresses. Without ``close`` the last is left as a crash leaves it."""
    disk = RealDisk(path)
    store = new_store(disk)
    addresses = []
    for number in range(COUNT):
        store.reserve(500)
        addresses.append(put(store, number))
        store.append(DELETE, head(number), live=False)
        store.commit()
    if close:
        store.close()
    else:
        disk.unlock()
    return addresses


def everything(path: Path) -> list[Record | Damage]:
    return [found for segment in segments(path) for found in records(segment, (PUT,))]


@pytest.mark.parametrize("close", [True, False], ids=["closed", "crashed"])
def test_every_record_of_every_segment(tmp_path: Path, close: bool) -> None:
    addresses = fill(tmp_path, close=close)
    assert len(segments(tmp_path)) > 1
    expected = [
        Record(PUT, head(number), address, payload(number)) for number, address in enumerate(addresses)
    ]
    assert everything(tmp_path) == expected


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    fill(tmp_path)
    found = [
        record
        for segment in segments(tmp_path)
        for record in records(segment, (DELETE,), with_payload=lambda kind: False)
    ]
    assert [record.head for record in found if isinstance(record, Record)] == [*map(head, range(COUNT))]
    assert {record.payload for record in found if isinstance(record, Record)} == {None}


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("index", [True, False], ids=["by the index", "without it"])
def test_damage_costs_one_record(tmp_path: Path, index: bool) -> None:
    addresses = fill(tmp_path)
    number, offset = place(addresses[2])
    path = tmp_path / segment_name(number)
    flip(path, offset + 100)
    if not index:
        flip(path, path.stat().st_size - 200)
    found = everything(tmp_path)
    assert [item.head for item in found if isinstance(item, Record)] == [
        head(number) for number in range(COUNT) if number != 2
    ]
    (damage,) = [item for item in found if isinstance(item, Damage)]
    assert (damage.file, damage.offset) == (path.name, offset)


def test_a_file_that_shrank_meanwhile(tmp_path: Path) -> None:
    fill(tmp_path)
    first = segments(tmp_path)[0]
    first.path.write_bytes(first.path.read_bytes()[:1000])
    assert {type(found) for found in records(first, (PUT,))} == {Damage, Record}


def test_a_store_in_use_and_what_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        segments(tmp_path)
    fill(tmp_path)
    disk = RealDisk(tmp_path)
    disk.lock("LOCK")
    with pytest.raises(StoreLockedError):
        segments(tmp_path)
    disk.unlock()
    assert all(isinstance(segment, SegmentFile) for segment in segments(tmp_path))
