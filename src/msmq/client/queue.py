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
    """Tells a queue from others of the same name: on another computer, in the data of a queue manager that was set up
    anew, or created after the first was deleted. Lookup identifiers mean something only together with it."""

    queue_manager: str
    """GUID of the queue manager."""
    queue: str
    """GUID of the queue; journals and subqueues have that of their queue, and all zeros the queue manager's own."""
    incarnation: str = ""
    """The start of the queue manager that was asked; another one is not another queue."""

    def is_same(self, other: QueueIdentity) -> bool:
        """Whether both are of the same queue."""
        return self[:2] == other[:2]


class Survey(NamedTuple):
    """What stands in a part of a queue."""

    lookup_ids: array[int]
    held: array[int]
    """Messages of others, before which the survey of a span ended."""
    bytes: int
    identity: QueueIdentity
    """What the lookup identifiers are of."""
    expiring: frozenset[int] = frozenset()
    """Those of the messages that expire when nobody receives them in time."""
    restored: bool = False
    """The queue manager goes on from an older copy of its data than the one that was known, and gives numbers anew."""


class Waiting(NamedTuple):
    """How much stands in a part of a queue."""

    messages: int
    bytes: int
    oldest_time: int
    """When the one came that came first, in seconds since 1970; 0 if there is none."""
    ends: array[int]
    """The last of each span."""


class Removal(NamedTuple):
    """What became of messages that were to be removed."""

    removed: int
    not_found: array[int]
    held: array[int]
    """Somebody else has these."""
    elsewhere: bool = False
    """Another queue manager has them, if it still has them: nothing was removed."""


class Seek(IntEnum):
    """Where to look from a lookup identifier."""

    CURRENT = 0
    NEXT = 1
    PREVIOUS = 2
    FIRST = 3
    LAST = 4


def _survey_request(queue: str, spans: Iterable[tuple[int, int]]) -> pb.SurveyRequest:
    return pb.SurveyRequest(queue=queue, spans=[pb.Span(after=after, upto=upto) for after, upto in spans])


def as_message(message: Message | Body, properties: MessageProperties) -> Message:
    """A message, or a body and the properties it is to have."""
    if properties:
        check_names(properties, MessageProperties.__annotations__)
    if isinstance(message, Message):
        return message.with_(**properties) if properties else message
    return Message(message, **properties)


