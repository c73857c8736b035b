"""Survey, ReadSpan and Remove: parts of a queue, for readers that divide it among them.

A message that is held by a reader or by a transaction keeps its place, and may yet become readable in front of others
that are. Whoever remembers only how far it has read would never see it: a survey therefore ends a span before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packing import to_delivered
from msmq.errors import InvalidParameterError, MessageNotFoundError, error_for
from msmq.manager.bulk_reading import Packets
from msmq.manager.model import MessageSeekAction
from msmq.manager.positions import Entry, PositionState
from msmq.manager.queue import OpenQueueDescriptor, Queue
from msmq.security.access import Token
from msmq.wire.guid import guid_text

_IDS_PER_REPLY: Final = 50_000
_MESSAGES_PER_REPLY: Final = 256
_BYTES_PER_REPLY: Final = 1 << 20
_MOST_REMOVED: Final = 10_000


def _places(queue: Queue, span: pb.Span) -> Iterator[Entry]:
    for entry in queue.positions.after(span.after):
        if entry.lookup_id > span.upto:
            return
        yield entry


class SpanCalls:
    """The calls that go by spans."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def _open(self, queue: str, caller: Token, *, receive: bool = False) -> OpenQueueDescriptor:
        name = self._desk.names.format_name(queue)
        access = self._desk.reading_access(name, receive=receive)
        descriptor = self._desk.manager.queues.open(name, access, caller=caller)
        if descriptor.queue is None:
            self._desk.manager.queues.close(descriptor)
            raise InvalidParameterError("Spans are of queues of this computer.")
        return descriptor

    async def survey(self, request: pb.SurveyRequest, caller: Token) -> AsyncIterator[pb.SurveyReply]:
        descriptor = self._open(request.queue, caller)
        assert descriptor.queue is not None
        try:
            found, held, size = _survey(descriptor.queue, request)
            identity = self._identity(descriptor.queue)
        finally:
            self._desk.manager.queues.close(descriptor)
        await self._desk.durable()  # nobody may rely on a message that a crash takes back
        for start in range(0, len(found), _IDS_PER_REPLY):
            yield pb.SurveyReply(lookup_ids=found[start : start + _IDS_PER_REPLY])
        yield pb.SurveyReply(held=held, bytes=size, identity=identity)

    def _identity(self, queue: Queue) -> pb.QueueIdentity:
        manager = self._desk.manager.core.record.identifier
        return pb.QueueIdentity(queue_manager=guid_text(manager), queue=guid_text(queue.root.identifier))

    async def read_span(self, request: pb.ReadSpanRequest, caller: Token) -> AsyncIterator[pb.Deliveries]:
        descriptor = self._open(request.queue, caller)
        try:
            place, more = request.span.after, True
            while more:
                found = self._packets(descriptor, request, place)
                if found is None:
                    place, reply, more = self._batch(descriptor, request, place)
                else:
                    ids, times, packets, _ = found
                    place = ids[-1]
                    columns = pb.Packets(lookup_ids=ids, arrived_times=times, packets=packets)
                    reply = pb.Deliveries(packets=columns)
                if found is None or not found.durable:
                    await self._desk.durable()
                if reply.messages or found is not None:
                    yield reply
                await asyncio.sleep(0)  # others have their turn
        finally:
            self._desk.manager.queues.close(descriptor)

    def _packets(
        self, descriptor: OpenQueueDescriptor, request: pb.ReadSpanRequest, place: int
    ) -> Packets | None:
        """The next messages behind a place, if they can be had together."""
        queue, bulk = descriptor.queue, self._desk.manager.bulk_reading
        if queue is None or not request.packets or request.form != pb.PACKET:
            return None
        return bulk.look(queue, place, request.span.upto, _MESSAGES_PER_REPLY, _BYTES_PER_REPLY)

    def _batch(
        self, descriptor: OpenQueueDescriptor, request: pb.ReadSpanRequest, place: int
    ) -> tuple[int, pb.Deliveries, bool]:
        """The next messages behind a place, the last place among them, and whether there may be more."""
        queue, reading = descriptor.queue, self._desk.manager.reading
        reply, size = pb.Deliveries(), 0
        while queue is not None and len(reply.messages) < _MESSAGES_PER_REPLY and size < _BYTES_PER_REPLY:
            entry = queue.positions.next_available(place)
            if entry is None or entry.lookup_id > request.span.upto:
                return place, reply, False
            place = entry.lookup_id
            result = reading.read_by_lookup_id(descriptor, place, MessageSeekAction.CURRENT, peek=True)
            if result.message is None:
                if result.status == MessageNotFoundError.code:
                    continue  # it has just expired
                raise error_for(result.status)
            reply.messages.append(to_delivered(result.message, request.form, queue.aborts.get(place, 0)))
            size += result.message.size
        return place, reply, queue is not None

    async def remove(self, request: pb.RemoveRequest, caller: Token) -> pb.RemoveReply:
        if len(request.lookup_ids) > _MOST_REMOVED:
            raise InvalidParameterError(f"At most {_MOST_REMOVED:,} messages are removed at a time.")
        wanted = request.identity if request.HasField("identity") else None
        own = guid_text(self._desk.manager.core.record.identifier)
        if wanted is not None and wanted.queue_manager != own:
            return pb.RemoveReply(elsewhere=True)
        descriptor = self._open(request.queue, caller, receive=True)
        queue, reading = descriptor.queue, self._desk.manager.reading
        assert queue is not None
        reply = pb.RemoveReply()
        try:
            if wanted is not None and wanted != self._identity(queue):
                return pb.RemoveReply(not_found=request.lookup_ids)  # they were deleted with their queue
            for lookup_id in request.lookup_ids:
                state = queue.position(lookup_id).state
                if state is PositionState.LOCKED:
                    reply.held.append(lookup_id)
                    continue
                result = reading.read_by_lookup_id(
                    descriptor, lookup_id, MessageSeekAction.CURRENT, peek=False
                )
                if result.message is not None:
                    reply.messages += 1
                elif result.status == MessageNotFoundError.code:
                    reply.not_found.append(lookup_id)
                else:
                    raise error_for(result.status)
        finally:
            self._desk.manager.queues.close(descriptor)
        await self._desk.durable()
        return reply


def _survey(queue: Queue, request: pb.SurveyRequest) -> tuple[list[int], list[int], int]:
    found: list[int] = []
    held: list[int] = []
    most = request.most_messages or float("inf")
    most_bytes = request.most_bytes or float("inf")
    size = 0
    for span in request.spans:
        for entry in _places(queue, span):
            if entry.state is PositionState.LOCKED:
                held.append(entry.lookup_id)
                break
            if entry.state is not PositionState.AVAILABLE:
                continue
            if len(found) >= most or (found and size + entry.size > most_bytes):
                return found, held, size
            found.append(entry.lookup_id)
            size += entry.size
    return found, held, size
