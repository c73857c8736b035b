"""Many plain messages at once, on their way out: what reading in two phases does for each, with one step for all.

Plain messages lie on disk, are in no transaction, and owe nobody an acknowledgment; most messages are like that. A
reader gets their packets as they lie there, which nobody has looked into, and when it keeps them nothing happens but
that they are gone. Whoever finds that something is not of this kind reads, or ends reads, one by one
(:mod:`msmq.manager.reading`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.positions import PositionMark, Stretch
from msmq.manager.queue import OpenQueueDescriptor, OutgoingQueue, Queue
from msmq.manager.reading import may_receive
from msmq.manager.stored import ENVELOPE_SIZE, arrival_time_of
from msmq.wire.classes import MessageClass

_ACK_RECEIVE: Final = int(MessageClass.ACK_RECEIVE)
_EDGES: Final = int(PositionMark.FIRST | PositionMark.LAST)


class Packets(NamedTuple):
    """Messages that a reader holds now, column by column."""

    lookup_ids: array[int]
    arrival_times: list[int]
    packets: list[bytes]
    durable: bool
    """Whether all of them will survive; a reader that is shown others may see what never was."""


def _lying_alike(found: Stretch, most_bytes: int) -> int:
    """How many places from the first on keep their messages on disk and have nothing to say that their packets do not,
    and no more when they have ``most_bytes``."""
    addresses, marks = found.addresses, found.marks
    count = addresses.index(0) if 0 in addresses else len(addresses)
    if any(mark & _EDGES for mark in marks[:count]):
        count = next(place for place, mark in enumerate(marks) if mark & _EDGES)
    return min(count, bisect_left(list(accumulate(found.sizes[:count])), most_bytes) + 1)


class BulkReading:
    """Holds plain messages for a reader, and lets it keep them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def hold(self, descriptor: OpenQueueDescriptor, most: int, most_bytes: int) -> Packets | None:
        """Dequeue Message Begin for the first messages of a queue: up to ``most``, and no more when they have
        ``most_bytes``. None, and nothing has happened, when this is not the way to read them."""
        queue = descriptor.queue
        if queue is None or not may_receive(descriptor):
            return None
        run = queue.positions.plain_run(most, most_bytes)
        ids, addresses = run.lookup_ids, run.addresses
        if not ids or not queue.aborts.keys().isdisjoint(ids):  # a reader is told how often it was given back
            return None
        store = self._core.ledger.store
        try:
            payloads = store.read_many(
                [(address, ENVELOPE_SIZE + size) for address, size in zip(addresses, run.sizes, strict=True)]
            )
        except MessageStorageFailedError:  # what is damaged costs itself and nothing else
            return None
        queue.positions.lock_run(run)
        descriptor.begun.update(ids)
        return Packets(
            ids,
            list(map(arrival_time_of, payloads)),
            [payload[ENVELOPE_SIZE:] for payload in payloads],
            store.is_durable(min(addresses), max(addresses)),
        )

    def look(self, queue: Queue, after: int, upto: int, most: int, most_bytes: int) -> Packets | None:
        """The packets of neighbours behind one lookup identifier up to and with another, left where they are: up to
        ``most``, and no more when they have ``most_bytes``. None when this is not the way to read the first of them, or
        there are none."""
        found = queue.positions.available_stretch(after, most)
        if found is None:
            return None
        count = _lying_alike(found, most_bytes)
        ids = found.ids[: bisect_right(found.ids, upto, 0, count)]
        if not ids or not queue.aborts.keys().isdisjoint(ids):
            return None
        addresses, sizes = found.addresses[: len(ids)], found.sizes[: len(ids)]
        store = self._core.ledger.store
        records = [(address, ENVELOPE_SIZE + size) for address, size in zip(addresses, sizes, strict=True)]
        try:
            payloads = store.read_many(records)
        except MessageStorageFailedError:
            return None  # one is damaged, or has local attributes, which make its record longer
        times = list(map(arrival_time_of, payloads))
        packets = [payload[ENVELOPE_SIZE:] for payload in payloads]
        return Packets(ids, times, packets, store.is_durable(min(addresses), max(addresses)))

    def keep(self, descriptor: OpenQueueDescriptor, lookup_ids: Sequence[int]) -> bool:
        """Dequeue Message End for messages that the reader keeps, each named once, in one event. False, and nothing has
        happened, when this is not the way to end it."""
        core, queue = self._core, descriptor.queue
        if (
            queue is None
            or queue.journaling
            or core.tells_each_received
            or isinstance(queue, OutgoingQueue)
            or not descriptor.begun.issuperset(lookup_ids)
        ):
            return False
        run = queue.positions.locked_run(array("Q", lookup_ids))
        if run is None:
            return False
        with core.event(0, len(lookup_ids), freeing=True):
            core.ledger.delete_messages(lookup_ids, _ACK_RECEIVE)
            core.total_bytes -= queue.positions.remove_run(run)
            core.ledger.store.release_all(run.addresses, [ENVELOPE_SIZE + size for size in run.sizes])
            self._forget(queue, lookup_ids)
            descriptor.begun.difference_update(lookup_ids)
            for tell in core.told_received:
                tell(queue, lookup_ids)
        return True

    def _forget(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        """What is kept beside the places of messages, of which most have nothing."""
        for table in (self._core.moved, queue.aborts, queue.moves):
            if table:
                for lookup_id in lookup_ids:
                    table.pop(lookup_id, None)
        for members in (queue.overdue, queue.peekable_when_locked):
            if members:
                members.difference_update(lookup_ids)
