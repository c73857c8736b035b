"""The records of the queue manager, and its recovery after a restart.

Every change that must survive is a record of the store, appended in the order the changes were made:

========== ======================================= =====================================================
kind       head                                    meaning
========== ======================================= =====================================================
MESSAGE    queue, lookup id, times, flags, tx      a message stands in a queue; the payload is the message
DELETE     lookup id, reason, tx                   the message is gone
DELETE_ALL reason                                  the messages are gone; the payload is their lookup ids
MOVE       target queue, lookup id, tx             the message stands in another queue
OUTCOME    first and last message sent, tx         a transaction was prepared, committed or aborted
VALUE      digest of the key                       a named value, the payload; the last one counts
DROP       digest of the key                       the named value is gone
========== ======================================= =====================================================

MESSAGE, DELETE and MOVE take effect at once when their transaction field is zero; otherwise they are operations of an
open transaction and wait for its OUTCOME. The records of one event are always in one batch of the store, so an event
is recovered whole or not at all: it reserves room once, before its first record, for everything that it may write (see
:mod:`msmq.manager.event`).

Only :func:`statement_of` knows what a record means, for all code that reads a log. The ledger knows records and
nothing about queues. Recovery replays the log into a :class:`Recovered`, from which the queue manager builds itself.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import compress, repeat
from operator import add
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, assert_never

from msmq.errors import MessageStorageFailedError
from msmq.manager.ledger.recovered import (
    LOCAL_SIZE_SHIFT,
    MARKS_MASK,
    MARKS_SHIFT,
    MOST_DEAD,
    PEEKABLE_WHEN_LOCKED,
    ROW_SIZE,
    Recovered,
    Rows,
    digest_of,
    from_bytes,
    to_bytes,
)
from msmq.manager.mailbox.positions import PositionMark
from msmq.wire.columns import picker

if TYPE_CHECKING:
    from msmq.manager.mailbox.batch import Batch

FIRST, LAST = PositionMark.FIRST, PositionMark.LAST
HEAD_SIZE: Final = 40
NO_TRANSACTION: Final = bytes(16)


class RecordOwner(Protocol):
    """What the store asks the owner of records while it frees space; :class:`msmq.manager.ledger.retention.Cleaning`
    answers."""

    def is_live(self, kind: int, head: bytes, address: int) -> bool: ...

    def current_head(self, kind: int, head: bytes, address: int) -> bytes: ...

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None: ...

    def lost(self, kind: int, head: bytes, address: int, error: Exception) -> None: ...


class RecordStore(Protocol):
    """The store as the queue manager needs it; :class:`msmq.store.Store` is one.

    A store that has no room, and one that cannot read a record as it was written, raises a
    MessageStorageFailedError.
    """

    @property
    def appended(self) -> int:
        """The number of records appended so far, which rises with every record."""
        ...

    @property
    def durable(self) -> int:
        """The value of ``appended`` at the end of the last commit."""
        ...

    def reserve(self, size: int, records: int = 1, *, freeing: bool = False) -> None: ...

    def append(
        self, kind: int, head: bytes, payload: bytes | tuple[bytes, bytes] = b"", *, live: bool = True
    ) -> int: ...

    def append_all(
        self, kind: int, fronts: bytes, tails: Sequence[bytes], *, live: bool = True
    ) -> Sequence[int]: ...

    def release(self, address: int, payload_size: int | None) -> None: ...

    def release_all(self, addresses: Sequence[int], payload_sizes: Sequence[int]) -> None: ...

    def read(self, address: int) -> bytes: ...

    def read_many(
        self, records: Sequence[tuple[int, int]], cuts: Sequence[int]
    ) -> tuple[list[bytes], list[bytes]]: ...

    def glimpse(self, first: int, last: int, last_size: int) -> bytes | None: ...

    def beginning(self, address: int, size: int) -> bytes: ...

    def is_durable(self, first: int, last: int) -> bool: ...

    def recover_rows(self) -> Iterable[bytes]:
        """All records in the order of writing, as rows of :data:`msmq.manager.ledger.recovered.ROW_SIZE` bytes."""
        ...

    def commit(self) -> None: ...

    def clean_step(self, owner: RecordOwner, budget_bytes: int) -> bool: ...


class Kind(IntEnum):
    MESSAGE = 1
    DELETE = 2
    MOVE = 3
    OUTCOME = 4
    VALUE = 5
    DROP = 6
    DELETE_ALL = 7


class TransactionOutcome(IntEnum):
    PREPARED = 1
    COMMITTED = 2
    ABORTED = 3


_HEAD: Final = struct.Struct("<IQIII16s")
_pack_front: Final = struct.Struct("<IQIII16sII").pack
"""Packs the head of a MESSAGE and the eight bytes in front of its source, its local attributes and its packet: the
length of the attributes and the arrival time."""
_OUTCOME_HEAD: Final = struct.Struct("<4xQQI16s")
assert _HEAD.size == _OUTCOME_HEAD.size == HEAD_SIZE
_ROW: Final = struct.Struct(f"<B3x{HEAD_SIZE}sQI")
assert _ROW.size == ROW_SIZE
pack_head: Final = _HEAD.pack
unpack_head: Final = _HEAD.unpack
"""The fields of a :class:`Head`, for who has many of them."""
# Members of an enumeration are slow.
_MESSAGE, _DELETE, _MOVE = int(Kind.MESSAGE), int(Kind.DELETE), int(Kind.MOVE)
_DELETE_ALL: Final = int(Kind.DELETE_ALL)
_SHIFTED: Final = bytes((mark & MARKS_MASK) << MARKS_SHIFT for mark in range(256))
"""For ``bytes.translate``: marks as the flags of a head have them."""
_DELETED_AT_ONCE: Final = 4_096
_DIGEST_SIZE: Final = 16


class Head(NamedTuple):
    """The fixed part of MESSAGE, DELETE and MOVE records; fields a kind does not use are zero."""

    queue: int
    lookup_id: int
    arrival_time: int
    expiry: int
    flags: int
    """For a MESSAGE: PEEKABLE_WHEN_LOCKED, the marks of its position and, from bit 8 on, the size of its local
    attributes. For a DELETE: the reason."""
    transaction: bytes

    def encode(self) -> bytes:
        return _HEAD.pack(*self)

    @classmethod
    def decode(cls, head: bytes) -> Head:
        return cls._make(_HEAD.unpack(head))


class OutcomeHead(NamedTuple):
    """The fixed part of OUTCOME records. ``last`` and ``first`` are lookup identifiers of messages that a committed
    transaction sent, zero if it sent none: when its messages were written it was not known which these would be."""

    last: int
    first: int
    outcome: int
    transaction: bytes

    def encode(self) -> bytes:
        return _OUTCOME_HEAD.pack(*self)

    @classmethod
    def decode(cls, head: bytes) -> OutcomeHead:
        return cls._make(_OUTCOME_HEAD.unpack(head))


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record that could not be used, for operators. ``name`` is the queue of a message, or the key of a value."""

    kind: Kind
    lookup_id: int
    name: str
    reason: str


