"""The one way into, out of and through a queue (MS-MQDMPR 3.1.7.1.9, 3.1.7.1.16, 3.1.7.2.1, 3.1.7.2.2).

These are the only functions that change a queue's places. They keep the places, the bytes that quotas count, the
records of the ledger and the timers consistent, and tell subscribers. All of them take many messages at a time, and
one message is a batch of one.

Each is one event, or part of the one that calls it (see :mod:`msmq.manager.event`): room for all of its records is
reserved before the first one is written, a record is written before the places change, and messages whose contents
matter for what follows are read before anything is removed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, repeat
from operator import not_
from typing import Final

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.ledger.ledger import NO_TRANSACTION, Kind, LostRecord, deletion_bytes
from msmq.manager.mailbox.batch import NEVER, RECOVERABLE, Batch
from msmq.manager.mailbox.contents import HAS_LOCAL, Contents, Known
from msmq.manager.mailbox.expiries import Expiries
from msmq.manager.mailbox.positions import PositionMark, Positions, PositionState
from msmq.manager.mailbox.retries import Retries
from msmq.manager.mailbox.stored import (
    FRONTS,
    LARGEST_ENVELOPE,
    LARGEST_FRONT,
    NO_ATTRIBUTES,
    LocalAttributes,
    StoredMessage,
    local_bytes,
)
from msmq.manager.model import EnqueueStatus, QueueType
from msmq.manager.queues.queue import MessagePosition, OutgoingQueue, Queue, finish_wait
from msmq.wire.classes import MessageClass
from msmq.wire.columns import picker
from msmq.wire.headers import USER_TH
from msmq.wire.properties.queue import within_quota

MQ_OK: Final = 0
NUMBERS_BYTES: Final = 64
"""The room for a record with a new range of numbers, which new messages may need."""
UNREAD: Final = frozenset(
    {
        MessageClass.NACK_RECEIVE_TIMEOUT,
        MessageClass.NACK_Q_PURGED,
        MessageClass.NACK_Q_DELETED,
        MessageClass.NACK_DELETED,
    }
)
"""The reasons for which messages leave their destination unread, or an outgoing queue unsent."""
_AVAILABLE, _LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
_OWES_NOTHING: Final = int(PositionMark.OWES_NOTHING)
_OWES_NO_RECEIPT: Final = int(PositionMark.OWES_NO_RECEIPT)
_KEPT_UNREAD: Final = int(PositionMark.KEPT_UNREAD)
_MAY_OWE: Final = bytes(not marks & _OWES_NOTHING for marks in range(256))
_MAY_OWE_RECEIPT: Final = bytes(not marks & (_OWES_NOTHING | _OWES_NO_RECEIPT) for marks in range(256))
_IS_KEPT: Final = bytes(bool(marks & _KEPT_UNREAD) for marks in range(256))
"""Tables for ``bytes.translate``: 1 for marks with these bits."""
_RECORDS_EACH: Final = 2
_NONE_KNOWN: Final[Known] = {}


def full(core: Core, queue: Queue, size: int) -> str:
    """The quota that keeps a message of this size out of a queue, its value and how to raise it; "" if none does."""
    machine_kb, used = core.record.queue_manager_quota_kb, core.total_bytes
    if not within_quota(machine_kb, used, size):
        where, limit_kb, command = "the computer", machine_kb, "msmq manager set"
    elif not within_quota(queue.quota_kb, used := queue.positions.total_bytes, size):
        where, limit_kb, command = queue.pathname, queue.quota_kb, f"msmq queue set '{queue.pathname}'"
    else:
        return ""
    return (
        f"The quota of {where} is {limit_kb} KB, {used // 1024} KB are used, and the message takes {size} bytes; "
        f"`{command} --quota SIZE` raises it."
    )


class Mailbox(Contents):
    """Puts messages into queues, moves them and removes them."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.expiries = Expiries(core.timers, core.environment.now, self.expire)
        self.retries = Retries(self, purge_reason)
        self.grave_for: Callable[[Queue, StoredMessage, bool], Queue | None] = lambda *_: None
        """Returns the dead-letter queue for a message that leaves its destination unread, or None; set by
        :class:`msmq.manager.messages.delivery.Sending`."""

    # --- into a queue ---------------------------------------------------------------------------------------

    def admit(self, queue: Queue, batch: Batch) -> list[EnqueueStatus] | None:
        """Check whether messages may go into a queue now: flow control, machine quota, queue quota, time. Returns a
        status for each, or None if all of them may."""
        core, now_s = self.core, self.core.now_s
        machine_kb, queue_kb = core.record.queue_manager_quota_kb, queue.quota_kb
        of_machine, of_queue, whole = core.total_bytes, queue.positions.total_bytes, sum(batch.sizes)
        if (
            not core.throttled
            and within_quota(machine_kb, of_machine, whole)
            and within_quota(queue_kb, of_queue, whole)
            and min(batch.reach_by) >= now_s
        ):
            return None
        statuses = []
        for size, reach_by in zip(batch.sizes, batch.reach_by, strict=True):
            if core.throttled or not within_quota(machine_kb, of_machine, size):
                statuses.append(EnqueueStatus.QUEUE_MANAGER_QUOTA)
            elif not within_quota(queue_kb, of_queue, size):
                statuses.append(EnqueueStatus.QUEUE_QUOTA)
            elif reach_by < now_s:
                statuses.append(EnqueueStatus.TIMED_OUT)
            else:
                statuses.append(EnqueueStatus.OK)
                of_machine += size
                of_queue += size
        return statuses if any(statuses) else None

    def put(
        self, queue: Queue, batch: Batch, transaction: bytes = NO_TRANSACTION, *, freeing: bool = False
    ) -> Sequence[int]:
        """Put messages into a queue and return their lookup identifiers. In a transaction they stay locked until the
        commit; otherwise they are available, and readers that wait get them in this event.

        Messages in a transaction are always written, because their record is the operation's. ``freeing`` means that
        they replace messages that are being removed, and may use the space kept back for that on a full disk.
        """
        core, now_s = self.core, self.core.now_s
        sizes, count = batch.sizes, len(batch)
        if transaction is NO_TRANSACTION:
            on_disk = [flags & RECOVERABLE for flags in batch.user_flags]
        else:
            on_disk = [RECOVERABLE] * count
        written, whole = count - on_disk.count(0), sum(sizes)
        express_bytes = 0 if written == count else whole - sum(compress(sizes, on_disk))
        if express_bytes:
            core.check_express_room(express_bytes)
        first_expiry = min(batch.expiries) if is_destination(queue) else NEVER
        overdue: list[int] = []
        if first_expiry <= now_s:
            overdue = [index for index, expiry in enumerate(batch.expiries) if expiry <= now_s]
        size = whole - express_bytes + (LARGEST_FRONT + LARGEST_ENVELOPE * bool(batch.local)) * written
        if overdue:
            late = batch.only(overdue)
            size += self.letters_bytes(late.sizes, bytes(late.marks))
        records = written + 1 + _RECORDS_EACH * (count * bool(queue.waiting) + len(overdue))
        with core.event(size + NUMBERS_BYTES, records if written or overdue else 0, freeing=freeing):
            ids = self._numbered(queue, batch)
            marks = bytearray(batch.marks)
            texts = {index: local_bytes(local) for index, local in batch.local.items()}
            fronts = array("H", list(marks.translate(FRONTS)))
            for index, text in texts.items():
                marks[index] |= HAS_LOCAL
                fronts[index] += len(text)
            # On disk first, because a full disk refuses all of them.
            addresses = core.ledger.put_messages(
                queue.number, ids, now_s, batch, marks, texts, on_disk, transaction
            )
            if written < count:
                self._keep_in_memory(queue, batch, ids, now_s, on_disk)
            state = _AVAILABLE if transaction is NO_TRANSACTION else _LOCKED
            queue.positions.add(ids, addresses, sizes, fronts, marks, state)
            core.total_bytes += whole
            core.express_bytes += express_bytes
            for index, local in batch.local.items():
                if local.allow_peek_when_locked:
                    queue.peekable_when_locked.add(ids[index])
            if first_expiry != NEVER:
                later = [now_s < expiry != NEVER for expiry in batch.expiries]
                self.expiries.watch(queue, compress(ids, later), compress(batch.expiries, later))
                queue.overdue.update(ids[index] for index in overdue)
            if transaction is NO_TRANSACTION:
                self._announce(queue, ids)
        return ids

    def _numbered(self, queue: Queue, batch: Batch) -> Sequence[int]:
        """Make lookup identifiers, which ascend along the queue: by priority, then by arrival. In a transactional
        queue, and for transactional messages, they ascend by arrival only."""
        numbers = self.core.next_sequential_ids(len(batch))
        if queue.transactional:
            return numbers
        return [
            number if user_flags & USER_TH else number | (7 - (base_flags & 7)) << 56
            for user_flags, base_flags, number in zip(
                batch.user_flags, batch.base_flags, numbers, strict=True
            )
        ]

    @staticmethod
    def _keep_in_memory(
        queue: Queue, batch: Batch, ids: Sequence[int], now_s: int, on_disk: Sequence[int]
    ) -> None:
        """Keep the express messages of a batch."""
        express = [index for index, kept in enumerate(on_disk) if not kept]
        pick = picker(express)
        local: Iterable[LocalAttributes] = repeat(NO_ATTRIBUTES)
        if batch.local:
            local = [batch.local.get(index, NO_ATTRIBUTES) for index in express]
        kept = zip(repeat(now_s), pick(batch.packets), pick(batch.sources), local, strict=False)
        queue.volatile.update(zip(pick(ids), kept, strict=True))

    def release(self, queue: Queue, ids: Sequence[int]) -> None:
        """Message Position Available: unlock messages, and expire those that are overdue."""
        with self.core.event():
            there = queue.positions.find(ids).ids
            queue.positions.set_states(there, _AVAILABLE)
            self._announce(queue, there)

    def give_back(self, queue: Queue, ids: Sequence[int]) -> None:
        """Return messages to the queue for a reader that has left without keeping them. Rejecting is different
        (:mod:`msmq.manager.mailbox.retries`)."""
        before = {lookup_id: queue.aborts.get(lookup_id, 0) for lookup_id in ids}
        queue.aborts.update((lookup_id, count + 1) for lookup_id, count in before.items())
        try:
            self.release(queue, ids)
        except MessageStorageFailedError:
            queue.aborts.update(before)
            raise

    def _announce(self, queue: Queue, ids: Sequence[int]) -> None:
        """Deal with messages that have become available: overdue ones expire, waiting readers are served in the order
        in which they came, and then protocols are told of the rest."""
        core, free = self.core, ids
        overdue = queue.overdue.intersection(ids) if queue.overdue else None
        taken = bool(overdue or queue.waiting)
        if overdue:
            self.remove(queue, [one for one in ids if one in overdue], MessageClass.NACK_RECEIVE_TIMEOUT)
        if queue.waiting:
            with core.event():
                for lookup_id in ids:
                    position = MessagePosition(queue, lookup_id)
                    for reader in list(queue.waiting):  # readers that wait again meanwhile have passed it by
                        if position.state is not _AVAILABLE:
                            break
                        if not reader.over:
                            finish_wait(reader, MQ_OK, position)
                    if not queue.waiting:
                        break
        told = core.told_of(queue)
        if told and taken:
            left = queue.positions.find(ids)
            free = [one for one, state in zip(left.ids, left.states, strict=True) if state == _AVAILABLE]
        if free:
            for tell in told:
                tell(queue, free)

    # --- out of a queue -------------------------------------------------------------------------------------

    def remove(
        self,
        queue: Queue,
        ids: Sequence[int] | Positions,
        reason: int,
        *,
        recorded: bool = False,
        known: Known = _NONE_KNOWN,
        quiet: bool = False,
    ) -> int:
        """Message Position Deleted: remove messages from a queue for a reason, and return how many of them were there.

        ``ids`` may be places that were just looked up. ``recorded`` means that the ledger has the deletions already,
        by a commit; ``known`` messages need not be read again; with ``quiet`` only ``messages_removed`` tells of them.
        Messages received from a queue with journaling go to its journal, as many as fit; unread ones whose senders
        want them kept become dead letters.
        """
        positions = ids if isinstance(ids, Positions) else queue.positions.find(ids)
        if not positions.ids:
            return 0
        telling = self._telling(queue, positions, reason, quiet)
        with_copies = bool(reason == MessageClass.ACK_RECEIVE and queue.journaling and queue.journal)
        buried = reason in UNREAD and (
            isinstance(queue, OutgoingQueue)
            or (is_destination(queue) and 1 in positions.marks.translate(_IS_KEPT))
        )
        messages: dict[int, StoredMessage] = {}
        if telling or buried or (with_copies and recorded):
            chosen = telling
            if buried:
                chosen = bytes(
                    map(max, telling or bytes(len(positions.ids)), positions.marks.translate(_IS_KEPT))
                )
            elif with_copies and recorded:
                chosen = b"\1" * len(positions.ids)
            messages = self._read_first(queue, positions, chosen, known)
        if buried:
            self._remove_with_dead_letters(queue, positions, reason, messages, telling, recorded=recorded)
            return len(positions.ids)
        size, records = deletion_bytes(len(positions.ids))
        if with_copies:
            records = 1 + _RECORDS_EACH * len(positions.ids)
            size = sum(positions.sizes) + LARGEST_ENVELOPE if recorded else 0
        told = telling.count(1)
        records = max(records, 1 + told) if not recorded else records + told
        with self.core.event(size, records, freeing=True):
            if with_copies:
                self._to_journal(queue, positions, messages, recorded=recorded)
            else:
                self._delete(queue, positions, reason, recorded=recorded)
            self._tell_deleted(queue, positions.ids, telling, messages, reason)
        return len(positions.ids)

    def _telling(self, queue: Queue, positions: Positions, reason: int, quiet: bool) -> bytes:
        """Which messages subscribers have to be told of, so that they have to be read; b"" if none."""
        core = self.core
        if quiet or not core.told_deleted:
            return b""
        if core.tells_each or isinstance(queue, OutgoingQueue):
            return b"\1" * len(positions.ids)
        if not is_destination(queue) or reason == MessageClass.NORMAL:
            return b""
        received = reason == MessageClass.ACK_RECEIVE
        owing = positions.marks.translate(_MAY_OWE_RECEIPT if received else _MAY_OWE)
        return bytes(owing) if 1 in owing else b""

    def _read_first(
        self, queue: Queue, positions: Positions, chosen: bytes, known: Known
    ) -> dict[int, StoredMessage]:
        """The messages that something follows from, read before anything is taken out. Damaged ones are left out: they
        go with the others, and operators are told."""
        ids = positions.ids
        messages = {one: known[one] for one in compress(ids, chosen) if one in known}
        wanted = [index for index in compress(range(len(ids)), chosen) if ids[index] not in messages]
        if wanted:
            found = self.read(queue, positions.only(wanted), ours=False)
            messages.update(zip(found.ids, found.messages, strict=True))
            if len(found) < len(wanted):
                self.core.lost_records += [
                    LostRecord(Kind.MESSAGE, one, queue.pathname, "damaged when it left its queue")
                    for one in compress(ids, chosen)
                    if one not in messages
                ]
        return messages

    def _delete(self, queue: Queue, positions: Positions, reason: int, *, recorded: bool = False) -> None:
        if not recorded:
            stored = positions.ids
            if 0 in positions.addresses:
                stored = array("Q", compress(positions.ids, positions.addresses))
            self.core.ledger.delete_messages(stored, reason)
        self._empty(queue, positions)

    def _tell_deleted(
        self, queue: Queue, ids: Sequence[int], telling: bytes, messages: Known, reason: int
    ) -> None:
        if telling:
            concerned = list(compress(ids, telling))
            told = [messages[one] for one in concerned if one in messages]
            for tell in self.core.told_deleted if told else ():
                tell(queue, told, reason)
            if len(told) < len(concerned):
                self.tell_lost(queue, [one for one in concerned if one not in messages])
        for tell_removed in self.core.told_removed:
            tell_removed(queue, ids)

    def _to_journal(
        self, queue: Queue, positions: Positions, messages: Mapping[int, StoredMessage], *, recorded: bool
    ) -> None:
        """Move received messages to the journal of their queue, as many as its quota allows; the others are deleted."""
        journal, used = queue.journal, 0
        assert journal is not None
        fitting = bytearray()
        for size in positions.sizes:
            fits = within_quota(queue.journal_quota_kb, journal.total_bytes + used, size)
            used += size if fits else 0
            fitting.append(fits)
        kept = [index for index, fits in enumerate(fitting) if fits]
        if recorded:
            copies = [
                messages[positions.ids[index]].same_place(0)
                for index in kept
                if positions.ids[index] in messages
            ]
            self._delete(queue, positions, MessageClass.ACK_RECEIVE, recorded=True)
            if copies:
                self.put(journal, Batch.of(copies, *self.core.own_identifiers), freeing=True)
            return
        rest = [index for index, fits in enumerate(fitting) if not fits]
        if rest:
            self._delete(queue, positions.only(rest), MessageClass.ACK_RECEIVE)
        if kept:
            self._transfer(queue, positions.only(kept), journal)

    def _remove_with_dead_letters(
        self,
        queue: Queue,
        positions: Positions,
        reason: int,
        messages: Mapping[int, StoredMessage],
        telling: bytes,
        *,
        recorded: bool,
        certain: dict[int, Queue] | None = None,
    ) -> None:
        """Remove unread messages, and make those that are to be kept dead letters, with the reason stored beside them.
        On a full disk only the reason is lost, not the messages. They go where their senders asked, unless ``certain``
        says where."""
        graves = self._graves(queue, messages, own=True) if certain is None else certain
        size = sum(messages[lookup_id].size for lookup_id in graves) + LARGEST_ENVELOPE * len(graves)
        count = len(positions.ids)
        event = self.core.event_with_room(size + 8 * count + NUMBERS_BYTES, 2 * len(graves) + count + 2)
        with event or self.core.event(0, 2 * count + 2, freeing=True):
            if event is None and not recorded:
                graves = self._graves(queue, messages, own=False) if certain is None else certain
                kept = [index for index, one in enumerate(positions.ids) if one in graves]
                for index in kept:
                    self._transfer(queue, positions.only([index]), graves[positions.ids[index]])
                rest = [index for index, one in enumerate(positions.ids) if one not in graves]
                self._delete(queue, positions.only(rest), reason)
            else:
                self._delete(queue, positions, reason, recorded=recorded)
                for grave in dict.fromkeys(graves.values()):
                    letters = [_with_reason(messages[one], reason) for one in graves if graves[one] is grave]
                    self.put(grave, Batch.of(letters, *self.core.own_identifiers), freeing=True)
            self._tell_deleted(queue, positions.ids, telling, messages, reason)

    def bury(self, queue: Queue, ids: Sequence[int], reason: int) -> set[int]:
        """Make messages dead letters of this computer, whatever their senders asked for. Returns which; those that the
        dead-letter queue has no room for stay where they are."""
        positions = queue.positions.find(ids)
        messages = self._read_first(queue, positions, b"\1" * len(positions.ids), _NONE_KNOWN)
        graves: dict[int, Queue] = {}
        used = 0
        for lookup_id, message in messages.items():
            core = self.core
            transactional = message.packet.transactional
            grave = core.transactional_dead_letter_queue if transactional else core.dead_letter_queue
            if (
                grave is not None
                and grave is not queue
                and self.fits_system_queue(grave, used + message.size)
            ):
                graves[lookup_id] = grave
                used += message.size
        chosen = positions.only([index for index, one in enumerate(positions.ids) if one in graves])
        if graves:
            telling = self._telling(queue, chosen, reason, False)
            self._remove_with_dead_letters(
                queue, chosen, reason, messages, telling, recorded=False, certain=graves
            )
        return set(graves)

    @staticmethod
    def poison_bytes(queue: Queue, ids: Sequence[int]) -> int:
        """The room to reserve for messages that :meth:`bury` may make dead letters."""
        sizes = queue.positions.find(ids).sizes
        return sum(sizes) + (LARGEST_ENVELOPE + 8) * len(sizes) + NUMBERS_BYTES

    def _graves(self, queue: Queue, messages: Mapping[int, StoredMessage], *, own: bool) -> dict[int, Queue]:
        """The dead-letter queues of messages that are to be kept, as many as fit. An application's ``own`` dead-letter
        queue is an ordinary queue, where only the stored reason tells that a message is a dead letter."""
        graves: dict[int, Queue] = {}
        used: dict[Queue, int] = {}
        for lookup_id, message in messages.items():
            grave = self.grave_for(queue, message, own)
            if grave is not None and self.fits_system_queue(grave, used.get(grave, 0) + message.size):
                graves[lookup_id] = grave
                used[grave] = used.get(grave, 0) + message.size
        return graves

    @staticmethod
    def letters_bytes(sizes: Sequence[int], marks: bytes | bytearray) -> int:
        """The room to reserve for messages that may become dead letters inside another event."""
        kept = marks.translate(_IS_KEPT)
        if 1 not in kept:
            return 0
        return sum(compress(sizes, kept)) + LARGEST_ENVELOPE * kept.count(1) + 8 * len(sizes) + NUMBERS_BYTES

    def fits_system_queue(self, target: Queue, size: int) -> bool:
        """Whether a journal or a dead-letter queue has room for this many more bytes. A journal has its queue's limit,
        an ordinary queue its own, and the system queues have that of the host."""
        if target is target.root.journal:
            quota_kb = target.root.journal_quota_kb
        else:
            quota_kb = target.quota_kb if is_destination(target) else self.core.record.journal_quota_kb
        return within_quota(quota_kb, target.total_bytes, size)

    # --- from queue to queue --------------------------------------------------------------------------------

    def move(
        self, source: Queue, ids: Sequence[int] | Positions, target: Queue, *, recorded: bool = False
    ) -> int:
        """Move messages unchanged, with identifiers, records and counters, to another queue. Returns how many there
        were. Damaged ones are lost if the target is a destination; a system queue shows them to whoever reads there.
        """
        positions = ids if isinstance(ids, Positions) else source.positions.find(ids)
        if is_destination(target):
            positions = self.read(source, positions).positions
        if positions.ids:
            with self.core.event(0, _RECORDS_EACH * len(positions.ids), freeing=True):
                self._transfer(source, positions, target, recorded=recorded)
        return len(positions.ids)

    def move_changed(
        self,
        source: Queue,
        lookup_id: int,
        target: Queue,
        change: Callable[[LocalAttributes], LocalAttributes],
    ) -> bool:
        """Move a message with other local attributes: it is written again and gets a new place. Returns False if it is
        damaged. Raises if there is no room for a second record; then nothing has changed."""
        message = self.fetch(source, lookup_id)
        if message is None:
            return False
        core = self.core
        changed = message.same_place(0)
        changed.local = change(message.local)
        batch = Batch.of([changed], *core.own_identifiers)
        with core.event(message.size + LARGEST_ENVELOPE + NUMBERS_BYTES, 4):
            self.put(target, batch)
            self._delete(source, source.positions.find((lookup_id,)), MessageClass.NORMAL)
        return True

    def _transfer(
        self, source: Queue, positions: Positions, target: Queue, *, recorded: bool = False
    ) -> None:
        core, ids = self.core, positions.ids
        on_disk = list(compress(ids, positions.addresses))
        aborts = {one: source.aborts[one] for one in ids if one in source.aborts} if source.aborts else {}
        moves = {one: source.moves[one][0] for one in ids if one in source.moves} if source.moves else {}
        peekable = source.peekable_when_locked.intersection(ids)
        express = {}
        if len(on_disk) < len(ids):
            express = {one: source.volatile[one] for one in compress(ids, map(not_, positions.addresses))}
        if not recorded:
            core.ledger.move_messages(on_disk, target.number)
        self._empty(source, positions, forget=False)
        core.moved.update(zip(on_disk, repeat(target.number)))
        target.volatile.update(express)
        target.peekable_when_locked.update(peekable)
        core.express_bytes += sum(len(kept[1]) for kept in express.values())
        _, addresses, sizes, _, marks, fronts = positions
        target.positions.add(ids, addresses, sizes, fronts, marks)
        core.total_bytes += sum(positions.sizes)
        target.aborts.update(aborts)
        if target.queue_type is not QueueType.SYSTEM:
            now_s = core.now_s
            target.moves.update((one, (moves.get(one, 0) + 1, now_s)) for one in ids)
        if is_destination(target):
            self._watch_moved(target, positions)
        self._announce(target, ids)

    def _watch_moved(self, target: Queue, positions: Positions) -> None:
        """Watch the expiry of messages that were moved to a subqueue."""
        now_s = self.core.now_s
        found = self.read(target, positions, ours=False)
        expiries = {
            message.lookup_id: expiry for message in found.messages if (expiry := message.expiry) is not None
        }
        target.overdue.update(one for one, expiry in expiries.items() if expiry <= now_s)
        later = {one: expiry for one, expiry in expiries.items() if expiry > now_s}
        self.expiries.watch(target, later.keys(), later.values())

    # --- time -----------------------------------------------------------------------------------------------

    def watch_expiries(self, queue: Queue, ids: Sequence[int], expiries: Sequence[int]) -> None:
        """Start the Time To Be Received timers of messages; only messages at their destination expire unread."""
        if is_destination(queue):
            self.expiries.watch(queue, ids, expiries)

    def expire(self, queue: Queue, ids: Sequence[int]) -> None:
        """Expire messages whose Time To Be Received has run out. A message that somebody holds expires only if it
        comes back, and one that a transaction is still sending expires at the commit."""
        positions = queue.positions.find(
            list(dict.fromkeys(ids))
        )  # a message that was moved away and back is listed twice
        free = [
            one for one, state in zip(positions.ids, positions.states, strict=True) if state == _AVAILABLE
        ]
        queue.overdue.update(
            one for one, state in zip(positions.ids, positions.states, strict=True) if state != _AVAILABLE
        )
        self.remove(queue, free, MessageClass.NACK_RECEIVE_TIMEOUT)

    def forget(self, queue: Queue, ids: Sequence[int]) -> None:
        """Remove messages of an aborted transaction as if they had never been sent."""
        self._empty(queue, queue.positions.find(ids))


def _with_reason(message: StoredMessage, reason: int) -> StoredMessage:
    letter = message.same_place(0)
    letter.local = message.local.changed(dead_letter_class=int(reason))
    return letter


def is_destination(queue: Queue) -> bool:
    """Whether messages wait for readers here: a public or private queue, no journal, dead-letter or outgoing one."""
    return queue.queue_type in (QueueType.PRIVATE, QueueType.PUBLIC) and not isinstance(queue, OutgoingQueue)


def purge_reason(queue: Queue) -> MessageClass:
    """The reason for purging a queue. Messages of an outgoing queue have not reached their destination yet."""
    return MessageClass.NACK_DELETED if isinstance(queue, OutgoingQueue) else MessageClass.NACK_Q_PURGED
