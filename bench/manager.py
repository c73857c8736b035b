"""The queue manager on a real disk: what durability, order, memory, recovery and draining cost.

Run: ``python bench/manager.py [--messages 1000000] [--directory DIR]`` (or ``make bench``). Everything is measured in
one run; what counts are the ratios to the baselines of the same run, because disks and neighbours change by the hour.

* **Durable enqueue** of 1 KB recoverable messages, 1, 16 and 256 closed-loop writers: each sends a message and sends
  the next one when it was told that it is durable; everybody who waits shares a commit. Against it the same harness
  with (a) the same bytes appended to a preallocated file and synced, and (b) one SQLite transaction per group (WAL,
  synchronous=FULL). All get the same packets, made before the clock starts, from the same writers.
* **Dequeue** of what was sent, in priority order, durable in groups.
* **Memory** per queued message, by tracemalloc and by resident size.
* **Recovery** of all messages by a fresh queue manager, against reading the same files; from the page cache, and
  from the disk.
* **Space** on disk after everything was received, against the most there was.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shutil
import sqlite3
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

from msmq.manager.core import Environment
from msmq.manager.initialization import Identity
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.model import UNLIMITED, EnqueueStatus, QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import Queue, ReadResult
from msmq.manager.queues.queues import QueueRequest
from msmq.store import RealDisk, Store
from msmq.wire.headers import USER_MP, BaseHeader, MessagePropertiesHeader, QueueReference, UserHeader
from msmq.wire.message import UserMessage

WRITERS = (1, 16, 256)
ROUNDS = 3
SECONDS = 1.0
GROUP = 256
BODY = bytes(range(256)) * 4
HOUSEKEEPING_S = 0.25


def packet(priority: int) -> UserMessage:
    """A recoverable message of 1 KB, as it comes from a network or an application."""
    user = UserHeader(
        source_queue_manager=bytes(16),
        queue_manager_address=bytes(16),
        sent_time=int(time.time()),
        message_id=1,
        flags=USER_MP | 1 << 5 | QueueReference.DIRECT << 10,
        destination_queue="OS:host\\private$\\q",
    )
    base = BaseHeader(flags=priority)
    return UserMessage.build(base=base, user=user, properties=MessagePropertiesHeader(), body=BODY)


PACKETS = [packet(priority) for priority in range(8)]


class Host:
    """A queue manager with one queue on a directory."""

    def __init__(self, directory: Path) -> None:
        self.store = Store.open(RealDisk(directory))
        self.manager = QueueManager(self.store, Environment(time.time, os.urandom), lambda: Identity("HOST"))
        self.manager.start()
        self.manager.core.record.queue_manager_quota_kb = UNLIMITED
        found = self.manager.core.by_path.get("host\\private$\\q")
        self.queue: Queue = found or self.manager.queues.create(QueueRequest(".\\private$\\q"))
        self.descriptor = self.manager.queues.open(
            f"DIRECT=OS:{self.queue.pathname}", QueueAccessType.RECEIVE
        )

    def send(self, packet: UserMessage) -> None:
        batch = Batch.of((StoredMessage(packet),), self.manager.core.record.identifier)
        statuses, _ = self.manager.sending.enqueue(self.queue, batch)
        assert statuses == [EnqueueStatus.OK]

    def receive(self, done: Callable[[ReadResult], None]) -> None:
        self.manager.reading.dequeue(self.descriptor, done, timeout_s=0)

    def close(self) -> None:
        self.manager.stop()
        self.store.close()


# --- durable enqueue ------------------------------------------------------------------------------------------------


class RawLog:
    """(a): the same bytes, appended and synced."""

    def __init__(self, directory: Path) -> None:
        self.file = os.open(directory / "raw", os.O_CREAT | os.O_RDWR)
        os.posix_fallocate(self.file, 0, 1 << 30)
        self.end = 0
        self.group: list[bytes] = []

    def send(self, packet: UserMessage) -> None:
        self.group.append(packet.data)

    def commit(self) -> None:
        data = b"".join(self.group)
        self.group.clear()
        if self.end + len(data) > 1 << 30:
            self.end = 0
        os.pwrite(self.file, data, self.end)
        os.fdatasync(self.file)
        self.end += len(data)

    def close(self) -> None:
        os.close(self.file)


class Database:
    """(b): plain SQLite, one transaction per group."""

    def __init__(self, directory: Path) -> None:
        self.connection = sqlite3.connect(directory / "messages.db", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, data BLOB)")
        self.group: list[tuple[bytes]] = []

    def send(self, packet: UserMessage) -> None:
        self.group.append((packet.data,))

    def commit(self) -> None:
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO messages (data) VALUES (?)", self.group)
        self.connection.execute("COMMIT")
        self.group.clear()

    def close(self) -> None:
        self.connection.close()


def closed_loop(send: Callable[[UserMessage], None], commit: Callable[[], None], writers: int) -> float:
    """Messages per second that writers send who wait for each one to be durable."""

    async def measure() -> float:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[None]] = []
        sent = 0
        until = time.perf_counter() + SECONDS

        async def write(number: int) -> None:
            nonlocal sent
            while time.perf_counter() < until:
                send(PACKETS[number % 8])
                if not waiting:
                    loop.call_soon(sync)
                waiting.append(told := loop.create_future())
                await told
                sent += 1

        def sync() -> None:
            group = waiting[:]
            waiting.clear()
            commit()
            for told in group:
                told.set_result(None)

        began = time.perf_counter()
        await asyncio.gather(*(write(number) for number in range(writers)))
        return sent / (time.perf_counter() - began)

    return asyncio.run(measure())


def bench_enqueue(directory: Path) -> None:
    for writers in WRITERS:
        best = {"manager": 0.0, "raw": 0.0, "sqlite": 0.0}
        for number in range(ROUNDS):
            place = directory / f"enqueue-{writers}-{number}"
            place.mkdir()
            host, raw, database = Host(place), RawLog(place), Database(place)
            for name, send, commit in (
                ("manager", host.send, host.store.commit),
                ("raw", raw.send, raw.commit),
                ("sqlite", database.send, database.commit),
            ):
                best[name] = max(best[name], closed_loop(send, commit, writers))
            for engine in (host, raw, database):
                engine.close()
            shutil.rmtree(place)
        print(
            f"durable enqueue, {writers:3} writers   {best['manager']:8,.0f}/s   "
            f"raw log {best['raw']:8,.0f}/s ratio {best['manager'] / best['raw']:.2f}   "
            f"SQLite {best['sqlite']:8,.0f}/s ratio {best['manager'] / best['sqlite']:.2f}"
        )
    of_raw, of_sqlite = best["manager"] / best["raw"], best["manager"] / best["sqlite"]
    print(verdict("manager / raw log at 256 writers", of_raw, of_raw >= 0.5, ">= 0.5"))
    print(verdict("manager / SQLite at 256 writers", of_sqlite, of_sqlite > 1, "> 1"))


# --- memory, recovery, dequeue, space -------------------------------------------------------------------------------


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def fill(host: Host, messages: int) -> None:
    random = Random(1)
    for number in range(messages):
        host.send(PACKETS[random.randrange(8)])
        if number % 256 == 255:
            host.store.commit()
    host.store.commit()


def bench_memory(directory: Path, messages: int, *, traced: bool) -> None:
    """Tracing counts exactly and is slow; the resident size is what an operator sees."""
    directory.mkdir()
    host = Host(directory)
    fill(host, 1000)
    gc.collect()
    if traced:
        tracemalloc.start()
    before = resident_bytes()
    fill(host, messages)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] if traced else resident_bytes() - before
    if traced:
        tracemalloc.stop()
    how = "tracemalloc" if traced else "resident"
    print(f"memory, {messages:9,} queued      {grown / messages:6.1f} bytes a message ({how})")
    host.close()
    if traced:
        shutil.rmtree(directory)


def read_everything(directory: Path) -> float:
    began = time.perf_counter()
    for path in directory.glob("*.log"):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    return time.perf_counter() - began


def timed_start(directory: Path) -> tuple[float, Host]:
    began = time.perf_counter()
    host = Host(directory)
    return time.perf_counter() - began, host


def forget(directory: Path) -> None:
    """Have the files read from the disk the next time, as after a power failure."""
    for path in directory.glob("*.log"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bench_recovery(directory: Path, messages: int) -> None:
    size = sum(path.stat().st_size for path in directory.glob("*.log"))
    for state in ("warm", "cold"):
        reading = starting = float("inf")
        for _ in range(ROUNDS):
            if state == "cold":
                forget(directory)
            reading = min(reading, read_everything(directory))
            if state == "cold":
                forget(directory)
            elapsed, host = timed_start(directory)
            starting = min(starting, elapsed)
            assert len(host.queue.positions) >= messages
            host.close()
            del host
            gc.collect()
        print(
            f"recovery, {messages:9,} messages  {starting:6.2f} s   "
            f"reading the {size / 1e6:,.0f} MB {reading:.2f} s   ratio {starting / reading:.2f} ({state} cache)"
        )
        print(verdict(f"recovery / reading, {state}", starting / reading, starting <= 3 * reading, "<= 3"))


class Housekeeping:
    """What the daemon does four times a second when nothing is being written."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._due = time.perf_counter() + HOUSEKEEPING_S

    def keep(self) -> None:
        if time.perf_counter() >= self._due:
            self.at_once()

    def at_once(self) -> bool:
        self._due = time.perf_counter() + HOUSEKEEPING_S
        more = self._host.store.clean_step(self._host.manager.cleaning)
        self._host.store.commit()
        return more


