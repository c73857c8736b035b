"""Find: the messages of a queue that say something, looked for where they lie.

A search may have to look at millions of messages, so nothing is unpacked that need not be: sizes and places come from
the list of places, the label and the body are looked at in the packet, and only what was found is read whole. Others
have their turn after each slice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packets import to_delivered
from msmq.errors import InvalidParameterError, QueueNotAvailableError
from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.positions import START
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.security.access import Token
from msmq.wire.message import UserMessage

_SLICE_MESSAGES: Final = 1_024
_CLOSER_MESSAGES: Final = 64
"""So many at once where one of a slice may be wanted: the others of it need not be read one by one either."""
_SLICE_BYTES: Final = 1 << 20
_REPLY_BYTES: Final = 1 << 20
_REPORT_EVERY: Final = 50_000
"""After so many messages a search says how far it is, though it may have found nothing."""
_LONGEST_LABEL: Final = 1_000

Test = Callable[[Found, int], bool]


class FindCalls:
    """The call that searches."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def find(self, request: pb.FindRequest, caller: Token) -> AsyncIterator[pb.FindReply]:
        tests = list(_tests(request))
        descriptor = self._open(request.queue, caller)
        try:
            async for reply in self._search(descriptor, request, tests):
                yield reply
        finally:
            self._desk.manager.queues.close(descriptor)

    def _open(self, name: str, caller: Token) -> OpenQueueDescriptor:
        format_name = self._desk.names.format_name(name)
        access = self._desk.reading_access(format_name, receive=False)
        descriptor = self._desk.manager.queues.open(format_name, access, caller=caller)
        if descriptor.queue is None:
            self._desk.manager.queues.close(descriptor)
            raise InvalidParameterError("Messages are found in queues of this computer.")
        return descriptor

    async def _search(
        self, descriptor: OpenQueueDescriptor, request: pb.FindRequest, tests: list[Test]
    ) -> AsyncIterator[pb.FindReply]:
        place = request.after or START
        if not request.after and request.skip:
            place = self._queue_of(descriptor).positions.place_of(request.skip - 1)
        most = request.most_messages or float("inf")
        most_looked_at = request.most_looked_at or float("inf")
        found_count = looked_at = reported = 0
        closer_until = START
        suspect = _suspect(request)
        while True:
            queue = self._queue_of(descriptor)
            closer = place < closer_until
            room = min(_CLOSER_MESSAGES if closer else _SLICE_MESSAGES, most_looked_at - looked_at)
            if not tests:
                room = min(room, most - found_count)
            passed, last = self._passed_over(queue, place, int(room), suspect)
            if last > place and not passed and not closer:
                closer_until = last
                continue
            if passed:
                looked_at += passed
                place = last
                if looked_at - reported >= _REPORT_EVERY or looked_at >= most_looked_at:
                    reported = looked_at
                    yield pb.FindReply(looked_at=looked_at, last=place)
                if looked_at >= most_looked_at:
                    return
                await asyncio.sleep(0)
                continue
            found = self._desk.manager.mailbox.look(queue, place, int(room), _SLICE_BYTES)
            if not len(found):
                yield pb.FindReply(looked_at=looked_at, last=max(place, 0), end=True)
                return
            reply, size = pb.FindReply(), 0
            for index in range(len(found)):
                place = found.ids[index]
                looked_at += 1
                if all(test(found, index) for test in tests):
                    message = self._message(queue, found, index, request)
                    reply.messages.append(message)
                    found_count += 1
                    size += message.ByteSize()
                    if found_count >= most or size > _REPLY_BYTES:
                        break
            over = found_count >= most or looked_at >= most_looked_at
            if reply.messages:
                await self._desk.durable()  # nobody is shown a message that a crash takes back
            if reply.messages or over or looked_at - reported >= _REPORT_EVERY:
                reply.looked_at, reply.last, reported = looked_at, place, looked_at
                yield reply
            if over:
                return
            await asyncio.sleep(0)

    def _passed_over(
        self, queue: Queue, behind: int, most: int, suspect: Callable[[bytes], bool] | None
    ) -> tuple[int, int]:
        """How many of the next messages are plainly not wanted, without reading any of them, and the place of the
        last that was looked at so."""
        positions = queue.positions.available(behind, most, _SLICE_BYTES) if suspect is not None else None
        lies = (
            self._desk.manager.mailbox.glimpse(positions)
            if positions is not None and len(positions.ids)
            else None
        )
        if suspect is None or positions is None or lies is None:
            return 0, behind
        return 0 if suspect(lies) else len(positions.ids), positions.ids[-1]

    @staticmethod
    def _queue_of(descriptor: OpenQueueDescriptor) -> Queue:
        if descriptor.queue is None:
            raise QueueNotAvailableError("The queue was deleted.")
        return descriptor.queue

    @staticmethod
    def _message(queue: Queue, found: Found, index: int, request: pb.FindRequest) -> pb.FoundMessage:
        stored = found.message(index)
        delivered = to_delivered(stored, pb.PROPERTIES, queue.aborts.get(stored.lookup_id, 0))
        body_size = len(delivered.message.body)
        if request.HasField("body_bytes") and body_size > request.body_bytes:
            delivered.message.body = delivered.message.body[: request.body_bytes]
        return pb.FoundMessage(delivered=delivered, size=found.positions.sizes[index], body_size=body_size)


