"""A queue manager in a process of its own, and what the tests of Spark do with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import IO, Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import msmq
from msmq.testing.traffic import Door, Draft, Surroundings, Traffic, client_message
from tests import ready
from tests.ready import Fork
from tests.spark.quick import PLAIN, configuration

_T = TypeVar("_T")
FORK = "-m tests.ready "
"""In the command of a fork."""
ROOT = Path(__file__).parents[2]
ORDERS = ".\\private$\\orders"
LEDGER = ".\\private$\\ledger"
ANSWERS = ".\\private$\\answers"
"""Where applications want acknowledgments and answers; not every test has that queue."""


class Server:
    """``msmq serve``."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        name: str = "HOST",
        listen: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.directory = directory
        self.name = name
        self._place = ["--listen", listen, "--port", str(port)]
        self._arguments = arguments
        self.address = f"unix:{directory / 'api'}"
        self._process: Fork | None = None
        world = Surroundings(
            bytes(16), bytes(16), computer=name, listeners=(ANSWERS,), unreachable="127.0.0.99"
        )
        self._traffic = Traffic(Random(name), world, Door.CLIENT)

    def start(self) -> None:
        command = ["serve", "--data", str(self.directory / "data"), "--name", self.name]
        command += [*self._place, "--ping-port", "0", "--api", self.address]
        self._process = ready.start("msmq", *command, *self._arguments)
        assert self._process.stdout.readline().startswith(b"ready")

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process.stdout.close()
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    # --- what is in it ----------------------------------------------------------------------------------------------

    def connect(self) -> msmq.SyncConnection:
        return msmq.connect_sync(self.address)

    def create(self, name: str = ORDERS, **settings: Any) -> None:
        with self.connect() as mq:
            mq.create_queue(name, **settings)

    def delete(self, name: str) -> None:
        with self.connect() as mq:
            mq.delete_queue(name)

    def send(self, bodies: Iterable[str], name: str = ORDERS, **properties: Any) -> None:
        """Messages like the world's with these texts. Unless something else is said they have the usual priority, so
        that their order is that of the texts, and wait for ever."""
        said = {"delivery": msmq.Delivery.DEFAULT, "priority": 3, **properties}
        with self.connect() as mq:
            mq.queue(name).send_many(
                [
                    replace(client_message(self._drawn(name)), body=text, body_type=None, **said)
                    for text in bodies
                ]
            )

    def _drawn(self, name: str) -> Draft:
        return self._traffic.draft(
            destination=name, body=b"", time_to_reach_queue_s=None, time_to_be_received_s=None
        )

    def bodies(self, name: str = ORDERS) -> list[str]:
        with self.connect() as mq:
            return [message.text for message in mq.queue(name).browse()]

    def numbered(self, name: str = ORDERS) -> dict[int, str]:
        """Lookup identifiers and bodies."""
        with self.connect() as mq:
            return {message.lookup_id: message.text for message in mq.queue(name).browse()}

    @property
    def guid(self) -> str:
        with self.connect() as mq:
            return mq.manager().identifier

    def queues(self) -> dict[str, int]:
        with self.connect() as mq:
            return {info.path: info.messages for info in mq.queues()}


class Stream:
    """A stream whose rows are collected by batch."""

    def __init__(self, spark: SparkSession, server: Server, checkpoint: Path, **options: str) -> None:
        self.batches: dict[int, list[str]] = {}
        self._spark, self._server, self._checkpoint = spark, server, str(checkpoint)
        self._options = {"body": "activex", "queue": ORDERS, **options}
        if self._options.get("mode") == "consume":
            self._options["checkpointLocation"] = self._checkpoint

    def start(self, **trigger: Any) -> StreamingQuery:
        read = self._spark.readStream.format("msmq").option("server", self._server.address)
        write = read.options(**self._options).load().writeStream.foreachBatch(self._keep)
        return write.option("checkpointLocation", self._checkpoint).trigger(**trigger).start()

    def run(self) -> None:
        """Once, until all is read that is there now."""
        finished(lambda: self.start(availableNow=True))

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = [row.body for row in frame.select("body").collect()]

    @property
    def bodies(self) -> list[str]:
        return [body for number in sorted(self.batches) for body in self.batches[number]]


def again(work: Callable[[], _T]) -> _T:
    """Have Spark do something. It gives a worker of Python ten seconds to begin, which a busy computer may not have:
    then it is told once more, as people would."""
    for _ in range(10):
        try:
            return work()
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
    raise AssertionError("this computer is too busy for Spark")


def finished(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run a query to its end, or start it again if Spark has no patience."""

    def run() -> StreamingQuery:
        query = start()
        assert query.awaitTermination(600)
        return query

    return again(run)


def eventually(condition: Callable[[], object], timeout_s: float = 120) -> None:
    """Wait until something has become true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def environment(**more: str) -> dict[str, str]:
    """What a Spark that a test starts finds in its environment."""
    python = {
        "PYSPARK_PYTHON": ready.python(ready.SPARK),
        "PYSPARK_DRIVER_PYTHON": ready.python(ready.SPARK),
        "PYTHONPATH": str(ROOT),
    }
    spark = {
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {configuration()} pyspark-shell",
        "SPARK_LAUNCHER_OPTS": PLAIN,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return {**os.environ, **python, **spark, **more}


def below(process: int) -> list[int]:
    """A process and all that it has started, and they. A fork of the Python that has imported everything
    (tests/ready.py) is started by whoever has the other end of its standard input."""
    running = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    forks = {each: _pipes(each, "fd/0") for each in running if FORK in command_of(each)}
    found = [process]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text(encoding="ascii").split())
        pipes = _pipes(each, "fd/*")
        found += [fork for fork, given in forks.items() if given & pipes and fork not in found]
    return found


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:  # it is gone
        return ""


def _pipes(process: int, files: str) -> set[str]:
    found = set()
    with suppress(OSError):
        for link in Path(f"/proc/{process}").glob(files):
            with suppress(OSError):
                found.add(str(link.readlink()))
    return {name for name in found if name.startswith("pipe:")}


@contextmanager
def program(
    module: str, *arguments: str, output: IO[bytes] | None = None, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Spark that is killed at the end of the block, with its JVM: it has a process group of its own."""
    command = [sys.executable, "-m", module, *arguments]
    run = subprocess.Popen(
        command, env=environment(**variables), cwd=ROOT, start_new_session=True, stdout=output, stderr=output
    )
    try:
        yield run
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
