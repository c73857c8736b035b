"""Write rows to queues.

How it works
------------
Messages to transactional queues are sent exactly once.

*Streaming.* Each partition of a batch is one transaction, which also replaces the *token* of that query and partition:
a message, in a queue of its own, that says which batch was sent last and what was in it. A task opens that queue
exclusively, so that of two tasks with the same partition (a retry, a speculative copy, one of a driver that was killed)
one waits for the other, and then finds in the token that everything is done. If a repeated batch has other rows than
the one that was sent, because the query now divides its rows differently, the task fails and says so. Rows that the
source no longer has, because their messages expired, look the same from here; ``repeatedBatch=sent`` is for people who
know that this is the reason.

*Batch.* Each task stores its messages in a staging queue of its own. When all are done, one transaction on the driver
sends everything. Staging queues of jobs that died are deleted a day later by the next job.

Messages to other queues are sent as rows come; a repeated task sends them again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.columns import send_columns
from msmq.client.connection import Connection, connect
from msmq.client.message import Delivery, Receipt
from msmq.client.receiver import Receiver
from msmq.client.target import Tls
from msmq.client.transaction import Transaction
from msmq.errors import (
    IoTimeoutError,
    MQError,
    MsmqError,
    QueueExistsError,
    QueueNotFoundError,
    SharingViolationError,
)
from msmq.spark.options import ACCESS_OPTIONS, Access, OptionError, check_names
from msmq.spark.rows import ROW_OPTIONS, Packer, Parcel, RowError
from msmq.spark.telling import PlainError, plainly
from msmq.spark.versions import StreamArrowWriter

_log = logging.getLogger(__name__)

_DELIVERIES: Final = {
    "auto": None,
    "express": Delivery.EXPRESS,
    "recoverable": Delivery.RECOVERABLE,
    "transactional": Delivery.TRANSACTIONAL,
}
_REPEATED: Final = {"error": False, "sent": True}
_SINK_OPTIONS: Final = (*ACCESS_OPTIONS, *ROW_OPTIONS, "delivery", "repeatedBatch", "checkpointLocation")
_ROWS_AT_ONCE: Final = 1_000
_LARGEST_STAGED: Final = 3 << 20
_UNDER_WAY: Final = 8
"""The parcels that are sent before the first of them is confirmed."""
_STAGING: Final = "spark-staging-"
_ORPHANED: Final = timedelta(days=1)
_PAUSE_S: Final = 0.1
_TRIES_PER_WARNING: Final = 300
_DIGEST_VERSION: Final = 3
_TOKEN_LABEL: Final = "Spark: what was sent last"


class StagingError(PlainError):
    """Rows that a task has stored are missing from its staging queue."""


class RepeatedBatchError(PlainError):
    """A batch was repeated with other rows."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write, and how safely."""

    access: Access
    delivery: Delivery | None
    keeps_sent: bool = False
    """True if the rows that were sent for a batch count, even if the batch is repeated with other rows."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SinkOptions:
        check_names(options, _SINK_OPTIONS)
        delivery = options.get("delivery", "auto").lower()
        if delivery not in _DELIVERIES:
            raise OptionError(f"delivery is one of {', '.join(_DELIVERIES)}, not {delivery!r}.")
        repeated = options.get("repeatedBatch", "error").lower()
        if repeated not in _REPEATED:
            raise OptionError(f"repeatedBatch is one of {', '.join(_REPEATED)}, not {repeated!r}.")
        return cls(Access.of(options), _DELIVERIES[delivery], _REPEATED[repeated])

    def connect(self) -> Connection:
        access = self.access
        tls = Tls(authorities=access.authorities) if access.authorities else None
        return connect(access.server, token=access.token, tls=tls, timeout=access.timeout_s)


class _Router:
    """Decides how messages to a queue are sent."""

    def __init__(self, mq: Connection, options: SinkOptions) -> None:
        self._mq = mq
        self._chosen = options.delivery
        self._known: dict[str, Delivery] = {}

    async def delivery(self, queue: str) -> Delivery:
        if self._chosen is not None:
            return self._chosen
        if queue not in self._known:
            self._known[queue] = await self._ask(queue)
        return self._known[queue]

    async def _ask(self, queue: str) -> Delivery:
        try:
            info = await self._mq.queue_info(queue)
        except QueueNotFoundError:
            # A missing queue of this computer is reported when sending; about queues of other hosts nothing is known.
            return Delivery.RECOVERABLE
        except MQError:
            return Delivery.RECOVERABLE
        return Delivery.TRANSACTIONAL if info.transactional else Delivery.RECOVERABLE


class Convoy:
    """Sends parcels, several of them under way at a time. Those for one queue arrive in the order they were put."""

    def __init__(self, mq: Connection, transaction: Transaction | None = None) -> None:
        self._mq = mq
        self._transaction = transaction
        self._under_way: deque[tuple[str, Sequence[int], asyncio.Future[list[Receipt | MQError]]]] = deque()

    async def put(self, queue: str, columns: bytes, rows: Sequence[int]) -> None:
        """Send messages whose `pb.Columns` are serialized already.

        Raises:
            RowError: the queue manager refused one of these messages, or of those that were put earlier.
        """
        while len(self._under_way) >= _UNDER_WAY:
            await self._settle()
        try:
            sending = send_columns(self._mq, queue, columns, len(rows), self._transaction)
        except MQError as error:
            raise _refused(queue, rows, error) from error
        self._under_way.append((queue, rows, sending))
        await asyncio.sleep(0)  # they are sent

    async def _settle(self) -> None:
        queue, rows, sending = self._under_way.popleft()
        try:
            outcomes = await sending
        except MQError as error:
            raise _refused(queue, rows, error) from error
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(outcome, MQError):
                raise RowError(f"row {row} to {queue}", outcome) from outcome

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until every message is safe; after an error, cancel what is still under way."""
        try:
            if kind is None:
                while self._under_way:
                    await self._settle()
        finally:
            left = [sending for _, _, sending in self._under_way]
            for sending in left:
                sending.cancel()
            await asyncio.gather(*left, return_exceptions=True)


