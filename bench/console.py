"""What an open console costs: messages a second that go in and out of a queue without it and with it, beside the daemon
and on the daemon's own loop. With and without take turns, and so does which of them is first, so that both see the same
machine; what counts is the median of the ratios of neighbours. A round takes a few seconds: shorter ones differ by a
tenth with nothing changed at all.

An open console is a page with live figures, the overview every two seconds, a scrape of all metrics every second and a
page of messages every second. Whoever looks is a process of their own, as a browser is: what they do with the answers
is no work of the queue manager's. Beside the messages a second stands the processor time that the queue manager's
process took for them, which depends less on what else the machine does.

Then a queue of ``--queued`` messages (a million) is looked at: how long the first page takes, one in the middle, and
finding the messages with a label that one in ten thousand has. The goals are 0.3 s for a page and 2 s for the filter.
The very first request comes to a console at which nobody has looked yet, and is told beside them; its goal is that of a
page.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

import msmq

QUEUE = ".\\private$\\bench"
ROUNDS, MESSAGES, BATCH = 8, 360_000, 500
RARE = 10_000
"""One in so many messages has a label that is looked for."""
INSIDE = """
import asyncio, sys
from pathlib import Path
from msmq.server.config import from_table
from msmq.server.daemon import Daemon, tune_process
from msmq.web.plan import Plan, bound
from msmq.web.process import Console

async def main(data, address, port):
    tune_process()
    daemon = Daemon(from_table({"data": data, "name": "HOST", "listen": ["127.0.0.1"], "port": 0, "ping_port": 0,
                                "api": {"enabled": True, "listen": [address]}}))
    await daemon.start()
    console = Console(Plan(daemon.config.web, {"HOST": address}))
    await console.open([bound("127.0.0.1", int(port))])
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def _traffic(mq: msmq.Connection) -> float:
    """Messages a second, each sent and received."""
    queue = mq.queue(QUEUE)
    started = time.perf_counter()

    async def send() -> None:
        for _ in range(0, MESSAGES, BATCH):
            await queue.send_many([b"x" * 500] * BATCH)

    async def receive() -> None:
        async with queue.receiver() as receiver:
            for _ in range(MESSAGES):
                (await receiver.receive(timeout=120)).acknowledge()

    await asyncio.gather(send(), receive())
    return MESSAGES / (time.perf_counter() - started)


class Figures(NamedTuple):
    """Of one round."""

    rate: float
    processor_s: float


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _round(mq: msmq.Connection, pid: int) -> Figures:
    before = _processor_s(pid)
    rate = await _traffic(mq)
    return Figures(rate, _processor_s(pid) - before)


@contextmanager
def _somebody(url: str, token: str) -> Iterator[None]:
    """Somebody looks, in a process of their own; begins when they have seen everything once."""
    command = [sys.executable, __file__, url, token]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"seen\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _looking(url: str, token: str) -> None:
    """Somebody has the console open, and Prometheus scrapes."""

    async def again(path: str, pause_s: float) -> None:
        while True:
            (await client.get(path)).raise_for_status()
            await asyncio.sleep(pause_s)

    async def events() -> None:
        async with client.stream("GET", "/api/events") as answer:
            async for _ in answer.aiter_lines():
                continue

    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
        page = "/api/queues/.%5Cprivate$%5Cbench/messages?limit=100"
        for path in ("/api/overview", "/metrics?per_queue=true", page):
            (await client.get(path)).raise_for_status()
        print("seen", flush=True)
        await asyncio.gather(
            events(), again("/api/overview", 2), again("/metrics?per_queue=true", 1), again(page, 1)
        )


