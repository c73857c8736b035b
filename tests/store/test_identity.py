"""How a directory becomes a store."""

from __future__ import annotations

from random import Random

import pytest

from msmq.store import NewerFormatError, NotAStoreError, Store
from msmq.store.identity import read_store_id, write_store_id
from msmq.testing import PowerLoss, SimulatedDisk
from tests.store.support import STORE_ID


def write(disk: SimulatedDisk, name: str, data: bytes) -> None:
    file = disk.open(name, create=True)
    file.pwrite(data, 0)
    file.close()


def test_an_empty_directory_is_no_store_yet() -> None:
    disk = SimulatedDisk()
    assert read_store_id(disk) is None
    write_store_id(disk, STORE_ID)
    assert read_store_id(disk) == STORE_ID
    assert not disk.unsynced


@pytest.mark.parametrize("operation", range(1, 8))
@pytest.mark.parametrize("seed", range(10))
def test_a_crash_leaves_a_store_or_none(operation: int, seed: int) -> None:
    disk = SimulatedDisk()
    disk.crash_at(operation)
    try:
        write_store_id(disk, STORE_ID)
    except PowerLoss:
        disk.crash(Random(seed))
        assert read_store_id(disk) in (None, STORE_ID)
        write_store_id(disk, STORE_ID)
    assert read_store_id(disk) == STORE_ID


def test_segments_without_format_are_not_taken_over() -> None:
    disk = SimulatedDisk()
    write(disk, "00000001.log", b"x")
    with pytest.raises(NotAStoreError, match="segments but no FORMAT"):
        Store.open(disk)
    disk.lock("LOCK")  # it was given back


def test_a_newer_store_is_refused_and_not_touched() -> None:
    disk = SimulatedDisk()
    write(disk, "FORMAT", b"msmq store\nformat 2\n")
    with pytest.raises(NewerFormatError):
        Store.open(disk)
    assert disk.names() == ["FORMAT"]
    disk.lock("LOCK")


def test_identifiers_are_random_if_not_given() -> None:
    first, second = SimulatedDisk(), SimulatedDisk()
    for disk in (first, second):
        Store.open(disk)
    assert read_store_id(first) != read_store_id(second)
