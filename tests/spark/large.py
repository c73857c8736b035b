"""Archives and tables of much, with the settings that everybody has: ``make spark-large``.

* 150 messages of 4 MB, and a million of 1 KB, consumed into an archive.
* A capture of a gigabyte, and the store of a queue manager with a million messages, decoded into tables.

Everything is compared to the row, and the most memory is told that each kind of process has had. It takes minutes,
which is why it is no test.
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as dataset

from msmq.client.message import Delivery
from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import serialize
from tests.spark.support import ORDERS, Server

_TCP = struct.Struct("!HHIIBBHHH")
_IP = struct.Struct("!BBHHHBBH4s4s")


def body(number: int, size: int) -> bytes:
    """A body that no other message has, and that is not easily made smaller."""
    piece = hashlib.sha512(str(number).encode()).digest()
    return (number.to_bytes(8, "little") + piece * (size // len(piece) + 1))[:size]


# --- memory -----------------------------------------------------------------------------------------------------------


def _kind(process: int) -> str | None:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if b"java" in command[0]:
        return "virtual machine"
    return "workers of Python" if any(b"pyspark" in word for word in command) else "command"


def _below(process: int) -> Iterator[int]:
    yield process
    with suppress(OSError):
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in children.read_text(encoding="ascii").split():
                yield from _below(int(child))


def _peak(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1])
    return 0


def pipeline(*arguments: str, beside: int | None = None) -> str:
    """Give a command; tells how long it took, and the most memory that one process of each kind has had."""
    begun, most = time.monotonic(), dict[str, int]()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        run = subprocess.Popen(
            [sys.executable, "-m", "msmq", "pipeline", *arguments], stdout=output, stderr=errors
        )
        while run.poll() is None:
            for process in _below(run.pid):
                kind = _kind(process)
                if kind is not None:
                    most[kind] = max(most.get(kind, 0), _peak(process))
            time.sleep(0.2)
        output.seek(0)
        errors.seek(0)
        said = output.read().strip()
        assert run.returncode == 0, errors.read()
    if beside is not None:
        most["queue manager"] = _peak(beside)
    told = ", ".join(f"{kind} {size // 1024:,} MB" for kind, size in most.items())
    print(f"  {said}\n  {time.monotonic() - begun:.0f} s; most memory: {told}", flush=True)
    return said


# --- what is done -----------------------------------------------------------------------------------------------------


def send(server: Server, count: int, size: int) -> None:
    server.create(ORDERS)
    with server.connect() as mq:
        mq.set_manager(quota_kb=4 << 20)  # a million messages are more than a host keeps by default
        queue = mq.queue(ORDERS)
        queue.send_many((body(number, size) for number in range(count)), delivery=Delivery.RECOVERABLE)


def is_whole(folder: Path, count: int, size: int, column: str = "body") -> None:
    """Every message is there once, with its body to the last byte."""
    numbers = set[int]()
    for batch in dataset.dataset(folder, format="parquet").to_batches(columns=[column], batch_size=1_024):
        if not batch.num_rows:
            continue
        assert pc.all(pc.equal(pc.binary_length(batch[column]), size)).as_py()
        for found in batch[column].to_pylist():
            number = int.from_bytes(found[:8], "little")
            assert found == body(number, size)
            assert number not in numbers, f"{number} is there twice"
            numbers.add(number)
    assert numbers == set(range(count))


def archive(folder: Path, count: int, size: int) -> None:
    print(f"archive of {count:,} messages of {size:,} bytes:", flush=True)
    server = Server(folder)
    server.start()
    try:
        send(server, count, size)
        place = str(folder / "archive")
        pipeline(
            "archive", place, "--queue", ORDERS, "--consume", "--server", server.address, beside=server.pid
        )
        assert server.queues()["HOST\\private$\\orders"] == 0, "left behind"
        is_whole(folder / "archive" / "messages", count, size)
    finally:
        server.kill()


def store(folder: Path, count: int, size: int) -> None:
    print(f"decode of a store with {count:,} messages of {size:,} bytes:", flush=True)
    server = Server(folder)
    server.start()
    try:
        send(server, count, size)
    finally:
        server.kill()
    pipeline("decode", "--to", str(folder / "found"), str(folder / "data"))
    is_whole(folder / "found" / "messages", count, size)


def capture(folder: Path, length: int, size: int) -> None:
    """A hundred connections that take turns."""
    file, connections, count = folder / "large.pcap", 100, 0
    sequences = [0] * connections
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        while out.tell() < length:
            connection = count % connections
            data = serialize(
                Message(
                    body=body(count, size), destination_queue_format_name="DIRECT=OS:server\\private$\\orders"
                )
            ).data
            head = _IP.pack(
                0x45,
                0,
                _IP.size + _TCP.size + len(data),
                0,
                0,
                64,
                6,
                0,
                bytes((10, 0, 0, 2)),
                bytes((10, 0, 0, 1)),
            )
            sequence = sequences[connection]
            sequences[connection] += len(data)
            ports = _TCP.pack(20_000 + connection, 1801, sequence, 0, 0x50, 0x10, 0xFFFF, 0, 0)
            frame = bytes(12) + b"\x08\0" + head + ports + data
            out.write(struct.pack("<IIII", 1_700_000_000 + count // 1_000, 0, len(frame), len(frame)) + frame)
            count += 1
    print(f"decode of a capture of {file.stat().st_size:,} bytes with {count:,} messages:", flush=True)
    pipeline("decode", "--to", str(folder / "found"), str(file))
    is_whole(folder / "found" / "packets", count, size)


WORKS: dict[str, Callable[[Path], None]] = {
    "large": lambda folder: archive(folder, 150, 4_000_000),
    "many": lambda folder: archive(folder, 1_000_000, 1_024),
    "capture": lambda folder: capture(folder, 1 << 30, 1_024),
    "store": lambda folder: store(folder, 1_000_000, 200),
}


def chosen(arguments: list[str]) -> list[str]:
    """What is to be done: all of it, unless some is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    works: list[str] = parser.parse_args(arguments).works
    for work in works:
        if work not in WORKS:
            parser.error(f"there is no {work}, but {', '.join(WORKS)}")
    return works or list(WORKS)


if __name__ == "__main__":
    for work in chosen(sys.argv[1:]):
        with tempfile.TemporaryDirectory() as name:
            WORKS[work](Path(name))
