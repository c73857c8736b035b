"""The oldest Spark that is supported, and one that releases of both table formats are made for: what people do most
(``scripts/spark_versions.sh``)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, MapType, StringType, StructType, TimestampType

from msmq.spark.versions import RowsInBatches, in_batches
from tests.spark.support import ROOT


@pytest.mark.parametrize(("version", "formats"), [("4.0.5", ", delta"), ("4.1.4", ", delta, iceberg")])
def test_smoke(version: str, formats: str) -> None:
    for _ in range(3):
        run = subprocess.run(
            [ROOT / "scripts" / "spark_versions.sh", version],
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        # Spark gives a worker of Python ten seconds to begin, which a busy computer may not have.
        if run.returncode == 0 or "failed to connect back" not in run.stderr:
            break
    assert run.returncode == 0, run.stderr[-5_000:]
    assert run.stdout.splitlines()[-1] == f"Spark {version}: read, write, stream, archive and replay{formats}"


class Writer:
    """Keeps the batches that it is given."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, batches: Iterable[pa.RecordBatch]) -> WriterCommitMessage:
        self.batches += batches
        return WriterCommitMessage()


def test_rows_become_batches() -> None:
    """Before 4.1 Spark gives a stream's rows one by one."""
    writer = Writer()
    schema = StructType().add("body", BinaryType()).add("label", StringType()).add("priority", IntegerType())
    schema = schema.add("at", TimestampType()).add("headers", MapType(StringType(), StringType()))
    rows = [(b"1", "a", 3, None, {"k": "v"}), (None, None, None, None, None)] * 600
    RowsInBatches(writer, schema).write(iter(rows))  # type: ignore[arg-type]
    assert [batch.num_rows for batch in writer.batches] == [1_000, 200]
    assert writer.batches[0].schema.names == schema.names
    first, second = writer.batches[0].to_pylist()[:2]
    assert (first["body"], first["label"], first["priority"], first["headers"]) == (
        b"1",
        "a",
        3,
        [("k", "v")],
    )
    assert set(second.values()) == {None}
    assert in_batches(writer, schema) is writer  # type: ignore[arg-type, comparison-overlap]
