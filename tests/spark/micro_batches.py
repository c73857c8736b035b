"""The micro-batches of Spark without Spark: the order in which it asks a source, and the log that it writes.

The offsets of a batch are written before its partitions are asked for, its commit when its rows are safe. A batch that
was begun is repeated by the next run. So the promises of the source can be tried in seconds; that Spark does the same
is shown by the tests that run it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxRows

from msmq.spark.options import SourceOptions
from msmq.spark.progress import Lag, lag_of
from msmq.spark.source import MsmqStreamReader
from tests.spark.support import ORDERS


class Killed(Exception):  # noqa: N818  # it is none of the source
    """The driver is gone."""


class MicroBatches:
    """A query with ``trigger(availableNow=True)`` that keeps its rows when their batch is committed."""

    def __init__(self, checkpoint: Path, **options: str) -> None:
        self._checkpoint = checkpoint
        self._options = {"queue": ORDERS, "body": "activex", "checkpointLocation": str(checkpoint), **options}
        self.rows: list[dict[str, Any]] = []
        self.lags: list[list[Lag]] = []
        """After each plan."""
        self.before_reading: Callable[[], object] = lambda: None
        self.before_commit: Callable[[], object] = lambda: None
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)

    @property
    def bodies(self) -> list[str]:
        return [row["body"] for row in self.rows]

    def run(self) -> None:
        """Read until all is read that was there when it began."""
        options = SourceOptions.of(self._options)
        reader = MsmqStreamReader(options, ("body", "queue", "server", "queue_manager"))
        try:
            self._run(reader, options.max_messages or 1_000)
        finally:
            reader.stop()

    def _run(self, reader: MsmqStreamReader, most: int) -> None:
        planned, committed = self._numbers("offsets"), self._numbers("commits")
        number = committed[-1] if committed else -1
        start = self._offset(number) if committed else reader.initialOffset()
        if planned and planned[-1] > number:
            number = planned[-1]
            self._batch(reader, number, start, self._offset(number))
            start = self._offset(number)
        reader.prepareForTriggerAvailableNow()
        while True:
            end = reader.latestOffset(start, ReadMaxRows(most))
            self.lags.append(lag_of({"sources": [{"latestOffset": json.dumps(reader.reportLatestOffset())}]}))
            if end == start:
                return
            number += 1
            self._log("offsets", number, end)
            self._batch(reader, number, start, end)
            start = end

    def _batch(
        self, reader: MsmqStreamReader, number: int, start: dict[str, Any], end: dict[str, Any]
    ) -> None:
        parts = reader.partitions(start, end)
        self.before_reading()
        rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        self.before_commit()
        self.rows += rows
        self._log("commits", number, {})
        reader.commit(end)

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(path.name) for path in (self._checkpoint / folder).iterdir())

    def _offset(self, number: int) -> dict[str, Any]:
        text = (self._checkpoint / "offsets" / str(number)).read_text(encoding="utf-8")
        value: dict[str, Any] = json.loads(text.splitlines()[-1])
        return value

    def _log(self, folder: str, number: int, value: dict[str, Any]) -> None:
        (self._checkpoint / folder / str(number)).write_text(
            f"v1\n{{}}\n{json.dumps(value)}", encoding="utf-8"
        )


def killed() -> None:
    raise Killed
