"""Session acknowledgments (MS-MQQB 3.1.1.4, 3.1.1.6.1): counting messages, and settling those that the peer has.

Each direction of a session numbers its user messages from one, and its recoverable messages again from one. No packet
carries its number; both sides count. So every user message counts, whatever happens to it afterwards: also duplicates,
refused messages and OrderAcks.

:class:`Receipts` is the receiving side. It counts what arrives and says when a SessionHeader is due: at half the
window, at 32 stored recoverables (one header can name no more), when so many bytes have come that their sender should
not have to keep them any longer, or when the Session Ack Send Timer runs out. A recoverable message is acknowledged
only once the owner has said that it is stored, in order from the lowest: the sender takes everything up to
RecoverableMsgAckSeqNumber as stored, so a number must not be named while an earlier message is still on its way to the
disk.

:class:`Outbox` is the sending side: what was sent and not yet acknowledged. An express message is done when the
peer has counted it, a recoverable one when the peer has stored it. What the session could not settle goes back to
its owner in the order in which it was sent.

Inside, numbers are plain integers that never wrap; only their low sixteen bits are transmitted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar, cast

from msmq.wire.headers import BASE_SH
from msmq.wire.layout import BASE
from msmq.wire.optional_headers import SessionHeader

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_BASE_FLAGS: Final = BASE["flags"]
_U16: Final = 0xFFFF
_U32: Final = 0xFFFFFFFF
MAX_UNSTORED: Final = 0x4000
"""The recoverable messages that a peer may count without storing before we stop sending: a quarter of the range of
sixteen bits."""
LARGE_BYTES: Final = 1 << 20
"""After how many bytes of messages a header is due, if it settles any of them."""


class MiscountError(Exception):
    """The peer acknowledges what was never sent, or counts differently than we do."""


class Window:
    """The number of messages that may be under way, and how it recovers after the peer has reduced it.

    A reduction takes effect at once; afterwards the size doubles every 30 seconds (MS-MQMQ note 15).
    """

    __slots__ = ("_growth_ms", "ceiling", "deadline_ms", "size")

    def __init__(self, ceiling: int, growth_ms: int) -> None:
        self.ceiling = self.size = max(ceiling, 1)  # a window of zero would never open again
        self.deadline_ms: int | None = None
        self._growth_ms = growth_ms

    def reduce(self, size: int, now_ms: int) -> None:
        if size < self.size:
            self.size = max(size, 1)
            self.deadline_ms = now_ms + self._growth_ms

    def grow(self, now_ms: int) -> None:
        """Double the size if it is time; to be called whenever a deadline may have passed."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return
        self.size = min(2 * self.size, self.ceiling)
        self.deadline_ms = now_ms + self._growth_ms if self.size < self.ceiling else None