@dataclass(slots=True)
class RecoveredOperation:
    """A record of a less usual kind; after recovery, an operation of a transaction whose outcome is not in the log."""

    kind: Kind
    record_head: bytes
    address: int
    payload_size: int

    @property
    def head(self) -> Head:
        return Head.decode(self.record_head)


class Put(NamedTuple):
    """Messages are in a queue. Like the next two statements, this takes effect at once without a transaction, and
    otherwise when the transaction is committed."""

    lookup_ids: Sequence[int]
    transaction: bytes
    queue: int


class Gone(NamedTuple):
    """Messages are gone."""

    lookup_ids: Sequence[int]
    transaction: bytes


class Moved(NamedTuple):
    """Messages are in another queue."""

    lookup_ids: Sequence[int]
    transaction: bytes
    queue: int


class Named(NamedTuple):
    """A named value, as JSON with its key; None if the value was dropped."""

    digest: bytes
    value: bytes | None


Statement = Put | Gone | Moved | OutcomeHead | Named
WITH_PAYLOAD: Final = frozenset((Kind.VALUE, Kind.DELETE_ALL))
"""The kinds of records whose statement is in the payload. The payload of a MESSAGE is the message itself."""


def statement_of(kind: Kind, head: bytes, payload: Callable[[], bytes]) -> Statement:
    """The statement of a record. ``payload`` is called only for kinds in `WITH_PAYLOAD`, and may raise if it is
    damaged."""
    match kind:
        case Kind.MESSAGE:
            fields = Head.decode(head)
            return Put((fields.lookup_id,), fields.transaction, fields.queue)
        case Kind.DELETE:
            fields = Head.decode(head)
            return Gone((fields.lookup_id,), fields.transaction)
        case Kind.DELETE_ALL:
            return Gone(from_bytes("Q", payload()), NO_TRANSACTION)
        case Kind.MOVE:
            fields = Head.decode(head)
            return Moved((fields.lookup_id,), fields.transaction, fields.queue)
        case Kind.OUTCOME:
            return OutcomeHead.decode(head)
        case Kind.VALUE:
            return Named(head[:_DIGEST_SIZE], payload())
        case Kind.DROP:
            return Named(head[:_DIGEST_SIZE], None)
        case _:
            assert_never(kind)


