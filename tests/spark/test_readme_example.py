"""The example of README.md works as it is pasted, with nothing registered and nothing set but where the server is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet

from tests.spark.support import ORDERS, Server, environment
from tests.test_readme import section


def test_the_readme_streams_a_queue_into_parquet(server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.send([f"order {number}" for number in range(20)])
    program = section("README.md", "Queues in Spark", "python")
    assert len([line for line in program.splitlines() if line.strip()]) == 5
    variables = environment() | {"MSMQ_SERVER": server.address, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    bodies = parquet.ParquetDataset(tmp_path / "orders").read(["body"])["body"].to_pylist()
    assert sorted(body.decode("utf-16-le") for body in bodies) == sorted(f"order {n}" for n in range(20))
