"""Differences between the supported versions of Spark.

Since 4.2 Spark tells a source where a query is and how much it wants; before, the source finds that out by itself.
Since 4.1 it passes Arrow batches to a streaming sink; before, it passed rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.types import StructType

    TELLS_POSITIONS: bool
else:
    StreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        TELLS_POSITIONS: Final = True
    except ImportError:
        TELLS_POSITIONS: Final = False

        class ReadLimit: ...

        class ReadAllAvailable(ReadLimit): ...

        class SupportsTriggerAvailableNow: ...

        @dataclass
        class ReadMaxRows(ReadLimit):
            max_rows: int

        @dataclass
        class ReadMaxBytes(ReadLimit):
            max_bytes: int


__all__ = [
    "TELLS_POSITIONS", "ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "ReadMaxRows", "StreamArrowWriter",
    "SupportsTriggerAvailableNow", "in_batches",
]  # fmt: skip

_ROWS_AT_ONCE: Final = 1_000
_KINDS: Final = {
    "binary": pa.binary(), "string": pa.string(), "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(),
    "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}  # fmt: skip
"""For columns that are written; for others the values decide."""


def in_batches(writer: StreamArrowWriter, schema: StructType) -> DataSourceStreamWriter:
    """Return a writer that this Spark can use."""
    return writer if hasattr(datasource, "DataSourceStreamArrowWriter") else RowsInBatches(writer, schema)


class RowsInBatches(DataSourceStreamWriter):
    """Makes batches of the rows that Spark passes."""

    def __init__(self, writer: StreamArrowWriter, schema: StructType) -> None:
        self._writer = writer
        self._names = schema.fieldNames()
        self._kinds = [_KINDS.get(field.dataType.simpleString()) for field in schema]

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self._writer.write(self._batches(iterator))

    def _batches(self, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        held: list[Row] = []
        for row in rows:
            held.append(row)
            if len(held) == _ROWS_AT_ONCE:
                yield self._batch(held)
                held = []
        if held:
            yield self._batch(held)

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(list(column), kind) for column, kind in zip(columns, self._kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, self._names)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._writer.abort(messages, batchId)