def deletion_bytes(count: int) -> tuple[int, int]:
    """The room to reserve for deleting a number of messages: bytes of payload, records."""
    return 8 * count, 1 + count // _DELETED_AT_ONCE


class Ledger:
    """Writes typed records to a store. It tracks which of them are still needed, so that the store can free the
    others."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.changing: AbstractContextManager[None] = nullcontext()
        """The context of every change of a named value. The queue manager sets its event, so that an error inside is
        noticed: messages are always changed in events, but values often alone."""
        self._values: dict[bytes, tuple[int, bytes]] = {}
        """By the digest of their keys, the addresses and payloads of the named values."""

    # --- writing ------------------------------------------------------------------------------------------------

    def reserve(self, size: int, records: int = 1, *, freeing: bool = False) -> None:
        """Make sure that ``records`` records with ``size`` bytes of payload together can be written; raises before
        anything has changed. What is written before and after may come into two batches."""
        self.store.reserve(size, records=records, freeing=freeing)

    def put_messages(
        self,
        queue: int,
        lookup_ids: Sequence[int],
        arrival_time: int,
        batch: Batch,
        marks: bytes | bytearray,
        texts: Mapping[int, bytes],
        on_disk: Sequence[int],
        transaction: bytes = NO_TRANSACTION,
    ) -> Sequence[int]:
        """Write the messages of a batch for which ``on_disk`` is not 0, and return the address of each message, 0 for
        those that are not written. ``texts`` has local attributes by index. If a message was written before, the new
        record replaces the old one."""
        if not any(on_disk):
            return [0] * len(on_disk)
        packets, expiries, sources = batch.packets, batch.expiries, batch.sources
        flags: Sequence[int] = marks.translate(_SHIFTED)
        local_sizes: Sequence[int] = bytes(len(flags))
        if texts:
            flags, packets, local_sizes = list(flags), list(packets), [0] * len(flags)
            for index, text in texts.items():
                if on_disk[index]:
                    packets[index] = text + packets[index]
                    local_sizes[index] = len(text)
                    flags[index] |= len(text) << LOCAL_SIZE_SHIFT
                    if batch.local[index].allow_peek_when_locked:
                        flags[index] |= PEEKABLE_WHEN_LOCKED
        if 0 in on_disk:
            pick = picker(list(compress(range(len(on_disk)), on_disk)))
            lookup_ids, expiries, flags, local_sizes, packets, sources = map(
                pick, (lookup_ids, expiries, flags, local_sizes, packets, sources)
            )
        fronts: Iterable[bytes] = map(
            _pack_front, repeat(queue), lookup_ids, repeat(arrival_time), expiries, flags,
            repeat(transaction), local_sizes, repeat(arrival_time),
        )  # fmt: skip
        if all(sources):  # the bytes in front of the packets have the same size for all of them
            fronts = map(add, fronts, sources)
        elif any(sources):
            packets = list(map(add, sources, packets))
        addresses = self.store.append_all(_MESSAGE, b"".join(fronts), packets)
        if 0 not in on_disk:
            return addresses
        written = iter(addresses)
        return [next(written) if kept else 0 for kept in on_disk]

    def delete_message(self, lookup_id: int, reason: int, transaction: bytes = NO_TRANSACTION) -> int:
        head = pack_head(0, lookup_id, 0, 0, reason, transaction)
        return self.store.append(_DELETE, head, live=transaction != NO_TRANSACTION)

    def delete_messages(self, lookup_ids: Sequence[int], reason: int) -> None:
        """Record deletions that take effect at once; :func:`deletion_bytes` tells the room they need."""
        if len(lookup_ids) <= 1:
            for lookup_id in lookup_ids:
                self.delete_message(lookup_id, reason)
            return
        head = pack_head(0, 0, 0, 0, reason, NO_TRANSACTION)
        for start in range(0, len(lookup_ids), _DELETED_AT_ONCE):
            payload = to_bytes(array("Q", lookup_ids[start : start + _DELETED_AT_ONCE]))
            self.store.append(_DELETE_ALL, head, payload, live=False)

    def move_message(self, lookup_id: int, target: int, transaction: bytes = NO_TRANSACTION) -> int:
        head = Head(target, lookup_id, 0, 0, 0, transaction)
        return self.store.append(Kind.MOVE, head.encode(), live=transaction != NO_TRANSACTION)

    def move_messages(self, lookup_ids: Sequence[int], target: int) -> None:
        """Record moves that take effect at once."""
        if lookup_ids:
            heads = map(
                pack_head, repeat(target), lookup_ids, repeat(0), repeat(0), repeat(0), repeat(NO_TRANSACTION)
            )
            self.store.append_all(_MOVE, b"".join(heads), [b""] * len(lookup_ids), live=False)

    def end_transaction(
        self, transaction: bytes, outcome: TransactionOutcome, first: int = 0, last: int = 0
    ) -> int:
        head = OutcomeHead(last, first, outcome, transaction)
        return self.store.append(Kind.OUTCOME, head.encode(), live=outcome is TransactionOutcome.PREPARED)

    def put_value(self, key: str, value: Any) -> None:
        """Write a named value that JSON can hold; bytes are given as their hexadecimal text."""
        payload = json.dumps([key, value], separators=(",", ":")).encode()
        digest = digest_of(key)
        with self.changing:
            address = self.store.append(Kind.VALUE, digest.ljust(HEAD_SIZE, b"\0"), payload)
            self._supersede(digest)
            self._values[digest] = (address, payload)

    def drop_value(self, key: str) -> None:
        digest = digest_of(key)
        if digest in self._values:
            with self.changing:
                self.store.append(Kind.DROP, digest.ljust(HEAD_SIZE, b"\0"), live=False)
                self._supersede(digest)

    def _supersede(self, digest: bytes) -> None:
        old = self._values.pop(digest, None)
        if old is not None:
            self.store.release(old[0], len(old[1]))

    def value_is_live(self, head: bytes, address: int) -> bool:
        return self._values.get(head[:_DIGEST_SIZE], (0, b""))[0] == address

    def value_moved(self, head: bytes, address: int) -> None:
        digest = head[:_DIGEST_SIZE]
        self._values[digest] = (address, self._values[digest][1])

    def value_lost(self, head: bytes) -> str:
        """Write a value once more whose record is damaged, and was released. Returns its key."""
        payload = self._values[head[:_DIGEST_SIZE]][1]
        self.value_moved(head, self.store.append(Kind.VALUE, head, payload))
        return str(json.loads(payload)[0])

    # --- recovery -----------------------------------------------------------------------------------------------

    def recover(self) -> Recovered:
        """Replay the log. Dead records are released so that their space can be freed.

        Cleaning may have left a record and its copy behind; then the later one counts.
        """
        found, release = Recovered(), self.store.release_all
        for data in filter(None, self.store.recover_rows()):
            rows = Rows(data, Kind.MESSAGE, Kind.DELETE)
            found.add(rows.messages())
            found.send(rows, release)
            for number in rows.unusual:
                kind, head, address, size = _ROW.unpack_from(data, number * ROW_SIZE)
                self._recover_other(found, RecoveredOperation(Kind(kind), head, address, size))
            found.dead.update(rows.deleted())
            if len(found.dead) > MOST_DEAD:
                found.bury(release)
        found.settle(release)
        return found

    def _recover_other(self, found: Recovered, record: RecoveredOperation) -> None:
        """Apply a record. If one that recorded deletions is damaged, its messages are back, and operators are told."""
        try:
            said = statement_of(record.kind, record.record_head, partial(self.store.read, record.address))
        except MessageStorageFailedError as error:
            if record.kind is Kind.VALUE:
                self._lose_value(found, record, error)
            else:
                found.damaged_deletions.append(error)
            return
        if isinstance(said, Named):
            self._recover_value(found, record, said)
        elif isinstance(said, OutcomeHead):
            self._recover_outcome(found, record.address, said)
        else:
            assert not isinstance(said, Put), "messages are recovered in columns"
            (self._apply if said.transaction == NO_TRANSACTION else self._hold)(found, record, said)

    def _hold(self, found: Recovered, record: RecoveredOperation, said: Gone | Moved) -> None:
        """Keep an operation of a transaction until its outcome is known."""
        (lookup_id,) = said.lookup_ids
        operations = found.open_transactions[said.transaction].others
        known = operations.get(lookup_id)
        if known is not None:
            self.store.release(known.address, known.payload_size)
        operations[lookup_id] = record

    def _lose_value(
        self, found: Recovered, record: RecoveredOperation, error: MessageStorageFailedError
    ) -> None:  # fmt: skip
        digest = record.record_head[:_DIGEST_SIZE]
        known = next((name for name in found.values if digest_of(name) == digest), "")
        found.damaged[digest] = (known, error)
        self.store.release(record.address, record.payload_size)

    def _recover_value(self, found: Recovered, record: RecoveredOperation, said: Named) -> None:
        self._supersede(said.digest)
        found.damaged.pop(said.digest, None)
        if said.value is not None:
            key, value = json.loads(said.value)
            self._values[said.digest] = (record.address, said.value)
            found.values[key] = value
            return
        for name in [name for name in found.values if digest_of(name) == said.digest]:
            del found.values[name]

    def _recover_outcome(self, found: Recovered, address: int, said: OutcomeHead) -> None:
        last, first, outcome, transaction = said
        known = found.prepared.pop(transaction, None)
        if known is not None:
            self.store.release(known, 0)
        if outcome == TransactionOutcome.PREPARED:
            found.prepared[transaction] = address
            return
        operations = found.open_transactions.pop(transaction, None)
        if operations is None:
            return
        if outcome != TransactionOutcome.COMMITTED:
            operations.undo(self.store.release_all)
            return
        found.commit(operations.sent, first, last)
        for member in operations.others.values():
            held = statement_of(member.kind, member.record_head, partial(self.store.read, member.address))
            assert isinstance(held, Gone | Moved)
            self._apply(found, member, held)

    def _apply(self, found: Recovered, record: RecoveredOperation, said: Gone | Moved) -> None:
        """Apply a statement that is final."""
        if said.transaction != NO_TRANSACTION:
            self.store.release(record.address, record.payload_size)
        if isinstance(said, Moved):
            found.moved.update(dict.fromkeys(said.lookup_ids, said.queue))
            if said.transaction == NO_TRANSACTION:
                found.forget_operations(frozenset(said.lookup_ids), self.store.release_all)
        else:
            found.dead.update(said.lookup_ids)
