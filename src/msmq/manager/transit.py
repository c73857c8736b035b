"""Many messages at once: what passes from host to host goes through here, a read or a window at a time.

:mod:`msmq.manager.placing` says what it means that a message comes into a queue or leaves it. Here the same is done
for the plain case, in which nothing follows from it: no reader waits, nothing expires, nobody asked to be told. What is
not plain is handed to it. Everything is part of the event of the caller, who has reserved room for all of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, compress, repeat
from typing import Final, NamedTuple

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.ledger import NO_TRANSACTION, deletion_bytes
from msmq.manager.placing import Placing, marks_of
from msmq.manager.positions import Entry, PositionState, Stretch
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
    """Messages that can be sent on, in their order: columns of equal length."""

    lookup_ids: array[int]
    packets: list[bytes]
    """As they are to travel."""
    marks: bytes | bytearray
    """Whether each is the first and the last of its transaction, which the packet does not say yet."""
    plain: bytes | bytearray
    """1 where the record is the packet and nothing else, or there is none: :meth:`Transit.forget` may take it."""

    def first(self, count: int) -> Waiting:
        """So many of them."""
        ids, packets, marks, plain = self
        return Waiting(ids[:count], packets[:count], marks[:count], plain[:count])


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
            marks = 0 if message.local.has_any else marks_of(user.flags)
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
        marks = marks_of(user.flags)
        if user.flags & _RECOVERABLE:
            addresses: Sequence[int] = core.ledger.put_packets(
                queue.number, lookup_ids, now_s, envelope_at(now_s), packets, marks
            )
        else:
            addresses = array("Q", bytes(8 * len(run)))
            queue.volatile.update(zip(lookup_ids, zip(repeat(now_s), packets), strict=False))
            core.express_bytes += size
        positions.add_run(lookup_ids, addresses, run.sizes, marks)
        core.total_bytes += size
        return lookup_ids

    def waiting(self, queue: Queue, behind: int, most: int, most_bytes: int) -> Waiting | None:
        """Available messages of a queue behind a place that stand side by side, read together; None when there are no
        more. Those that the disk has damaged leave the queue."""
        while (found := queue.positions.available_stretch(behind, most)) is not None:
            found = _cut(found, most_bytes)
            behind = found.ids[-1]
            waiting = self._read(queue, found)
            if waiting.packets:
                return waiting
        return None

    def packets(self, queue: Queue, lookup_ids: array[int]) -> list[tuple[int, bytes]]:
        """What there is of these messages, whatever its state, and can be read; nothing becomes of it."""
        found = queue.positions.standing(lookup_ids)
        together = self._read_together(queue, found)
        if together is not None:
            return list(zip(together.lookup_ids, together.packets, strict=True))
        read = []
        for lookup_id in found.ids:
            entry = queue.positions.get(lookup_id)
            assert entry is not None
            with suppress(MessageStorageFailedError):
                read.append((lookup_id, self.packet(queue, entry)))
        return read

    def _read(self, queue: Queue, found: Stretch) -> Waiting:
        return self._read_together(queue, found) or self._one_by_one(queue, found)

    def _read_together(self, queue: Queue, found: Stretch) -> Waiting | None:
        """Messages of which all have a record, or none; None when they have to be looked at one by one."""
        ids, addresses, sizes, marks = found
        if not any(addresses):
            kept = [queue.volatile[lookup_id] for lookup_id in ids]
            packets = [each[1] if isinstance(each, tuple) else each.packet.data for each in kept]
            plain = bytes([isinstance(each, tuple) or not each.local.has_any for each in kept])
            return Waiting(ids, packets, marks, plain)
        if 0 in addresses:
            return None
        stored = list(zip(addresses, map(ENVELOPE_SIZE.__add__, sizes), strict=True))
        try:
            packets = self._core.ledger.store.read_many(stored, ENVELOPE_SIZE)
        except MessageStorageFailedError:
            return None
        if list(map(len, packets)) != sizes.tolist():
            return None
        return Waiting(ids, packets, marks, b"\1" * len(ids))

    def _one_by_one(self, queue: Queue, found: Stretch) -> Waiting:
        """Some have local attributes in front of their packets, or are damaged, or only some have a record."""
        waiting = Waiting(array("Q"), [], bytearray(), plain := bytearray())
        for lookup_id in found.ids:
            entry = queue.positions.get(lookup_id)
            message = None if entry is None else self._placing.fetch(queue, entry)
            if entry is not None and message is not None:
                waiting.lookup_ids.append(lookup_id)
                waiting.packets.append(message.packet.data)
                plain.append(not message.local.has_any)
        return waiting._replace(marks=bytes(len(plain)))

    def packet(self, queue: Queue, entry: Entry) -> bytes:
        """The packet at a place, as it was put there."""
        if not entry.address:
            return queue.express(entry.lookup_id).packet.data
        payload = self._core.ledger.store.read(entry.address)
        return payload[ENVELOPE_SIZE + int.from_bytes(payload[:4], "little") :]

    def forget(self, queue: Queue, lookup_ids: Iterable[int]) -> None:
        """Delete messages that :meth:`waiting` called plain and that are with their next host now, whatever of them is
        there. Nobody is told: the caller is the one to whom it matters."""
        core, ledger, placing = self._core, self._core.ledger, self._placing
        found = queue.positions.standing(array("Q", dict.fromkeys(lookup_ids)))
        with core.event(*deletion_bytes(len(found.ids)), freeing=True):
            if all(found.addresses):
                stored, sizes = found.ids, list(map(ENVELOPE_SIZE.__add__, found.sizes))
                ledger.delete_messages(stored, MessageClass.NORMAL)
                placing.take_out_all(queue, stored, volatile=False)
                ledger.store.release_all(found.addresses, sizes)
            elif not any(found.addresses):
                placing.take_out_all(queue, found.ids, volatile=True)
            else:
                kept = [bool(address) for address in found.addresses]
                ledger.delete_messages(array("Q", compress(found.ids, kept)), MessageClass.NORMAL)
                for lookup_id in found.ids:
                    entry = placing.take_out(queue, lookup_id)
                    if entry.address:
                        ledger.store.release(entry.address, ENVELOPE_SIZE + entry.size)


def _cut(found: Stretch, most_bytes: int) -> Stretch:
    """As many of them as so many bytes hold, and one at least."""
    ids, addresses, sizes, marks = found
    count = max(bisect_right(list(accumulate(sizes)), most_bytes), 1)
    if count == len(ids):
        return found
    return Stretch(ids[:count], addresses[:count], sizes[:count], marks[:count])
