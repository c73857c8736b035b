"""From an archive back into queues, in the order of arrival, at a chosen rate.

What was sent is written down in a ledger of the queue manager, like that of the sink: a replay that was killed goes on
where it was. Into transactional queues every message goes exactly once; into others the last few may come again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from msmq.client.connection import Connection
from msmq.errors import MsmqError, QueueNotFoundError
from msmq.spark.rows import Letter, Letters
from msmq.spark.schema import Table
from msmq.spark.sink import SinkOptions, Sorter, send_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK: Final = 500
_COLUMNS: Final = (
    "queue", "lookup_id", "arrived_time", "body", "body_type", "label", "priority", "app_specific", "correlation_id",
    "extension", "response_queue", "admin_queue",
)  # fmt: skip
"""What is sent again. Time limits are those of the first sending and long over; they are not."""


def replay(
    messages: DataFrame,
    options: Mapping[str, str],
    *,
    name: str,
    rate: float | None = None,
    again: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Send the messages of a table; gives how many were sent now. ``options`` are those of the sink; without ``queue``
    each goes to the queue it came from. ``name`` tells this replay from others: under the same name it goes on where it
    was, or does nothing when it was done, unless it is to begin ``again``."""
    ordered = messages.select(*_COLUMNS).orderBy("arrived_time", "queue", "lookup_id")
    rows = (row.asDict() for row in ordered.toLocalIterator())
    return asyncio.run(_replay(rows, options, name, rate, again, progress))


def ledger_of(name: str) -> str:
    """The queue that says how far a replay has come."""
    return f".\\private$\\spark-replay-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


async def _replay(
    rows: Iterator[dict[str, Any]],
    options: Mapping[str, str],
    name: str,
    rate: float | None,
    again: bool,
    progress: Callable[[int], None],
) -> int:
    chosen = SinkOptions.of(options)
    schema = pa.schema([Table().arrow.field(column) for column in _COLUMNS])
    ledger = ledger_of(name)
    sent = 0
    async with chosen.connect() as mq:
        if again:
            with suppress(QueueNotFoundError):
                await mq.delete_queue(ledger)
        number = await _chunks_done(mq, ledger)
        skipped = sum(1 for _ in islice(rows, number * CHUNK))
        progress(skipped)
        clock = asyncio.get_running_loop().time
        begun = clock()
        while chunk := list(islice(rows, CHUNK)):
            sorter = Sorter(mq, chosen, Letters(options, _COLUMNS))
            batch = pa.RecordBatch.from_pylist(chunk, schema=schema)
            held = [letter async for parcel in sorter.transactional(iter([batch])) for letter in parcel]
            await send_once(mq, ledger, number, _one(held))
            number += 1
            sent += len(chunk)
            progress(skipped + sent)
            if rate:
                await asyncio.sleep(max(0.0, begun + sent / rate - clock()))
    return sent


async def _one(letters: list[Letter]) -> AsyncIterator[list[Letter]]:
    if letters:
        yield letters


async def _chunks_done(mq: Connection, ledger: str) -> int:
    with suppress(MsmqError):
        message = await mq.queue(ledger).peek()
        return int(json.loads(message.body)["batch"]) + 1
    return 0
