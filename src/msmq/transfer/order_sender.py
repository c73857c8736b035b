"""Exactly once, in order: the sending side (MS-MQQB 3.1.1.5, 3.1.5.6, 3.1.6.5).

Each outgoing queue has one sequence of transactional messages at a time. :meth:`OrderSender.assign` gives a message its
place, (TxSequenceID, TxSequenceNumber), once and for all; **the caller makes it durable, together with the fact that it
is the last number given, before any byte of the message leaves**. A message that is sent again, over the same session,
another one or after a crash, has the same place; only PreviousTxSequenceNumber is computed again, so that it skips
messages that expired in between. So the receiver knows what it has already, and nothing is taken twice.

An OrderAck says how far the receiver has come. When a sequence has no messages left, the next message starts a new one:
a higher id, number one. Ids come from one allocator for the whole queue manager, because an OrderAck names no queue;
:class:`Sequences` finds the queue of an id.

After a crash the caller gives back what it has stored: the place of each message that is still to be delivered, the
last place given per queue, and the last id. An acknowledgment may be lost; then its messages are sent and acknowledged
again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msmq.transfer.final_ack import Tracked
from msmq.transfer.numbered import Numbered
from msmq.wire.identifiers import SequenceInfo, TxSequenceID
from msmq.wire.layout import TRANSACTION, user_end
from msmq.wire.packets import OrderAckBody

T = TypeVar("T")

MAX_SEQUENCE_NUMBER: Final = 0xFFFFFFFF
_PLACE: Final = TRANSACTION["tx_sequence_id"]
_pack_place: Final = struct.Struct("<QII").pack_into
"""Packs the three fields of a TransactionHeader that make up a Place."""


class Place(NamedTuple):
    """The place of a message. The first two values are durable; the third is computed when it is sent."""

    tx_sequence_id: int
    tx_sequence_number: int
    previous_tx_sequence_number: int


def placed(packet: bytes, place: Place) -> bytes:
    """Write the place of a transactional message into the TransactionHeader of its packet."""
    return bytes(placed_run([packet], place))


def placed_run(packets: Sequence[bytes], first: Place) -> bytearray:
    """Join the packets of messages that have consecutive places, and write the places into them."""
    sequence_id, number, previous = first
    data = bytearray().join(packets)
    start = 0
    for packet in packets:
        _pack_place(data, start + user_end(packet) + _PLACE, sequence_id, number, previous)
        previous = number
        number += 1
        start += len(packet)
    return data


def first_sequence_id(installed_s: int) -> int:
    """Return the id before the first one of a queue manager installed (or restored) at this time."""
    return TxSequenceID(installed_s & 0xFFFFFFFF, 0).number


class Released(NamedTuple, Generic[T]):
    """Messages that leave the outgoing queue, because the sequence is done with them.

    The ``parked`` ones are kept until their FinalAck comes; that must be made durable in the same step.
    """

    done: list[T]
    parked: list[T]


class TransferStatistics(NamedTuple):
    """The figures of a sequence in OutgoingTransferInfo (MS-MQDMPR 3.1.1.4)."""

    eod_first_non_ack: SequenceInfo
    eod_last_non_ack: SequenceInfo
    eod_last_ack: SequenceInfo
    eod_next_seq: SequenceInfo
    eod_last_ack_count: int
    eod_no_ack_count: int
    eod_resend_count: int
    eod_last_ack_time: int
    eod_resend_time: int
    eod_resend_interval_s: int


_NONE: Final = SequenceInfo(0, 0, 0)


class Sequences(Generic[T]):
    """The ids of all outgoing sequences of a queue manager, and their owners.

    ``last_id`` is durable: it is stored with the first message of each new sequence.
    """

    __slots__ = ("_owners", "last_id")

    def __init__(self, last_id: int) -> None:
        self.last_id = last_id
        self._owners: dict[int, OrderSender[T]] = {}

    def allocate(self, sender: OrderSender[T]) -> int:
        self.last_id += 1
        self.adopt(sender, self.last_id)
        return self.last_id

    def adopt(self, sender: OrderSender[T], sequence_id: int) -> None:
        """Make ``sequence_id`` the one sequence of this sender."""
        self._owners.pop(sender.sequence_id, None)
        self._owners[sequence_id] = sender

    def owner(self, sequence_id: int) -> OrderSender[T] | None:
        """Return the sender that has a sequence; None if there is none (any more)."""
        return self._owners.get(sequence_id)

    def release(self, sender: OrderSender[T]) -> None:
        """Drop the sequence of an outgoing queue that was deleted."""
        self._owners.pop(sender.sequence_id, None)

    def order_ack(self, body: OrderAckBody, now_ms: int) -> tuple[OrderSender[T], Released[T]] | None:
        """Pass an OrderAck to its sequence; returns None if that sequence no longer exists."""
        sender = self._owners.get(body.tx_sequence_id)
        if sender is None:
            return None
        released = sender.order_ack(body.tx_sequence_id, body.tx_sequence_number, now_ms)
        return None if released is None else (sender, released)

    def find(self, sequence_id: int, number: int) -> tuple[OrderSender[T], T] | None:
        """Return the message at a place, and its sender; None if there is none (any more)."""
        sender = self._owners.get(sequence_id)
        token = None if sender is None else sender.token(number)
        return None if sender is None or token is None else (sender, token)


class OrderSender(Generic[T]):
    """The sequence of transactional messages of one outgoing queue.

    ``deadline_ms`` is the Transactional Ack Wait Timer (3.1.2.6).
    """

    __slots__ = (
        "_acked",
        "_entries",
        "_index",
        "_last_ack_count",
        "_last_ack_ms",
        "_last_number",
        "_sent_through",
        "_sequences",
        "_table_s",
        "_tracked",
        "_unacked",
        "deadline_ms",
        "sequence_id",
    )

    def __init__(
        self,
        sequences: Sequences[T],
        resend_timer_table_s: tuple[int, ...],
        now_ms: int,
        last_place: tuple[int, int] = (0, 0),
    ) -> None:
        """``last_place`` is the last (TxSequenceID, TxSequenceNumber) that was given and stored."""
        self._sequences = sequences
        self._table_s = resend_timer_table_s
        self._entries: Numbered[T] = Numbered()  # also holds for which of them ReceivedSessionAck is set
        self._tracked: dict[int, Tracked[Any]] = {}
        self._last_ack_ms = now_ms
        self._last_ack_count = 0
        self.sequence_id = 0
        self._begin(last_place[0], last_place[1])
        self._sent_through = self._last_number  # from before the restart: how far it got is unknown
        if self.sequence_id:
            sequences.adopt(self, self.sequence_id)

    def _begin(self, sequence_id: int, last_number: int) -> None:
        self.sequence_id = sequence_id
        self._last_number = last_number
        self._acked = 0
        self._sent_through = 0
        self._unacked = 0  # entries that were sent and not acknowledged
        self._index = 0
        self.deadline_ms: int | None = None

    def __len__(self) -> int:
        """The number of messages that have a place and are still to be delivered."""
        return len(self._entries)

    # Assigning places

    @property
    def room(self) -> int:
        """The number of messages that can be given a place. It is 0 when the sequence has used up its numbers, until
        all its messages are done; then a new sequence begins."""
        return MAX_SEQUENCE_NUMBER - (self._last_number if self._entries else 0)

    def assign(self, token: T, tracked: Tracked[Any] | None = None) -> Place | None:
        """Give a message its place, after all others; returns None if there is no room."""
        if not self.room:
            return None
        return self.assign_run((token,), {} if tracked is None else {0: tracked})

    def assign_run(self, tokens: Sequence[T], tracked: Mapping[int, Tracked[Any]] | None = None) -> Place:
        """Give messages consecutive places, after all others. Returns the first place. There must be room. ``tracked``
        holds those for which a FinalAck is awaited, by their index."""
        if not self._entries:
            self._begin(self._sequences.allocate(self), 0)
        first = self._last_number + 1
        self._last_number += len(tokens)
        self._entries.append(first, tokens)
        for index, each in (tracked or {}).items():
            self._tracked[first + index] = each
        return self.place(first)

    def readmit(
        self, token: T, place: tuple[int, int], tracked: Tracked[Any] | None = None
    ) -> Released[T] | None:
        """Take back a message that has its place already, after a restart and in order.

        A message of an earlier sequence was done before the crash, or there would be no later sequence: it is released
        again.
        """
        sequence_id, number = place
        if sequence_id != self.sequence_id:
            released: Released[T] = Released([], [])
            _let_go(token, tracked, released)
            return released
        self._entries.append(number, (token,))
        if tracked is not None:
            self._tracked[number] = tracked
        self._unacked += 1
        return None

    def place(self, number: int) -> Place:
        """Return the place of a message as it is to be sent now: with the number of the message before it that is still
        to be delivered, or zero."""
        return Place(self.sequence_id, number, self._entries.before(number))

    # The progress of messages

    def sent(self, number: int, now_ms: int) -> None:
        """Note that the message was sent, or sent again."""
        self.sent_run(number, 1, now_ms)

    def sent_run(self, first: int, count: int, now_ms: int) -> None:
        """Note that messages with consecutive numbers were sent, or sent again; all of them are still to be
        delivered.
        """
        last = first + count - 1
        if last > self._sent_through:
            self._unacked += last - max(first - 1, self._sent_through)
            self._sent_through = last
        if self.deadline_ms is None:
            self._start_timer(now_ms)

    def token(self, number: int) -> T | None:
        """Return the message with a number."""
        return self._entries.get(number)

    def was_sent(self, number: int) -> bool:
        """True if the message may have been sent: then only the receiver knows what happened to it."""
        return number <= self._sent_through

    def standing(self, first: int, tokens: Sequence[T]) -> bytearray:
        """Tell which of these messages still have the consecutive numbers from ``first`` on: a byte for each, zero for
        those that are done."""
        return self._entries.standing(first, tokens)

    def received_session_ack(self, number: int) -> Released[T]:
        """Note that the next hop has stored the message. It stays until its OrderAck, which may have come already."""
        return self.received_session_acks((range(number, number + 1),))

    def received_session_acks(self, numbers: Iterable[range]) -> Released[T]:
        """Note that the next hop has stored many messages; one that was sent twice may be reported twice."""
        released: Released[T] = Released([], [])
        for row in numbers:
            self._entries.store(row[0], row[-1])
            if row[0] <= self._acked:
                self._release(self._entries.take(row[0], min(row[-1], self._acked)), released)
        return released

    def order_ack(self, sequence_id: int, number: int, now_ms: int) -> Released[T] | None:
        """Note that the receiver has everything up to ``number`` (3.1.5.6). Returns None if this is not about our
        messages.

        An acknowledged message stays until its session acknowledgment has come.
        """
        if sequence_id != self.sequence_id or not 0 < number <= self._sent_through:
            return None
        self._last_ack_ms = now_ms
        self._last_ack_count += 1
        released: Released[T] = Released([], [])
        if number <= self._acked:
            return released
        self._unacked -= self._entries.count(self._acked + 1, number)
        self._release(self._entries.take(self._acked + 1, number, stored=True), released)
        self._acked = number
        self._index = 0
        self.deadline_ms = None
        if self._unacked:
            self._start_timer(now_ms)
        return released

    def remove(self, number: int) -> None:
        """Remove a message that leaves otherwise: it expired, was journaled or deleted. The next one will bridge the
        gap."""
        self.remove_all((number,))

    def remove_all(self, numbers: Iterable[int]) -> None:
        """Remove many messages that leave otherwise."""
        left = [row for low, high in _adjacent(numbers) for row in self._entries.take(low, high)]
        for first, tokens in left:
            last = first + len(tokens) - 1
            if self._tracked:
                for number in range(first, last + 1):
                    self._tracked.pop(number, None)
            self._unacked -= max(min(last, self._sent_through) - max(first - 1, self._acked), 0)
        if left and not self._unacked:
            self.deadline_ms = None

    def session_lost(self) -> tuple[Released[T], list[T]]:
        """Handle the closing of the session. Returns what is done, and what the next session must send, in order.

        Messages that have their OrderAck need no session any more.
        """
        released: Released[T] = Released([], [])
        self._release(self._entries.take(0, self._acked), released)
        self._entries.unstore()
        self._index = 0
        self.deadline_ms = None
        return released, [token for _, token in self._entries.items()]

    def handle_timer(self, now_ms: int) -> list[T]:
        """Handle the timer: no OrderAck came in time (3.1.6.5). Returns the messages to be sent again, in order.

        The wait grows with each time-out and is reset when the receiver makes progress.
        """
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return []
        self._index = min(self._index + 1, len(self._table_s) - 1)
        self._start_timer(now_ms)
        self._entries.unstore(self._acked + 1, self._sent_through)
        return [token for _, token in self._waiting()]

    def _waiting(self) -> Iterator[tuple[int, T]]:
        """Yield the messages that were sent and not acknowledged, with their numbers."""
        return self._entries.items(self._acked + 1, self._sent_through)

    def _release(self, rows: list[tuple[int, list[T]]], released: Released[T]) -> None:
        """Sort messages that have left the sequence into ``released``."""
        for first, tokens in rows:
            if not self._tracked:
                released.done.extend(tokens)
                continue
            for number, token in enumerate(tokens, first):
                tracked = self._tracked.pop(number, None)
                _let_go(token, tracked, released)

    def _start_timer(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + 1_000 * self._table_s[self._index]

    # Figures for management

    def statistics(self, epoch_ms: int) -> TransferStatistics:
        """Return the figures of the sequence; ``epoch_ms`` is the time of day, since 1970, at which ``now_ms`` was
        zero."""
        first = next((number for number, _ in self._waiting()), 0)
        return TransferStatistics(
            self._info(first) if first else _NONE,
            self._info(self._entries.before(self._sent_through + 1)) if first else _NONE,
            self._info(self._acked) if self._acked else _NONE,
            self._info(self._last_number + 1),
            self._last_ack_count,
            self._unacked,
            self._index,
            (epoch_ms + self._last_ack_ms) // 1_000,
            0 if self.deadline_ms is None else (epoch_ms + self.deadline_ms) // 1_000,
            self._table_s[self._index],
        )

    def _info(self, number: int) -> SequenceInfo:
        return SequenceInfo(self.sequence_id, number, number - 1)


def _adjacent(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of numbers that follow each other."""
    for _, group in groupby(enumerate(numbers), lambda each: each[1] - each[0]):
        together = list(group)
        yield together[0][1], together[-1][1]


def _let_go(token: T, tracked: Tracked[Any] | None, released: Released[T]) -> None:
    if tracked is None:
        released.done.append(token)
    else:
        tracked.parked = True
        released.parked.append(token)