def _refused(queue: str, rows: Sequence[int], why: MQError) -> RowError:
    return RowError(f"row {rows[0]} {'and others ' if len(rows) > 1 else ''}to {queue}", why)


class Sorter:
    """Divides rows into those that are sent in a transaction and the others, which are sent at once."""

    def __init__(self, mq: Connection, options: SinkOptions, packer: Packer) -> None:
        self._mq = mq
        self._packer = packer
        self._router = _Router(mq, options)
        self.rows = 0

    async def transactional(self, batches: Iterator[pa.RecordBatch]) -> AsyncGenerator[Parcel, None]:
        """Yield the parcels that must be sent in a transaction, and send the others meanwhile."""
        async with Convoy(self._mq) as free:
            for batch in _pieces(batches):
                for parcel in self._packer.parcels(batch, self.rows):
                    delivery = await self._router.delivery(parcel.queue)
                    if delivery is Delivery.TRANSACTIONAL:
                        yield parcel
                        continue
                    for kind in parcel.columns.kinds:
                        kind.delivery = int(delivery)  # type: ignore[assignment]
                    await free.put(parcel.queue, parcel.columns.SerializeToString(), parcel.rows)
                self.rows += batch.num_rows


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches into pieces, so that one is made into messages while another is sent."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield batch.slice(start, _ROWS_AT_ONCE)


# --- streaming --------------------------------------------------------------------------------------------------------


@dataclass
class Sent(WriterCommitMessage):
    """The message of a task that is done."""

    rows: int
    repeated: bool


class MsmqStreamWriter(StreamArrowWriter):
    """The sink of a query."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._options = SinkOptions.of(options)
        self._packer = Packer(options, columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None
        assert batch is not None
        with plainly(self._options.access):
            return asyncio.run(self._write(iterator, query, int(batch), context.partitionId()))

    async def _write(
        self, batches: Iterator[pa.RecordBatch], query: str, batch: int, partition: int
    ) -> WriterCommitMessage:
        async with self._options.connect() as mq:
            sorter = Sorter(mq, self._options, self._packer)
            parcels = sorter.transactional(batches)
            first = await anext(parcels, None)
            if first is None:
                return Sent(sorter.rows, False)
            ledger = f".\\private$\\spark-{query}-{partition}"
            keeps = self._options.keeps_sent
            repeated = await send_once(mq, ledger, batch, _chain(first, parcels), keeps_sent=keeps)
            return Sent(sorter.rows, repeated)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the tasks have sent everything."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what a task has sent stays sent. When the batch is repeated, its token knows."""


async def _chain(first: Parcel, others: AsyncIterator[Parcel]) -> AsyncIterator[Parcel]:
    yield first
    async for more in others:
        yield more