async def _measure(command: list[str], address: str, url: str) -> tuple[list[Figures], list[Figures]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"ready" in process.stdout.readline()
    try:
        async with msmq.connect(address) as mq:
            await mq.create_queue(QUEUE, if_missing=True)
            _, token = await mq.create_token("bench", "S-1-5-32-544")
            without, with_it = [], []
            await _traffic(mq)

            async def unseen() -> None:
                without.append(await _round(mq, process.pid))

            async def seen() -> None:
                with _somebody(url, token):
                    with_it.append(await _round(mq, process.pid))

            for number in range(ROUNDS):
                for measure in (seen, unseen) if number % 2 else (unseen, seen):
                    await measure()
            return without, with_it
    finally:
        process.kill()
        process.wait()


def _beside(directory: str, name: str, port: int) -> tuple[list[str], str]:
    """A queue manager with its console in a process beside it, and where applications connect."""
    data, address = str(Path(directory, f"{name}-data")), f"unix:{directory}/{name}"
    command = [sys.executable, "-m", "msmq", "serve", "--data", data, "--name", "HOST"]
    command += ["--listen", "127.0.0.1", "--port", "0", "--rpc-port", "0", "--ping-port", "0"]
    return [*command, "--api", address, "--web", f"127.0.0.1:{port}"], address


def _median(rounds: list[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*rounds, strict=True)))


async def _look_into(command: list[str], address: str, url: str, queued: int) -> None:
    """How long somebody waits who looks into a long queue."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"ready" in process.stdout.readline()
    try:
        async with msmq.connect(address) as mq:
            queue = await mq.create_queue(QUEUE, if_missing=True)
            _, token = await mq.create_token("bench", "S-1-5-32-544")
            receipts = await queue.send_many(
                msmq.Message(bytes(200), label="rare" if number % RARE == RARE // 2 else f"order {number}")
                for number in range(queued)
            )
        middle = receipts[queued // 2].lookup_id
        page = "/api/queues/.%5Cprivate$%5Cbench/messages?limit=100"
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            began = time.perf_counter()
            (await client.get(page)).raise_for_status()
            print(
                f"the very first request, for the first page: {time.perf_counter() - began:.3f} s (goal 0.3 s)"
            )
            for name, path, goal_s in (
                ("the first page", page, 0.3),
                ("a page in the middle", f"{page}&after={middle}", 0.3),
                ("the messages with a label", f"{page}&label=rare", 2.0),
            ):
                times = []
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    answer = (await client.get(path)).raise_for_status().json()
                    times.append(time.perf_counter() - began)
                rows = len(answer["items"])
                print(
                    f"{queued:,} messages, {name} ({rows} rows): median {statistics.median(times):.3f} s, worst "
                    f"{max(times):.3f} s (goal {goal_s} s: {'reached' if max(times) <= goal_s else 'MISSED'})"
                )
    finally:
        process.kill()
        process.wait()


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1].startswith("http"):
        asyncio.run(_looking(sys.argv[1], sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queued", type=int, default=1_000_000)
    parser.add_argument(
        "--only", default="many,beside,inside", help="what is measured, of these (%(default)s)"
    )
    options = parser.parse_args()
    chosen = options.only.split(",")
    if "many" in chosen:
        with tempfile.TemporaryDirectory() as directory:
            command, address = _beside(directory, "many", 18_923)
            asyncio.run(_look_into(command, address, "http://127.0.0.1:18923", options.queued))
    with tempfile.TemporaryDirectory() as directory:
        for name, port in (("beside", 18_921), ("inside", 18_922)):
            if name not in chosen:
                continue
            command, address = _beside(directory, name, port)
            if name == "inside":
                command = [
                    sys.executable,
                    "-c",
                    INSIDE,
                    str(Path(directory, f"{name}-data")),
                    address,
                    str(port),
                ]
            rounds = asyncio.run(_measure(command, address, f"http://127.0.0.1:{port}"))
            without, with_it = map(_median, rounds)
            pairs = list(zip(*rounds, strict=True))
            rates = [after.rate / before.rate for before, after in pairs]
            times = [before.processor_s / after.processor_s for before, after in pairs]
            print(
                f"{name}: {without.rate:,.0f} messages/s without, {with_it.rate:,.0f} with the console: median of the "
                f"ratios {statistics.median(rates):.3f} ({min(rates):.3f} to {max(rates):.3f}); processor time of the "
                f"queue manager {without.processor_s:.2f} s and {with_it.processor_s:.2f} s: "
                f"{statistics.median(times):.3f}"
            )


if __name__ == "__main__":
    main()
