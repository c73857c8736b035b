"""A standalone cluster of a master and two workers: executors are killed while they read and write, slow tasks are run
twice, and everything is there exactly once. And nobody has written down the token."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from tests.spark.cluster_job import ROWS
from tests.spark.halting import VARIABLE, Halts
from tests.spark.quick import quick
from tests.spark.support import LEDGER, ORDERS, Server, below, command_of, environment, eventually, program

HOME = Path(pyspark.__file__).parent
LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
logger.driver.name = org.apache.spark.api.python.PythonGatewayServer
logger.driver.level = info
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""
TOKEN = "a-t0ken-that-nobody-may-see"
OWNER = "S-1-5-21-1-2-3-1002"
EVERYTHING = sorted(f"order {number}" for number in range(ROWS))
EXECUTOR = " org.apache.spark.executor.CoarseGrainedExecutorBackend "
STARTING_S = 600


@contextmanager
def node(log: Path, kind: str, host: str, *arguments: str) -> Iterator[None]:
    """A master or a worker of Spark."""
    command = ["bash", str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
    command += ["--host", host, "--port", "0", "--webui-port", "0", *arguments]
    settings = {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": quick()}
    variables = environment(SPARK_HOME=str(HOME), **settings)
    with log.open("wb") as output:
        run = subprocess.Popen(command, env=variables, stdout=output, stderr=output, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(run.pid, signal.SIGTERM)  # a worker takes its executors with it
        run.wait()


def said(log: Path, pattern: str) -> str:
    """What a log says, as soon as it does."""
    found: list[str] = []

    def looked() -> bool:
        found[:] = re.findall(pattern, log.read_text(encoding="utf-8", errors="replace"))
        return bool(found)

    eventually(looked, STARTING_S)
    return found[0]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        stack.enter_context(node(tmp_path / "master.log", "master.Master", "127.0.0.1"))
        master = said(tmp_path / "master.log", r"Starting Spark master at (spark://\S+)")
        for number in range(2):
            work = str(tmp_path / f"work-{number}")
            sizes = ["--cores", "1", "--memory", "1g", "--work-dir", work]
            host = f"127.0.0.{number + 1}"  # a second copy of a task is never run on the same host
            stack.enter_context(
                node(tmp_path / f"worker-{number}.log", "worker.Worker", host, *sizes, master)
            )
        for number in range(2):
            said(tmp_path / f"worker-{number}.log", "Successfully registered with master")
        yield master


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A queue manager that knows one token."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    config = tmp_path / "msmq.toml"
    config.write_text(
        f'[api]\nadministrators = ["{OWNER}"]\ntokens = {{"{digest}" = "{OWNER}"}}\n', encoding="utf-8"
    )
    server = Server(tmp_path, "--config", str(config))
    server.start()
    yield server
    server.kill()


def kill_executor(worker: int) -> None:
    """Kill the executor that a process of Python works for, and all its processes: one that outlived it might go on to
    the next place."""
    executors = [process for process in below(os.getpid()) if EXECUTOR in command_of(process)]
    (doomed,) = (processes for processes in map(below, executors) if worker in processes)
    for process in doomed:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_executors_are_killed_and_tasks_run_twice(cluster: str, guarded: Server, tmp_path: Path) -> None:
    for name in (ORDERS, LEDGER):
        guarded.create(name, transactional=True)
    halts = Halts(tmp_path / "halts")
    halts.folder.mkdir()
    (tmp_path / "events").mkdir()
    places = ("table-writing", "table-reading", "reading", "writing", "half-sent")
    (tmp_path / "log4j2.properties").write_text(LOGGING, encoding="ascii")
    for place in places:
        halts.at(place)
    variables = {VARIABLE: str(halts.folder), "MSMQ_TEST_TOKEN": TOKEN}
    with (
        (tmp_path / "driver.log").open("wb") as log,
        program(
            "tests.spark.cluster_job", cluster, str(tmp_path), guarded.address, output=log, **variables
        ) as driver,
    ):
        for place in places:
            eventually(lambda p=place: driver.poll() is not None or halts.reached(p), STARTING_S)  # type: ignore[misc]
            worker = halts.reached(place)
            assert worker is not None, f"it ended before {place}"
            if place == places[-1]:
                halts.at("planned")
            kill_executor(worker)
            halts.go_on(place)
        # In the next batch a task waits for ever. Spark runs a copy of it where no attempt has been before.
        eventually(lambda: driver.poll() is not None or halts.reached("planned"), STARTING_S)
        halts.at("slow")
        halts.go_on("planned")
        assert driver.wait(STARTING_S) == 0
    assert halts.reached("slow"), "a task waited to the end, and a second one has done its work"
    written = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "events").rglob("events_*"))
    ended = [event for event in written.splitlines() if '"SparkListenerTaskEnd"' in event]
    copies = [event for event in ended if '"Speculative":true' in event]
    assert any("ResultTask" in event and '"Reason":"Success"' in event for event in copies)
    found = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert sorted(found) == EVERYTHING
    assert sorted(guarded.bodies(LEDGER)) == EVERYTHING
    assert guarded.bodies(ORDERS) == []
    assert not [path for path in guarded.queues() if "staging" in path]
    nobody_has_written_down(TOKEN, tmp_path)


def nobody_has_written_down(secret: str, directory: Path) -> None:
    """Neither plans, nor the logs of driver, executors, master and workers, nor the events, nor the checkpoint."""
    for needed in ("plans.txt", "driver.log", "worker-0.log"):
        assert (directory / needed).stat().st_size
    assert any((directory / "events").iterdir())
    assert any(directory.glob("work-*/*/*/stderr"))
    files = [
        path for path in directory.rglob("*") if path.is_file() and directory / "data" not in path.parents
    ]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
