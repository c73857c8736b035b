"""A queue, as an application sees it."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from enum import IntEnum
from itertools import islice
from signal import Signals
from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

from msmq.api import status
from msmq.api.generated import msmq_pb2 as pb
from msmq.client.consumer import SIGNALS, Consumer
from msmq.client.cursor import Cursor, HeldAtCursor, Wanted
from msmq.client.message import Message, Receipt, ReceivedMessage, id_bytes
from msmq.client.problems import RowError, SendError
from msmq.client.properties import MessageProperties, check_names
from msmq.client.receiver import Held, Mode, Receiver
from msmq.client.sender import BATCH_MESSAGES, Load
from msmq.errors import MessageNotFoundError, MQError, QueueNotFoundError
from msmq.wire.bodies import Body

if TYPE_CHECKING:
    from msmq.client.connection import Connection
    from msmq.client.transaction import Transaction
    from msmq.client.watcher import Sending

_REMOVALS: Final = 2_000


class QueueIdentity(NamedTuple):
    """Distinguishes a queue from others of the same name: on another computer, in the data of a queue manager that was
    set up anew, or created after the first was deleted. Lookup identifiers have a meaning only together with it."""

    queue_manager: str
    """GUID of the queue manager."""
    queue: str
    """GUID of the queue; journals and subqueues have the one of their queue, and the queue manager's own queues all
    zeros."""
    incarnation: str = ""
    """The start of the queue manager that answered. It does not distinguish queues."""

    def is_same(self, other: QueueIdentity) -> bool:
        """True if both identify the same queue."""
        return self[:2] == other[:2]


class Survey(NamedTuple):
    """The messages that stand in a part of a queue."""

    lookup_ids: array[int]
    held: array[int]
    """Messages that somebody else holds, at which the survey of a span stopped."""
    bytes: int
    identity: QueueIdentity
    """The queue to which the lookup identifiers belong."""
    expiring: frozenset[int] = frozenset()
    """The messages among them that expire if nobody receives them in time."""
    restored: bool = False
    """True if the queue manager runs on an older copy of its data than the known one, and gives out identifiers
    again."""


class Waiting(NamedTuple):
    """The amount of messages that stand in a part of a queue."""

    messages: int
    bytes: int
    oldest_time: int
    """When the oldest message arrived, in seconds since 1970; 0 if there is none."""
    ends: array[int]
    """The last lookup identifier of each span."""


class Removal(NamedTuple):
    """The outcome of a removal."""

    removed: int
    not_found: array[int]
    held: array[int]
    """Messages that somebody else holds."""
    elsewhere: bool = False
    """True if the identity belongs to another queue manager, which alone can remove them: nothing was removed."""


class Seek(IntEnum):
    """Where to look, relative to a lookup identifier."""

    CURRENT = 0
    NEXT = 1
    PREVIOUS = 2
    FIRST = 3
    LAST = 4


def _survey_request(queue: str, spans: Iterable[tuple[int, int]]) -> pb.SurveyRequest:
    return pb.SurveyRequest(queue=queue, spans=[pb.Span(after=after, upto=upto) for after, upto in spans])


def as_message(message: Message | Body, properties: MessageProperties) -> Message:
    """Make a message of a body and its properties, or change the properties of a message."""
    if properties:
        check_names(properties, MessageProperties.__annotations__)
    if isinstance(message, Message):
        return message.with_(**properties) if properties else message
    return Message(message, **properties)


class Queue:
    """A queue by its path or format name, here or on another host. The server is not asked about it before it is
    used."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    # --- sending ------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message | Body,
        *,
        transaction: Transaction | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        """Send a message, or a body with ``properties``. Returns when it is safe: in its queue on this computer, or in
        the outgoing queue to another. Messages that several tasks send at the same time travel together."""
        made, watcher = as_message(message, properties), self._connection.watcher
        if watcher is None:
            return _receipt(await self._leave(made, transaction), transaction)
        with watcher.sending(self.name) as sending:
            receipt = _receipt(await self._leave(sending.leave(made), transaction), transaction)
            sending.sent([receipt])
            return receipt

    def _leave(
        self, message: Message, transaction: Transaction | None
    ) -> asyncio.Future[list[Receipt | MQError]]:
        """Hand one message to the sender, which sends it together with those of other tasks."""
        load = Load(self._connection.kinds)
        load.add(message)
        sender = self._connection.sender(self.name)
        return sender.send(load, transaction.identifier if transaction is not None else b"")

    async def send_many(
        self,
        messages: Iterable[Message | Body] | AsyncIterable[Message | Body],
        *,
        transaction: Transaction | None = None,
        **properties: Unpack[MessageProperties],
    ) -> list[Receipt]:
        """Send many messages, several batches at a time, in order. Raises SendError when some were refused."""
        watcher = self._connection.watcher
        if watcher is None:
            return await self._send_many(self._loads(messages, properties, None), transaction)
        with watcher.sending_many(self.name) as sending:
            receipts = await self._send_many(self._loads(messages, properties, sending), transaction)
            sending.sent(receipts)
            return receipts

    async def _loads(
        self,
        messages: Iterable[Message | Body] | AsyncIterable[Message | Body],
        properties: MessageProperties,
        sending: Sending | None,
    ) -> AsyncIterator[Load]:
        """Divide messages, as they come, into loads that fit into one batch each."""
        load = Load(self._connection.kinds)
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                made = as_message(message, properties)
                if load.add(made if sending is None else sending.leave(made)):
                    yield load
                    load = Load(self._connection.kinds)
        else:
            for message in messages:
                made = as_message(message, properties)
                if load.add(made if sending is None else sending.leave(made)):
                    yield load
                    load = Load(self._connection.kinds)
        if load.rows:
            yield load

    async def _send_many(self, loads: AsyncIterator[Load], transaction: Transaction | None) -> list[Receipt]:
        named = transaction.identifier if transaction is not None else b""
        pending: deque[asyncio.Future[list[Receipt | MQError]]] = deque()
        outcomes: list[Receipt | MQError] = []
        try:
            async for load in loads:
                pending.append(self._connection.sender(self.name).send(load, named))
                while len(pending) > self._connection.window // BATCH_MESSAGES + 2:
                    outcomes += await pending.popleft()
            while pending:
                outcomes += await pending.popleft()
        finally:
            for future in pending:  # what has not left yet is not sent
                future.cancel()
        receipts = [outcome for outcome in outcomes if not isinstance(outcome, MQError)]
        if len(receipts) != len(outcomes):
            if transaction is not None:
                transaction.check_open()
            raise SendError(outcomes)
        return receipts

    async def send_once(self, messages: Iterable[Message | Body], *, row: str, place: int) -> int:
        """Send a part of a row of messages, each exactly once, even if this program, the connection or the queue
        manager is interrupted. ``row`` is a name that the caller chooses and keeps, ``place`` is how many messages
        come before this part. Messages that were sent already are skipped. Returns how many messages of the row have
        been sent so far; without messages it only asks for that. Raises RowError when one is refused."""
        made, watcher = [as_message(message, {}) for message in messages], self._connection.watcher
        if watcher is None or not made:
            return await self._send_once(made, row, place)
        with watcher.sending_many(self.name) as sending:
            return await self._send_once([sending.leave(message) for message in made], row, place)

    async def _send_once(self, messages: list[Message], row: str, place: int) -> int:
        given = [message.to_proto() for message in messages]
        request = pb.SendOnceRequest(queue=self.name, messages=given, row=row, place=place)
        reply: pb.SendOnceReply = await self._connection.call("SendOnce", request, safe=True)
        if reply.HasField("error"):
            raise RowError(reply.sent, status.from_message(reply.error))
        return reply.sent

    async def forget_row(self, row: str) -> None:
        """Forget a row that is finished; the same name then begins a new one."""
        await self._connection.call("ForgetRow", pb.ForgetRowRequest(row=row), safe=True)

    # --- receiving ----------------------------------------------------------------------------------------------

    def receiver(
        self,
        *,
        mode: Mode = Mode.HOLD,
        prefetch: int = 256,
        exclusive: bool = False,
        retry_delay_ms: int | None = None,
        max_deliveries: int | None = None,
        poison_subqueue: str | None = None,
    ) -> Receiver:
        """Receive many messages: ``async with queue.receiver() as receiver:``. Up to ``prefetch`` messages are fetched
        ahead.

        A message that is rejected comes back after ``retry_delay_ms``. After ``max_deliveries`` rejections it goes to
        the ``poison_subqueue`` instead, or to the dead-letter queue if that is empty. None uses the setting of the
        queue.
        """
        return Receiver(
            self._connection,
            self.name,
            mode=mode,
            prefetch=prefetch,
            exclusive=exclusive,
            retry_delay_ms=retry_delay_ms,
            max_deliveries=max_deliveries,
            poison_subqueue=poison_subqueue,
        )

    def consumer(
        self,
        *,
        concurrency: int = 1,
        drain: float | None = None,
        signals: tuple[Signals, ...] = SIGNALS,
    ) -> Consumer:
        """Process messages until a signal comes: ``await queue.consumer(concurrency=8).run(work)``, or ``async for
        message in queue.consumer():``. Work that has begun is finished, or cancelled after ``drain`` seconds."""
        return Consumer(self, concurrency=concurrency, drain=drain, signals=signals)

    def processing(self, message: ReceivedMessage) -> AbstractContextManager[object]:
        """Mark the time in which the program works on a message, for the telemetry of the connection."""
        watcher = self._connection.watcher
        return nullcontext() if watcher is None else watcher.processing(message)

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Yield all messages as they come, for ever. Each must be acknowledged or rejected; the others go back to the
        queue when the loop is left."""
        async with self.receiver() as receiver:
            async for message in receiver:
                yield message

    async def receive(
        self, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take one message out of the queue. Raises IoTimeoutError when none comes in ``timeout`` seconds. The message
        is held until this call returns it: a broken connection does not lose it, and if the call is cancelled it
        stays in the queue."""
        if transaction is not None:
            return await transaction.receive(self, timeout)
        return (await self.hold(timeout)).keep()

    async def hold(self, timeout: float | None = None) -> Held:
        """Receive one message in two steps: hold it, then let the caller decide whether it leaves the queue."""
        receiver = Receiver(self._connection, self.name, prefetch=1)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(receiver)
            message = await receiver.receive(timeout)
            stack.pop_all()
        return Held(receiver, message)

    async def peek(self, timeout: float | None = 0) -> ReceivedMessage:
        """Look at the first message and leave it there. Raises IoTimeoutError when none comes in time."""
        async with Receiver(self._connection, self.name, mode=Mode.PEEK, prefetch=1) as receiver:
            return await receiver.receive(timeout)

    def cursor(self, *, receive: bool = False) -> Cursor:
        """Open a position of one's own in the queue; with ``receive`` messages can be taken there."""
        return Cursor(self._connection, self.name, receive=receive)

    async def browse(self) -> AsyncIterator[ReceivedMessage]:
        """Yield all messages that are in the queue now, in order, and leave them there."""
        async with self.cursor() as cursor:
            async for message in cursor:
                yield message

    async def watch(self) -> AsyncIterator[ReceivedMessage]:
        """Yield all messages in the queue and all that come later, in order, and leave them there."""
        async with self.receiver(mode=Mode.PEEK) as receiver:
            async for message in receiver:
                yield message

    async def lookup(
        self,
        lookup_id: int = 0,
        seek: Seek = Seek.CURRENT,
        *,
        receive: bool = False,
        transaction: Transaction | None = None,
    ) -> ReceivedMessage:
        """Find the message with a lookup identifier, the one before or after it, or the first or last one of the queue.
        With ``receive`` it leaves the queue. Raises MessageNotFoundError when there is none."""
        if receive and transaction is None:
            return (await self.hold_by_id(lookup_id, seek)).keep()
        request = pb.LookupRequest(
            queue=self.name,
            lookup_id=lookup_id,
            seek=int(seek),  # type: ignore[arg-type]  # the numbers are the same
            receive=receive,
            transaction=transaction.identifier if transaction is not None else b"",
            form=pb.PACKET,
        )
        call = self._connection.call("Lookup", request, safe=not receive)
        try:
            reply: pb.Delivered = await (call if transaction is None else transaction.taking(call))
        except QueueNotFoundError:
            elsewhere = await self._connection.elsewhere(self.name)
            if elsewhere is None:
                raise
            if receive:
                raise _no_transaction(elsewhere[1]) from None
        else:
            found = ReceivedMessage.delivered(reply, self.name)
            if receive and transaction is not None:
                self._connection.took(found, transaction)
            return found
        async with self.cursor() as cursor:
            return await cursor.look_at(lookup_id, int(seek))

    async def hold_by_id(self, lookup_id: int = 0, seek: Seek = Seek.CURRENT) -> HeldAtCursor:
        """Take a message by its lookup identifier in two steps, as :meth:`hold` does."""
        cursor = Cursor(self._connection, self.name, receive=True)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(cursor)
            held = await cursor.hold_by_id(lookup_id, int(seek))
            stack.pop_all()
        return held.last()

    async def receive_by_id(
        self, message_id: bytes | str, timeout: float | None = 0, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take the message with this identifier, given as twenty bytes or as text, out of the queue. The queue manager
        does the search. Raises MessageNotFoundError when it is not there and ``timeout`` is 0, IoTimeoutError when
        it does not come in time."""
        return await self.receive_wanted(Wanted(id_bytes(message_id)), timeout, transaction)

    async def receive_by_correlation_id(
        self,
        correlation_id: bytes | str,
        timeout: float | None = 0,
        *,
        transaction: Transaction | None = None,
    ) -> ReceivedMessage:
        """Take the first message with this correlation identifier out of the queue, as :meth:`receive_by_id` does."""
        return await self.receive_wanted(Wanted(b"", id_bytes(correlation_id)), timeout, transaction)

    async def receive_wanted(
        self, wanted: Wanted, timeout: float | None, transaction: Transaction | None
    ) -> ReceivedMessage:
        """Take the first message with a wanted identifier out of the queue."""
        if transaction is None:
            return (await self.hold_wanted(wanted, timeout)).keep()
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        async with Cursor(self._connection, self.name, receive=True) as cursor:
            while True:
                # The wait only looks: if it is cancelled, nothing has been taken.
                if timeout != 0:
                    await cursor.look_for(
                        wanted, None if deadline is None else max(deadline - loop.time(), 0.001)
                    )
                try:
                    return await cursor.take_wanted(wanted, transaction)
                except MessageNotFoundError:
                    if timeout == 0:
                        raise

    async def hold_wanted(self, wanted: Wanted, timeout: float | None) -> HeldAtCursor:
        """Take a message by a wanted identifier in two steps, as :meth:`hold` does."""
        cursor = Cursor(self._connection, self.name, receive=True)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(cursor)
            held = await cursor.hold_wanted(wanted, timeout)
            stack.pop_all()
        return held.last()

    async def peek_by_id(self, message_id: bytes | str, timeout: float | None = 0) -> ReceivedMessage:
        """Look at the message with this identifier and leave it there."""
        async with self.cursor() as cursor:
            return await cursor.look_for(Wanted(id_bytes(message_id)), timeout)

    async def peek_by_correlation_id(
        self, correlation_id: bytes | str, timeout: float | None = 0
    ) -> ReceivedMessage:
        """Look at the first message with this correlation identifier and leave it there."""
        async with self.cursor() as cursor:
            return await cursor.look_for(Wanted(b"", id_bytes(correlation_id)), timeout)

    async def survey(
        self,
        spans: Iterable[tuple[int, int]],
        *,
        most_messages: int = 0,
        most_bytes: int = 0,
        known: QueueIdentity | None = None,
        seen: int = 0,
    ) -> Survey:
        """List the messages that stand in spans of the queue, each span behind one lookup identifier up to and
        including another. It stops at a limit, and a span ends before a message that somebody holds. Given what an
        earlier survey said of the queue (``known``), and the highest of the identifiers ``seen`` since, it tells
        whether they still mean the same messages."""
        request = _survey_request(self.name, spans)
        request.most_messages, request.most_bytes = most_messages, most_bytes
        if known is not None:
            request.known.CopyFrom(pb.QueueIdentity(**known._asdict()))
            request.seen = seen
        found, held, last = array("Q"), array("Q"), pb.SurveyReply()
        async for last in self._connection.server_stream("Survey", request):
            found.extend(last.lookup_ids)
            held.extend(last.held)
        said = last.identity
        identity = QueueIdentity(said.queue_manager, said.queue, said.incarnation)
        return Survey(found, held, last.bytes, identity, frozenset(last.expiring), last.restored)

    async def waiting(self, spans: Iterable[tuple[int, int]]) -> Waiting:
        """Count the messages that can be read in spans of the queue."""
        request, last = _survey_request(self.name, spans), pb.SurveyReply()
        request.counting = True
        async for reply in self._connection.server_stream("Survey", request):
            last = reply
        return Waiting(last.messages, last.bytes, last.oldest_time, array("Q", last.lookup_ids))

    async def span(self, after: int, upto: int) -> AsyncIterator[list[ReceivedMessage]]:
        """Yield batches of the messages behind one lookup identifier up to and including another, in order, and leave
        them in the queue. Messages that somebody holds are left out."""
        name, span = self.name, pb.Span(after=after, upto=upto)
        request = pb.ReadSpanRequest(queue=name, span=span, form=pb.PACKET)
        async for reply in self._connection.server_stream("ReadSpan", request):
            yield ReceivedMessage.all_of(reply, name)

    async def remove(self, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        """Take messages out of the queue by their lookup identifiers, as if they had been received. Calling it twice
        does no harm: a queue manager never reuses identifiers. With the ``identity`` from a survey, nothing is
        removed if another queue has the name meanwhile."""
        removed, not_found, held = 0, array("Q"), array("Q")
        given = iter(lookup_ids)
        whose = None if identity is None else pb.QueueIdentity(**identity._asdict())
        while chunk := list(islice(given, _REMOVALS)):
            request = pb.RemoveRequest(queue=self.name, lookup_ids=chunk, identity=whose)
            reply: pb.RemoveReply = await self._connection.call("Remove", request, safe=True)
            if reply.elsewhere:
                return Removal(removed, not_found, held, elsewhere=True)
            removed += reply.messages
            not_found.extend(reply.not_found)
            held.extend(reply.held)
        return Removal(removed, not_found, held)

    async def purge(self) -> int:
        """Remove all messages. Returns how many there were."""
        try:
            reply: pb.PurgeReply = await self._connection.call("Purge", pb.QueueName(queue=self.name))
        except QueueNotFoundError:
            elsewhere = await self._connection.elsewhere(self.name)
            if elsewhere is None:
                raise
        else:
            return reply.messages
        from msmq.client.remote import purge

        return await purge(*elsewhere)

    async def move(
        self,
        messages: Iterable[ReceivedMessage | int],
        target: str,
        *,
        transaction: Transaction | None = None,
    ) -> int:
        """Move messages, given by themselves or by their lookup identifiers, to the queue or subqueue ``target`` of the
        same queue, here or on another host. Returns how many were still there."""
        ids = [member if isinstance(member, int) else member.lookup_id for member in messages]
        request = pb.MoveRequest(
            queue=self.name,
            target=target,
            lookup_ids=ids,
            transaction=transaction.identifier if transaction is not None else b"",
        )
        try:
            reply: pb.MoveReply = await self._connection.call("Move", request)
        except QueueNotFoundError:
            elsewhere = await self._connection.elsewhere(self.name)
            there = await self._connection.elsewhere(target)
            if elsewhere is None or there is None or elsewhere[1].host != there[1].host:
                raise
        else:
            return reply.messages
        if transaction is not None:
            raise _no_transaction(elsewhere[1])
        from msmq.client.remote import move

        return await move(*elsewhere, there[1].format_name, ids)

    async def exchange(self, message: ReceivedMessage | int, target: str, other: Message) -> Receipt:
        """Take a message out of this queue, by its lookup identifier, and send another one to the queue ``target`` in
        its place: both or neither, whatever kind of queues these are. Raises MessageNotFoundError when the message
        is no longer there, so that trying again after an interruption does no harm."""
        request = pb.ExchangeRequest(
            queue=self.name,
            lookup_id=message if isinstance(message, int) else message.lookup_id,
            target=target,
            message=other.to_proto(),
        )
        reply: pb.SendReply = await self._connection.call("Exchange", request)
        for failure in reply.failures:
            raise status.from_message(failure.error)
        return Receipt(reply.queue_manager, reply.ordinals[0], reply.lookup_ids[0])

    def subqueue(self, name: str) -> Queue:
        """Return a subqueue; it is created when it is first used."""
        return Queue(self._connection, f"{self.name};{name}")

    @property
    def journal(self) -> Queue:
        """The queue's journal."""
        return Queue(self._connection, f"{self.name};journal")


def _no_transaction(place: pb.QueuePlace) -> MQError:
    from msmq.client.remote import no_transaction

    return no_transaction(place.host)


def _receipt(outcomes: list[Receipt | MQError], transaction: Transaction | None) -> Receipt:
    """Return the receipt of a message that was sent by itself, or raise the error it was refused with."""
    (outcome,) = outcomes
    if isinstance(outcome, MQError):
        if transaction is not None:
            transaction.check_open()
        raise outcome
    return outcome