def _tests(request: pb.FindRequest) -> Iterator[Test]:
    """What has to hold of each message; what costs least is asked first."""
    if request.HasField("least_bytes") or request.HasField("greatest_bytes"):
        least = request.least_bytes
        greatest = request.greatest_bytes if request.HasField("greatest_bytes") else 0xFFFFFFFF
        yield lambda found, index: least <= found.positions.sizes[index] <= greatest
    if request.HasField("arrived_from") or request.HasField("arrived_to"):
        first = request.arrived_from
        last = request.arrived_to if request.HasField("arrived_to") else 0xFFFFFFFF
        yield lambda found, index: first <= found.arrival_times[index] <= last
    if request.label:
        yield _label_test(request.label)
    if request.body_contains:
        yield _body_test(list(request.body_contains))
    if request.message_id:
        identifier = request.message_id
        yield lambda found, index: _packet(found, index).identifier.encode() == identifier
    if request.correlation_id:
        correlation = request.correlation_id
        yield lambda found, index: _packet(found, index).properties.correlation_id == correlation
    if request.classes:
        yield _class_test(frozenset(request.classes))


def _packet(found: Found, index: int) -> UserMessage:
    return UserMessage.route(found.packets[index])


def _label_test(label: str) -> Test:
    wanted, suspect = label.lower(), _in_packet(label)

    def test(found: Found, index: int) -> bool:
        return suspect(found.packets[index]) and wanted in _packet(found, index).label.lower()

    return test


def _in_packet(label: str) -> Callable[[bytes], bool]:
    """Whether a label may stand in some bytes, as far as its ASCII letters can tell without knowing where."""
    if len(label) > _LONGEST_LABEL:
        raise InvalidParameterError(f"A label has less than {_LONGEST_LABEL} characters.")
    # A small k may be a Kelvin sign elsewhere, and a small i a Turkish one: only these two have no bytes in common.
    runs = re.findall("[\x00-\x7f]+", re.sub("[iIkK]", "\u212a", label))
    needle = max(runs, key=len, default="").lower().encode("utf-16-le")
    return lambda data: needle in data.lower()


def _suspect(request: pb.FindRequest) -> Callable[[bytes], bool] | None:
    """What must stand somewhere in the bytes of a message that is wanted; None when nothing must."""
    if request.label:
        return _in_packet(request.label)
    wanted = list(request.body_contains)
    return (lambda data: any(each in data for each in wanted)) if wanted else None


def _body_test(wanted: list[bytes]) -> Test:
    def test(found: Found, index: int) -> bool:
        packet = found.packets[index]
        return any(each in packet for each in wanted) and any(
            each in _packet(found, index).body for each in wanted
        )

    return test


def _class_test(classes: frozenset[int]) -> Test:
    def test(found: Found, index: int) -> bool:
        local = found.local.get(index)
        dead = local.dead_letter_class if local is not None else 0
        return (dead or _packet(found, index).properties.message_class) in classes

    return test
