"""Many messages at once: what passes from host to host goes through here, a read or a window at a time.

:mod:`msmq.manager.placing` says what it means that a message comes into a queue or leaves it. Here the same is done
for the plain case, in which nothing follows from it: no reader waits, nothing expires, nobody asked to be told. What is
not plain is handed to it. Everything is part of the event of the caller, who has reserved room for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.ledger import NO_TRANSACTION
from msmq.manager.placing import MAY_OWE, OWES_NOTHING, Placing
from msmq.manager.positions import Entry, PositionState
from msmq.manager.queue import MessagePosition, Queue
from msmq.manager.stored import ENVELOPE_SIZE, NO_ATTRIBUTES, StoredMessage, envelope, envelope_at
from msmq.wire.classes import MessageClass
from msmq.wire.headers import BASE_SH, INFINITE, USER_TH
from msmq.wire.properties.queue import within_quota
from msmq.wire.runs import Run

INTAKE_BYTES: Final = 64
"""What to reserve for a message beside its packet."""
_RECOVERABLE: Final = 0x20
_AVAILABLE: Final = PositionState.AVAILABLE


class Waiting(NamedTuple):
    """A message that can be sent on: its place and its packet as it is to travel."""

    lookup_id: int
    packet: bytes
    marks: int
    """Whether it is the first and the last of its transaction, which the packet does not say yet."""
    plain: bool
    """Its record is the packet and nothing else, or it has none: :meth:`Transit.forget` may take it."""


class Transit:
    """Takes many messages in and lets many go."""

    def __init__(self, core: Core, placing: Placing) -> None:
        self._core = core
        self._placing = placing

    def intake(self, queue: Queue) -> Callable[[StoredMessage], None]:
        """What puts messages into a queue, for the rest of this event; each was admitted."""
        core, placing, ledger = self._core, self._placing, self._core.ledger
        now_s = core.now_s
        arrived = core.told_of(queue)
        plain = envelope_at(now_s)
        positions, volatile = queue.positions, queue.volatile
        number, transactional = queue.number, queue.transactional

        def insert(message: StoredMessage) -> None:
            packet = message.packet
            user, base = packet.user, packet.base
            if (
                queue.waiting
                or base.flags & BASE_SH
                or user.time_to_be_received_s != INFINITE
                or message.local.allow_peek_when_locked
            ):
                placing.insert(queue, message)
                return
            size = base.packet_size
            message.arrival_time = now_s
            if not user.flags & _RECOVERABLE:
                core.check_express_room(size)
            lookup_id = core.next_sequential_id()
            if not (transactional or user.flags & USER_TH):
                lookup_id |= (7 - (base.flags & 7)) << 56
            message.lookup_id = lookup_id
            marks = 0 if user.flags & MAY_OWE or message.local.has_any else OWES_NOTHING
            if user.flags & _RECOVERABLE:
                front = plain if message.local is NO_ATTRIBUTES else envelope(message)
                address = ledger.put_message(number, message, front, None, NO_TRANSACTION, marks)
            else:
                address = 0
                volatile[lookup_id] = message
                core.express_bytes += size
            positions.add(lookup_id, address, size, _AVAILABLE, marks)
            core.total_bytes += size
            for tell in arrived:
                tell(queue, MessagePosition(queue, lookup_id))

        return insert

    def takes(self, queue: Queue, run: Run) -> bool:
        """Whether messages that look alike may come into a queue by :meth:`take_in`: nothing would follow from it,
        and there is room for all."""
        core, user, size = self._core, run.sample.user, run.size
        return (
            not queue.waiting
            and user.time_to_be_received_s == INFINITE
            and not core.told_of(queue)
            and not core.throttled
            and within_quota(core.record.queue_manager_quota_kb, core.total_bytes, size)
            and within_quota(queue.quota_kb, queue.positions.total_bytes, size)
            and (user.flags & _RECOVERABLE != 0 or core.express_bytes + size <= core.express_limit_bytes)
        )

    def take_in(self, queue: Queue, run: Run) -> Sequence[int]:
        """Put messages that look alike into a queue that :meth:`takes` them; gives their lookup identifiers."""
        core, positions = self._core, queue.positions
        user, base_flags, size = run.sample.user, run.sample.base.flags, run.size
        now_s, packets = core.now_s, run.packets
        lookup_ids = core.next_sequential_ids(len(run))
        if not (queue.transactional or user.flags & USER_TH):
            top = (7 - (base_flags & 7)) << 56
            lookup_ids = range(lookup_ids[0] | top, (lookup_ids[0] | top) + len(run))
        marks = 0 if user.flags & MAY_OWE else OWES_NOTHING
        if user.flags & _RECOVERABLE:
            addresses = core.ledger.put_packets(
                queue.number, lookup_ids, now_s, envelope_at(now_s), packets, marks
            )
        else:
            addresses = [0] * len(run)
            queue.volatile.update(zip(lookup_ids, zip(repeat(now_s), packets), strict=False))
            core.express_bytes += size
        positions.add_run(lookup_ids, addresses, list(map(len, packets)), marks)
        core.total_bytes += size
        return lookup_ids

    def waiting(self, queue: Queue, behind: int, most: int, most_bytes: int) -> list[Waiting]:
        """The next available messages of a queue behind a place, read together; none when there are no more. Those
        that the disk has damaged leave the queue."""
        found: list[Waiting] = []
        while not found and (entries := self._entries(queue, behind, most, most_bytes)):
            found = self._read(queue, entries)
            behind = entries[-1].lookup_id
        return found

    def _entries(self, queue: Queue, behind: int, most: int, most_bytes: int) -> list[Entry]:
        entries: list[Entry] = []
        size = 0
        for entry in queue.positions.available_run(behind, most):
            size += entry.size
            if entries and size > most_bytes:
                break
            entries.append(entry)
        return entries

    def _read(self, queue: Queue, entries: list[Entry]) -> list[Waiting]:
        stored = [(entry.address, ENVELOPE_SIZE + entry.size) for entry in entries if entry.address]
        try:
            payloads = self._core.ledger.store.read_many(stored) if stored else []
        except MessageStorageFailedError:
            return self._one_by_one(queue, entries)
        if any(len(payload) != size for payload, (_, size) in zip(payloads, stored, strict=True)):
            return self._one_by_one(queue, entries)
        read = iter(payloads)
        found = []
        for lookup_id, address, _, _, marks in entries:
            if address:
                found.append(Waiting(lookup_id, next(read)[ENVELOPE_SIZE:], marks, True))
            else:
                message = queue.express(lookup_id)
                found.append(Waiting(lookup_id, message.packet.data, marks, not message.local.has_any))
        return found

    def _one_by_one(self, queue: Queue, entries: Iterable[Entry]) -> list[Waiting]:
        """Some have local attributes in front of their packets, or are damaged."""
        found = []
        for entry in entries:
            message = self._placing.fetch(queue, entry)
            if message is not None:
                plain = not message.local.has_any
                found.append(Waiting(entry.lookup_id, message.packet.data, entry.marks, plain))
        return found

    def packet(self, queue: Queue, entry: Entry) -> bytes:
        """The packet at a place, as it was put there."""
        if not entry.address:
            return queue.express(entry.lookup_id).packet.data
        payload = self._core.ledger.store.read(entry.address)
        return payload[ENVELOPE_SIZE + int.from_bytes(payload[:4], "little") :]

    def forget(self, queue: Queue, lookup_ids: list[int]) -> None:
        """Delete messages that :meth:`waiting` called plain and that are with their next host now. Nobody is told: the
        caller is the one to whom it matters."""
        core, ledger, take_out = self._core, self._core.ledger, self._placing.take_out
        release, find = ledger.store.release, queue.positions.get
        with core.event(0, len(lookup_ids), freeing=True):
            entries = [entry for entry in map(find, dict.fromkeys(lookup_ids)) if entry is not None]
            ledger.delete_messages(
                [entry.lookup_id for entry in entries if entry.address], MessageClass.NORMAL
            )
            for lookup_id, address, size, _, _ in entries:
                take_out(queue, lookup_id)
                if address:
                    release(address, ENVELOPE_SIZE + size)
