"""Exactly once, in order: the receiving side (MS-MQQB 3.1.5.8.6, 3.1.6.9).

A stream comes from one source queue manager to one of our queues, under the name that the source uses for it. For each
stream the receiver remembers the place of the last message it took. :meth:`OrderReceiver.judge_all` compares the next
messages with it: they are accepted, duplicates, or out of order. An accepted message is checked further; whatever these
checks say, :meth:`OrderReceiver.advance` gives the new state of the stream, **which the caller makes durable in one
step with the message** (or, if the message is refused for good, with its refusal: a refused message that did not
advance the stream would hold up all that follow). A message for which the caller has no room does not advance the
stream, and will be sent again.

The count of messages that were not accepted is part of that state. It is made durable before the OrderAck that answers
them (:meth:`OrderReceiver.take_rejected`), which happens far less often than such messages may come.

Once the state is durable, :meth:`OrderReceiver.durable` allows the OrderAck to report it. An OrderAck is scheduled for
every arrival, including duplicates, because the earlier one may have been lost; it is delayed while more messages
arrive, but only for a limited time. A stream from which nothing could be taken, because its beginning is missing, gets
an OrderAck with the number 0 and is forgotten.
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
    FinalAckBody,
    OrderAckBody,
    is_for_order_queue,
    order_acknowledgment_in,
)

L = TypeVar("L")

MANY: Final = 1_024
"""The number of messages of a stream after which an OrderAck does not wait for its timer."""

Stream = tuple[bytes, Hashable]
"""The GUID of the sending queue manager, and the destination queue by the name that the sender uses. A sender has one
sequence for each name, so a queue with two names has two streams."""


class Verdict(Enum):
    ACCEPTED = "it is the next one"
    DUPLICATE = "it has been taken before"
    OUT_OF_ORDER = "one before it is missing"


class Progress(NamedTuple):
    """How far a stream has come: IncomingTransactionalTransferInfo (MS-MQDMPR 3.1.1.5), which is durable."""

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
    """The fields of a TransactionHeader that give the place of a message in its sequence."""

    @property
    def previous_tx_sequence_number(self) -> int: ...


def judge(reached: Reached, header: Place) -> Verdict:
    """Decide whether a message continues a stream (3.1.5.8.6)."""
    if header.tx_sequence_id == reached.tx_sequence_id:
        if header.tx_sequence_number <= reached.tx_sequence_number:
            return Verdict.DUPLICATE
        in_order = header.previous_tx_sequence_number <= reached.tx_sequence_number
    elif header.tx_sequence_id < reached.tx_sequence_id:
        return Verdict.DUPLICATE  # a sender leaves a sequence only when all of it was acknowledged
    else:
        in_order = header.previous_tx_sequence_number == 0
    return Verdict.ACCEPTED if in_order else Verdict.OUT_OF_ORDER


def order_acknowledgment(message: UserMessage) -> OrderAckBody | FinalAckBody | None:
    """Return the OrderAck or FinalAck in a message (3.1.5.1.1), or None for an ordinary message.

    BaseHeader.Flags do not matter: an acknowledgment may carry a SessionHeader like any message.

    Raises:
        DecodeError: it claims to be one and is malformed; the session has to be closed.
    """
    found = order_acknowledgment_in(message.data) if is_for_order_queue(message) else None
    return None if found is None else found[1]


class OrderAckDue(NamedTuple, Generic[L]):
    """An OrderAck to be sent to the source of a stream. ``link`` identifies where its last message came from."""

    stream: Stream
    link: L
    body: OrderAckBody


class _Stream:
    __slots__ = ("durable", "last_ack_ms", "progress", "rejected", "taken", "tried")

    def __init__(self, progress: Progress, now_ms: int) -> None:
        self.progress = progress
        self.durable = progress
        self.last_ack_ms = now_ms
        self.rejected = False  # true if reject_count is not stored yet
        self.taken = 0  # messages since the last OrderAck
        self.tried = 0  # the sequence of the last message, for a stream that has taken none


class OrderReceiver(Generic[L]):
    """The incoming transactional streams of a queue manager.

    A ``link`` is the caller's own identification of the session of an arrival, by which it finds the way back.
    """

    __slots__ = ("_delay_ms", "_due", "_streams", "_timeout_ms")

    def __init__(self, timers: TimerSettings, stored: Mapping[Stream, Progress], now_ms: int) -> None:
        """``stored`` holds the progress that was durable before the last stop."""
        self._timeout_ms = timers.order_ack_timeout_ms
        self._delay_ms = 1_000 * timers.maximum_order_ack_delay_s
        self._streams = {stream: _Stream(progress, now_ms) for stream, progress in stored.items()}
        # In the order of their deadlines, since all waits have the same length.
        self._due: OrderedDict[Stream, tuple[int, L]] = OrderedDict()

    def progress(self, stream: Stream) -> Progress:
        """Return how far a stream has come, durable or not."""
        known = self._streams.get(stream)
        return Progress() if known is None else known.progress

    def judge_all(
        self, stream: Stream, headers: Sequence[Place], link: L, now_ms: int, time_s: int
    ) -> list[int]:
        """Decide which of several consecutive arrivals to take: each is compared with those before it. Returns their
        indices. Then call :meth:`advance` with those by which the stream has advanced."""
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
        """Record that accepted messages are taken or refused for good. Returns the state that must be made durable with
        them. ``header`` belongs to the last one, after which ``rejected`` others came."""
        known = self._streams.get(stream)
        if known is None:
            known = self._streams[stream] = _Stream(Progress(), now_ms)
            self._schedule(stream, known, link, now_ms)
        known.progress = Progress(header.tx_sequence_id, header.tx_sequence_number, rejected, time_s)
        known.rejected = False
        known.taken += messages
        return known.progress

    def take_rejected(self, stream: Stream) -> Progress | None:
        """Return the state of a stream whose reject_count must be stored before its OrderAck is sent, once; None if
        nothing is new. A stream that has taken nothing is not remembered, and neither is its count."""
        known = self._streams.get(stream)
        if known is None or not known.rejected:
            return None
        known.rejected = False
        return known.progress

    def streams(self) -> list[Stream]:
        """Return all known streams."""
        return list(self._streams)

    def durable(self, stream: Stream, progress: Progress) -> None:
        """Note that the state which :meth:`advance` returned is stored, and everything before it."""
        known = self._streams.get(stream)
        if known is not None and progress[:2] > known.durable[:2]:
            known.durable = progress

    def many_taken(self, stream: Stream, now_ms: int) -> OrderAckDue[L] | None:
        """Return the OrderAck of a stream of which many messages were taken since the last one, without waiting for the
        timer, because the sender keeps all of them until then. The timer goes on."""
        known, due = self._streams.get(stream), self._due.get(stream)
        if known is None or due is None or known.taken < MANY:
            return None
        known.taken = 0
        known.last_ack_ms = now_ms
        sequence_id, number = known.durable[:2]
        return OrderAckDue(stream, due[1], OrderAckBody.of(sequence_id, number)) if number else None

    def forget(self, stream: Stream) -> None:
        """Forget the stream of a queue that was deleted."""
        self._streams.pop(stream, None)
        self._due.pop(stream, None)

    @property
    def next_deadline_ms(self) -> int | None:
        """When :meth:`handle_timer` must be called."""
        return next(iter(self._due.values()))[0] if self._due else None

    def handle_timer(self, now_ms: int) -> list[OrderAckDue[L]]:
        """Return the OrderAcks that are due; each reports what is durable by now."""
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
        """Start the Order Ack Send Timer. More messages delay it until the last OrderAck is too old."""
        running = self._due.get(stream)
        if running is not None:
            if now_ms - known.last_ack_ms >= self._delay_ms:
                self._due[stream] = (running[0], link)  # it keeps its position
                return
            self._due.move_to_end(stream)
        self._due[stream] = (now_ms + self._timeout_ms, link)
