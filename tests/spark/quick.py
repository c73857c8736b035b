"""A Spark that begins to work sooner, for tests that start it again and again.

It loads thousands of classes before it does anything. The first who asks has them written to an archive under
``build``, which the others map into memory; whoever comes before it is there does without. And what a test computes is
little: it is divided among few tasks, and it is not worth writing and compiling a program for each query.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from tests import ready

ROOT = Path(__file__).parents[2]
PLAIN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""It would be slower in the long run."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@cache
def configuration() -> str:
    """The file with the settings of every Spark that this process and its children start (``--properties-file``). A
    folder of settings (``SPARK_CONF_DIR``) would stand on the class path, and a JVM takes the archive only where that
    is the one it was made with."""
    folder = tempfile.TemporaryDirectory(prefix="spark-")
    atexit.register(folder.cleanup)
    settings = SETTINGS | {"spark.driver.extraJavaOptions": quick()}
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    file = Path(folder.name, "settings.conf")
    file.write_text(lines, encoding="utf-8")
    return str(file)


def quick() -> str:
    """The options of a JVM that a test starts."""
    archive = _archive()
    if not archive.exists():
        _make(archive)
    return f"{PLAIN} -XX:SharedArchiveFile={archive}" if archive.exists() else PLAIN


@cache
def _archive() -> Path:
    """Where it is: one for each Java and each set of jars, for a JVM takes no other."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    known = [said, *(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars)]
    mark = hashlib.sha256(chr(10).join(known).encode()).hexdigest()[:16]
    return ROOT / "build" / "spark" / f"{pyspark.__version__}-{mark}.jsa"


def _make(archive: Path) -> None:
    """Have it written by a Spark that does a little of everything; one process at a time, and nobody waits."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (archive.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if archive.exists():
            return
        for old in archive.parent.glob(f"{pyspark.__version__}-*.jsa"):  # of another Java: they are large
            old.unlink()
        new = archive.with_suffix(".new")
        new.unlink(missing_ok=True)
        variables = {
            "PYSPARK_PYTHON": ready.python(ready.SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [sys.executable, "-m", "tests.spark.quick", str(new)]
        done = subprocess.run(
            command, env={**os.environ, **variables}, cwd=ROOT, capture_output=True
        )  # which also waits for the JVM: it has the same output
        if done.returncode == 0:  # on a busy computer Spark may have no patience: then it is done without
            new.rename(archive)


# --- what the archive is made from ------------------------------------------------------------------------------------


class _Numbers(DataSource):
    """A stream of one batch."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number BIGINT, kind STRING"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return _NumbersReader()


class _NumbersReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802
        return {"at": 4}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        yield partition.value, "one"


def main(archive: str) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config(map=SETTINGS)
        .config("spark.driver.extraJavaOptions", f"{PLAIN} -XX:ArchiveClassesAtExit={archive}")
        .getOrCreate()
    )
    spark.dataSource.register(_Numbers)
    with tempfile.TemporaryDirectory() as folder:

        def write(batch: DataFrame, number: int) -> None:
            batch.write.partitionBy("kind").parquet(f"{folder}/rows/{number}")

        query = spark.readStream.format("numbers").load().writeStream.foreachBatch(write)
        query.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()
        spark.read.parquet(f"{folder}/rows/0").groupBy("kind").count().orderBy("kind").collect()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
