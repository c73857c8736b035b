"""Sending straight to the host that has the queue, over a transfer session of our own (MS-MQQB).

There is no queue manager here that would keep a message and try again, so the sender learns what became of it: the
host has it, on its disk if it is recoverable, or nobody knows, because the session ended before it said so. Whoever
sends such a message again may send it twice; the same packet, which keeps its identifier, is then known to the host as
the same message only if it is still on its way there. Whether the queue took it is told, as always, by an
acknowledgment to an administration queue. Messages of transactions need a stream that survives its sender and are
refused.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, Final, cast

from msmq.direct.reading import host_of
from msmq.errors import RemoteMachineNotAvailableError, TransactionUsageError
from msmq.manager.message import DeliveryGuarantee, Message
from msmq.manager.serialize import serialize
from msmq.server.alarm import Alarm, now_ms
from msmq.transfer.events import Closed, Established, Event, MessagesAcknowledged, MessagesReceived
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role
from msmq.wire.identifiers import MessageIdentifier

PORT: Final = 1801
_Answer = asyncio.Future["Outcome"]


class Outcome(Enum):
    """What is known of a message that was sent."""

    DELIVERED = "the host has it"
    UNKNOWN = "the session ended before the host said that it has it"


class DirectSender(asyncio.Protocol):
    """A session with one host. Made by `sending`."""

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        """The queue manager that our messages say they come from."""
        self._session: Session[_Answer] = Session(Role.INITIATOR, SessionConfig(identity), now_ms())
        self._transport: asyncio.Transport | None = None
        self._alarm = Alarm(self._timer_expired)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting: deque[tuple[bytes, _Answer]] = deque()
        self._number = 0

    async def send(self, message: Message) -> Outcome:
        """Send one message and wait until the host has it. Many may be sent at once; they arrive in their order."""
        if message.transaction_identifier is not None:
            raise TransactionUsageError("Messages of transactions are sent by a queue manager.")
        self._number += 1
        message.identifier = MessageIdentifier(self.identity, self._number)
        message.sent_time = message.sent_time or int(time.time())
        answer: _Answer = asyncio.get_running_loop().create_future()
        if self._transport is None:
            return Outcome.UNKNOWN
        self._waiting.append((serialize(message).data, answer))
        self._flush()
        return await answer

    async def opened(self) -> None:
        await asyncio.shield(self._opened)

    def close(self) -> None:
        self._dispatch(self._session.close(now_ms()))

    # What asyncio says

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
        self._dispatch(self._session.handle_timer(now_ms()))

    def _dispatch(self, events: list[Event[_Answer]]) -> None:
        for event in events:
            if isinstance(event, Established):
                if not self._opened.done():
                    self._opened.set_result(None)
            elif isinstance(event, MessagesAcknowledged):
                for answer in event.tokens:
                    _settle(answer, Outcome.DELIVERED)
            elif isinstance(event, MessagesReceived):
                # Acknowledgments for our queues, of which there are none: they are not taken, and come back to nobody.
                continue
            elif isinstance(event, Closed):
                self._over(event)
        self._flush()

    def _over(self, event: Closed[_Answer]) -> None:
        if not self._opened.done():
            reason = f"No session could be opened: {event.reason.value} {event.detail}"
            self._opened.set_exception(RemoteMachineNotAvailableError(reason))
        for answer in event.returned:
            _settle(answer, Outcome.UNKNOWN)
        while self._waiting:
            _settle(self._waiting.popleft()[1], Outcome.UNKNOWN)
        self._flush()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _flush(self) -> None:
        while self._waiting and self._session.room:
            packet, answer = self._waiting.popleft()
            self._session.send(packet, answer, now_ms())
        data = self._session.data_to_send()
        if data and self._transport is not None:
            self._transport.writelines(data)
        self._alarm.set(self._session.next_deadline_ms)


def _settle(answer: _Answer, outcome: Outcome) -> None:
    if not answer.done():
        answer.set_result(outcome)


@asynccontextmanager
async def sending(
    host: str, port: int = PORT, *, identity: bytes | None = None, timeout_s: float = 60
) -> AsyncIterator[DirectSender]:
    """A session with ``host`` as long as the block lasts. ``identity`` is what messages name as their origin, a new one
    each time when it is not given."""
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
    host: str | None = None,
    port: int = PORT,
    **properties: Any,
) -> Outcome:
    """Send one message to the queue of a direct format name; ``properties`` are those of
    `msmq.manager.message.Message`."""
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