@dataclass(slots=True)
class Digest:
    """A digest of the rows of a partition, whatever their order."""

    rows: int = 0
    sum: int = 0

    def add(self, parcel: Parcel) -> None:
        """Add the rows of a parcel. The result does not depend on how rows are divided into parcels."""
        begun: dict[tuple[Any, ...], hashlib.blake2b] = {}
        for head, body in zip(parcel.heads(), parcel.columns.bodies, strict=True):
            if (like := begun.get(head)) is None:
                said = repr((parcel.queue, *head)).encode("utf-8", "surrogatepass")
                like = begun[head] = hashlib.blake2b(said, digest_size=16)
            row = like.copy()
            row.update(body)
            self.sum += int.from_bytes(row.digest(), "little")
        self.rows += len(parcel)
        self.sum %= 1 << 128

    def value(self) -> dict[str, Any]:
        return {"rows": self.rows, "sum": f"{self.sum:032x}", "version": _DIGEST_VERSION}


async def send_once(
    mq: Connection,
    ledger: str,
    batch: int,
    parcels: AsyncIterator[Parcel],
    note: Mapping[str, Any] = MappingProxyType({}),
    *,
    keeps_sent: bool = False,
) -> bool:
    """Send messages in a transaction that also records this in the ledger, with a ``note``. Does nothing if the ledger
    has the batch already. Returns whether it sent them.

    Raises:
        RepeatedBatchError: the ledger has the batch with other messages, and ``keeps_sent`` is false.
    """
    with suppress(QueueExistsError):
        await mq.create_queue(ledger, transactional=True, label=_TOKEN_LABEL)
    transaction = await mq.transaction().begin()
    try:
        async with _alone(mq, ledger, transaction) as receiver:
            last = await _token(mq, ledger, receiver)
            digest = Digest()
            if last is not None and last["batch"] >= batch:
                if not keeps_sent:
                    await _compare(parcels, digest, batch, last)
                await transaction.abort()
                return True
            async with Convoy(mq, transaction) as sending:
                async for parcel in parcels:
                    await sending.put(parcel.queue, parcel.columns.SerializeToString(), parcel.rows)
                    digest.add(parcel)
            said = json.dumps({"batch": batch, "sent": digest.value(), **note}).encode()
            await transaction.send(ledger, said, label=_TOKEN_LABEL)
            await transaction.commit()
            return False
    except BaseException:
        with suppress(MsmqError):
            await transaction.abort()
        raise


@asynccontextmanager
async def _alone(mq: Connection, ledger: str, transaction: Transaction) -> AsyncIterator[Receiver]:
    """Open a ledger exclusively.

    Another task with the same partition may be slow. This waits as long as that one lives: failing would make Spark
    give up a batch that is well under way. A task that has died has lost the ledger with its connection.
    """
    for tries in count(1):
        if tries % _TRIES_PER_WARNING == 0:
            _log.warning("Another task holds %s, and is waited for.", ledger)
        receiver = Receiver(mq, ledger, exclusive=True, prefetch=1, transaction=transaction.identifier)
        try:
            await receiver.__aenter__()
            break
        except SharingViolationError:
            await asyncio.sleep(_PAUSE_S)
    try:
        yield receiver
    finally:
        await receiver.close()


async def _token(mq: Connection, ledger: str, receiver: Receiver) -> dict[str, Any] | None:
    """Read the token; None before the first batch. The transaction of a task that died may still hold it."""
    while (await mq.queue(ledger).survey([(0, (1 << 64) - 1)])).held:
        await asyncio.sleep(_PAUSE_S)
    try:
        message = await receiver.receive(timeout=0)
    except IoTimeoutError:
        return None
    found: dict[str, Any] = json.loads(message.body)
    return found


async def _compare(parcels: AsyncIterator[Parcel], digest: Digest, batch: int, last: dict[str, Any]) -> None:
    """Check that a repeated batch is the one that was sent."""
    async for parcel in parcels:
        digest.add(parcel)
    sent = last["sent"]
    if sent.get("version") != _DIGEST_VERSION:  # of an earlier release, whose digest is different
        sent = {**digest.value(), "rows": sent["rows"]}
    if last["batch"] == batch and digest.value() != sent:
        raise RepeatedBatchError(
            f"Batch {batch} was sent before with {last['sent']['rows']} rows in this partition, and comes again with "
            f"{digest.rows} that are not the same. How the query divides its rows must not change between a failure "
            "and the restart. If it has not, and the others are messages that expired meanwhile, then the option "
            "repeatedBatch=sent goes on with what was sent."
        )


