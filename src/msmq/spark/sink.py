"""Writing rows to queues.

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
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.columns import send_columns
from msmq.client.connection import Connection, connect
from msmq.client.message import Delivery, Message
from msmq.client.problems import SendError
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
from msmq.spark.rows import LETTER_OPTIONS, Letter, Letters, Parcel, RowError
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
_SINK_OPTIONS: Final = (*ACCESS_OPTIONS, *LETTER_OPTIONS, "delivery", "repeatedBatch", "checkpointLocation")
_ROWS_AT_ONCE: Final = 1_000
_STAGED_BYTES: Final = 1 << 20
_LARGEST_STAGED: Final = 3 << 20
_STAGED_UNDER_WAY: Final = 4
"""Parcels that are sent before the first of them is confirmed."""
_STAGING: Final = "spark-staging-"
_ORPHANED: Final = timedelta(days=1)
_PAUSE_S: Final = 0.1
_TRIES_PER_WARNING: Final = 300
_DIGEST_VERSION: Final = 2
_TOKEN_LABEL: Final = "Spark: what was sent last"


class RepeatedBatchError(PlainError):
    """A batch was repeated with other rows."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write, and how safe."""

    access: Access
    delivery: Delivery | None
    keeps_sent: bool = False
    """Whether what was sent of a batch counts, when the batch comes again with other rows."""

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
    """Tells how messages to a queue are sent."""

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
            # It is a queue of this computer that is missing, and sending says so; of other hosts nothing is known.
            return Delivery.RECOVERABLE
        except MQError:
            return Delivery.RECOVERABLE
        return Delivery.TRANSACTIONAL if info.transactional else Delivery.RECOVERABLE


async def _send(mq: Connection, letters: Sequence[Letter], transaction: Transaction | None = None) -> None:
    """Send messages in their order, queue by queue. Says of the first that is refused which row it was."""
    by_queue: dict[str, list[Letter]] = {}
    for letter in letters:
        by_queue.setdefault(letter.queue, []).append(letter)
    for queue, group in by_queue.items():
        try:
            await mq.queue(queue).send_many((letter.message for letter in group), transaction=transaction)
        except SendError as error:
            index, why = error.failures[0]
            raise RowError(f"row {group[index].row} to {queue}", why) from error
        except MQError as error:
            raise RowError(f"row {group[0].row} and others to {queue}", error) from error


class _Columns(NamedTuple):
    """A parcel as it travels."""

    row: int
    """The number of its first row."""
    rows: int
    data: bytes


async def _send_columns(
    mq: Connection, queue: str, parcels: Sequence[_Columns], transaction: Transaction | None = None
) -> None:
    """Send parcels, which are all for one queue and are under way together."""
    sends = [send_columns(mq, queue, parcel.data, parcel.rows, transaction) for parcel in parcels]
    try:
        refused = await asyncio.gather(*sends)
    except MQError as error:
        raise RowError(f"row {parcels[0].row} and others to {queue}", error) from error
    for parcel, failures in zip(parcels, refused, strict=True):
        for index, why in failures:
            raise RowError(f"row {parcel.row + index} to {queue}", why) from why


async def _send_parcels(
    mq: Connection, parcels: Sequence[Parcel], transaction: Transaction | None = None
) -> None:
    made = [_Columns(parcel.row, len(parcel), parcel.columns.SerializeToString()) for parcel in parcels]
    await _send_columns(mq, parcels[0].queue, made, transaction)


Held = list[Letter] | list[Parcel]
"""Some rows, one by one or all for one queue."""


async def _send_held(mq: Connection, held: Held, transaction: Transaction) -> None:
    letters = [each for each in held if isinstance(each, Letter)]
    parcels = [each for each in held if isinstance(each, Parcel)]
    if letters:
        await _send(mq, letters, transaction)
    if parcels:
        await _send_parcels(mq, parcels, transaction)