class Receipts:
    """Counts what came over a session, and what of it was acknowledged to the peer.

    ``deadline_ms`` is the Session Ack Send Timer (3.1.2.5): half of AckWaitTimeout after an express message,
    RecoverableAckSendTimeout after a recoverable one.
    """

    __slots__ = (
        "_duration_ms",
        "_express_ms",
        "_hurried",
        "_recoverable_ms",
        "_started_ms",
        "_stored",
        "_unacked_bytes",
        "deadline_ms",
        "half_window",
        "last_acked_recoverable",
        "received",
        "recoverable_received",
        "unacked",
    )

    def __init__(self, window: int, ack_wait_timeout_ms: int, recoverable_ack_timeout_ms: int) -> None:
        self.received = 0
        self.recoverable_received = 0
        self.unacked = 0
        self._unacked_bytes = 0
        self.half_window = max(window // 2, 1)
        self.deadline_ms: int | None = None
        self._express_ms = ack_wait_timeout_ms // 2
        self._recoverable_ms = recoverable_ack_timeout_ms
        self._started_ms = self._duration_ms = 0
        self._hurried = False  # true if the timer already runs for a recoverable message
        self.last_acked_recoverable = 0  # LastAckedRecoverableMsgSeqNumber
        self._stored = 0  # bit k: the number last_acked_recoverable + 1 + k is stored

    @property
    def recoverable_flags(self) -> int:
        """RecoverableMsgAckFlags: the messages that the next header will report as stored."""
        return self._stored & _U32 if self._stored & 1 else 0

    def count(self, recoverable: int, now_ms: int, messages: int = 1, size: int = 0) -> None:
        """Count user messages of one kind that have arrived, with ``size`` bytes in all."""
        self.received += messages
        self.unacked += messages
        self._unacked_bytes += size
        if recoverable:
            self.recoverable_received += messages
            self._hurry(now_ms)
        elif self.deadline_ms is None:
            self._start(now_ms, self._express_ms)

    def stored(self, first: int, count: int, now_ms: int) -> None:
        """Note that the recoverable messages ``first`` to ``first + count - 1`` need not be sent again."""
        assert first + count - 1 <= self.recoverable_received, "stored before it was received"
        bits = (1 << count) - 1
        shift = first - self.last_acked_recoverable - 1
        self._stored |= bits << shift if shift >= 0 else bits >> -shift
        if self._stored & 1:
            self._hurry(now_ms)

    def _hurry(self, now_ms: int) -> None:
        """Start the timer for the first recoverable message since the last header; it never moves to a later time."""
        if self._hurried:
            return
        self._hurried = True
        if self.deadline_ms is None or now_ms + self._recoverable_ms < self.deadline_ms:
            self._start(now_ms, self._recoverable_ms)

    def _start(self, now_ms: int, duration_ms: int) -> None:
        self._started_ms = now_ms
        self._duration_ms = duration_ms
        self.deadline_ms = now_ms + duration_ms

    @property
    def due(self) -> bool:
        """True if a header should be sent at once, without waiting for the timer."""
        if self._unacked_bytes >= LARGE_BYTES and (self._stored & 1 or not self._hurried):
            return True
        return self.unacked >= self.half_window or self._stored & _U32 == _U32

    @property
    def pending(self) -> bool:
        """True if a header would tell the peer something new."""
        return bool(self.unacked or self._stored & 1)

    def late(self, now_ms: int) -> bool:
        """True if a message that is sent now should carry a header, because three quarters of the timer have passed."""
        return (
            self.unacked > 0
            and self.deadline_ms is not None
            and 4 * (now_ms - self._started_ms) > 3 * self._duration_ms
        )

    def header(self, sent: int, recoverable_sent: int, window: int, now_ms: int) -> SessionHeader:
        """Make a SessionHeader with the present counts; what it acknowledges counts as acknowledged from now on."""
        flags = self.recoverable_flags
        header = SessionHeader(
            self.received & _U16,
            (self.last_acked_recoverable + 1) & _U16 if flags else 0,
            flags,
            sent & _U16,
            recoverable_sent & _U16,
            window,
        )
        self.unacked = self._unacked_bytes = 0
        self.deadline_ms = None
        self._hurried = False
        if flags:
            # the ones at the low end; what follows a gap stays for later
            told = ((flags + 1) & ~flags).bit_length() - 1
            self.last_acked_recoverable += told
            self._stored >>= told
            if self._stored & 1:
                self._hurry(now_ms)
        return header


class Divisible(Protocol[T_co]):
    """A token for several messages that were sent together."""

    def part(self, start: int, stop: int) -> T_co:
        """Return the token of some of them: from ``start`` up to, not including, ``stop``."""
        ...


@dataclass(slots=True)
class _Flight(Generic[T]):
    """Messages that were sent together: those from ``start`` to ``stop`` of a ``run``. Recoverable ones are numbered
    from ``number`` on; for express ones it is 0. A message that was sent alone has a ``token``."""

    run: Divisible[T] | None
    token: T | None
    start: int
    stop: int
    number: int

    def take(self, count: int) -> T:
        """Take the token of the first ``count`` messages, which are settled."""
        start = self.start
        self.start = stop = start + count
        if self.number:
            self.number += count
        return cast(T, self.token) if self.run is None else self.run.part(start, stop)

    def skip(self, count: int) -> None:
        self.start += count
        if self.number:
            self.number += count

    def copy(self) -> _Flight[T]:
        return _Flight(self.run, self.token, self.start, self.stop, self.number)


class Outbox(Generic[T]):
    """What was sent over a session and is not yet settled, with the owner's token for each message or for each run of
    messages. Only one entry per run is kept, so a window costs few of them.

    ``deadline_ms`` is the Session Ack Wait Timer (3.1.2.4); ``heard`` is ReceivedAck, set by any packet.
    """

    __slots__ = (
        "_in_flight",
        "_unstored",
        "_unstored_count",
        "_wait_ms",
        "acked",
        "deadline_ms",
        "heard",
        "recoverable_sent",
        "sent",
        "window",
    )

    def __init__(self, window: Window, wait_ms: int) -> None:
        self.window = window
        self.sent = 0
        self.recoverable_sent = 0
        self.acked = 0
        self.heard = False
        self.deadline_ms: int | None = None
        self._wait_ms = wait_ms
        self._in_flight: deque[_Flight[T]] = deque()
        self._unstored: deque[_Flight[T]] = deque()  # by recoverable number
        self._unstored_count = 0

    @property
    def unacked(self) -> int:
        """UnAckedMessageCount: the number of messages under way."""
        return self.sent - self.acked

    @property
    def room(self) -> int:
        """The number of messages that may be sent now."""
        return max(min(self.window.size - self.unacked, MAX_UNSTORED - self._unstored_count), 0)

    @property
    def awaiting(self) -> bool:
        """True if anything still waits to be counted or stored by the peer."""
        return bool(self._in_flight or self._unstored)

    def record(self, token: T, recoverable: int, now_ms: int) -> None:
        """Record that one message is sent."""
        self._record(None, token, 0, 1, recoverable, now_ms)

    def record_run(
        self, run: Divisible[T], start: int, stop: int, express: bytes | None, now_ms: int
    ) -> None:
        """Record that the messages from ``start`` to ``stop`` of a run are sent. ``express`` has a byte for each
        message of the run, 1 if it is express and 0 if it is recoverable; None means that all are recoverable."""
        while start < stop:
            kind = 0 if express is None else express[start]
            end = -1 if express is None else express.find(1 - kind, start, stop)
            end = stop if end < 0 else end
            self._record(run, None, start, end, not kind, now_ms)
            start = end

    def _record(
        self, run: Divisible[T] | None, token: T | None, start: int, stop: int, recoverable: int, now_ms: int
    ) -> None:
        self.sent += stop - start
        flight = _Flight(run, token, start, stop, self.recoverable_sent + 1 if recoverable else 0)
        self._in_flight.append(flight)
        if recoverable:
            self.recoverable_sent += stop - start
            self._unstored_count += stop - start
            self._unstored.append(flight.copy())
        if self.deadline_ms is None:
            self.deadline_ms = now_ms + self._wait_ms

    def acknowledge(self, header: SessionHeader, now_ms: int) -> list[T]:
        """Handle a SessionHeader of the peer. Returns the tokens that it settles, those of express messages first.

        Raises:
            MiscountError: it acknowledges more than was sent.
        """
        counted = (header.ack_sequence_number - self.acked) & _U16
        if counted > self.unacked:
            raise MiscountError(
                f"AckSequenceNumber {header.ack_sequence_number} where {self.sent & _U16} were sent"
            )
        self.acked += counted
        settled: list[T] = []
        while counted:
            flight = self._in_flight[0]
            count = min(flight.stop - flight.start, counted)
            if flight.number:
                flight.skip(count)
            else:
                settled.append(flight.take(count))
            if flight.start == flight.stop:
                self._in_flight.popleft()
            counted -= count
        flags, base = header.recoverable_msg_ack_flags, header.recoverable_msg_ack_seq_number
        if flags or base:
            self._take_stored(base, flags, settled)
        self.window.reduce(header.window_size, now_ms)
        if self.awaiting:
            self.deadline_ms = now_ms + self._wait_ms
        return settled

    def _take_stored(self, base: int, flags: int, settled: list[T]) -> None:
        """Settle everything up to ``base``, and base + k for each bit k. Numbers that were never sent are ignored."""
        number = self.recoverable_sent - (self.recoverable_sent - base & _U16)
        while flags & 2:  # usually there is no gap
            flags >>= 1
            number += 1
        found, count = _take_below(self._unstored, number + 1)
        settled += found
        self._unstored_count -= count
        while flags := flags >> 1:
            number += 1
            if flags & 1:
                self._take_one(number, settled)

    def _take_one(self, number: int, settled: list[T]) -> None:
        """Settle a message that is stored before others which were sent earlier."""
        for place, flight in enumerate(self._unstored):
            before = number - flight.number
            if 0 <= before < flight.stop - flight.start:
                rest = flight.copy()
                rest.skip(before)
                flight.stop = flight.start + before
                settled.append(rest.take(1))
                parts = [each for each in (flight, rest) if each.start < each.stop]
                self._unstored_count -= 1
                del self._unstored[place]
                for part in reversed(parts):
                    self._unstored.insert(place, part)
                return

    def expire(self, now_ms: int) -> bool:
        """Handle the Session Ack Wait Timer (3.1.6.3). Returns whether the session must be closed."""
        if not self.awaiting:
            self.heard = False
            self.deadline_ms = None
            return False
        if not self.heard:
            return True
        self.heard = False
        self.deadline_ms = now_ms + self._wait_ms
        return False

    def unsettled(self) -> list[T]:
        """Return the tokens of everything that must be sent again, in the order in which it was sent."""
        unstored = deque(flight.copy() for flight in self._unstored)
        first = next(
            (flight.number for flight in self._in_flight if flight.number), self.recoverable_sent + 1
        )
        found, _ = _take_below(unstored, first)
        for flight in self._in_flight:
            count = flight.stop - flight.start
            if flight.number:
                found += _take_below(unstored, flight.number + count)[0]
            else:
                found.append(flight.copy().take(count))
        return found


def _take_below(flights: deque[_Flight[T]], number: int) -> tuple[list[T], int]:
    """Take everything with a lower number out of flights that are in the order of their numbers. Returns the tokens,
    and how many messages they stand for."""
    found: list[T] = []
    taken = 0
    while flights and flights[0].number < number:
        flight = flights[0]
        count = min(number - flight.number, flight.stop - flight.start)
        found.append(flight.take(count))
        taken += count
        if flight.start == flight.stop:
            flights.popleft()
    return found, taken


def with_session_header(packet: bytes, header: SessionHeader) -> bytes:
    """Return the packet of a user message with a SessionHeader at its end."""
    flags = packet[_BASE_FLAGS] | BASE_SH
    return b"".join((packet[:_BASE_FLAGS], bytes((flags,)), packet[_BASE_FLAGS + 1 :], header.write()))


def without_session_header(packet: bytes) -> bytes:
    """Return the packet of a user message without its SessionHeader."""
    flags = packet[_BASE_FLAGS] & ~BASE_SH
    body = packet[_BASE_FLAGS + 1 : -SessionHeader.SIZE]
    return b"".join((packet[:_BASE_FLAGS], bytes((flags,)), body))
