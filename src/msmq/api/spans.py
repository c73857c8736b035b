"""The calls Survey, ReadSpan and Remove: parts of a queue, for readers that share it out among themselves.

A message that is held by a reader or by a transaction keeps its place, and may become readable later, in front of
others that are readable now. A client that remembers only how far it has read would never see it. So a survey ends a
span before it.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packets import to_deliveries, write_packets
from msmq.errors import InvalidParameterError, QueueNotAvailableError
from msmq.manager.chores import SLICE
from msmq.manager.ledger.recovered import NUMBER_MASK
from msmq.manager.mailbox.expiries import Search
from msmq.manager.mailbox.positions import END, Positions, PositionState
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.security.access import Token
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text

_IDS_PER_REPLY: Final = 50_000
_MESSAGES_PER_REPLY: Final = 1_024
_BYTES_PER_REPLY: Final = 1 << 20
_MOST_REMOVED: Final = 10_000
_PLACES_PER_TURN: Final = 10_000
"""How many places a survey looks at before other work has its turn."""


async def _places(
    descriptor: OpenQueueDescriptor, span: pb.Span, held: list[int]
) -> AsyncIterator[Positions]:
    """Yield the places of a span that can be read, in parts; other work has its turn between them. They end before one
    that is held, which is entered into ``held``. A queue that is deleted meanwhile has no more."""
    behind = span.after
    while (queue := descriptor.queue) is not None:
        locked = queue.positions.first_locked(behind, span.upto)
        upto = span.upto if locked is None else locked - 1
        part = queue.positions.available(behind, _PLACES_PER_TURN, upto=upto)
        if part.ids:
            yield part
        if len(part.ids) < _PLACES_PER_TURN:
            held += () if locked is None else (locked,)
            return
        behind = part.ids[-1]
        await asyncio.sleep(0)


class SpanCalls:
    """The calls about spans."""

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
        queue = descriptor.queue
        assert queue is not None
        try:
            last = pb.SurveyReply(identity=self._identity(queue))
            if request.HasField("known") and request.known.incarnation:
                last.restored = not self._desk.lineage.holds(request.known.incarnation, request.seen)
            found = array("Q")
            with Search(self._desk.manager.mailbox.expiries, queue) as search:
                if request.counting:
                    await self._count(descriptor, request.spans, last)
                else:
                    found, held, last.bytes = await _survey(descriptor, request)
                    last.held.extend(held)
                for part in search.among(_ascending(found, request.spans)):
                    last.expiring.extend(part)
                    await asyncio.sleep(0)  # other work has its turn
        finally:
            self._desk.manager.queues.close(descriptor)
        await self._desk.durable()  # nobody may rely on a message that a crash would take back
        for start in range(0, len(found), _IDS_PER_REPLY):
            yield pb.SurveyReply(lookup_ids=found[start : start + _IDS_PER_REPLY])
        yield last

    async def _count(
        self, descriptor: OpenQueueDescriptor, spans: Sequence[pb.Span], reply: pb.SurveyReply
    ) -> None:
        """Count the messages in some spans, and name the last message of each span. The first message of a span is its
        oldest."""
        times: list[int] = []
        for span in spans:
            behind = span.after
            while (queue := descriptor.queue) is not None:
                places = queue.positions.available(behind, _PLACES_PER_TURN, upto=span.upto)
                if not places.ids:
                    break
                if behind == span.after:
                    times += self._desk.manager.mailbox.look(queue, behind, 1, 1, span.upto).arrival_times
                reply.messages += len(places.ids)
                reply.bytes += sum(places.sizes)
                behind = places.ids[-1]
                await asyncio.sleep(0)  # other work has its turn
            if behind != span.after:
                reply.lookup_ids.append(behind)
        reply.oldest_time = min(times, default=0)

    def _identity(self, queue: Queue) -> pb.QueueIdentity:
        return pb.QueueIdentity(
            queue_manager=guid_text(self._desk.manager.core.record.identifier),
            queue=guid_text(queue.root.identifier),
            incarnation=self._desk.lineage.incarnation,
        )

    def _is_meant(self, wanted: pb.QueueIdentity, queue: Queue, lookup_ids: Sequence[int]) -> bool:
        """Whether lookup identifiers that a client knows of a queue still mean the same messages."""
        if wanted.queue != guid_text(queue.root.identifier):
            return False
        highest = max((one & NUMBER_MASK for one in lookup_ids), default=0)
        return not wanted.incarnation or self._desk.lineage.holds(wanted.incarnation, highest)

    async def read_span(
        self, request: pb.ReadSpanRequest, caller: Token
    ) -> AsyncIterator[pb.Deliveries | list[bytes]]:
        descriptor = self._open(request.queue, caller)
        core, place = self._desk.manager.core, request.span.after
        try:
            while (queue := descriptor.queue) is not None:
                found = self._desk.manager.mailbox.look(
                    queue, place, _MESSAGES_PER_REPLY, _BYTES_PER_REPLY, request.span.upto
                )
                if not len(found):
                    return
                place, addresses = found.ids[-1], found.positions.addresses
                reply: pb.Deliveries | list[bytes]
                if request.form == pb.PACKET:
                    reply = write_packets(pb.Deliveries.PACKETS_FIELD_NUMBER, queue, found)
                else:
                    reply = to_deliveries(queue, found)
                if not all(addresses) or not core.ledger.store.is_durable(min(addresses), max(addresses)):
                    await self._desk.durable()
                yield reply
                await asyncio.sleep(0)  # other work has its turn
        finally:
            self._desk.manager.queues.close(descriptor)

    async def remove(self, request: pb.RemoveRequest, caller: Token) -> pb.RemoveReply:
        if len(request.lookup_ids) > _MOST_REMOVED:
            raise InvalidParameterError(f"At most {_MOST_REMOVED:,} messages are removed at a time.")
        wanted = request.identity if request.HasField("identity") else None
        own = guid_text(self._desk.manager.core.record.identifier)
        if wanted is not None and wanted.queue_manager != own:
            return pb.RemoveReply(elsewhere=True)
        descriptor = self._open(request.queue, caller, receive=True)
        reply = pb.RemoveReply()
        try:
            for start in range(0, len(request.lookup_ids), SLICE):
                queue = descriptor.queue
                if queue is None:
                    raise QueueNotAvailableError("The queue was deleted.")
                if wanted is not None and not self._is_meant(wanted, queue, request.lookup_ids):
                    # They were deleted with their queue, or are missing in the restored copy.
                    return pb.RemoveReply(not_found=request.lookup_ids)
                self._remove(queue, request.lookup_ids[start : start + SLICE], reply)
                await self._desk.durable()
        finally:
            self._desk.manager.queues.close(descriptor)
        return reply

    def _remove(self, queue: Queue, lookup_ids: Sequence[int], reply: pb.RemoveReply) -> None:
        positions = queue.positions.find(lookup_ids)
        states = dict(zip(positions.ids, positions.states, strict=True))
        free = [one for one, state in states.items() if state == PositionState.AVAILABLE]
        reply.held.extend(one for one, state in states.items() if state == PositionState.LOCKED)
        reply.not_found.extend(
            one for one in lookup_ids if states.get(one, PositionState.DELETED) >= PositionState.PURGE_PENDING
        )
        reply.messages += self._desk.manager.mailbox.remove(queue, free, MessageClass.ACK_RECEIVE)


def _ascending(found: array[int], spans: Sequence[pb.Span]) -> array[int]:
    """The messages of some spans in ascending order, which they have if the spans have it."""
    if all(span.upto <= after.after for span, after in pairwise(spans)):
        return found
    return array("Q", sorted(found))


async def _survey(
    descriptor: OpenQueueDescriptor, request: pb.SurveyRequest
) -> tuple[array[int], list[int], int]:
    """The messages that can be read, the places that end spans, and the bytes of the messages."""
    found = array("Q")
    held: list[int] = []
    most = request.most_messages or END
    most_bytes = request.most_bytes or END
    size = 0
    for span in request.spans:
        async for part in _places(descriptor, span, held):
            sums = list(accumulate(part.sizes, initial=size))
            count = min(most - len(found), bisect_right(sums, most_bytes) - 1)
            if not found:
                count = max(count, 1)
            found += part.ids[:count]
            if count < len(part.ids):
                return found, held, sums[count]
            size = sums[-1]
    return found, held, size
