"""Exactly once, in order: the receiving side (MS-MQQB 3.1.5.8.6, 3.1.6.9).

Per stream, which is one source queue manager and one of our queues by the name that the source has for it, the
receiver remembers the place of the last message it took. :meth:`OrderReceiver.judge_all` compares the next ones with
it: accepted, a duplicate, or out of order. An accepted message is checked further; whatever these checks say,
:meth:`OrderReceiver.advance` gives the new state of the stream, **which the caller makes durable in one step with
the message** (or, if the message is refused for good, with its refusal: a refused message that did not advance the
stream would hold up all that follow). A message that the caller cannot take for want of room is neither: it does
not advance, and comes again.

The count of messages that were not accepted is part of that state. It is made durable before the OrderAck that answers
them (:meth:`OrderReceiver.take_rejected`), which is far less often than they may come.

Once that is durable :meth:`OrderReceiver.durable` lets the OrderAck tell it. An OrderAck is scheduled for every
arrival, duplicates included, because the earlier one may have been lost; it is put off while more messages arrive,
but not for ever. A stream of which nothing could be taken, because its beginning is missing, gets one with the number 0
and is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from itertools import takewhile
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from msmq.transfer.timers import TimerSettings
from msmq.wire.message import UserMessage
from msmq.wire.packets import (
    ORDER_ACK_LABEL,
    FinalAckBody,
    OrderAckBody,
    is_for_order_queue,
    order_ack_body,
)

L = TypeVar("L")

MANY: Final = 1_024
"""Messages of a stream after which an OrderAck does not wait for its timer."""

Stream = tuple[bytes, Hashable]
"""The GUID of the queue manager that sends, and the destination queue by the name it goes by there: a sender has one
sequence for each name, so that a queue with two names has two streams."""


class Verdict(Enum):
    ACCEPTED = "it is the next one"
    DUPLICATE = "it has been taken before"
    OUT_OF_ORDER = "one before it is missing"


class Progress(NamedTuple):
    """How far a stream has come: IncomingTransactionalTransferInfo (MS-MQDMPR 3.1.1.5), all of it durable."""

    tx_sequence_id: int = 0
    tx_sequence_number: int = 0
    reject_count: int = 0
    last_access_time_s: int = 0


class Reached(Protocol):
    """How far a sequence has come: the progress of a stream, or the last message that was taken."""

    @property
    def tx_sequence_id(self) -> int: ...

    @property
    def tx_sequence_number(self) -> int: ...


class Place(Reached, Protocol):
    """What of a TransactionHeader says where a message stands in its sequence."""

    @property
    def previous_tx_sequence_number(self) -> int: ...


def judge(reached: Reached, header: Place) -> Verdict:
    """Whether a message continues a stream (3.1.5.8.6)."""
    if header.tx_sequence_id == reached.tx_sequence_id:
        if header.tx_sequence_number <= reached.tx_sequence_number:
            return Verdict.DUPLICATE
        in_order = header.previous_tx_sequence_number <= reached.tx_sequence_number
    elif header.tx_sequence_id < reached.tx_sequence_id:
        return Verdict.DUPLICATE  # a sequence is left only when all of it was acknowledged
    else:
        in_order = header.previous_tx_sequence_number == 0
    return Verdict.ACCEPTED if in_order else Verdict.OUT_OF_ORDER


def order_acknowledgment(message: UserMessage) -> OrderAckBody | FinalAckBody | None:
    """The OrderAck or FinalAck that a message is (3.1.5.1.1), or None when it is an ordinary one.

    Of BaseHeader.Flags nothing is asked: a SessionHeader may ride on an acknowledgment like on any message.

    Raises:
        DecodeError: it claims to be one and is malformed; the session has to be closed.
    """
    if not is_for_order_queue(message) or message.label != ORDER_ACK_LABEL:
        return None
    return order_ack_body(message)


class OrderAckDue(NamedTuple, Generic[L]):
    """An OrderAck to be sent to the source of the stream. ``link`` is where its last message came from."""

    stream: Stream
    link: L
    body: OrderAckBody


class _Stream:
    __slots__ = ("durable", "last_ack_ms", "progress", "rejected", "taken", "tried")

    def __init__(self, progress: Progress, now_ms: int) -> None:
        self.progress = progress
        self.durable = progress
        self.last_ack_ms = now_ms
        self.rejected = False  # whether reject_count is not written yet
        self.taken = 0  # messages since the last OrderAck
        self.tried = 0  # the sequence of the last message, for a stream that has taken none


class OrderReceiver(Generic[L]):
    """All incoming transactional streams of a queue manager.

    A ``link`` is whatever the caller knows the session of an arrival by, and by which it finds the way back.
    """

    __slots__ = ("_delay_ms", "_due", "_streams", "_timeout_ms")

    def __init__(self, timers: TimerSettings, stored: Mapping[Stream, Progress], now_ms: int) -> None:
        """``stored`` is what was made durable before the last stop."""
        self._timeout_ms = timers.order_ack_timeout_ms
        self._delay_ms = 1_000 * timers.maximum_order_ack_delay_s
        self._streams = {stream: _Stream(progress, now_ms) for stream, progress in stored.items()}
        # In the order of their deadlines, since all waits are alike.
        self._due: OrderedDict[Stream, tuple[int, L]] = OrderedDict()

    def progress(self, stream: Stream) -> Progress:
        """How far a stream has come, made durable or not."""
        known = self._streams.get(stream)
        return Progress() if known is None else known.progress

    def judge_all(
        self, stream: Stream, headers: Sequence[Place], link: L, now_ms: int, time_s: int
    ) -> list[int]:
        """Which of some messages to take that have arrived one behind the other, by index: each is compared with those
        in front of it. :meth:`advance` tells with which of them the stream has come further."""
        known = self._streams.get(stream)
        reached: Reached = Progress() if known is None else known.progress
        accepted = []
        for index, header in enumerate(headers):
            if judge(reached, header) is Verdict.ACCEPTED:
                accepted.append(index)
                reached = header
        if known is None and not accepted:
            known = self._streams[stream] = _Stream(Progress(), now_ms)
        if known is not None:
            known.tried = headers[-1].tx_sequence_id
            if len(accepted) < len(headers):
                rejected = known.progress.reject_count + len(headers) - len(accepted)
                known.progress = known.progress._replace(reject_count=rejected, last_access_time_s=time_s)
                known.rejected = True
            self._schedule(stream, known, link, now_ms)
        return accepted

    def advance(
        self,
        stream: Stream,
        header: Place,
        link: L,
        now_ms: int,
        time_s: int,
        messages: int = 1,
        rejected: int = 0,
    ) -> Progress:
        """Accepted messages are taken or refused for good: what has to be made durable with them. ``header`` is that of
        the last one, behind which so many came that were ``rejected``."""
        known = self._streams.get(stream)
        if known is None:
            known = self._streams[stream] = _Stream(Progress(), now_ms)
            self._schedule(stream, known, link, now_ms)
        known.progress = Progress(header.tx_sequence_id, header.tx_sequence_number, rejected, time_s)
        known.rejected = False
        known.taken += messages
        return known.progress

    def take_rejected(self, stream: Stream) -> Progress | None:
        """The state of a stream whose reject_count is to be written before its OrderAck leaves, once; None if there is
        nothing new. A stream that has taken nothing is not remembered, and neither is its count."""
        known = self._streams.get(stream)
        if known is None or not known.rejected:
            return None
        known.rejected = False
        return known.progress

    def streams(self) -> list[Stream]:
        """All that are known."""
        return list(self._streams)

    def durable(self, stream: Stream, progress: Progress) -> None:
        """What :meth:`advance` gave is stored, and everything before it."""
        known = self._streams.get(stream)
        if known is not None and progress[:2] > known.durable[:2]:
            known.durable = progress

    def many_taken(self, stream: Stream, now_ms: int) -> OrderAckDue[L] | None:
        """The OrderAck of a stream of which much was taken since the last one, without waiting for the timer: a sender
        keeps all of it until then. The timer goes on."""
        known, due = self._streams.get(stream), self._due.get(stream)
        if known is None or due is None or known.taken < MANY:
            return None
        known.taken = 0
        known.last_ack_ms = now_ms
        sequence_id, number = known.durable[:2]
        return OrderAckDue(stream, due[1], OrderAckBody.of(sequence_id, number)) if number else None

    def forget(self, stream: Stream) -> None:
        """The queue is no more."""
        self._streams.pop(stream, None)
        self._due.pop(stream, None)

    @property
    def next_deadline_ms(self) -> int | None:
        """When :meth:`handle_timer` wants to be called."""
        return next(iter(self._due.values()))[0] if self._due else None

    def handle_timer(self, now_ms: int) -> list[OrderAckDue[L]]:
        """The OrderAcks that are due; each says what is durable by now."""
        acks: list[OrderAckDue[L]] = []
        due = takewhile(lambda item: item[1][0] <= now_ms, self._due.items())
        for stream, (_, link) in list(due):
            del self._due[stream]
            known = self._streams[stream]
            sequence_id, number = known.durable[:2]
            if number:
                acks.append(OrderAckDue(stream, link, OrderAckBody.of(sequence_id, number)))
                known.last_ack_ms = now_ms
                known.taken = 0
            elif not known.progress.tx_sequence_number:
                acks.append(OrderAckDue(stream, link, OrderAckBody(known.tried, 0, 0)))
                del self._streams[stream]
            if known.durable[:2] != known.progress[:2]:
                self._due[stream] = (now_ms + self._timeout_ms, link)
        return acks

    def _schedule(self, stream: Stream, known: _Stream, link: L, now_ms: int) -> None:
        """Start the Order Ack Send Timer; more messages put it off until the last OrderAck is too old."""
        running = self._due.get(stream)
        if running is not None:
            if now_ms - known.last_ack_ms >= self._delay_ms:
                self._due[stream] = (running[0], link)  # which keeps its place
                return
            self._due.move_to_end(stream)
        self._due[stream] = (now_ms + self._timeout_ms, link)
