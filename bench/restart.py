"""A long queue and kill -9: how soon the queue manager is ready again, and what it takes in memory.

Run: ``python bench/restart.py [--messages 1000000] [--kinds plain,mixed,transactional] [--directory DIRECTORY]`` (or
``make bench``). The queue manager is a ``msmq serve`` process on a fresh directory, and messages have 200 bytes:

* **plain** messages ask for nothing;
* **mixed** ones have all priorities and times to be received, and a fifth of them dead-letter queues of their own;
* **transactional** ones are sent in transactions of 10,000.

Filled, it is killed, and started twice: after the kill, and after an orderly stop. It reports the rate of filling; the
seconds until it is ready, which include the start of Python; and the resident memory, filled, after each start, and
the most until then. Every message must be there in the end; if not, the program ends with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from purge import FULL, UNLIMITED_KB, Host

import msmq

KINDS = ("plain", "mixed", "transactional")
BODY = bytes(200)
PART = 10_000


def messages(kind: str, rng: Random, count: int) -> Iterator[msmq.Message]:
    for _ in range(count):
        message = msmq.Message(BODY)
        if kind == "mixed":
            message.priority = rng.randrange(8)
            message.time_to_be_received = rng.randrange(3_600, 86_400)
            if rng.random() < 0.2:
                message.dead_letter_queue = FULL
        yield message


async def fill(host: Host, kind: str, count: int) -> float:
    """Send messages; gives how many a second."""
    async with msmq.connect(host.api) as mq:
        await mq.set_manager(quota_kb=UNLIMITED_KB)
        queue, rng = await mq.create_queue(FULL, transactional=kind == "transactional"), Random(1)
        began = time.monotonic()
        for start in range(0, count, PART):
            part = messages(kind, rng, min(PART, count - start))
            if kind == "transactional":
                async with mq.transaction() as transaction:
                    await queue.send_many(part, transaction=transaction)
            else:
                await queue.send_many(part)
        return count / (time.monotonic() - began)


async def measure(kind: str, count: int, directory: Path) -> bool:
    """Fill, kill and start; tells whether every message is there."""
    host = Host(directory)
    host.start()
    try:
        rate = await fill(host, kind, count)
        told = f"{kind:14} filled {rate:9,.0f}/s, {host.resident_mb:5.0f} MB"
        for how, number in (("kill -9", signal.SIGKILL), ("a stop", signal.SIGTERM)):
            host.end(number)
            ready_s = host.start()
            told += f"  after {how} ready {ready_s:5.1f} s, {host.resident_mb:5.0f} MB, most {host.most_mb:5.0f} MB"
        print(told, flush=True)
        async with msmq.connect(host.api) as mq:
            left = (await mq.queue_info(FULL)).messages
    finally:
        host.end(signal.SIGTERM)
    if left != count:
        print(f"{kind}: {left:,} of {count:,} messages are there")
    return left == count


def main(kinds: list[str], count: int, directory: Path) -> bool:
    print(f"{os.cpu_count()} cores, {count:,} messages, load average {os.getloadavg()[0]:.1f}", flush=True)
    right = True
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix=kind, dir=directory) as made:
            right &= asyncio.run(measure(kind, count, Path(made)))
    return right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="NAME,...")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory otherwise")
    options = parser.parse_args()
    chosen = options.kinds.split(",")
    if not set(chosen) <= set(KINDS):
        parser.error(f"--kinds is one or more of {', '.join(KINDS)}")
    sys.exit(0 if main(chosen, options.messages, options.directory) else 1)
