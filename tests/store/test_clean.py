"""Space comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.store import RealDisk, Store, StoreFullError, StoreOptions
from msmq.store.layout import place, segment_name
from msmq.testing import SimulatedDisk
from tests.store.support import PUT, SMALL, Book, head, new_store, open_store, payload

FIXED = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=4096)


def filled(disk: SimulatedDisk, count: int, options: StoreOptions = FIXED) -> tuple[Store, Book]:
    store, book = new_store(disk, options), Book()
    for number in range(count):
        store.reserve(500)
        book.put(store, number)
        store.commit()
    return store, book


def segments(disk: SimulatedDisk) -> list[str]:
    return sorted(name for name in disk.names() if name.endswith(".log"))


def check(disk: SimulatedDisk, book: Book, options: StoreOptions = FIXED) -> None:
    """A crash leaves exactly what the book says."""
    disk.crash()
    store, found = Store.open(disk, options), Book()
    found.recover(store)
    assert found.addresses.keys() == book.addresses.keys()
    for number, address in found.addresses.items():
        assert store.read(address) == payload(number)


def test_a_dead_segment_goes_when_its_end_is_durable() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 20)
    oldest = segments(disk)[0]
    in_oldest = [
        number for number, address in book.addresses.items() if segment_name(address >> 32) == oldest
    ]
    for number in in_oldest:
        book.delete(store, number)
    batch = store.take()
    assert batch
    store.write(batch)
    assert oldest in disk.names()
    store.completed(batch)
    assert oldest not in disk.names()
    check(disk, book)


def test_releasing_first_and_saying_so_after_is_waited_for_too() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 20)
    oldest = segments(disk)[0]
    for number in [
        number for number, address in book.addresses.items() if segment_name(address >> 32) == oldest
    ]:
        store.release(book.addresses.pop(number))
        store.append(2, head(number), live=False)
    assert not store.free_segments(9)
    store.commit()
    assert oldest not in disk.names()


def test_segments_go_oldest_first() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 40)
    names = segments(disk)
    for number in list(book.addresses)[1:30]:
        book.delete(store, number)
    store.commit()
    assert names[0] in disk.names()
    assert names[1] in disk.names()  # all dead, but the oldest is not
    book.delete(store, 0)
    store.commit()
    while store.free_segments(1):
        pass
    assert not set(names[:3]) & set(disk.names())
    check(disk, book)


def test_passing_records_need_no_release() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk, 0)
    for number in range(300):
        store.append(2, head(number), live=False)
        store.commit()
    assert len(segments(disk)) <= 3


def test_live_records_are_copied_out_of_dead_segments() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 100)
    for number in range(100):
        if number % 10:
            book.delete(store, number)
            store.commit()
    before = len(segments(disk))
    steps = 0
    while store.clean_step(book, 600):
        store.commit()
        steps += 1
    assert steps > 5
    assert len(segments(disk)) < before / 2
    assert book.moves
    assert len(book.addresses) == 10
    for number, address in book.addresses.items():
        assert store.read(address) == payload(number)
    check(disk, book)


def test_mostly_live_segments_are_left_alone() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 100)
    for number in range(0, 100, 4):
        book.delete(store, number)
    store.commit()
    while store.clean_step(book):
        store.commit()
    assert book.moves == []


def test_a_step_does_about_what_it_may() -> None:
    store, book = filled(SimulatedDisk(), 100)
    for number in range(100):
        if number % 3:
            book.delete(store, number)
    store.commit()
    assert store.clean_step(book, 1)
    assert len(book.moves) <= 1
    assert store.pending <= 1


class Renaming(Book):
    """Gives every copy another head, and says something about it."""

    def current_head(self, kind: int, head: bytes, address: int) -> bytes:
        return head[:8] + b"moved".ljust(32, b"\0")

    def is_live(self, kind: int, head: bytes, address: int) -> bool:
        return super().is_live(kind, head[:8], address)

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None:
        super().relocated(kind, head[:8], old, new)
        self.store.append(3, head, live=False)

    def __init__(self, store: Store, addresses: dict[int, int]) -> None:
        super().__init__()
        self.store = store
        self.addresses = addresses


def test_a_copy_has_the_head_its_owner_gives_it() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 30)
    renaming = Renaming(store, book.addresses)
    store.compact(renaming)
    store.close()
    store, entries = open_store(disk)
    copies = [entry for entry in entries if entry[0] == PUT]
    assert len(copies) == 30
    assert all(entry[2][8:13] == b"moved" for entry in copies)
    assert len([entry for entry in entries if entry[0] == 3]) == 30


def test_a_damaged_record_is_given_up_and_said() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 30)
    number, offset = place(book.addresses[1])
    disk.flip(segment_name(number), offset + 80)
    store.compact(book)
    assert book.lost_numbers == [1]
    assert len(book.addresses) == 29
    check(disk, book)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_compacting_leaves_only_what_is_live(count: int) -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 200, SMALL)
    for number in range(count, 200):
        book.delete(store, number)
    store.compact(book)
    live = count * 552
    assert store.live_bytes == live
    store.close()
    log = sum(len(disk.durable_content(name)) for name in segments(disk))
    assert log <= live * 1.3 + 1000
    check(disk, book, SMALL)


def test_a_full_disk_stops_cleaning_and_nothing_else() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 100)
    for number in range(1, 90):
        book.delete(store, number)
        store.commit()
    disk.capacity = 0
    while store.clean_step(book):
        store.commit()
    with pytest.raises(StoreFullError):
        store.compact(book)
    store.commit()
    assert len(segments(disk)) > 5
    disk.capacity = None
    while store.clean_step(book):
        store.commit()
    assert len(segments(disk)) <= 5
    check(disk, book)


def test_a_drained_store_is_small_again(tmp_path: Path) -> None:
    """The real disk, the default options, and blocks as the file system counts them."""
    disk = RealDisk(tmp_path)
    store, book = new_store(disk, StoreOptions()), Book()
    body = bytes(1 << 14)
    for number in range(4000):
        store.reserve(len(body))
        book.addresses[number] = store.append(PUT, head(number), body)
        if number % 100 == 99:
            store.commit()
    peak = blocks(tmp_path)
    for number in range(4000):
        store.reserve(0, freeing=True)
        book.delete(store, number)
        if number % 100 == 99:
            store.commit()
            store.clean_step(book)
    store.commit()
    while store.clean_step(book) or store.clean_step(book):
        store.commit()
    assert peak > 4000 * len(body)
    disk.settle()
    assert blocks(tmp_path) < 0.05 * peak
    assert store.live_bytes == 0
    book.put(store, 1)
    store.close()
    assert blocks(tmp_path) < 1 << 16


def test_what_is_live_in_a_large_segment_does_not_keep_it_large() -> None:
    """A queue's own record was written again when the messages had gone; it is all that its segment holds."""
    disk = SimulatedDisk()
    store, book = filled(disk, 200, SMALL)
    for number in list(book.addresses):
        book.delete(store, number)
    store.commit()
    store.reserve(16000)  # a fresh segment, as large as the busy time wanted it
    book.put(store, 500)
    store.commit()
    assert store.disk_bytes > 16000
    while store.clean_step(book) or store.clean_step(book):
        store.commit()
    assert store.disk_bytes <= 4 * SMALL.smallest_segment_bytes
    check(disk, book)


