"""Errors in one line: what went wrong, and what to do."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from msmq.client.problems import ServerNotAvailableError
from msmq.errors import AccessDeniedError, InsufficientResourcesError, QueueNotFoundError
from msmq.spark.options import Access, OptionError
from msmq.spark.source import MsmqDataSource
from msmq.spark.telling import QueueManagerError, plainly, said_by_spark

CHANNEL = Access("127.0.0.1:8181", "secret")
REMOTE = Access("mqrr:host", user="alice", password="secret")


@pytest.mark.parametrize(
    ("error", "access", "advice"),
    [
        (ServerNotAvailableError("No queue manager\nanswers."), CHANNEL, "The option server says where"),
        (ConnectionRefusedError("no"), REMOTE, "The option server says where"),
        (AccessDeniedError("No."), CHANNEL, "tokenFile"),
        (AccessDeniedError("No."), REMOTE, "passwordFile"),
        (QueueNotFoundError("No."), CHANNEL, "queuePattern"),
        (InsufficientResourcesError("The store is full."), CHANNEL, "The store is full."),
    ],
    ids=["channel", "remote-read", "token", "password", "queue", "other"],
)
def test_an_error_is_one_line_with_advice(error: Exception, access: Access, advice: str) -> None:
    with pytest.raises(QueueManagerError) as told, plainly(access):
        raise error
    text = str(told.value)
    assert advice in text
    assert "\n" not in text
    assert "secret" not in text
    trace = "".join(traceback.format_exception(told.value))
    assert "Traceback" not in trace[10:], "no cause is shown"


def test_what_is_plain_already_stays_what_it_is() -> None:
    given = OptionError("mode is one of two.")
    with pytest.raises(OptionError, match="mode is") as told, plainly(CHANNEL):
        raise given from KeyError("mode")
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


def test_a_mistake_of_ours_keeps_its_trace() -> None:
    with pytest.raises(ZeroDivisionError), plainly(CHANNEL):
        raise ZeroDivisionError


# --- what Spark raises ------------------------------------------------------------------------------------------------


def _fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        int("three")
    except ValueError:
        raise KeyError("no such number") from None
    yield from batches


def _in_a_task(spark: SparkSession, _: Path) -> None:
    spark.range(1).mapInArrow(_fails, "id BIGINT").collect()


def _in_a_row(spark: SparkSession, _: Path) -> None:
    spark.range(1).selectExpr("raise_error('enough')").collect()


def _while_writing(spark: SparkSession, folder: Path) -> None:
    (folder / "taken").touch()
    spark.range(1).write.parquet(f"{folder}/taken/table")


def _in_a_plan(spark: SparkSession, _: Path) -> None:
    spark.range(1).where("label = 'invoice'")


def _in_an_option(spark: SparkSession, _: Path) -> None:
    spark.dataSource.register(MsmqDataSource)
    spark.read.format("msmq").option("queeu", "orders").load()


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (_in_a_task, "KeyError: 'no such number'"),
        (_in_a_row, "[USER_RAISED_EXCEPTION] enough SQLSTATE: P0001"),
        (_while_writing, "Parent path is not a directory"),
        (_in_a_plan, "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        (_in_an_option, "There is no option queeu"),
    ],
)
def test_the_cause_is_found_in_what_spark_raises(
    spark: SparkSession, tmp_path: Path, work: Callable[[SparkSession, Path], None], said: str
) -> None:
    with pytest.raises((Py4JJavaError, PySparkException)) as raised:
        work(spark, tmp_path)
    told = said_by_spark(raised.value)
    assert said in told
    assert "\n" not in told
    assert "Job aborted" not in told
    assert "o2" not in told, "no object of py4j"


@pytest.mark.parametrize(
    ("outer", "inner", "advice"),
    [
        (
            "Job aborted due to stage failure: OutOfMemoryError: Java heap space",
            "Java heap space",
            "driver.memory",
        ),
        ("[TASK_WRITE_FAILED] Task failed", "No space left on device", "SPARK_LOCAL_DIRS"),
        ("[TASK_WRITE_FAILED] Task failed writing file:/x", "No space left on device", "file:/x: EOFEx"),
        ("Python worker exited unexpectedly (crashed).", None, "executor.memory"),
        ("Python worker failed to connect back.", "timed out", "too busy"),
    ],
)
def test_what_to_do_about_it_is_said(spark: SparkSession, outer: str, inner: str | None, advice: str) -> None:
    java = spark._jvm  # type: ignore[attr-defined]
    kind = java.java.lang.OutOfMemoryError if advice == "driver.memory" else java.java.io.EOFException
    root = kind() if inner is None else kind(inner)
    told = said_by_spark(
        Py4JJavaError(
            "An error occurred while calling o246.parquet.", java.org.apache.spark.SparkException(outer, root)
        )
    )
    assert advice in told
    assert inner is None or inner in told
    assert "o246" not in told


def test_a_virtual_machine_that_has_ended_tells_nothing_more() -> None:
    """Its errors are objects there."""

    class Gone:
        def getClass(self) -> object:  # noqa: N802 - Java's name
            raise Py4JNetworkError("Answer from Java side is empty")

    class Raised(Exception):  # noqa: N818
        java_exception = Gone()

    assert said_by_spark(Raised("the table could not be written")) == "the table could not be written"
