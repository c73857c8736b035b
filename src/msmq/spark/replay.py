"""Send the messages of an archive back into queues, in the order of arrival, at a chosen rate.

What was sent is recorded in a ledger of the queue manager, like that of the sink: a replay that was killed continues
where it stopped. Into transactional queues every message goes exactly once; into others the last few may come again.
The ledger also has the last row that was sent: if rows were added before it, or are gone, it cannot tell which were
sent, and the replay refuses to continue.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from msmq.client.connection import Connection
from msmq.errors import IoTimeoutError, QueueNotFoundError
from msmq.spark.rows import Packer
from msmq.spark.schema import Table
from msmq.spark.sink import SinkOptions, Sorter, send_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK: Final = 500
_COLUMNS: Final = (
    "queue", "lookup_id", "arrived_time", "body", "body_type", "label", "priority", "app_specific", "correlation_id",
    "extension", "response_queue", "admin_queue", "queue_manager",
)  # fmt: skip
"""What is sent again. Time limits are not, because they are long over. The last column only decides the order: two
servers give the same numbers to messages of queues with the same name."""
_ORDER: Final = ("arrived_time", "queue", "lookup_id", "queue_manager")


class ReplayError(ValueError):
    """A replay that cannot continue."""


def replay(
    messages: DataFrame,
    options: Mapping[str, str],
    *,
    name: str,
    rate: float | None = None,
    again: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Send the messages of a table. Returns how many were sent now. ``options`` are those of the sink; without
    ``queue`` each message goes to the queue it came from. ``name`` identifies the replay: under the same name it
    continues where it stopped, or does nothing if it was finished, unless ``again`` starts it from the beginning.

    Raises:
        ReplayError: it was begun with other messages.
    """
    if "queue_manager" not in messages.columns:  # an archive of an earlier release
        messages = messages.selectExpr("*", "CAST(NULL AS STRING) AS queue_manager")
    ordered = messages.select(*_COLUMNS).orderBy(*_ORDER)
    rows = (row.asDict() for row in ordered.toLocalIterator())
    return asyncio.run(_replay(rows, options, name, rate, again, progress))


def ledger_of(name: str) -> str:
    """Return the name of the queue that records how far a replay has come."""
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
        number, before, last = await _done(mq, ledger)
        skipped = 0
        row: dict[str, Any] | None = None
        for row in islice(rows, before):  # noqa: B007  # the last is looked at
            skipped += 1
        if skipped < before or (row is not None and not _is_at(row, last)):
            raise ReplayError(
                f"The messages are not those that this replay began with: {skipped:,} in, there is another "
                "than the one that was sent last. Choose messages that stay the same, by their date for example, "
                "or begin anew."
            )
        progress(skipped)
        clock = asyncio.get_running_loop().time
        begun = clock()
        while chunk := list(islice(rows, CHUNK)):
            sorter = Sorter(mq, chosen, Packer(options, _COLUMNS))
            batch = pa.RecordBatch.from_pylist(chunk, schema=schema)
            held = sorter.transactional(iter([batch]))
            note = {"last": _place(chunk[-1]), "rows": skipped + sent + len(chunk)}
            await send_once(mq, ledger, number, held, note=note)
            number += 1
            sent += len(chunk)
            progress(skipped + sent)
            if rate:
                await asyncio.sleep(max(0.0, begun + sent / rate - clock()))
    return sent


def _place(row: Mapping[str, Any]) -> list[str]:
    """Return the values that identify a row, in a form that JSON can hold."""
    return [str(row[name]) for name in _ORDER]


def _is_at(row: Mapping[str, Any], last: list[str] | None) -> bool:
    """True if a row is the one that a ledger names; earlier releases did not record the queue manager."""
    return last is not None and _place(row)[: len(last)] == last


async def _done(mq: Connection, ledger: str) -> tuple[int, int, list[str] | None]:
    """Return how many chunks and how many rows were sent, and the last row."""
    with suppress(QueueNotFoundError, IoTimeoutError):
        message = await mq.queue(ledger).peek(timeout=0)
        said = json.loads(message.body)
        return said["batch"] + 1, said["rows"], said["last"]
    return 0, 0, None