def blocks(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir())


def test_a_busy_store_does_not_shrink() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 0, SMALL)
    for number in range(200):
        book.put(store, number)
        store.commit()
        book.delete(store, number)
        store.commit()
        store.clean_step(book)
    assert max(len(disk.durable_content(name)) for name in segments(disk)) >= 8192


def test_a_store_that_is_writing_does_not_shrink() -> None:
    """Not even when only an index is being written."""
    disk = SimulatedDisk()
    store, book = filled(disk, 20, SMALL)
    for number in list(book.addresses):
        book.delete(store, number)
    store.commit()
    store.reserve(16000)  # leaves the active segment, and then nobody appends
    batch = store.take()
    assert batch
    assert not batch.records
    for _ in range(3):
        store.clean_step(book)
    store.write(batch)
    store.completed(batch)
    assert store.idle
    while store.clean_step(book) or store.clean_step(book):
        pass
    assert store.disk_bytes <= 3 * 4096


def test_many_small_segments_are_joined() -> None:
    disk = SimulatedDisk()
    book = Book()
    for number in range(40):
        store, _ = open_store(disk, FIXED)
        book.addresses[number] = store.append(PUT, head(number), b"x")
        store.close()
    store, book = Store.open(disk, FIXED), Book()
    book.recover(store)
    while store.clean_step(book):
        store.commit()
    assert len(segments(disk)) < 20
    assert len(book.addresses) == 40


def test_a_segment_without_an_index_is_cleaned_too() -> None:
    disk = SimulatedDisk()
    store, book = filled(disk, 100)
    disk.crash()
    store, book = Store.open(disk, FIXED), Book()
    book.recover(store)
    name = segment_name(min(book.addresses.values()) >> 32)
    disk.flip(name, disk.open(name).size() - 1)
    for number in range(100):
        if number % 10:
            book.delete(store, number)
    store.commit()
    while store.clean_step(book):
        store.commit()
    assert name not in disk.names()
    check(disk, book)
