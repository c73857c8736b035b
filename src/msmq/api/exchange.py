"""The call Exchange: take a message out of a queue and send another one in its place, in one event.

An event is on disk as a whole or not at all (:mod:`msmq.manager.event`). So messages can be carried from any queue to
any other, even on another host, without a transaction: whenever it is interrupted, exactly one of the two messages
exists.
"""

from __future__ import annotations

from typing import Final

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.send import Sender
from msmq.errors import MessageAlreadyReceivedError, MessageNotFoundError, error_for
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import MessageSeekAction
from msmq.manager.queues.queue import OpenQueueDescriptor
from msmq.security.access import Token

_RECORD_BYTES: Final = 2048
"""A generous size for a message without its body, label and extension, and for the other records of the exchange."""
_RECORDS: Final = 8


class ExchangeCalls:
    """The call Exchange."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def exchange(self, request: pb.ExchangeRequest, caller: Token) -> pb.SendReply:
        desk, queues = self._desk, self._desk.manager.queues
        name = desk.names.format_name(request.queue)
        access = desk.reading_access(name, receive=True)
        source = await desk.host.ask(lambda: queues.open(name, access, caller=caller))
        try:
            sender = await desk.host.ask(lambda: Sender(desk, request.target, caller))
            try:
                reply = self._exchange(source, sender, request)
            finally:
                sender.close()
        finally:
            queues.close(source)
        await desk.durable()
        return reply

    def _exchange(
        self, source: OpenQueueDescriptor, sender: Sender, request: pb.ExchangeRequest
    ) -> pb.SendReply:
        core, lookup_id, message = self._desk.manager.core, request.lookup_id, request.message
        assert source.queue is not None
        state = source.queue.position(lookup_id).state
        if state is PositionState.DELETED:
            raise MessageNotFoundError("The message is not in the queue, or not any more.")
        if state is not PositionState.AVAILABLE:
            raise MessageAlreadyReceivedError("Somebody else holds the message.")
        size = len(message.body) + len(message.extension) + _RECORD_BYTES
        with core.event(size, _RECORDS):
            reply = sender.send(pb.SendRequest(messages=[message]), None)
            if not reply.failures:
                current = MessageSeekAction.CURRENT
                result = self._desk.manager.reading.read_by_lookup_id(source, lookup_id, current, peek=False)
                if result.message is None:  # the disk has damaged it; its successor is sent nevertheless
                    assert result.status == MessageNotFoundError.code, error_for(result.status)
        return reply
