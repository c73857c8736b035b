"""Sending directly to the host that has the queue, over our own transfer session (MS-MQQB).

No queue manager keeps a message here and tries again, so the sender is told its outcome: the host has it, on its disk
if it is recoverable, or the outcome is unknown, because the session ended before the host acknowledged it. Sending
such a message again may duplicate it: each send makes a new message with an identifier of its own. Whether the queue
accepted a message is told, as always, by an acknowledgment to an administration queue.

Transactional messages are transactions of one message each. They are numbered in a sequence for each queue, which the
host keeps track of: they arrive in the queue once and in the order in which they were sent, and the host confirms that
with an OrderAck. The sequence lasts as long as the session and is stored nowhere. A sender that dies cannot continue
it: sending a message of unknown outcome again, with a new sender, sends a new message.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from msmq.api.names import without_label
from msmq.direct.reader import host_of
from msmq.errors import DecodeError, RemoteMachineNotAvailableError
from msmq.manager.messages.message import DeliveryGuarantee, Message
from msmq.manager.messages.serialize import serialize
from msmq.server.alarm import Alarm, now_ms
from msmq.transfer.events import Closed, Established, Event, MessagesAcknowledged, MessagesReceived
from msmq.transfer.order_receiver import order_acknowledgment
from msmq.transfer.order_sender import OrderSender, Sequences, placed
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role
from msmq.transfer.timers import TimerSettings, earliest
from msmq.wire.classes import MessageClass
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.packets import FinalAckBody, OrderAckBody, is_for_order_queue

PORT: Final = 1801
_TRANSACTIONS: Final = 1 << 20
"""The number of transactions that packets can distinguish."""


class Outcome(Enum):
    """What is known about a message after it was sent."""

    DELIVERED = "the host has it"
    REFUSED = "the host did not take it: its queue is not there, full, or not for us"
    """Only told for transactional messages that ask for it (``final_ack_required``)."""
    UNKNOWN = "the session ended before the host said that it has it"


@dataclass(eq=False, slots=True)
class _UnderWay:
    """A message that has not been settled yet."""

    packet: bytes
    ordinal: int
    answer: asyncio.Future[Outcome]
    stream: OrderSender[_UnderWay] | None = None
    number: int = 0
    """Its number in the stream, if it is transactional."""


class DirectSender(asyncio.Protocol):
    """A session with one host, made by `sending`."""

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        """The identifier of the queue manager that our messages name as their source."""
        self._session: Session[_UnderWay] = Session(Role.INITIATOR, SessionConfig(identity), now_ms())
        self._transport: asyncio.Transport | None = None
        self._alarm = Alarm(self._timer_expired)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting: deque[_UnderWay] = deque()
        self._unsettled: dict[int, _UnderWay] = {}
        self._number = 0
        # Seconds in the upper half, their fraction in the lower: higher than any number this identity has used before.
        self._sequences: Sequences[_UnderWay] = Sequences(int(time.time() * 2**32))
        self._streams: dict[str, OrderSender[_UnderWay]] = {}

    async def send(self, message: Message) -> Outcome:
        """Send a message and wait until the host has it. Messages may be sent concurrently and arrive in order. A
        message is transactional if it has a ``transaction_identifier``, whatever its value."""
        self._number += 1
        message.identifier = MessageIdentifier(self.identity, self._number)
        message.sent_time = message.sent_time or int(time.time())
        if self._transport is None:
            return Outcome.UNKNOWN
        if message.transaction_identifier is not None:
            message.transaction_identifier = self._number % _TRANSACTIONS
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            message.first_in_transaction = message.last_in_transaction = True
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        under_way = _UnderWay(serialize(message).data, self._number, answer)
        if message.transaction_identifier is not None:
            self._place(under_way, message.destination_queue_format_name)
        self._unsettled[under_way.ordinal] = under_way
        self._waiting.append(under_way)
        self._flush()
        return await answer

    def _place(self, message: _UnderWay, name: str) -> None:
        """Give a transactional message its number in the sequence of its queue."""
        stream = self._streams.get(name.lower())
        if stream is None:
            stream = OrderSender(self._sequences, TimerSettings().resend_timer_table_s, now_ms())
            self._streams[name.lower()] = stream
        place = stream.assign(message)
        assert place is not None, "four thousand million messages are on their way"
        message.stream, message.number = stream, place.tx_sequence_number

    async def opened(self) -> None:
        await asyncio.shield(self._opened)

    def close(self) -> None:
        self._dispatch(self._session.close(now_ms()))

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._session.connected(now_ms())
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._dispatch(self._session.receive_data(data, now_ms()))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._dispatch(self._session.disconnected(now_ms()))
        self._alarm.stop()

    def _timer_expired(self) -> None:
        for stream in self._streams.values():
            self._waiting.extend(stream.handle_timer(now_ms()))
        self._dispatch(self._session.handle_timer(now_ms()))

    # Packets from the host

    def _dispatch(self, events: list[Event[_UnderWay]]) -> None:
        for event in events:
            if isinstance(event, Established):
                if not self._opened.done():
                    self._opened.set_result(None)
            elif isinstance(event, MessagesAcknowledged):
                for message in event.tokens:
                    self._has_arrived(message)
            elif isinstance(event, MessagesReceived):
                self._receive(event)
            elif isinstance(event, Closed):
                self._over(event)
        self._flush()

    def _has_arrived(self, message: _UnderWay) -> None:
        """The host has the message. A transactional one is delivered only with its OrderAck, which may have come
        before."""
        if message.stream is None:
            self._settle([message], Outcome.DELIVERED)
        else:
            self._settle(message.stream.received_session_ack(message.number).done, Outcome.DELIVERED)

    def _receive(self, event: MessagesReceived) -> None:
        """Process order and final acknowledgments. Other messages are for queues, of which there are none here, and
        are not acknowledged."""
        try:
            messages = event.messages.messages
            for message in filter(is_for_order_queue, messages):
                self._hear(message)
        except DecodeError:
            self.close()
            return
        if event.recoverables and all(map(is_for_order_queue, messages)):
            self._session.stored(event.first_recoverable, event.recoverables, now_ms())

    def _hear(self, message: UserMessage) -> None:
        """Process an acknowledgment of transactional messages."""
        said = order_acknowledgment(message)
        if isinstance(said, OrderAckBody):
            found = self._sequences.order_ack(said, now_ms())
            if found is not None:
                self._settle(found[1].done, Outcome.DELIVERED)
        elif isinstance(said, FinalAckBody) and said.source_guid == self.identity:
            sent = self._unsettled.get(said.message_id)
            if sent is not None and sent.stream is not None:
                sent.stream.remove(sent.number)
                taken = message.properties.message_class == MessageClass.ACK_RECEIVE
                self._settle([sent], Outcome.DELIVERED if taken else Outcome.REFUSED)

    def _over(self, event: Closed[_UnderWay]) -> None:
        if not self._opened.done():
            reason = f"No session could be opened: {event.reason.value} {event.detail}"
            self._opened.set_exception(RemoteMachineNotAvailableError(reason))
        self._waiting.clear()
        self._settle(list(self._unsettled.values()), Outcome.UNKNOWN)
        self._streams.clear()
        self._flush()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _settle(self, messages: Iterable[_UnderWay], outcome: Outcome) -> None:
        for message in messages:
            self._unsettled.pop(message.ordinal, None)
            if not message.answer.done():
                message.answer.set_result(outcome)

    def _flush(self) -> None:
        while self._waiting and self._session.room:
            message = self._waiting.popleft()
            packet, stream = message.packet, message.stream
            if stream is not None:
                if stream.token(message.number) is not message:
                    continue  # settled while it waited to be sent again
                packet = placed(packet, stream.place(message.number))
                stream.sent(message.number, now_ms())
            self._session.send(packet, message, now_ms())
        data = self._session.data_to_send()
        if data and self._transport is not None:
            self._transport.writelines(data)
        deadlines = (stream.deadline_ms for stream in self._streams.values())
        self._alarm.set(earliest(self._session.next_deadline_ms, *deadlines))


@asynccontextmanager
async def sending(
    host: str, port: int = PORT, *, identity: bytes | None = None, timeout_s: float = 60
) -> AsyncIterator[DirectSender]:
    """Open a session with ``host`` for the duration of a block. Messages name ``identity`` as their source; by default
    it is a new one each time."""
    sender = DirectSender(identity or uuid.uuid4().bytes_le)
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().create_connection(lambda: sender, host, port)
            await sender.opened()
    except (OSError, TimeoutError) as error:
        sender.close()
        raise RemoteMachineNotAvailableError(f"{host} port {port}: {error or 'no answer'}") from error
    try:
        yield sender
    finally:
        sender.close()


async def send(
    name: str,
    body: bytes,
    *,
    label: str = "",
    recoverable: bool = True,
    transactional: bool = False,
    host: str | None = None,
    port: int = PORT,
    **properties: Any,
) -> Outcome:
    """Send a message to the queue of a direct format name; ``properties`` are those of
    `msmq.manager.messages.message.Message`. Transactional queues accept only ``transactional`` messages, and other
    queues only others."""
    name = without_label(name)
    if transactional:
        properties.setdefault("transaction_identifier", 1)
    guarantee = DeliveryGuarantee.RECOVERABLE if recoverable else DeliveryGuarantee.EXPRESS
    message = Message(
        body=body,
        label=label,
        delivery_guarantee=guarantee,
        destination_queue_format_name=name,
        **properties,
    )
    async with sending(host or host_of(name), port) as sender:
        return await sender.send(message)