def bench_drain(directory: Path) -> None:
    host = Host(directory)
    house = Housekeeping(host)
    peak = host.store.disk_bytes
    received: list[ReadResult] = []
    count = last = 0
    began = time.perf_counter()
    while len(host.queue.positions):
        for _ in range(GROUP):
            host.receive(received.append)
        host.store.commit()
        for result in received:
            if result.position is not None:
                assert result.position.lookup_id > last, "not in priority order"
                last = result.position.lookup_id
                count += 1
        received.clear()
        house.keep()
    elapsed = time.perf_counter() - began
    print(f"dequeue in priority order     {count / elapsed:8,.0f}/s, durable in groups of {GROUP}")
    steps = idle = 0
    while idle < 3:  # the store shrinks when it sees that nothing happens
        idle = 0 if house.at_once() else idle + 1
        steps += 1
    left = on_disk(directory)
    share = left / peak
    print(
        f"space after draining          {left / 1e6:8.1f} MB of {peak / 1e6:,.0f} MB ({share:.2%}) "
        f"after {steps} more steps of housekeeping"
    )
    print(verdict("space after draining / peak", share, share < 0.05, "< 0.05"))
    host.close()


def on_disk(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir())


def verdict(what: str, ratio: float, ok: bool, goal: str) -> str:
    return f"  goal: {what} {ratio:.3f}   {goal}   {'ok' if ok else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many are queued and recovered")
    parser.add_argument(
        "--directory", type=Path, help="where the stores are made; a temporary place if not given"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        bench_enqueue(directory)
        bench_memory(directory / "traced", options.messages // 10, traced=True)
        bench_memory(directory / "large", options.messages, traced=False)
        bench_recovery(directory / "large", options.messages)
        bench_drain(directory / "large")
    return 0


if __name__ == "__main__":
    sys.exit(main())
