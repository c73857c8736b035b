"""Segments come and go; full disks are told about and survived."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from msmq.store import RealDisk, Store, StoreFullError, StoreOptions
from msmq.testing import SimulatedDisk
from tests.store.support import SMALL, Book, new_store, put


def files(disk: SimulatedDisk) -> list[int]:
    """Sizes of the segments, oldest first."""
    names = sorted(name for name in disk.names() if name.endswith(".log"))
    return [disk.open(name).size() for name in names]


@pytest.mark.parametrize(
    "options",
    [
        {"smallest_segment_bytes": 100},
        {"smallest_segment_bytes": 8192, "largest_segment_bytes": 4096},
        {"largest_segment_bytes": 1 << 31},
        {"clean_above": 0.0},
        {"clean_above": 1.0},
    ],
)
def test_senseless_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="between"):
        StoreOptions(**options)  # type: ignore[arg-type]


def test_a_new_store_is_small() -> None:
    disk = SimulatedDisk()
    store = new_store(disk, StoreOptions())
    assert store.disk_bytes == disk.used_bytes - disk.open("FORMAT").size() <= 3 << 20


def test_segments_grow_with_the_log() -> None:
    disk = SimulatedDisk()
    store = new_store(disk)
    for number in range(100):
        store.reserve(500)
        put(store, number)
        store.commit()
    *sealed, active, spare = files(disk)
    assert (active, spare) == (16384, 16384)
    assert sealed[0] < 4096 + 1000 < sealed[1] < 8192 + 2000 < sealed[2]
    assert store.disk_bytes == sum(files(disk))


def test_a_record_larger_than_any_segment_gets_its_own() -> None:
    store = new_store()
    store.reserve(100_000)
    small, large = put(store, 1, 10), put(store, 2, 100_000)
    put(store, 3, 10)
    store.commit()
    assert (len(store.read(small)), len(store.read(large))) == (10, 100_000)


def fill(store: Store, book: Book) -> StoreFullError:
    for number in range(1, 10_000):
        try:
            store.reserve(500)
        except StoreFullError as error:
            store.commit()
            return error
        book.put(store, number)
    raise AssertionError("the disk is never full")


def test_a_full_disk_refuses_messages_before_anything_changes() -> None:
    disk = SimulatedDisk(100_000)
    store, book = new_store(disk), Book()
    error = fill(store, book)
    assert "the simulated disk needs 4096 bytes more, and its file system has" in str(error)
    appended = store.appended
    for _ in range(3):
        with pytest.raises(StoreFullError):
            store.reserve(500)
    assert (store.appended, store.pending) == (appended, 0)


def test_messages_can_be_deleted_on_a_full_disk_and_service_goes_on() -> None:
    disk = SimulatedDisk(100_000)
    store, book = new_store(disk), Book()
    for _ in range(3):
        fill(store, book)
        assert len(book.addresses) > 100
        for number in list(book.addresses):
            store.reserve(0, freeing=True)
            book.delete(store, number)
            store.commit()
        while store.clean_step(book):
            store.commit()
        store.reserve(500)


def test_the_spare_is_not_for_messages() -> None:
    """With room left in the last segment, but no spare behind it, only deletions are let in."""
    disk = SimulatedDisk(100_000)
    store, book = new_store(disk), Book()
    fill(store, book)
    with pytest.raises(StoreFullError):  # noqa: PT012 - it is the loop that ends so
        for _ in range(100):
            store.reserve(1)
            store.reserve(0, freeing=True)
            book.delete(store, max(book.addresses))
            store.commit()
    for _ in range(10):
        store.reserve(0, freeing=True)
        book.delete(store, max(book.addresses))
        store.commit()


def test_the_limit_is_named() -> None:
    disk = SimulatedDisk()
    options = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=8192, limit_bytes=50_000)
    store, book = new_store(disk, options), Book()
    error = fill(store, book)
    assert "may take 50000: receive or purge messages, or raise limit_bytes" in str(error)
    assert 40_000 < disk.used_bytes < 55_000


def test_a_smaller_segment_is_made_when_a_large_one_does_not_fit() -> None:
    disk = SimulatedDisk(100_000)
    options = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=65536)
    store, book = new_store(disk, options), Book()
    fill(store, book)
    assert disk.used_bytes > 90_000


def test_too_large_for_any_segment() -> None:
    with pytest.raises(StoreFullError, match="more than one segment can hold"):
        new_store().reserve(1 << 32)


def test_a_real_disk_that_refuses(tmp_path: Path) -> None:
    """The limit of the size of files is the one that needs no rights to be set."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    store = new_store(RealDisk(tmp_path), SMALL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(StoreFullError, match=r"its file system has [0-9]+ free"):
            store.reserve(2 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.reserve(2 << 20)
    store.close()
