"""The contents of the log after a restart, with millions of messages in columns.

A segment of the log is given as the rows of its index. Nearly all of them are messages, and deletions outside of
transactions, and for these the order within the log does not matter: an identifier is used once, so a deletion removes
whatever has it, and of a message and the copies that cleaning made of it the one with the highest address counts,
whose head says which queue the message was in when it was copied. So they are taken from the rows column by column,
without a step of Python for each; messages of a transaction wait, in few such steps, for its outcome. All other rows
are processed one by one in :meth:`msmq.manager.ledger.ledger.Ledger.recover`.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain, compress, islice, pairwise
from operator import and_, ge, gt, lt, ne, or_, sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msmq.errors import MessageStorageFailedError
from msmq.manager.mailbox.positions import PositionMark
from msmq.manager.mailbox.stored import ENVELOPE_SIZE, LARGEST_FRONT

if TYPE_CHECKING:
    from msmq.manager.ledger.ledger import RecoveredOperation

ROW_SIZE: Final = 56
"""A row: kind u8, flags u8, two bytes of the store, head of 40 bytes, address u64, size of the payload u32."""
NEVER: Final = 0xFFFFFFFF
PEEKABLE_WHEN_LOCKED: Final = 1
MARKS_SHIFT: Final = 1
"""The shift of a position's marks in the flags of a MESSAGE."""
MARKS_MASK: Final = 127
"""The marks that a record keeps: all but OWES_NO_RECEIPT."""
LOCAL_SIZE_SHIFT: Final = 8
_HAS_SOURCE: Final = PositionMark.HAS_SOURCE << MARKS_SHIFT

_WORDS, _LONGS = ROW_SIZE // 4, ROW_SIZE // 8
_QUEUE, _EXPIRY, _FLAGS, _TRANSACTION, _SIZE = 1, 5, 6, range(7, 11), 13
"""The places of these fields in a row, in words of four bytes."""
_TRANSACTION_OF: Final = struct.Struct("28x16s12x")
_LOOKUP_ID, _SHIFTED_ADDRESS = 1, 5
"""The places of these fields in words of eight bytes; that of the address is for rows without their first four
bytes."""
MOST_DEAD: Final = 1 << 20
"""The most deletions that are gathered before the messages are searched for them."""
NUMBER_MASK: Final = (1 << 56) - 1
"""The part of a lookup identifier that rises from message to message."""
_FEW: Final = 16
_PIECE: Final = struct.Struct("24s")
_ODD: Final = bytes(value & PEEKABLE_WHEN_LOCKED for value in range(256))
_FLIP: Final = bytes.maketrans(b"\0\1", b"\1\0")

Release = Callable[[Sequence[int], Sequence[int]], None]
"""Releases records, given their addresses and the sizes of their payloads."""


@cache
def _selector(value: int) -> bytes:
    """A table for ``bytes.translate`` that makes this value 1 and all others 0."""
    return bytes(other == value for other in range(256))


