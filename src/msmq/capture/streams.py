"""TCP connections put together again from captured segments.

Each direction of a connection knows the number of the next byte it waits for. Segments behind it are dropped
or trimmed (retransmissions), segments ahead of it wait (reordering). Waiting is bounded, in segments and
bytes: past the bound, or when the connection or the capture ends, the missing bytes are declared a gap, and
reading goes on behind it. Connections are bounded too; the one silent for longest is closed for a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msmq.capture.cutter import Cut, Cutter

MAX_WAITING_SEGMENTS: Final = 1024
MAX_WAITING_BYTES: Final = 1 << 20
MAX_CONNECTIONS: Final = 4096
_RESTART_BYTES: Final = 1 << 26  # further back than any retransmission: the ports were used again
_MODULUS: Final = 1 << 32

Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """One captured TCP segment."""

    source: Endpoint
    destination: Endpoint
    sequence: int
    data: bytes
    syn: bool = False
    fin: bool = False
    reset: bool = False


class Direction:
    """The bytes that flow one way. Positions count from the first byte seen and never wrap."""

    def __init__(self) -> None:
        self.closed = False
        self._cutter: Cutter | None = None
        self._first_sequence = 0
        self._next_sequence = 0
        self._position = 0
        self._waiting: dict[int, bytes] = {}
        self._waiting_bytes = 0
        self._end: int | None = None

    def restarts(self, segment: Segment) -> bool:
        """Whether a segment belongs to a later connection between the same ports."""
        if self._cutter is None:
            return False
        if segment.syn:
            return (segment.sequence + 1) % _MODULUS != self._first_sequence
        return self._distance(segment.sequence) < -_RESTART_BYTES

    def take(self, segment: Segment) -> Iterator[Cut]:
        if self.closed:
            return
        if self._cutter is None:
            self._cutter = Cutter(midway=not segment.syn)
            self._first_sequence = self._next_sequence = (segment.sequence + segment.syn) % _MODULUS
        position = self._position + self._distance(segment.sequence + segment.syn)
        if segment.fin:
            self._end = position + len(segment.data)
        if segment.data and not segment.reset:
            self._wait(position, segment.data)
        yield from self._advance()
        while len(self._waiting) > MAX_WAITING_SEGMENTS or self._waiting_bytes > MAX_WAITING_BYTES:
            yield from self._jump()
        if segment.reset or (self._end is not None and self._position >= self._end):
            yield from self.close()

    def close(self) -> Iterator[Cut]:
        """No more will come: give what still waits, with its gaps."""
        while self._waiting:
            yield from self._jump()
        if self._cutter is not None and not self.closed:
            yield from self._cutter.finish()
        self.closed = True

    def _distance(self, sequence: int) -> int:
        """How far ahead of the next byte a sequence number lies; negative when behind."""
        return (sequence - self._next_sequence + _MODULUS // 2) % _MODULUS - _MODULUS // 2

    def _wait(self, position: int, data: bytes) -> None:
        if position + len(data) <= self._position:
            return  # all of it has been seen
        present = self._waiting.get(position, b"")
        if len(data) > len(present):
            self._waiting[position] = data
            self._waiting_bytes += len(data) - len(present)

    def _advance(self) -> Iterator[Cut]:
        """Hand on everything that follows without a hole."""
        assert self._cutter is not None
        while self._waiting:
            first = self._position if self._position in self._waiting else min(self._waiting)
            if first > self._position:
                return
            data = self._waiting.pop(first)
            self._waiting_bytes -= len(data)
            fresh = data[self._position - first :]
            self._move(len(fresh))
            yield from self._cutter.feed(fresh)

    def _jump(self) -> Iterator[Cut]:
        """Give up on the hole before the first waiting segment."""
        assert self._cutter is not None
        hole = min(self._waiting) - self._position
        if hole > 0:
            self._move(hole)
            yield from self._cutter.gap(hole)
        yield from self._advance()

    def _move(self, count: int) -> None:
        self._position += count
        self._next_sequence = (self._next_sequence + count) % _MODULUS


class Connection:
    """Both directions between two endpoints, numbered in the order they appear."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.directions: dict[Endpoint, Direction] = {}

    def direction(self, source: Endpoint) -> Direction:
        return self.directions.setdefault(source, Direction())


@dataclass(frozen=True, slots=True)
class StreamCut:
    """A cut with the connection and direction it came from."""

    cut: Cut
    source: Endpoint
    destination: Endpoint
    stream: int


class Streams:
    """All connections of a capture."""

    def __init__(self) -> None:
        self._connections: OrderedDict[frozenset[Endpoint], Connection] = OrderedDict()
        self.count = 0

    def take(self, segment: Segment) -> Iterator[StreamCut]:
        key = frozenset((segment.source, segment.destination))
        connection = self._connections.get(key)
        if connection is not None and connection.direction(segment.source).restarts(segment):
            yield from self._close(key)
            connection = None
        if connection is None:
            if len(self._connections) >= MAX_CONNECTIONS:
                yield from self._close(next(iter(self._connections)))
            self.count += 1
            connection = self._connections[key] = Connection(self.count)
        self._connections.move_to_end(key)
        for cut in connection.direction(segment.source).take(segment):
            yield StreamCut(cut, segment.source, segment.destination, connection.number)

    def close(self) -> Iterator[StreamCut]:
        """The capture is over."""
        for key in list(self._connections):
            yield from self._close(key)

    def _close(self, key: frozenset[Endpoint]) -> Iterator[StreamCut]:
        connection = self._connections.pop(key)
        for source, direction in connection.directions.items():
            destination = next((end for end in key if end != source), source)
            for cut in direction.close():
                yield StreamCut(cut, source, destination, connection.number)
