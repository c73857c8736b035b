"""What the queue manager writes down, and how it finds itself again after a restart.

Every change that must survive is a record of the store, appended in the order the changes were made:

========== ======================================= =====================================================
kind       head                                    meaning
========== ======================================= =====================================================
MESSAGE    queue, lookup id, times, flags, tx      a message stands in a queue; the payload is the message
DELETE     lookup id, reason, tx                   the message is gone
MOVE       target queue, lookup id, tx             the message stands in another queue
OUTCOME    tx                                      a transaction was prepared, committed or aborted
VALUE      digest of the key                       a named value, the payload; the last one counts
DROP       digest of the key                       the named value is gone
========== ======================================= =====================================================

The first three take effect at once when their transaction field is zero; otherwise they are operations of an open
transaction and wait for its OUTCOME. Records of one event always lie in one batch of the store, so an event is there
whole or not at all.

The ledger knows records and nothing about queues. Recovery replays the log into a :class:`Recovered`, from which
the queue manager builds itself.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msmq.manager.stored import StoredMessage, envelope, local_size, packet_size

HEAD_SIZE: Final = 40
NO_TRANSACTION: Final = bytes(16)
NEVER: Final = 0xFFFFFFFF
PEEKABLE_WHEN_LOCKED: Final = 1


RecordEntry: TypeAlias = tuple[int, int, bytes, int, int]
"""One record as recovery finds it: kind, flags of the store, head, address, size of the payload."""


class RecordStore(Protocol):
    """The store as the queue manager needs it; :class:`msmq.store.Store` is one."""

    @property
    def appended(self) -> int:
        """Rises with every record."""
        ...

    @property
    def durable(self) -> int:
        """How far ``appended`` had come when the last commit ended."""
        ...

    def reserve(self, size: int, *, freeing: bool = False) -> None: ...

    def append(
        self, kind: int, head: bytes, payload: bytes | tuple[bytes, ...] = b"", *, live: bool = True
    ) -> int: ...

    def release(self, address: int, payload_size: int) -> None: ...

    def read(self, address: int) -> bytes: ...

    def recover(self) -> Iterable[RecordEntry]: ...

    def commit(self) -> None: ...


class Kind(IntEnum):
    MESSAGE = 1
    DELETE = 2
    MOVE = 3
    OUTCOME = 4
    VALUE = 5
    DROP = 6


class TransactionOutcome(IntEnum):
    PREPARED = 1
    COMMITTED = 2
    ABORTED = 3


_HEAD: Final = struct.Struct("<IQIII16s")
assert _HEAD.size == HEAD_SIZE
_MESSAGE, _DELETE = int(Kind.MESSAGE), int(Kind.DELETE)  # members of an enumeration compare slowly


class Head(NamedTuple):
    """The fixed part of MESSAGE, DELETE, MOVE and OUTCOME records; fields a kind does not use are zero."""

    queue: int
    lookup_id: int
    arrival_time: int
    expiry: int
    flags: int
    """Of a MESSAGE: PEEKABLE_WHEN_LOCKED and, from bit 8 on, the size of its local attributes. Of a DELETE: the
    reason. Of an OUTCOME: which one."""
    transaction: bytes

    def encode(self) -> bytes:
        return _HEAD.pack(*self)

    @classmethod
    def decode(cls, head: bytes) -> Head:
        return cls._make(_HEAD.unpack(head))


class RecoveredMessage(NamedTuple):
    """A message record that still counts, and where its message stands.

    There may be millions: recovery makes plain tuples of these fields, at a third of the time.
    """

    queue: int
    address: int
    payload_size: int
    expiry: int
    flags: int


@dataclass(slots=True)
class RecoveredOperation:
    """A record other than the usual ones; at the end, an operation of a transaction whose outcome the log does not
    tell."""

    kind: Kind
    record_head: bytes
    address: int
    payload_size: int

    @property
    def head(self) -> Head:
        return Head.decode(self.record_head)


@dataclass(slots=True)
class Recovered:
    """Everything the log says, with ended transactions already applied."""

    values: dict[str, Any] = field(default_factory=dict)
    messages: dict[int, tuple[int, int, int, int, int]] = field(default_factory=dict)
    """The fields of a RecoveredMessage by lookup identifier."""
    moved: dict[int, int] = field(default_factory=dict)
    """Messages that stand in another queue than their record says."""
    open_transactions: dict[bytes, dict[int, RecoveredOperation]] = field(default_factory=dict)
    """By lookup identifier: a transaction does one thing to a message, then the message is locked."""
    prepared: dict[bytes, int] = field(default_factory=dict)
    """Transactions that were prepared for a coordinator, and where that is written."""


class Ledger:
    """Typed records on a store. It counts which of them still matter, so that the store can free the others."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self._values: dict[bytes, tuple[int, int]] = {}

    # --- writing ------------------------------------------------------------------------------------------------

    def reserve(self, size: int, *, freeing: bool = False) -> None:
        """Make sure that records of ``size`` bytes can be written; raises before anything has changed."""
        self.store.reserve(size, freeing=freeing)

    def put_message(self, queue: int, stored: StoredMessage, transaction: bytes = NO_TRANSACTION) -> int:
        """Write a message; gives its address."""
        expiry = stored.expiry
        head = Head(
            queue,
            stored.lookup_id,
            stored.arrival_time,
            NEVER if expiry is None else min(expiry, NEVER),
            local_size(stored) << 8 | (PEEKABLE_WHEN_LOCKED if stored.local.allow_peek_when_locked else 0),
            transaction,
        )
        return self.store.append(Kind.MESSAGE, head.encode(), (envelope(stored), stored.packet.data))

    def delete_message(self, lookup_id: int, reason: int, transaction: bytes = NO_TRANSACTION) -> int:
        head = Head(0, lookup_id, 0, 0, reason, transaction)
        return self.store.append(Kind.DELETE, head.encode(), live=transaction != NO_TRANSACTION)

    def move_message(self, lookup_id: int, target: int, transaction: bytes = NO_TRANSACTION) -> int:
        head = Head(target, lookup_id, 0, 0, 0, transaction)
        return self.store.append(Kind.MOVE, head.encode(), live=transaction != NO_TRANSACTION)

    def end_transaction(self, transaction: bytes, outcome: TransactionOutcome) -> int:
        head = Head(0, 0, 0, 0, outcome, transaction)
        return self.store.append(Kind.OUTCOME, head.encode(), live=outcome is TransactionOutcome.PREPARED)

    def put_value(self, key: str, value: Any) -> None:
        """Write a named value that JSON can hold; bytes are given as their hexadecimal text."""
        payload = json.dumps([key, value], separators=(",", ":")).encode()
        digest = _digest(key)
        address = self.store.append(Kind.VALUE, digest.ljust(HEAD_SIZE, b"\0"), payload)
        self._supersede(digest)
        self._values[digest] = (address, len(payload))

    def drop_value(self, key: str) -> None:
        digest = _digest(key)
        if digest in self._values:
            self.store.append(Kind.DROP, digest.ljust(HEAD_SIZE, b"\0"), live=False)
            self._supersede(digest)

    def _supersede(self, digest: bytes) -> None:
        old = self._values.pop(digest, None)
        if old is not None:
            self.store.release(*old)

    def value_is_live(self, head: bytes, address: int) -> bool:
        return self._values.get(head[:16], (0, 0))[0] == address

    def value_moved(self, head: bytes, address: int) -> None:
        self._values[head[:16]] = (address, self._values[head[:16]][1])

    # --- recovery -----------------------------------------------------------------------------------------------

    def recover(self) -> Recovered:
        """Replay the log. Dead records are released so that their space can be freed.

        Cleaning may have left a record and its copy behind; then the later one counts.
        """
        found = Recovered()
        messages, release, unpack = found.messages, self.store.release, _HEAD.unpack
        for kind, _, head, address, size in self.store.recover():
            if kind == _MESSAGE:
                queue, lookup_id, _, expiry, flags, transaction = unpack(head)
                if transaction == NO_TRANSACTION:
                    if lookup_id in messages:
                        self._replace(found, lookup_id)
                    messages[lookup_id] = (queue, address, size, expiry, flags)
                    continue
            elif kind == _DELETE:
                _, lookup_id, _, _, _, transaction = unpack(head)
                if transaction == NO_TRANSACTION:
                    if lookup_id in messages:
                        release(*messages.pop(lookup_id)[1:3])
                    continue
            self._recover_other(found, RecoveredOperation(Kind(kind), head, address, size))
        return found

    def _replace(self, found: Recovered, lookup_id: int) -> None:
        """A copy follows, whose head says where the message stands now."""
        _, address, size, _, _ = found.messages[lookup_id]
        self.store.release(address, size)
        found.moved.pop(lookup_id, None)

    def _recover_other(self, found: Recovered, record: RecoveredOperation) -> None:
        if record.kind in (Kind.VALUE, Kind.DROP):
            self._recover_value(found, record)
        elif record.kind is Kind.OUTCOME:
            self._recover_outcome(found, record)
        elif record.head.transaction == NO_TRANSACTION:
            self._apply(found, record)
        else:
            operations = found.open_transactions.setdefault(record.head.transaction, {})
            known = operations.get(record.head.lookup_id)
            if known is not None:
                self.store.release(known.address, known.payload_size)
            operations[record.head.lookup_id] = record

    def _recover_value(self, found: Recovered, record: RecoveredOperation) -> None:
        digest = record.record_head[:16]
        self._supersede(digest)
        if record.kind is Kind.VALUE:
            key, value = json.loads(self.store.read(record.address))
            self._values[digest] = (record.address, record.payload_size)
            found.values[key] = value
        else:
            for name in [name for name in found.values if _digest(name) == digest]:
                del found.values[name]

    def _recover_outcome(self, found: Recovered, record: RecoveredOperation) -> None:
        transaction, outcome = record.head.transaction, record.head.flags
        known = found.prepared.pop(transaction, None)
        if known is not None:
            self.store.release(known, 0)
        if outcome == TransactionOutcome.PREPARED:
            found.prepared[transaction] = record.address
            return
        for member in found.open_transactions.pop(transaction, {}).values():
            if outcome == TransactionOutcome.COMMITTED:
                self._apply(found, member)
            else:
                self.store.release(member.address, member.payload_size)

    def _apply(self, found: Recovered, operation: RecoveredOperation) -> None:
        """Carry out an operation that nothing can undo any more."""
        head, lookup_id = operation.head, operation.head.lookup_id
        if operation.kind is Kind.MESSAGE:
            address, size = operation.address, operation.payload_size
            found.messages[lookup_id] = (head.queue, address, size, head.expiry, head.flags)
            return
        if head.transaction != NO_TRANSACTION:
            self.store.release(operation.address, operation.payload_size)
        message = found.messages.get(lookup_id)
        if message is None:
            return  # its record was damaged, or was freed before this one
        if operation.kind is Kind.MOVE:
            found.messages[lookup_id] = (head.queue, *message[1:])
            found.moved[lookup_id] = head.queue
        else:
            del found.messages[lookup_id]
            self.store.release(*message[1:3])


def _digest(key: str) -> bytes:
    return hashlib.md5(key.encode(), usedforsecurity=False).digest()