def to_bytes(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def from_bytes(code: str, data: bytes) -> array[int]:
    made = array(code)
    made.frombytes(data)
    if sys.byteorder == "big":
        made.byteswap()
    return made


@dataclass(slots=True)
class Block:
    """The messages of one segment: columns of equal length."""

    ids: array[int]
    addresses: array[int]
    sizes: array[int]
    """The sizes of the payloads."""
    queues: array[int]
    expiries: array[int]
    flags: array[int]

    @property
    def columns(self) -> tuple[array[int], ...]:
        return self.ids, self.addresses, self.sizes, self.queues, self.expiries, self.flags

    def only(self, wanted: bytes) -> Block:
        """The rows for which ``wanted`` has a 1."""
        unwanted = wanted.count(0)
        if unwanted > _FEW:
            return Block(*(array(column.typecode, compress(column, wanted)) for column in self.columns))
        number = len(wanted)
        for _ in range(unwanted):
            number = wanted.rfind(0, 0, number)
            for column in self.columns:
                del column[number]
        return self

    def particular(self) -> Block:
        """The messages that expire or can be peeked at when locked."""
        peekable = to_bytes(self.flags)[::4].translate(_ODD)
        if 1 not in peekable and _uniform(self.expiries, NEVER):
            return _no_messages()
        wanted = bytes(map(or_, peekable, map(NEVER.__ne__, self.expiries)))
        return Block(*(array(column.typecode, compress(column, wanted)) for column in self.columns))

    def numbers(self) -> array[int]:
        """The identifiers without the priority. Except for copies they rise along the log."""
        data = bytearray(to_bytes(self.ids))
        data[7::8] = bytes(len(self.ids))
        return from_bytes("Q", bytes(data))

    def by_lane(self) -> Iterator[tuple[tuple[int, int], list[array[int]]]]:
        """The columns of identifiers, addresses, sizes and flags for each queue and priority."""
        tops = to_bytes(self.ids)[7::8]
        if _uniform(self.queues) and tops.count(tops[0]) == len(tops):  # as where one queue is filled
            yield (self.queues[0], tops[0]), [self.ids, self.addresses, self.sizes, self.flags]
            return
        lanes: defaultdict[tuple[int, int], list[tuple[bytes]]] = defaultdict(list)
        if _uniform(self.queues):
            queue = self.queues[0]
            by_top = {top: lanes[queue, top] for top in sorted(set(tops))}
            chosen: Iterator[list[tuple[bytes]]] = map(by_top.__getitem__, tops)
        else:
            chosen = map(lanes.__getitem__, zip(self.queues, tops, strict=True))
        # Every row goes to the list of its lane, without a step of Python for each.
        deque(map(list.append, chosen, _PIECE.iter_unpack(self._pieces())), maxlen=0)
        for lane, pieces in lanes.items():
            data = b"".join(chain.from_iterable(pieces))
            longs, words = array("Q", data), array("I", data)
            yield lane, [longs[0::3], longs[1::3], words[4::6], words[5::6]]

    def _pieces(self) -> bytes:
        """Identifier, address, size and flags of each message in turn, in the byte order of this machine."""
        words = array("I", bytes(8 * len(self.ids)))
        words[0::2], words[1::2] = self.sizes, self.flags
        longs = array("Q", bytes(_PIECE.size * len(self.ids)))
        longs[0::3], longs[1::3], longs[2::3] = self.ids, self.addresses, array("Q", words.tobytes())
        return longs.tobytes()


class Rows:
    """The rows of one segment, divided into the usual ones and the others."""

    def __init__(self, rows: bytes, message: int, delete: int) -> None:
        """``message`` and ``delete`` are the usual kinds."""
        self._rows, self._message, self._delete = rows, message, delete
        self._words = from_bytes("I", rows)
        self._longs = from_bytes("Q", rows)
        self._shifted = from_bytes("Q", rows[4:] + bytes(4))
        self._kinds = bytearray(rows[::ROW_SIZE])
        unusual = self._kinds.translate(bytes(kind not in (message, delete) for kind in range(256)))
        self._sent = bytes(len(unusual))
        """1 for messages in transactions."""
        transactions = [self._words[column::_WORDS] for column in _TRANSACTION]
        if not all(_uniform(column, 0) for column in transactions):
            in_transaction = bytes(map(any, zip(*transactions, strict=True)))
            self._sent = bytes(map(and_, in_transaction, self._kinds.translate(_selector(message))))
            unusual = bytearray(map(gt, map(or_, unusual, in_transaction), self._sent))
        self.unusual = list(compress(range(len(unusual)), unusual))
        """The numbers of the rows that have to be processed one by one."""
        for number in self.unusual:
            self._kinds[number] = 0

    def deleted(self) -> Iterator[int]:
        """The identifiers of messages that were deleted outside of transactions."""
        return compress(self._longs[_LOOKUP_ID::_LONGS], self._kinds.translate(_selector(self._delete)))

    def messages(self) -> Block:
        """The messages outside of transactions."""
        wanted = bytes(map(gt, self._kinds.translate(_selector(self._message)), self._sent))
        block = self._block()
        return block if wanted.count(1) == len(wanted) else block.only(wanted)

    def sent(self) -> Iterator[tuple[bytes, int, Standing]]:
        """The transaction, identifier and place of each message that is in a transaction."""
        if 1 not in self._sent:
            return
        ids, addresses, sizes, queues, expiries, flags = (
            compress(column, self._sent) for column in self._block().columns
        )
        transactions = compress(_TRANSACTION_OF.iter_unpack(self._rows), self._sent)
        standing = map(Standing._make, zip(queues, addresses, sizes, expiries, flags, strict=True))
        for (transaction,), lookup_id, place in zip(transactions, ids, standing, strict=True):
            yield transaction, lookup_id, place

    def _block(self) -> Block:
        words = self._words
        return Block(
            self._longs[_LOOKUP_ID::_LONGS],
            self._shifted[_SHIFTED_ADDRESS::_LONGS],
            words[_SIZE::_WORDS],
            words[_QUEUE::_WORDS],
            words[_EXPIRY::_WORDS],
            words[_FLAGS::_WORDS],
        )


class Standing(NamedTuple):
    """The place of a message that a transaction sent, with the fields of a Block's row."""

    queue: int
    address: int
    payload_size: int
    expiry: int
    flags: int


class Places(NamedTuple):
    """Messages of one queue and one priority, in their order."""

    ids: array[int]
    addresses: array[int]
    sizes: array[int]
    """The sizes of the packets."""
    fronts: array[int]
    """The bytes in front of each packet in its record."""
    marks: bytes

    @classmethod
    def of(cls, ids: array[int], addresses: array[int], sizes: array[int], flags: array[int]) -> Places:
        """Take over messages, with the sizes of their payloads and the flags of their records."""
        few = flags[:1] if _uniform(flags) else set(flags)
        front_of = {each: front_in(each) for each in few}
        mark_of = {each: marks_in(each) for each in few}
        if len(few) == 1:
            fronts = array("H", front_of.values()) * len(flags)
            marks = bytes(mark_of.values()) * len(flags)
        else:
            fronts = array("H", map(front_of.__getitem__, flags))
            marks = bytes(map(mark_of.__getitem__, flags))
        return cls(ids, addresses, array("I", map(sub, sizes, fronts)), fronts, marks)

    @classmethod
    def joined(cls, parts: Sequence[Places]) -> Places:
        """Join messages and sort them."""
        ids, addresses, sizes, fronts, marks = map(chain.from_iterable, zip(*parts, strict=True))
        column = array("Q", ids)
        order = sorted(range(len(column)), key=column.__getitem__)
        return cls(
            array("Q", map(column.__getitem__, order)),
            array("Q", map(array("Q", addresses).__getitem__, order)),
            array("I", map(array("I", sizes).__getitem__, order)),
            array("H", map(array("H", fronts).__getitem__, order)),
            bytes(map(bytes(marks).__getitem__, order)),
        )


def _in_order(parts: Sequence[Places]) -> bool:
    """Whether messages are in their order, as usual. Cleaning writes old messages again, behind newer ones."""
    return all(_ascending(part.ids) for part in parts) and all(
        part.ids[-1] < following.ids[0] for part, following in pairwise(parts)
    )


@dataclass(slots=True)
class OpenTransaction:
    """What a transaction has done whose outcome was not met yet, by lookup identifier: it does only one thing to a
    message, which is then locked."""

    sent: dict[int, Standing] = field(default_factory=dict)
    others: dict[int, RecoveredOperation] = field(default_factory=dict)

    def send(self, lookup_id: int, message: Standing, release: Release) -> None:
        """Add a message; of one that cleaning has copied the copy counts."""
        known = self.sent.get(lookup_id)
        if known is not None:
            release((known.address,), (known.payload_size,))
        self.sent[lookup_id] = message

    def forget(self, lookup_ids: Set[int], release: Release) -> None:
        """Forget what was done to these messages."""
        gone: list[Standing | RecoveredOperation] = [
            self.sent.pop(one) for one in lookup_ids & self.sent.keys()
        ]
        gone += [self.others.pop(one) for one in lookup_ids & self.others.keys()]
        release([each.address for each in gone], [each.payload_size for each in gone])

    def undo(self, release: Release) -> None:
        """Forget everything."""
        self.forget(self.sent.keys() | self.others.keys(), release)


def _no_messages() -> Block:
    return Block(*(array(code) for code in "QQIIII"))


@dataclass(slots=True)
class Recovered:
    """Everything in the log, with ended transactions already applied."""

    values: dict[str, Any] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    """Messages that are in another queue than their record says."""
    open_transactions: defaultdict[bytes, OpenTransaction] = field(
        default_factory=lambda: defaultdict(OpenTransaction)
    )
    prepared: dict[bytes, int] = field(default_factory=dict)
    """Transactions that were prepared for a coordinator, with the address of that record."""
    damaged: dict[bytes, tuple[str, MessageStorageFailedError]] = field(default_factory=dict)
    """Values whose last record is damaged, by digest: the key, if an older record tells it, and the error. The older
    record counts then."""
    damaged_deletions: list[MessageStorageFailedError] = field(default_factory=list)
    """Damaged records of deletions, whose messages are back."""
    blocks: list[Block] = field(default_factory=list)
    """Messages sent outside of transactions."""
    committed: Block = field(default_factory=_no_messages)
    """Messages sent in transactions, in the order of the commits."""
    dead: set[int] = field(default_factory=set)
    """Identifiers of deleted messages that :meth:`bury` has not removed yet."""
    copies: set[int] = field(default_factory=set)
    """Identifiers of messages that come after newer ones: they may be copies, whose originals are also there."""
    highest: int = 0
    _particular: list[Block] = field(default_factory=list)

    def check(self, key: str) -> None:
        """Raise the error of a damaged value that nobody may guess."""
        if (found := self.damaged.get(digest_of(key))) is not None:
            raise found[1]

    def add(self, block: Block) -> None:
        """Add the messages of a segment."""
        if not block.ids:
            return
        numbers = block.numbers()
        if numbers[0] <= self.highest or not _ascending(numbers):
            so_far = list(accumulate(numbers, max, initial=self.highest))
            self.copies.update(compress(block.ids, map(ge, so_far, numbers)))
        self.highest = max(self.highest, max(numbers))
        self.blocks.append(block)

    def send(self, rows: Rows, release: Release) -> None:
        """Add the messages of a segment that are in transactions."""
        for transaction, lookup_id, message in rows.sent():
            self.open_transactions[transaction].send(lookup_id, message, release)
            self.highest = max(self.highest, lookup_id & NUMBER_MASK)

    def commit(self, sent: dict[int, Standing], first: int, last: int) -> None:
        """Add the messages of a committed transaction, of which the first and the last are marked as such."""
        for lookup_id, mark in ((first, PositionMark.FIRST), (last, PositionMark.LAST)):
            if (message := sent.get(lookup_id)) is not None:
                sent[lookup_id] = message._replace(flags=message.flags | mark << MARKS_SHIFT)
        if sent:
            queues, addresses, sizes, expiries, flags = zip(*sent.values(), strict=True)
            values = (sent, addresses, sizes, queues, expiries, flags)
            for column, more in zip(self.committed.columns, values, strict=True):
                column.extend(more)

    def bury(self, release: Release) -> None:
        """Remove deleted messages, and operations of open transactions on them. It may only be called when all records
        that ``dead`` may refer to have been read."""
        dead = self.dead
        if not dead:
            return
        for number, block in enumerate(self.blocks):
            self.blocks[number] = _without(block, bytes(map(dead.__contains__, block.ids)), release)
        gone = bytes(map(dead.__contains__, self.committed.ids))
        self.committed = _without(self.committed, gone, release)
        for lookup_id in dead.intersection(self.moved):
            del self.moved[lookup_id]
        self.forget_operations(dead, release)
        dead.clear()

    def forget_operations(self, lookup_ids: Set[int], release: Release) -> None:
        """Forget what open transactions did to messages that are gone, or were moved since, and not by them: their
        queue was deleted, and on a full disk they became dead letters as they were."""
        for transaction in self.open_transactions.values():
            transaction.forget(lookup_ids, release)

    def settle(self, release: Release) -> None:
        """Remove deleted messages and the originals of copies, when the whole log has been read."""
        self.bury(release)
        self.blocks.append(self.committed)
        self.committed = _no_messages()
        copies = self.copies
        if copies:
            last: dict[int, int] = {}
            for block in self.blocks:
                for lookup_id, address in zip(block.ids, block.addresses, strict=True):
                    if lookup_id in copies and address > last.get(lookup_id, 0):
                        last[lookup_id] = address
            for number, block in enumerate(self.blocks):
                newest = map(last.get, block.ids, block.addresses)
                self.blocks[number] = _without(block, bytes(map(ne, newest, block.addresses)), release)
            copies.clear()
        self._place_moved()

    def _place_moved(self) -> None:
        """Move messages to the queue they were last moved to; the head of a copy may say so already."""
        moved = self.moved
        if not moved:
            return
        elsewhere: dict[int, int] = {}
        for block in self.blocks:
            queues = array("I", map(moved.get, block.ids, block.queues))
            if queues != block.queues:
                differ = map(ne, queues, block.queues)
                elsewhere.update(compress(zip(block.ids, queues, strict=True), differ))
                block.queues = queues
        self.moved = elsewhere

    def lanes(self) -> dict[tuple[int, int], list[Places]]:
        """Take all messages out of here, by queue and priority, in order. One block goes after the other, and a lane
        can go in parts, so that a long queue is not in memory twice."""
        lanes: defaultdict[tuple[int, int], list[Places]] = defaultdict(list)
        blocks = [block for block in self.blocks if block.ids]
        self.blocks = []
        self._particular = [found for block in blocks if (found := block.particular()).ids]
        blocks.reverse()
        while blocks:
            for lane, columns in blocks.pop().by_lane():
                lanes[lane].append(Places.of(*columns))
        for parts in lanes.values():
            if not _in_order(parts):
                parts[:] = [Places.joined(parts)]
        return lanes

    def expiring(self) -> Iterator[tuple[int, array[int], array[int]]]:
        """Some messages in the lanes that expire: their queue, identifiers and expiries."""
        for block in self._particular:
            of: defaultdict[int, tuple[array[int], array[int]]] = defaultdict(
                lambda: (array("Q"), array("I"))
            )
            for queue, lookup_id, expiry in zip(block.queues, block.ids, block.expiries, strict=True):
                if expiry != NEVER:
                    ids, expiries = of[queue]
                    ids.append(lookup_id)
                    expiries.append(expiry)
            for queue, (ids, expiries) in of.items():
                yield queue, ids, expiries

    def peekable(self) -> Iterator[tuple[int, int]]:
        """Queue and identifier of the messages in the lanes that can be peeked at when locked."""
        for block in self._particular:
            rows = zip(block.queues, block.ids, block.flags, strict=True)
            yield from ((queue, one) for queue, one, flags in rows if flags & PEEKABLE_WHEN_LOCKED)


def _without(block: Block, gone: bytes, release: Release) -> Block:
    if 1 not in gone:
        return block
    release(list(compress(block.addresses, gone)), list(compress(block.sizes, gone)))
    return block.only(gone.translate(_FLIP))


def _uniform(column: array[int], value: int | None = None) -> bool:
    """Whether all values of a column are the same, and equal to ``value`` if one is given."""
    first = column[:1]
    return (value is None or not first or first[0] == value) and (
        column.tobytes() == first.tobytes() * len(column)
    )


def _ascending(column: array[int]) -> bool:
    values = column.tolist()
    return all(map(lt, values, islice(values, 1, None)))


def front_in(flags: int) -> int:
    """The bytes in front of a packet, from the flags of its record; recovery does not read payloads."""
    return (LARGEST_FRONT if flags & _HAS_SOURCE else ENVELOPE_SIZE) + (flags >> LOCAL_SIZE_SHIFT)


def marks_in(flags: int) -> int:
    """The marks of a message from the flags of its record. Older programs did not mark messages with local
    attributes."""
    marks = flags >> MARKS_SHIFT & MARKS_MASK
    return marks | PositionMark.HAS_LOCAL if flags >> LOCAL_SIZE_SHIFT else marks


def digest_of(key: str) -> bytes:
    """The digest of a value's key for the head of its record."""
    return hashlib.md5(key.encode(), usedforsecurity=False).digest()
