"""The contents of queues: reading messages at their places, and removing places.

Reading changes nothing, with one exception: a damaged message leaves its queue when it is read by somebody who may
remove it. Everything else that changes a queue is in :mod:`msmq.manager.mailbox.mailbox`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import add, not_
from typing import Final

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.ledger.ledger import Kind, LostRecord
from msmq.manager.mailbox.positions import END, PositionMark, Positions, PositionState, no_positions
from msmq.manager.mailbox.seek import next_readable
from msmq.manager.mailbox.stored import (
    CUTS,
    ENVELOPE_SIZE,
    NO_ATTRIBUTES,
    LocalAttributes,
    StoredMessage,
    arrival_times_of,
    marked,
    unpacked,
)
from msmq.manager.queues.queue import Queue
from msmq.wire.classes import MessageClass
from msmq.wire.layout import with_edges
from msmq.wire.message import UserMessage

HAS_LOCAL: Final = int(PositionMark.HAS_LOCAL)
_FIRST, _LAST = int(PositionMark.FIRST), int(PositionMark.LAST)
_IS_EDGE: Final = bytes(bool(marks & (_FIRST | _LAST)) for marks in range(256))
_IS_LOCAL: Final = bytes(bool(marks & HAS_LOCAL) for marks in range(256))
_IS_FROM_AFAR: Final = bytes(bool(marks & PositionMark.HAS_SOURCE) for marks in range(256))
"""Tables for ``bytes.translate``: 1 for marks with these bits."""
_LARGE: Final = 1 << 16
_HEADERS_BYTES: Final = 256
"""The size from which on only this much of a message is read for its first headers."""
_SPREAD: Final = 8
"""Messages are not glimpsed at if they take less than this part of the range they are in."""


@dataclass(slots=True)
class Found:
    """Messages of a queue in columns: their places and their contents."""

    positions: Positions = field(default_factory=no_positions)
    arrival_times: list[int] = field(default_factory=list)
    packets: list[bytes] = field(default_factory=list)
    sources: list[bytes] = field(default_factory=list)
    """The addresses of the hosts that messages came from, b"" for messages of this host."""
    local: dict[int, LocalAttributes] = field(default_factory=dict)
    """The local attributes of messages that have any, by index."""

    def __len__(self) -> int:
        return len(self.packets)

    @property
    def ids(self) -> array[int]:
        return self.positions.ids

    def message(self, index: int) -> StoredMessage:
        return StoredMessage(
            UserMessage.kept(self.packets[index]),
            marked(self.local.get(index, NO_ATTRIBUTES), self.positions.marks[index]),
            self.positions.ids[index],
            self.arrival_times[index],
            source=self.sources[index],
        )

    @property
    def messages(self) -> Iterator[StoredMessage]:
        return map(self.message, range(len(self.packets)))


Known = Mapping[int, StoredMessage]
"""Messages that a caller has read before, by lookup identifier."""


class Contents:
    """Reads the messages of queues, and removes places."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def look(
        self,
        queue: Queue,
        behind: int,
        most: int,
        most_bytes: int,
        upto: int = END,
        *,
        peek: bool = False,
    ) -> Found:
        """Read available messages behind one place up to and including another, without removing them: up to ``most``,
        stopping when they have ``most_bytes``. Damaged ones leave the queue. A ``peek`` also sees messages that
        somebody holds, if they allow that."""
        while True:
            if peek and queue.peekable_when_locked:
                positions = self._peekable(queue, behind, upto)
                found = self.peek(queue, positions)
            else:
                positions = queue.positions.available(behind, most, most_bytes, upto)
                found = self.read(queue, positions)
            if len(found) or not positions.ids:
                return found
            behind = positions.ids[-1]

    def peek(self, queue: Queue, positions: Positions) -> Found:
        """Read the message at one place, which somebody else may hold. Who only peeks must not remove a damaged message
        from under its holder, so it stays; but nobody peeks at it any more."""
        held = any(state != PositionState.AVAILABLE for state in positions.states)
        found = self.read(queue, positions, ours=not held)
        if held and not len(found):
            queue.peekable_when_locked.difference_update(positions.ids)
        return found

    @staticmethod
    def _peekable(queue: Queue, behind: int, upto: int) -> Positions:
        """The place of the next message that can be peeked at, alone: hardly any queue has held messages that allow
        peeking."""
        lookup_id = next_readable(queue, behind, peek=True)
        return no_positions() if lookup_id is None or lookup_id > upto else queue.positions.find((lookup_id,))

    def read(self, queue: Queue, positions: Positions, *, ours: bool = True) -> Found:
        """Read the messages at some places together. Damaged ones are left out; if the places are ``ours`` to remove,
        they leave their queue and operators are told, so that nothing waits behind them."""
        if not any(positions.addresses):
            return self._found(queue, positions, [], [])
        cuts = positions.marks.translate(CUTS)
        columns = zip(positions.addresses, positions.sizes, positions.fronts, strict=True)
        records = [(address, front + size) for address, size, front in columns if address]
        if len(records) < len(cuts):
            cuts = bytearray(compress(cuts, positions.addresses))
        try:
            found = self.core.ledger.store.read_many(records, cuts)
        except MessageStorageFailedError:
            return self._read_each(queue, positions, ours)
        return self._found(queue, positions, *found)

    def glimpse(self, positions: Positions) -> bytes | None:
        """The bytes of the range in which some messages are stored, with everything else in it; None if the messages
        have to be read one by one."""
        if 0 in positions.addresses or 1 in positions.marks.translate(_IS_LOCAL):
            return None
        first, last = min(positions.addresses), max(positions.addresses)
        last_size = positions.sizes[positions.addresses.index(last)]
        if last - first > _SPREAD * sum(positions.sizes):
            return None
        front = max(positions.fronts)
        return self.core.ledger.store.glimpse(first, last, last_size + front)

    def headers(self, queue: Queue, ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Read messages for what stands in their first headers: their lookup identifiers and packets. Of large ones it
        is the beginning of the packet, not verified; damaged ones are left out."""
        positions = queue.positions.find(ids)
        small = []
        for index, (address, size, front) in enumerate(
            zip(positions.addresses, positions.sizes, positions.fronts, strict=True)
        ):
            if size < _LARGE or not address:
                small.append(index)
            else:
                begun = self.core.ledger.store.beginning(address, front + _HEADERS_BYTES)
                if len(begun) == front + _HEADERS_BYTES:
                    yield positions.ids[index], begun[front:]
        whole = len(small) == len(positions.ids)
        found = self.read(queue, positions if whole else positions.only(small), ours=False)
        yield from zip(found.ids, found.packets, strict=True)

    def _read_each(self, queue: Queue, positions: Positions, ours: bool) -> Found:
        sound, beginnings, rests = [], [], []
        cuts = positions.marks.translate(CUTS)
        for index, (lookup_id, address) in enumerate(zip(positions.ids, positions.addresses, strict=True)):
            try:
                if address:
                    payload, cut = self.core.ledger.store.read(address), cuts[index]
                    beginnings.append(payload[:cut])
                    rests.append(payload[cut:])
                sound.append(index)
            except MessageStorageFailedError as error:
                if ours:
                    self._set_aside(queue, lookup_id, error)
        return self._found(queue, positions.only(sound), beginnings, rests)

    @staticmethod
    def _found(queue: Queue, positions: Positions, beginnings: list[bytes], packets: list[bytes]) -> Found:
        """``beginnings`` and ``packets`` are the records of those that are on disk, cut as ``CUTS`` says."""
        marks, count = positions.marks, len(positions.ids)
        places: Sequence[int] = range(count)
        if len(packets) != count:
            places = list(compress(places, positions.addresses))
        on_disk = marks if len(places) == count else bytes(compress(marks, positions.addresses))
        times = arrival_times_of(beginnings)
        if 1 in on_disk.translate(_IS_FROM_AFAR):
            sources = [beginning[ENVELOPE_SIZE:] for beginning in beginnings]
        else:
            sources = [b""] * len(beginnings)
        local: dict[int, LocalAttributes] = {}
        for at in compress(range(len(packets)), on_disk.translate(_IS_LOCAL)):
            times[at], packets[at], sources[at], local[places[at]] = unpacked(
                beginnings[at], packets[at], on_disk[at]
            )
        if len(packets) != count:
            for index in compress(range(count), map((0).__eq__, positions.addresses)):
                time, packet, source, kept = queue.volatile[positions.ids[index]]
                times.insert(index, time)
                packets.insert(index, packet)
                sources.insert(index, source)
                if kept is not NO_ATTRIBUTES:
                    local[index] = kept
            local = dict(sorted(local.items()))
        for index in compress(range(len(marks)), marks.translate(_IS_EDGE)):
            first, last = bool(marks[index] & _FIRST), bool(marks[index] & _LAST)
            packets[index] = with_edges(packets[index], first=first, last=last)
        return Found(positions, times, packets, sources, local)

    def load(self, queue: Queue, lookup_id: int) -> StoredMessage:
        """Read a message that somebody holds. Raises MessageStorageFailedError if it is damaged."""
        positions = queue.positions.find((lookup_id,))
        assert positions.ids, f"{lookup_id:#x} is not in {queue.pathname}"
        address, cut = positions.addresses[0], positions.marks.translate(CUTS)[0]
        payloads = [self.core.ledger.store.read(address)] if address else []
        parts = [each[:cut] for each in payloads], [each[cut:] for each in payloads]
        return self._found(queue, positions, *parts).message(0)

    def fetch(self, queue: Queue, lookup_id: int) -> StoredMessage | None:
        """Read a message that the caller may remove; None if it is damaged, see :meth:`read`."""
        found = self.read(queue, queue.positions.find((lookup_id,)))
        return found.message(0) if len(found) else None

    def _set_aside(self, queue: Queue, lookup_id: int, error: Exception) -> None:
        core = self.core
        with core.event(0, 2, freeing=True):
            core.ledger.delete_message(lookup_id, MessageClass.NORMAL)
            self._empty(queue, queue.positions.find((lookup_id,)))
            core.lost_records.append(LostRecord(Kind.MESSAGE, lookup_id, queue.pathname, str(error)))
            self.tell_lost(queue, (lookup_id,))

    def tell_lost(self, queue: Queue, ids: Sequence[int]) -> None:
        """Tell subscribers of messages that are gone and that nobody could read. Each may write a record."""
        for tell in self.core.told_lost:
            tell(queue, ids)

    def _empty(self, queue: Queue, positions: Positions, *, forget: bool = True) -> None:
        """Remove places with everything kept for them, and free their records unless ``forget`` is false because the
        messages are elsewhere from now on. The caller updates the ledger and tells subscribers."""
        core, ids = self.core, positions.ids
        core.total_bytes -= queue.positions.remove(ids)
        if 0 in positions.addresses:
            for lookup_id in compress(ids, map(not_, positions.addresses)):
                del queue.volatile[lookup_id]
            core.express_bytes -= sum(positions.sizes) - sum(compress(positions.sizes, positions.addresses))
        if forget and any(positions.addresses):
            addresses, payload_sizes = positions.addresses, list(map(add, positions.sizes, positions.fronts))
            if 0 in addresses:  # some are in memory
                payload_sizes = list(compress(payload_sizes, addresses))
                addresses = array("Q", filter(None, addresses))
            core.ledger.store.release_all(addresses, payload_sizes)
        for table in (core.moved, queue.aborts, queue.failures, queue.moves):
            if table:
                for lookup_id in table.keys() & ids:
                    del table[lookup_id]
        for members in (queue.peekable_when_locked, queue.overdue, queue.paused):
            if members:
                members.difference_update(ids)

    def forget_damaged(self, queue: Queue, lookup_id: int) -> None:
        """Remove a message whose record the store has found damaged and dropped while it cleaned up."""
        self._empty(queue, queue.positions.find((lookup_id,)), forget=False)
        self.tell_lost(queue, (lookup_id,))