class Sorter:
    """Divides rows into those that are sent in a transaction and those that are not, which go at once."""

    def __init__(self, mq: Connection, options: SinkOptions, letters: Letters) -> None:
        self._mq = mq
        self._letters = letters
        self._router = _Router(mq, options)
        self._under_way: asyncio.Task[None] | None = None
        self.rows = 0

    async def transactional(self, batches: Iterator[pa.RecordBatch]) -> AsyncGenerator[Held, None]:
        """What is to be sent in a transaction, in parcels where the columns allow it; the others are under way while
        the next rows are made into messages."""
        try:
            for batch in _pieces(batches):
                parcels = self._letters.parcels(batch, self.rows)
                delivery = None if parcels is None else await self._router.delivery(parcels[0].queue)
                held: Held = []
                if parcels is None:
                    held = await self._one_by_one(batch)
                elif delivery is Delivery.TRANSACTIONAL:
                    held = parcels
                else:
                    for parcel in parcels:
                        parcel.columns.kinds[0].delivery = int(delivery or 0)  # type: ignore[assignment]
                    await self._go(_send_parcels(self._mq, parcels))
                self.rows += batch.num_rows
                if held:
                    yield held
            if self._under_way is not None:
                await self._under_way
        finally:
            if self._under_way is not None:
                self._under_way.cancel()

    async def _one_by_one(self, batch: pa.RecordBatch) -> list[Letter]:
        """The transactional rows of a batch; the others go."""
        held: list[Letter] = []
        free: list[Letter] = []
        for letter in self._letters.of(batch, self.rows):
            delivery = await self._router.delivery(letter.queue)
            if delivery is Delivery.TRANSACTIONAL:
                held.append(letter)
            else:
                letter.message.delivery = delivery
                free.append(letter)
        await self._go(_send(self._mq, free))
        return held

    async def _go(self, sending: Coroutine[Any, Any, None]) -> None:
        """Let messages go when those before them have arrived."""
        if self._under_way is not None:
            try:
                await self._under_way
            except BaseException:
                sending.close()
                raise
        self._under_way = asyncio.create_task(sending)
        await asyncio.sleep(0)  # it begins


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches into pieces, so that one is made into messages while another travels."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield batch.slice(start, _ROWS_AT_ONCE)


# --- streaming --------------------------------------------------------------------------------------------------------


@dataclass
class Sent(WriterCommitMessage):
    """A task is done."""

    rows: int
    repeated: bool


class MsmqStreamWriter(StreamArrowWriter):
    """The sink of a query."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._options = SinkOptions.of(options)
        self._letters = Letters(options, columns)

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
            sorter = Sorter(mq, self._options, self._letters)
            parcels = sorter.transactional(batches)
            first = await anext(parcels, None)
            if first is None:
                return Sent(sorter.rows, False)
            ledger = f".\\private$\\spark-{query}-{partition}"
            keeps = self._options.keeps_sent
            repeated = await send_once(mq, ledger, batch, _chain(first, parcels), keeps_sent=keeps)
            return Sent(sorter.rows, repeated)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Everything was sent by the tasks."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What a task has sent stays sent: the batch comes again, and its token knows."""


async def _chain(first: Held, others: AsyncIterator[Held]) -> AsyncIterator[Held]:
    yield first
    async for more in others:
        yield more


@dataclass(slots=True)
class Digest:
    """What was in a partition, whatever the order of its rows."""

    rows: int = 0
    sum: int = 0

    def add(self, held: Held) -> None:
        """Count some rows in, in the same way whether they come one by one or in parcels."""
        for each in held:
            kind = each.kind.SerializeToString(deterministic=True)
            begun = hashlib.blake2b(each.queue.encode() + b"\0" + kind, digest_size=16)
            for body, *others in each.own:
                row = begun.copy()
                row.update(body)
                row.update(repr((len(body), others)).encode("utf-8", "surrogatepass"))
                self.rows += 1
                self.sum += int.from_bytes(row.digest(), "little")
        self.sum %= 1 << 128

    def value(self) -> dict[str, Any]:
        return {"rows": self.rows, "sum": f"{self.sum:032x}", "version": _DIGEST_VERSION}


async def send_once(
    mq: Connection,
    ledger: str,
    batch: int,
    parcels: AsyncIterator[Held],
    note: Mapping[str, Any] = MappingProxyType({}),
    *,
    keeps_sent: bool = False,
) -> bool:
    """Send messages in a transaction that also says so in the ledger, with a ``note``, unless it says so already. Gives
    whether it did.

    Raises:
        RepeatedBatchError: it says so of other messages, and not ``keeps_sent``.
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
            async for held in parcels:
                digest.add(held)
                await _send_held(mq, held, transaction)
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
    """A ledger, for nobody else meanwhile.

    Another task with the same partition may be slow. It is waited for as long as it lives: to fail would make Spark
    give up a batch that is well under way. Who has died has lost the ledger with its connection.
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
    """What the token says; None before the first batch. The transaction of a task that died may still hold it."""
    while (await mq.queue(ledger).survey([(0, (1 << 64) - 1)])).held:
        await asyncio.sleep(_PAUSE_S)
    try:
        message = await receiver.receive(timeout=0)
    except IoTimeoutError:
        return None
    found: dict[str, Any] = json.loads(message.body)
    return found


async def _compare(parcels: AsyncIterator[Held], digest: Digest, batch: int, last: dict[str, Any]) -> None:
    """See that a batch that comes again is the one that was sent."""
    async for held in parcels:
        digest.add(held)
    sent = last["sent"]
    if sent.get("version") != _DIGEST_VERSION:  # of an earlier release, which added up otherwise
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
    """A task has put its messages aside."""

    partition: int
    queue: str | None
    rows: int = 0


