"""Search for a message by its identifier or correlation identifier, among the messages of a queue and those that
arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msmq.errors import IoTimeoutError, MessageNotFoundError, MQError, QueueNotAvailableError, error_for
from msmq.manager.mailbox.positions import START
from msmq.manager.messages.readers import Reading
from msmq.manager.queues.queue import MessagePosition, OpenQueueDescriptor, Queue
from msmq.wire.message import UserMessage

_TURN_MESSAGES: Final = 256
_TURN_BYTES: Final = 1 << 20
"""The limits of one turn, after which other work has its turn."""
_TAG: Final = 2


def wanted_message(message_id: bytes, correlation_id: bytes) -> Callable[[UserMessage], bool]:
    """A test for messages with these identifiers; an empty one matches all."""

    def check(packet: UserMessage) -> bool:
        return (not message_id or packet.identifier.encode() == message_id) and (
            not correlation_id or packet.properties.correlation_id == correlation_id
        )

    return check


class Search:
    """A search in an open queue. It watches arriving messages from the beginning, so that it misses none while it goes
    through the others a part at a time."""

    def __init__(
        self, reading: Reading, descriptor: OpenQueueDescriptor, wanted: Callable[[UserMessage], bool]
    ) -> None:
        self._reading = reading
        self._descriptor = descriptor
        self._wanted = wanted
        self._cursor = reading.open_cursor(descriptor)
        self._came: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def find(self, timeout_s: float) -> int:
        """The lookup identifier of the first matching message that can be read. The message may be gone when the
        caller reads it.

        Raises:
            IoTimeoutError: no such message came in time.
            MessageNotFoundError: there is none, and ``timeout_s`` is 0.
        """
        try:
            if timeout_s:
                self._wait()
            place = START
            while (found := self._reading.mailbox.look(self._queue, place, _TURN_MESSAGES, _TURN_BYTES)).ids:
                for lookup_id, packet in zip(found.ids, found.packets, strict=True):
                    if self._wanted(UserMessage.route(packet)):
                        return lookup_id
                place = found.ids[-1]
                await asyncio.sleep(0)
            if not timeout_s:
                raise MessageNotFoundError("No message with this identifier is in the queue.")
            async with asyncio.timeout(None if timeout_s == float("inf") else timeout_s):
                return await self._came
        except TimeoutError:
            raise IoTimeoutError("No message with this identifier came in time.") from None
        finally:
            self._came.cancel()
            if self._cursor is not None:
                self._reading.close_cursor(self._cursor)

    @property
    def _queue(self) -> Queue:
        if self._descriptor.queue is None:
            raise QueueNotAvailableError("The queue was deleted.")
        return self._descriptor.queue

    def _wait(self) -> None:
        self._reading.wait(self._descriptor, _TAG, self._ready, None, self._cursor)

    def _ready(self, status: int, position: MessagePosition | None) -> None:
        if self._came.done():
            return
        if position is None:
            self._came.set_exception(error_for(status))
            return
        try:
            found = self._reading.mailbox.fetch(position.queue, position.lookup_id)
        except MQError as error:
            self._came.set_exception(error)
            return
        if found is not None and self._wanted(found.packet):
            self._came.set_result(position.lookup_id)
        else:
            self._wait()
