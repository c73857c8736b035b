"""A store on a simulated disk, small enough that a few records fill a segment."""

from __future__ import annotations

from collections.abc import Callable

from msmq.store import HEAD_SIZE, DamagedRecordError, Disk, Entry, Store, StoreOptions
from msmq.testing import SimulatedDisk

SMALL = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=16384)
STORE_ID = bytes(range(16))
PUT, DELETE = 1, 2


def head(number: int) -> bytes:
    return number.to_bytes(HEAD_SIZE, "little")


def payload(number: int, size: int = 500) -> bytes:
    """Bytes without zeros, so that a sector of them is never taken for one that was not written."""
    return bytes((number * 7 + index) % 255 + 1 for index in range(size))


def open_store(disk: Disk, options: StoreOptions = SMALL) -> tuple[Store, list[Entry]]:
    store = Store.open(disk, options, new_id=STORE_ID)
    return store, list(store.recover())


def new_store(disk: Disk | None = None, options: StoreOptions = SMALL) -> Store:
    store, entries = open_store(disk or SimulatedDisk(), options)
    assert entries == []
    return store


def put(store: Store, number: int, size: int = 500) -> int:
    return store.append(PUT, head(number), payload(number, size))


def committed(store: Store) -> int:
    """Commit, and give how many bytes that wrote."""
    batch = store.take()
    if batch is None:
        return 0
    store.write(batch)
    store.completed(batch)
    return batch.size


def numbers(entries: list[Entry]) -> list[int]:
    return [int.from_bytes(head, "little") for _, _, head, _, _ in entries]


def refuses(error: type[Exception], call: Callable[[], object]) -> str:
    try:
        call()
    except error as caught:
        return str(caught)
    raise AssertionError(f"no {error.__name__}")


class Book:
    """An owner that keeps the address of each number."""

    def __init__(self) -> None:
        self.addresses: dict[int, int] = {}
        self.moves: list[tuple[int, int]] = []
        self.lost_numbers: list[int] = []

    def is_live(self, kind: int, head: bytes, address: int) -> bool:
        return kind == PUT and self.addresses.get(int.from_bytes(head, "little")) == address

    def current_head(self, kind: int, head: bytes, address: int) -> bytes:
        return head

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None:
        self.moves.append((old, new))
        self.addresses[int.from_bytes(head, "little")] = new

    def lost(self, kind: int, head: bytes, address: int, error: DamagedRecordError) -> None:
        number = int.from_bytes(head, "little")
        self.lost_numbers.append(number)
        del self.addresses[number]

    def put(self, store: Store, number: int, size: int = 500) -> None:
        self.addresses[number] = put(store, number, size)

    def delete(self, store: Store, number: int) -> None:
        store.append(DELETE, head(number), live=False)
        store.release(self.addresses.pop(number))

    def recover(self, store: Store) -> None:
        for kind, _, head, address, size in store.recover():
            number = int.from_bytes(head, "little")
            if number in self.addresses:
                store.release(self.addresses.pop(number))
            if kind == PUT:
                self.addresses[number] = address
                assert len(store.read(address)) == size
