"""What the durable store costs, against the least that could do and against SQLite. ``python bench/store.py
[--quick]``

Durable append: 1, 16 and 256 closed-loop writers append a record of 1 KB each and wait until it is durable.
What arrives while a commit runs shares the next one; all engines run under the same harness, inline on the
event loop:

raw      the same bytes in one write to a preallocated file, then fdatasync; it could not even find them again
sqlite   WAL, synchronous=FULL, one transaction for each group
store    msmq.store

Rounds are interleaved and the best of each counts, so that a busy moment of the machine hits all alike. After
that a large log is recovered and compared with reading the same bytes, and drained and compared with its peak
on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from msmq.store import HEAD_SIZE, DamagedRecordError, RealDisk, Store

BODY = os.urandom(1024)
HEAD = bytes(HEAD_SIZE)
PUT, DELETE = 1, 2
WRITERS = {1: 1500, 16: 10_000, 256: 60_000}
ROUNDS = 3
GROUP = 256


class Engine(Protocol):
    def append(self) -> None: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Raw:
    """Records without heads, checksums or addresses."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "raw", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(self._fd, 0, max(WRITERS.values()) * len(BODY))
        self._offset = 0
        self._parts: list[bytes] = []

    def append(self) -> None:
        self._parts.append(BODY)

    def commit(self) -> None:
        self._offset += os.pwrite(self._fd, b"".join(self._parts), self._offset)
        os.fdatasync(self._fd)
        self._parts.clear()

    def close(self) -> None:
        os.close(self._fd)


class Sqlite:
    def __init__(self, directory: Path) -> None:
        self._database = sqlite3.connect(directory / "sqlite.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, head BLOB, body BLOB)")
        self._rows: list[tuple[bytes, bytes]] = []

    def append(self) -> None:
        self._rows.append((HEAD, BODY))

    def commit(self) -> None:
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO record (head, body) VALUES (?, ?)", self._rows)
        self._database.execute("COMMIT")
        self._rows.clear()

    def close(self) -> None:
        self._database.close()


class Ours:
    def __init__(self, directory: Path) -> None:
        self._store = opened(directory)

    def append(self) -> None:
        self._store.reserve(len(BODY))
        self._store.append(PUT, HEAD, BODY)

    def commit(self) -> None:
        self._store.commit()

    def close(self) -> None:
        self._store.close()


ENGINES: dict[str, Callable[[Path], Engine]] = {"raw": Raw, "sqlite": Sqlite, "store": Ours}


def opened(directory: Path) -> Store:
    store = Store.open(RealDisk(directory))
    for _ in store.recover():
        raise AssertionError("a new store is empty")
    return store


# --- durable append -----------------------------------------------------------------------------------------


