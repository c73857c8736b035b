"""The examples of README.md and of the pages on Spark work as they are pasted, with nothing registered and nothing set
but where the server is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet

from tests.spark.support import ORDERS, Server, environment
from tests.test_readme import blocks, section

SENT = sorted(f"order {number}" for number in range(20))


def paste(program: str, server: Server, directory: Path) -> str:
    """What a program prints that a user runs in a directory of their own."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env=environment(MSMQ_SERVER=server.address),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def written(directory: Path) -> list[str]:
    bodies = parquet.ParquetDataset(directory / "orders").read(["body"])["body"].to_pylist()
    return sorted(body.decode("utf-16-le") for body in bodies)


def test_the_readme_streams_a_queue_into_parquet(server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.send(SENT)
    program = section("README.md", "Queues in Spark", "python")
    assert len([line for line in program.splitlines() if line.strip()]) == 5
    paste(program, server, tmp_path)
    assert written(tmp_path) == SENT


def test_the_pages_on_pipelines_and_on_spark(server: Server, tmp_path: Path) -> None:
    """The page on pipelines comes first, because the other one ends with consuming what is in the queue."""
    server.create(ORDERS)
    server.send(SENT, label="table 7")
    pipelines = blocks("docs/pipelines.md", "python")
    assert pipelines.count("/data/orders") == 2
    pipelines = pipelines.replace("/data/orders", str(tmp_path / "archive"))
    shown = paste(pipelines + blocks("docs/how-to/spark.md", "python"), server, tmp_path)
    assert ORDERS in (tmp_path / "report.html").read_text()
    assert "|table 7|   20|" in shown
    assert written(tmp_path) == SENT
    assert server.bodies() == []