class Queue:
    """A queue by its path or format name, here or on another host. Nothing is asked of the server until it is used."""

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
        """Send a message, or a body with ``properties``. Returns when it is safe: in its queue here, or in the
        outgoing queue on its way elsewhere. Sends of several tasks travel together."""
        made, watcher = as_message(message, properties), self._connection.watcher
        if watcher is None:
            return _receipt(await self._leave(made, transaction))
        with watcher.sending(self.name) as sending:
            receipt = _receipt(await self._leave(sending.leave(made), transaction))
            sending.sent([receipt])
            return receipt

    def _leave(
        self, message: Message, transaction: Transaction | None
    ) -> asyncio.Future[list[Receipt | MQError]]:
        """Put a message on its way by itself, with those that others send in this moment."""
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
        """Messages as they come, as many at a time as one batch takes."""
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
            for future in pending:  # what has not left is not sent
                future.cancel()
        receipts = [outcome for outcome in outcomes if not isinstance(outcome, MQError)]
        if len(receipts) != len(outcomes):
            raise SendError(outcomes)
        return receipts

    async def send_once(self, messages: Iterable[Message | Body], *, row: str, place: int) -> int:
        """Send a part of a row of messages, each once, whatever interrupts it: this program, the connection or the
        queue manager. ``row`` is a name that the caller made up and keeps, ``place`` is how many messages stand before
        this part. Those that were sent already are passed over. Returns how many of the row were sent by now; without
        messages it only tells. Raises RowError when one is refused."""
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
        """The row has come to its end; a row of that name begins anew."""
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
        """Receive many: ``async with queue.receiver() as receiver:``. Up to ``prefetch`` messages are fetched ahead.

        A message that is rejected comes back after ``retry_delay_ms``. After ``max_deliveries`` rejections it goes to
        the ``poison_subqueue`` instead, or to the dead-letter queue if that is empty. None leaves it to the queue."""
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
        """Work on messages until a signal comes: ``await queue.consumer(concurrency=8).run(work)``, or ``async for
        message in queue.consumer():``. Work that has begun is finished, or given up after ``drain`` seconds."""
        return Consumer(self, concurrency=concurrency, drain=drain, signals=signals)

    def processing(self, message: ReceivedMessage) -> AbstractContextManager[object]:
        """The program works on a message; whoever watches the connection is told."""
        watcher = self._connection.watcher
        return nullcontext() if watcher is None else watcher.processing(message)

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """All messages, as they come, for ever. Each is to be acknowledged or rejected; those that are not go back to
        the queue when the loop is left."""
        async with self.receiver() as receiver:
            async for message in receiver:
                yield message

    async def receive(
        self, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take one message out of the queue. IoTimeoutError when none comes in ``timeout`` seconds. It is held until
        this call returns it: a broken connection does not lose it, and a call that is cancelled has left it in the
        queue."""
        if transaction is not None:
            return await transaction.receive(self, timeout)
        return (await self.hold(timeout)).keep()

    async def hold(self, timeout: float | None = None) -> Held:
        """Receive one message in two steps: it is held, and the caller decides whether it leaves the queue."""
        receiver = Receiver(self._connection, self.name, prefetch=1)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(receiver)
            message = await receiver.receive(timeout)
            stack.pop_all()
        return Held(receiver, message)

    async def peek(self, timeout: float | None = 0) -> ReceivedMessage:
        """Look at the first message and leave it there. IoTimeoutError when none comes in time."""
        async with Receiver(self._connection, self.name, mode=Mode.PEEK, prefetch=1) as receiver:
            return await receiver.receive(timeout)

    def cursor(self, *, receive: bool = False) -> Cursor:
        """A place of one's own in the queue; ``receive`` if messages are to be taken from there."""
        return Cursor(self._connection, self.name, receive=receive)

    async def browse(self) -> AsyncIterator[ReceivedMessage]:
        """Everything that is in the queue now, in order, left where it is."""
        async with self.cursor() as cursor:
            async for message in cursor:
                yield message

    async def watch(self) -> AsyncIterator[ReceivedMessage]:
        """Everything in the queue and everything that comes, in order, left where it is."""
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
        """The message of a lookup identifier, or the one before or behind it, or the first or last one of the queue;
        with ``receive`` it leaves the queue. MessageNotFoundError when there is none."""
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
        """Take a message by its place in two steps, as :meth:`hold` does."""
        cursor = Cursor(self._connection, self.name, receive=True)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(cursor)
            held = await cursor.hold_by_id(lookup_id, int(seek))
            stack.pop_all()
        return held.last()

    async def receive_by_id(
        self, message_id: bytes | str, timeout: float | None = 0, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take the message with this identifier out of the queue: twenty bytes, or its text. The queue manager looks
        for it. MessageNotFoundError when it is not there and nobody waits, IoTimeoutError when it does not come."""
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
        """Take the first message with an identifier out of the queue."""
        if transaction is None:
            return (await self.hold_wanted(wanted, timeout)).keep()
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        async with Cursor(self._connection, self.name, receive=True) as cursor:
            while True:
                # What is waited for is only looked at: a wait that is cancelled must have taken nothing.
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
        """Take a message by its identifier in two steps, as :meth:`hold` does."""
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
        """Which messages stand in spans of the queue, each behind one lookup identifier up to and with another. It
        stops at a limit, and a span ends before a message that somebody holds. With what an earlier survey said of the
        queue (``known``), and the highest number of the identifiers ``seen`` since, it tells whether they still mean
        the same messages."""
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
        """How much stands in spans of the queue, as far as it can be read."""
        request, last = _survey_request(self.name, spans), pb.SurveyReply()
        request.counting = True
        async for reply in self._connection.server_stream("Survey", request):
            last = reply
        return Waiting(last.messages, last.bytes, last.oldest_time, array("Q", last.lookup_ids))

    async def span(self, after: int, upto: int) -> AsyncIterator[list[ReceivedMessage]]:
        """The messages behind one lookup identifier up to and with another, in order and in batches, left where they
        are. Those that somebody holds are left out."""
        name, span = self.name, pb.Span(after=after, upto=upto)
        request = pb.ReadSpanRequest(queue=name, span=span, form=pb.PACKET)
        async for reply in self._connection.server_stream("ReadSpan", request):
            yield ReceivedMessage.all_of(reply.packets, name)

    async def remove(self, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        """Take messages out of the queue by their lookup identifiers, as if they had been received. Asking twice does
        no harm: a queue manager never uses identifiers again. With the ``identity`` that a survey gave, nothing is
        removed from another queue that has the name meanwhile."""
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
        """Remove all messages; gives how many there were."""
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
        """Move messages, or those of these lookup identifiers, to the queue or subqueue ``target`` of the same queue,
        here or on another host; gives how many were still there."""
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
        its place: both or neither, whatever kind of queues these are. MessageNotFoundError when it is not there any
        more, so that asking again after an interruption does no harm."""
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
        """A subqueue; it is made when it is first used."""
        return Queue(self._connection, f"{self.name};{name}")

    @property
    def journal(self) -> Queue:
        """The queue's journal."""
        return Queue(self._connection, f"{self.name};journal")


def _no_transaction(place: pb.QueuePlace) -> MQError:
    from msmq.client.remote import no_transaction

    return no_transaction(place.host)


def _receipt(outcomes: list[Receipt | MQError]) -> Receipt:
    """The receipt of a message that was sent by itself."""
    (outcome,) = outcomes
    if isinstance(outcome, MQError):
        raise outcome
    return outcome