class GroupCommit:
    """Gathers everyone who waits, and commits once for all of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()

    def append(self) -> asyncio.Future[None]:
        self._engine.append()
        if not self._waiting:
            self._loop.call_soon(self._commit)
        future = self._loop.create_future()
        self._waiting.append(future)
        return future

    def _commit(self) -> None:
        self._engine.commit()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_result(None)


async def write(engine: Engine, writers: int, messages: int) -> float:
    """Seconds for ``messages`` messages from ``writers`` writers."""
    group = GroupCommit(engine)

    async def writer() -> None:
        for _ in range(messages // writers):
            await group.append()

    start = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    return time.perf_counter() - start


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def bench_append(parent: Path, scale: int) -> None:
    for writers, full in WRITERS.items():
        messages = full // scale // writers * writers
        rates = dict.fromkeys(ENGINES, 0.0)
        for _ in range(ROUNDS):
            for name, make in ENGINES.items():
                with scratch(parent) as directory:
                    engine = make(directory)
                    rates[name] = max(rates[name], messages / asyncio.run(write(engine, writers, messages)))
                    engine.close()
        of_raw, of_sqlite = rates["store"] / rates["raw"], rates["store"] / rates["sqlite"]
        text = "   ".join(f"{name} {rate:8,.0f}/s" for name, rate in rates.items())
        print(f"append, {writers:3} writers   {text}   store/raw {of_raw:.2f}   store/sqlite {of_sqlite:.2f}")
    print(verdict("store/raw at 256 writers", of_raw, of_raw >= 0.5, ">= 0.5"))
    print(verdict("store/sqlite at 256 writers", of_sqlite, of_sqlite > 1, "> 1"))


# --- a large log --------------------------------------------------------------------------------------------


class Drained:
    """The owner of a log of which everything is dead or about to be read in order."""

    def is_live(self, kind: int, head: bytes, address: int) -> bool:
        return False

    def current_head(self, kind: int, head: bytes, address: int) -> bytes:
        return head

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None:
        raise AssertionError("nothing is live")

    def lost(self, kind: int, head: bytes, address: int, error: DamagedRecordError) -> None:
        raise AssertionError("nothing is live")


def fill(directory: Path, records: int) -> float:
    store = opened(directory)
    start = time.perf_counter()
    for number in range(records):
        store.reserve(len(BODY))
        store.append(PUT, number.to_bytes(HEAD_SIZE, "little"), BODY)
        if number % GROUP == GROUP - 1:
            store.commit()
    store.commit()
    seconds = time.perf_counter() - start
    # As if the process had been killed: nothing is sealed or tidied up.
    store._space.close()
    store._disk.unlock()
    return seconds


def read_everything(directory: Path) -> float:
    buffer = bytearray(1 << 20)
    start = time.perf_counter()
    for path in sorted(directory.glob("*.log")):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.perf_counter() - start


def recover(directory: Path, records: int) -> float:
    start = time.perf_counter()
    store = Store.open(RealDisk(directory))
    found = 0
    for _kind, _flags, _head, _address, _size in store.recover():
        found += 1
    seconds = time.perf_counter() - start
    assert found == records, f"{found} of {records} records came back"
    store.close()
    return seconds


def drain(directory: Path) -> tuple[int, int]:
    """Delete everything in order; gives the bytes on disk before and after."""
    store = Store.open(RealDisk(directory))
    entries = list(store.recover())
    peak = on_disk(directory)
    owner = Drained()
    for number, (_kind, _flags, head, address, size) in enumerate(entries):
        store.reserve(0, freeing=True)
        store.append(DELETE, head, live=False)
        store.release(address, size)
        if number % GROUP == GROUP - 1:
            store.commit()
    store.commit()
    while store.clean_step(owner) or store.clean_step(owner):
        store.commit()
    after = on_disk(directory)
    store.close()
    return peak, after


def on_disk(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir())


def bench_large(parent: Path, records: int) -> None:
    with scratch(parent) as directory:
        seconds = fill(directory, records)
        print(f"fill, {records:,} records   {records / seconds:,.0f}/s in groups of {GROUP}")
        reading, recovering = read_everything(directory), recover(directory, records)
        print(f"recovery after a kill   {recovering:.2f} s   reading the same bytes {reading:.2f} s")
        best = {"read": reading, "recover": recovering}
        for _ in range(2):
            best["read"] = min(best["read"], read_everything(directory))
            best["recover"] = min(best["recover"], recover(directory, records))
        print(f"recovery, best of 3   {best['recover']:.2f} s   reading the same bytes {best['read']:.2f} s")
        ratio = recovering / reading
        print(verdict("recovery after a kill / reading", ratio, ratio <= 3, "<= 3"))
        ratio = best["recover"] / best["read"]
        print(verdict("recovery / reading", ratio, ratio <= 3, "<= 3"))
        peak, after = drain(directory)
        share = after / peak
        print(f"drained   {peak / 1e6:,.1f} MB before   {after / 1e6:,.1f} MB after")
        print(verdict("disk after draining / peak", share, share < 0.05, "< 0.05"))


def verdict(what: str, ratio: float, ok: bool, goal: str) -> str:
    return f"  goal: {what} {ratio:.3f}   {goal}   {'ok' if ok else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmark of the durable store.")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument(
        "--directory", type=Path, default=Path("build"), help="where to write; not a RAM disk"
    )
    options = parser.parse_args()
    options.directory.mkdir(exist_ok=True)
    scale = 10 if options.quick else 1
    bench_append(options.directory, scale)
    bench_large(options.directory, 1_000_000 // scale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
