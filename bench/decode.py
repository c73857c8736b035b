"""``decode``: packets of captures per second at 1 KB, with Spark and without.

Run: ``python bench/decode.py [--packets 60000] [--rounds 3]`` (needs the extras ``spark`` and ``capture``). Captures
are two files, each with a thousand connections that take turns and an acknowledgment behind every tenth message.
Whatever is compared takes turns, round by round, and each figure is the median of its rounds. Before the first,
everything has run once unmeasured: the start of Spark and of its Python workers, and what the virtual machine compiles
then, are in no figure.

* **One process**: connections are put together and every packet is decoded to the end, in a loop of Python and without
  making anything of it. This is what the goal is compared with.
* **Two processes**: that loop twice at the same time, one for each file. No program scales better on this computer.
* **One process, rows**: the rows that Spark gets, in Arrow, where packets that look alike are read together. The
  second comparison is with this: what is missing to 1 is what Spark takes.
* **Spark**: ``msmq.spark.decode`` into a table that is thrown away (``noop``), with one core and with two: two files,
  and one file that is one task or, with two cores, two.

Goals: with one core at least 0.5 of one process, with two cores twice what it is with one, as far as two processes are
twice one. Where the virtual machine and Python workers of Spark want more cores than there are, they share them: a
computer with two shows the least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from msmq.capture.format import Format
from msmq.capture.inputs import Source, Tally, find_packets
from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import serialize
from msmq.spark.decode import Task, columns_of, decode, read
from msmq.wire.framing import decode_packet
from msmq.wire.optional_headers import SessionHeader
from msmq.wire.packets import SessionAck

BODY = bytes(range(256)) * 4
LOOP, ROWS = "one process", "one process, rows"
CONNECTIONS = 1_000
ACKNOWLEDGED = 10
_TCP = struct.Struct("!HHIIBBHHH")
_IP = struct.Struct("!BBHHHBBH4s4s")
_CLIENT, _SERVER = bytes((10, 0, 0, 2)), bytes((10, 0, 0, 1))


# --- captures ---------------------------------------------------------------------------------------------------------


def frame(data: bytes, connection: int, sequence: int, *, back: bool) -> bytes:
    """A packet in one segment."""
    ports, hosts = (20_000 + connection, 1801), (_CLIENT, _SERVER)
    if back:
        ports, hosts = ports[::-1], hosts[::-1]
    head = _IP.pack(0x45, 0, _IP.size + _TCP.size + len(data), 0, 0, 64, 6, 0, *hosts)
    return bytes(12) + b"\x08\0" + head + _TCP.pack(*ports, sequence, 0, 0x50, 0x10, 0xFFFF, 0, 0) + data


def write_capture(path: Path, packets: int) -> int:
    """Connections that take turns, and the acknowledgments; gives how many packets there are."""
    destination = "DIRECT=OS:server\\private$\\orders"
    message = serialize(Message(body=BODY, label="order", destination_queue_format_name=destination)).data
    acknowledgment = SessionAck.of(SessionHeader()).encode()
    written = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for number in range(packets):
            turn, connection = divmod(number, CONNECTIONS)
            frames = [frame(message, connection, turn * len(message), back=False)]
            if turn % ACKNOWLEDGED == ACKNOWLEDGED - 1:
                sequence = turn // ACKNOWLEDGED * len(acknowledgment)
                frames.append(frame(acknowledgment, connection, sequence, back=True))
            for data in frames:
                file.write(struct.pack("<IIII", 1_700_000_000 + turn, 0, len(data), len(data)) + data)
            written += len(frames)
    return written


# --- what is compared -------------------------------------------------------------------------------------------------


def loop(path: Path) -> None:
    with Source.open(str(path)) as capture:
        for found in find_packets(capture, Format.AUTO, 1801, 3527, Tally()):
            decode_packet(found.cut.data)  # type: ignore[union-attr]


def rows(path: Path) -> None:
    for _ in read(Task(str(path)), columns_of(), port=1801, ping_port=3527):
        pass


def side_by_side(pool: Pool, files: list[Path]) -> None:
    pool.map(loop, files)


def drain(table: DataFrame) -> None:
    """Make Spark have every row, and keep none."""
    table.write.format("noop").mode("overwrite").save()


@contextmanager
def session(cores: int) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


Work = tuple[int, Callable[[], object]]
"""How many packets it decodes, and what to do."""


def in_spark(spark: SparkSession, files: list[Path], cores: int, packets: int) -> dict[str, Work]:
    split = files[0].stat().st_size // cores + 1
    both, one = decode(spark, files), decode(spark, files[:1], split_bytes=split)
    return {
        f"Spark, {cores} core(s), two files": (2 * packets, lambda: drain(both)),
        f"Spark, {cores} core(s), one file": (packets, lambda: drain(one)),
    }


def compare(works: Mapping[str, Work], rounds: int) -> None:
    """Measure works in turns; all are compared with the loop and with the rows."""
    took: dict[str, list[float]] = {label: [] for label in works}
    for turn in range(rounds + 1):
        for label, (_, work) in works.items():
            begun = time.perf_counter()
            work()
            if turn:  # the first is for warming up
                took[label].append(time.perf_counter() - begun)
    rates = {label: works[label][0] / statistics.median(seconds) for label, seconds in took.items()}
    for label, rate in rates.items():
        text = f"{label:32} {rate:10,.0f} packets/s {rate / rates[LOOP]:6.2f} of one process"
        text += " (goal 0.5)" if label.startswith("Spark, 1 core(s)") else ""
        print(f"{text}, {rate / rates[ROWS]:.2f} of one process with rows", flush=True)


def main(packets: int, rounds: int) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as name, get_context("spawn").Pool(2) as pool:
        files = [Path(name) / f"{number}.pcap" for number in range(2)]
        (count,) = {write_capture(path, packets) for path in files}
        for cores in (1, 2):
            with session(cores) as spark:
                alone: dict[str, Work] = {
                    LOOP: (count, lambda: loop(files[0])),
                    "two processes": (2 * count, lambda: side_by_side(pool, files)),
                    ROWS: (count, lambda: rows(files[0])),
                }
                compare(alone | in_spark(spark, files, cores, count), rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packets", type=int, default=60_000, help="messages in each of two captures")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    main(given.packets, given.rounds)
