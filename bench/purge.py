"""Purging and deleting queues of very many messages while somebody else sends, and a kill -9 half way.

Run: ``python bench/purge.py [--messages 10000000] [--work purge,delete] [--directory DIRECTORY]``. A queue manager in a
process of its own gets that many messages of 200 bytes in each of two queues, the first filled and purged before the
second is filled and deleted. Meanwhile another client sends to a third queue, one message after the other, each timed
until it is durable. Half way through the work the queue manager is killed and started again; the deletion must go on by
itself, the purge is asked for again. Every message of the third queue that was confirmed must be there in the end, and
nothing of the other two; if not, the program ends with status 1.

It reports the rate of filling, the time of the work, the other client's median and slowest send while no queue manager
was down, the growth of the queue manager's memory, and how long it took to be ready again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import msmq

BODY_BYTES = 200
PART = 20_000
UNLIMITED_KB = 0xFFFFFFFF
"""The usual quota of a computer has no room for ten million messages."""
WORKS = ("purge", "delete")
FULL, OTHER = ".\\private$\\full", ".\\private$\\other"


class Host:
    """The queue manager."""

    def __init__(self, directory: Path) -> None:
        self.api = f"unix:{directory / 'api'}"
        self._command = [sys.executable, "-m", "msmq", "serve", "--data", str(directory / "data")]
        self._command += ["--api", self.api, "--listen", "127.0.0.2", "--port", "0", "--ping-port", "0"]
        self._command += ["--rpc-port", "0"]

    def start(self) -> float:
        began = time.monotonic()
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"ready"), "the queue manager did not start"
        return time.monotonic() - began

    def end(self, number: int) -> None:
        self._process.send_signal(number)
        self._process.wait()

    @property
    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def most_mb(self) -> float:
        """The most memory that was resident since the start."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


class Other:
    """An application that sends all the time."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.confirmed: list[bytes] = []
        self.took_s: list[float] = []
        self.most_mb = 0.0

    async def run(self) -> None:
        async with msmq.connect(self._host.api) as mq:
            queue = mq.queue(OTHER)
            while True:
                body, began = b"%d" % len(self.took_s), time.monotonic()
                await queue.send(body)
                self.took_s.append(time.monotonic() - began)
                self.confirmed.append(body)
                with suppress(FileNotFoundError):
                    self.most_mb = max(self.most_mb, self._host.resident_mb)
                await asyncio.sleep(0.002)


async def fill(mq: msmq.Connection, count: int) -> float:
    queue, began = mq.queue(FULL), time.monotonic()
    body = bytes(BODY_BYTES)
    for start in range(0, count, PART):
        await queue.send_many(body for _ in range(min(PART, count - start)))
    return count / (time.monotonic() - began)


async def work(host: Host, what: str, count: int) -> bool:
    """One of the two queues: fill it, and have it purged or deleted; tells whether all is right."""
    async with msmq.connect(host.api) as mq:
        await mq.create_queue(FULL)
        rate = await fill(mq, count)
    before_mb = host.resident_mb
    others: list[Other] = []
    spent_s = ready_s = 0.0
    for half in (0, 1):
        other = Other(host)
        others.append(other)
        sending = asyncio.create_task(other.run())
        await asyncio.sleep(0.5)
        began = time.monotonic()
        async with msmq.connect(host.api) as mq:
            if half == 0:
                asked = asyncio.create_task(
                    mq.queue(FULL).purge() if what == "purge" else mq.delete_queue(FULL)
                )
                await half_done(mq, asked)
                sending.cancel()
                host.end(signal.SIGKILL)
                await asyncio.gather(asked, sending, return_exceptions=True)
            else:
                if what == "purge":
                    await mq.queue(FULL).purge()
                await done(mq)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        spent_s += time.monotonic() - began
        if half == 0:
            ready_s = host.start()
    took_s = [each for other in others for each in other.took_s]
    grown_mb = others[0].most_mb - before_mb
    print(
        f"{what:6}  filled {rate:9,.0f}/s  done in {spent_s:6.1f} s  ready again {ready_s:5.1f} s  other's sends "
        f"{len(took_s):,}: median {1000 * statistics.median(took_s):.1f} ms, slowest {1000 * max(took_s):.0f} ms  "
        f"memory +{grown_mb:.0f} MB, then {others[1].most_mb:.0f} MB",
        flush=True,
    )
    confirmed = [body for other in others for body in other.confirmed]
    async with msmq.connect(host.api) as mq:
        found = [message.body async for message in mq.queue(OTHER).browse()]
        await mq.queue(OTHER).purge()
        left = 0 if what == "delete" else (await mq.queue_info(FULL)).messages
        if what == "purge":
            await mq.delete_queue(FULL)
    missing = (Counter(confirmed) - Counter(found)).total()
    if missing or left:
        print(f"{what}: {missing} confirmed messages are missing, {left} of the queue's are left")
    return not missing and not left


async def half_done(mq: msmq.Connection, asked: asyncio.Future[object]) -> None:
    """Wait until about half of the messages have gone, as the host's own figures say."""
    before = (await mq.manager()).bytes
    while not asked.done() and (await mq.manager()).bytes > before // 2:
        await asyncio.sleep(0.05)


async def done(mq: msmq.Connection) -> None:
    """Wait until nothing of the work is left."""
    while (await mq.manager()).bytes > 10_000_000:
        await asyncio.sleep(0.05)


async def main(messages: int, works: list[str], directory: Path) -> bool:
    host = Host(directory)
    host.start()
    try:
        async with msmq.connect(host.api) as mq:
            await mq.create_queue(OTHER)
            await mq.set_manager(quota_kb=UNLIMITED_KB)
        print(
            f"{os.cpu_count()} cores, {messages:,} messages, load average {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        return all([await work(host, what, messages) for what in works])
    finally:
        host.end(signal.SIGTERM)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--work", default=",".join(WORKS), metavar="NAME,...", help="what is measured")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory otherwise")
    options = parser.parse_args()
    works = options.work.split(",")
    if not set(works) <= set(WORKS):
        parser.error(f"--work is one or both of {', '.join(WORKS)}")
    with tempfile.TemporaryDirectory(prefix="bench-purge-", dir=options.directory) as made:
        sys.exit(0 if asyncio.run(main(options.messages, works, Path(made))) else 1)