@dataclass
class MsmqWriter(DataSourceArrowWriter):
    """Writes a table, all of it or, where its queues are transactional, nothing."""

    options: Mapping[str, str] = field(repr=False)
    columns: Sequence[str]
    overwrite: bool

    def __post_init__(self) -> None:
        if self.overwrite:
            raise OptionError(
                'A queue is not overwritten: use mode("append"), and purge it before if you must.'
            )
        self._options = SinkOptions.of(self.options)
        self._letters = Letters(self.options, self.columns)
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        with plainly(self._options.access):
            return asyncio.run(self._write(iterator, 0 if context is None else context.partitionId()))

    async def _write(self, batches: Iterator[pa.RecordBatch], partition: int) -> Staged:
        async with self._options.connect() as mq:
            sorter = Sorter(mq, self._options, self._letters)
            queue: str | None = None
            try:
                async for held in sorter.transactional(batches):
                    if queue is None:
                        queue = f".\\private$\\{_STAGING}{self._job}-{uuid.uuid4().hex}"
                        await mq.create_queue(queue, transactional=False, label="Spark: put aside")
                    await mq.queue(queue).send_many(_packed(held))
            except BaseException:
                if queue is not None:
                    await mq.delete_queue(queue)
                raise
            return Staged(partition, queue, sorter.rows)

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
        except (MsmqError, OSError) as error:  # what made the job fail is what people should hear of
            _log.warning("Messages that were put aside are deleted a day later: %s", error)

    async def _abort(self) -> None:
        async with self._options.connect() as mq:
            await _forget(mq, self._job)


def _packed(held: Held) -> Iterator[Message]:
    """Messages in parcels of about a megabyte; one that is larger than a message may be is cut."""
    parcel = pb.SendRequest()
    size = 0
    for letter in held:
        if isinstance(letter, Parcel):
            about = f"{len(letter)} {letter.queue}".encode("utf-8", "surrogatepass")
            yield from _cut(letter.columns.SerializeToString(), about)
            continue
        made = letter.message.to_proto()
        if parcel.messages and (parcel.queue != letter.queue or size > _STAGED_BYTES):
            yield from _cut(parcel.SerializeToString())
            parcel, size = pb.SendRequest(), 0
        parcel.queue = letter.queue
        parcel.messages.append(made)
        size += len(made.body) + len(made.extension)
    if parcel.messages:
        yield from _cut(parcel.SerializeToString())


def _cut(data: bytes, about: bytes = b"") -> Iterator[Message]:
    """Data in messages, each with how many follow; ``about`` columns there is how many rows they have, and for which
    queue, so that whoever sends them need not look into them."""
    pieces = [data[start : start + _LARGEST_STAGED] for start in range(0, len(data), _LARGEST_STAGED)]
    for left, piece in zip(reversed(range(len(pieces))), pieces, strict=True):
        yield Message(piece, application_tag=left, extension=about)


async def _send_staged(mq: Connection, task: Staged, transaction: Transaction) -> None:
    """Send what a task has put aside."""
    assert task.queue is not None
    under_way: deque[asyncio.Task[None]] = deque()
    data = b""
    row = 0
    try:
        async for batch in mq.queue(task.queue).span(0, (1 << 64) - 1):
            for message in batch:
                data += message.body
                if message.application_tag:
                    continue
                sending, count = _sending(mq, data, message.extension, row, transaction)
                data = b""
                under_way.append(asyncio.create_task(sending))
                row += count
                while len(under_way) > _STAGED_UNDER_WAY:
                    await under_way.popleft()
        while under_way:
            await under_way.popleft()
    except RowError as error:
        raise RowError(f"partition {task.partition}, transactional {error.place}", error) from error
    finally:
        for left in under_way:
            left.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def _sending(
    mq: Connection, data: bytes, about: bytes, row: int, transaction: Transaction
) -> tuple[Coroutine[Any, Any, None], int]:
    """How to send messages that were put aside together, the first of which has this number; and how many there
    are. Whatever is begun earlier arrives earlier."""
    if about:
        count, _, queue = about.decode("utf-8", "surrogatepass").partition(" ")
        return _send_columns(mq, queue, [_Columns(row, int(count), data)], transaction), int(count)
    staged = pb.SendRequest.FromString(data)
    letters = [
        Letter(staged.queue, Message.from_proto(made), row + place)
        for place, made in enumerate(staged.messages)
    ]
    return _send(mq, letters, transaction), len(letters)


async def _forget(mq: Connection, job: str) -> None:
    """Delete staging queues: those of a job, of its repeated and killed tasks too, and those of jobs that died."""
    before = datetime.now(UTC) - _ORPHANED
    for info in await mq.queues():
        name = info.path.lower()
        if f"{_STAGING}{job}" in name or (_STAGING in name and info.created_time < before):
            with suppress(QueueNotFoundError):
                await mq.delete_queue(info.path)