# --- batch ------------------------------------------------------------------------------------------------------------


@dataclass
class Staged(WriterCommitMessage):
    """The message of a task that has stored its rows."""

    partition: int
    queue: str | None
    rows: int = 0


@dataclass
class MsmqWriter(DataSourceArrowWriter):
    """Writes a table; if its queues are transactional, all of it or nothing."""

    options: Mapping[str, str] = field(repr=False)
    columns: Sequence[str]
    overwrite: bool

    def __post_init__(self) -> None:
        if self.overwrite:
            raise OptionError(
                'A queue is not overwritten: use mode("append"), and purge it before if you must.'
            )
        self._options = SinkOptions.of(self.options)
        self._packer = Packer(self.options, self.columns)
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        with plainly(self._options.access):
            return asyncio.run(self._write(iterator, 0 if context is None else context.partitionId()))

    async def _write(self, batches: Iterator[pa.RecordBatch], partition: int) -> Staged:
        async with self._options.connect() as mq:
            sorter = Sorter(mq, self._options, self._packer)
            queue: str | None = None
            staged = 0
            try:
                async with Convoy(mq) as sending:
                    async for parcel in sorter.transactional(batches):
                        if queue is None:
                            queue = f".\\private$\\{_STAGING}{self._job}-{uuid.uuid4().hex}"
                            await mq.create_queue(queue, transactional=False, label="Spark: put aside")
                        for piece in _pieces_of(parcel):
                            await sending.put(queue, piece.SerializeToString(), parcel.rows[:1])
                        staged += len(parcel)
            except BaseException:
                if queue is not None:
                    await mq.delete_queue(queue)
                raise
            return Staged(partition, queue, staged)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with plainly(self._options.access):
            asyncio.run(self._commit([found for found in messages if isinstance(found, Staged)]))

    async def _commit(self, staged: list[Staged]) -> None:
        async with self._options.connect() as mq:
            async with mq.transaction() as transaction:
                for task in staged:
                    if task.queue is not None:
                        await _send_staged(mq, task, transaction)
            await _forget(mq, self._job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        try:
            asyncio.run(self._abort())
        except (MsmqError, OSError) as error:  # report what made the job fail, not this
            _log.warning("Messages that were put aside are deleted a day later: %s", error)

    async def _abort(self) -> None:
        async with self._options.connect() as mq:
            await _forget(mq, self._job)


def _pieces_of(parcel: Parcel) -> Iterator[pb.Columns]:
    """Messages that hold a parcel: one, or several where the parcel is larger than a message may be. Each says how many
    follow, and how many rows the parcel has for which queue, so that the driver can send it without reading it."""
    data = parcel.columns.SerializeToString()
    about = f"{len(parcel)} {parcel.queue}".encode("utf-8", "surrogatepass")
    pieces = [data[start : start + _LARGEST_STAGED] for start in range(0, len(data), _LARGEST_STAGED)]
    for left, piece in zip(reversed(range(len(pieces))), pieces, strict=True):
        yield pb.Columns(kinds=[pb.Message(application_tag=left, extension=about)], bodies=[piece])


async def _send_staged(mq: Connection, task: Staged, transaction: Transaction) -> None:
    """Send what a task has stored."""
    assert task.queue is not None
    data = b""
    row = 0
    try:
        async with Convoy(mq, transaction) as sending:
            async for batch in mq.queue(task.queue).span(0, (1 << 64) - 1):
                for message in batch:
                    data += message.body
                    if message.application_tag:
                        continue
                    count, _, queue = message.extension.decode("utf-8", "surrogatepass").partition(" ")
                    rows = range(row, row + int(count))
                    await sending.put(queue, data, rows)
                    data, row = b"", rows.stop
    except RowError as error:
        raise RowError(f"partition {task.partition}, transactional {error.place}", error) from error
    if row != task.rows:
        raise StagingError(
            f"Of {task.rows} rows that partition {task.partition} put aside in {task.queue} {row} are there: somebody "
            "took messages out of that queue. Nothing was sent."
        )


async def _forget(mq: Connection, job: str) -> None:
    """Delete staging queues: those of a job, also of its repeated and killed tasks, and those of jobs that died."""
    before = datetime.now(UTC) - _ORPHANED
    for info in await mq.queues():
        name = info.path.lower()
        if f"{_STAGING}{job}" in name or (_STAGING in name and info.created_time < before):
            with suppress(QueueNotFoundError):
                await mq.delete_queue(info.path)
