"""What is done where an operating system lacks a call, tried on one that has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from msmq.store import Store, system
from msmq.store.disk import RealDisk
from msmq.store.errors import StoreLockedError
from msmq.store.layout import HEAD_SIZE


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | system.OPEN_FLAGS)
    yield fd
    os.close(fd)


def test_seeking_threads_do_not_disturb_each_other(file: int) -> None:
    size, count = 512, 400
    pieces = [bytes((number % 251,)) * size for number in range(count)]

    def put_and_look(number: int) -> bytes:
        assert system.write_seeking(file, pieces[number], number * size) == size
        return system.read_seeking(file, size, number * size)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(put_and_look, range(count))) == pieces


@pytest.mark.parametrize("size", [1, 4096, (1 << 20) + 7])
def test_space_is_filled_with_zeros(file: int, size: int) -> None:
    os.write(file, b"kept")
    system.fill(file, 4 + size)
    assert os.pread(file, 4 + size + 1, 0) == b"kept" + bytes(size)
    system.fill(file, 3)
    assert os.fstat(file).st_size == 4 + size, "a file does not become shorter"


def test_a_store_needs_no_more_than_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "read_at", system.read_seeking)
    monkeypatch.setattr(system, "write_at", system.write_seeking)
    monkeypatch.setattr(system, "write_pieces_at", system.write_joined)
    monkeypatch.setattr(system, "allocate", system.fill)
    monkeypatch.setattr(system, "sync_data", os.fsync)
    monkeypatch.setattr(system, "sync_directory", lambda path: None)
    store = Store.open(RealDisk(tmp_path / "store"))
    assert list(store.recover()) == []
    payloads = [os.urandom(100_000) for _ in range(30)]  # more than one segment
    for payload in payloads:
        store.append(1, bytes(HEAD_SIZE), payload)
        store.commit()
    with pytest.raises(StoreLockedError):
        Store.open(RealDisk(tmp_path / "store"))
    store.close()
    again = Store.open(RealDisk(tmp_path / "store"))
    assert [again.read(address) for _, _, _, address, _ in again.recover()] == payloads
    again.close()
