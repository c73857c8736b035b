"""Reassembly of TCP connections from captured segments.

Each direction of a connection knows the number of the next byte it waits for. Segments before it are dropped or
trimmed (retransmissions), segments ahead of it wait (reordering). The number and bytes of waiting segments are
limited: beyond the limit, or when the connection or the capture ends, the missing bytes are declared a gap, and
reading goes on behind it. The number of connections is limited too; the one silent for longest is closed for a new
one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from msmq.capture.cutter import Cut, Cutter

MAX_WAITING_SEGMENTS: Final = 1024
MAX_WAITING_BYTES: Final = 1 << 20
MAX_CONNECTIONS: Final = 4096
_RESTART_BYTES: Final = 1 << 26  # further back than any retransmission: the ports were used again
_MODULUS: Final = 1 << 32

Endpoint = tuple[str, int]


class Segment(NamedTuple):
    """One captured TCP segment."""

    source: Endpoint
    destination: Endpoint
    sequence: int
    data: bytes
    syn: bool = False
    fin: bool = False
    reset: bool = False


class Direction:
    """The bytes of one direction. Positions count from the first byte seen and never wrap."""

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

    def follow(self, segment: Segment) -> list[Cut] | None:
        """Take the most common kind of segment: the next one, with data and without special flags. Returns None for
        others."""
        _, _, sequence, data, syn, fin, reset = segment
        if sequence != self._next_sequence or not data or syn or fin or reset or not self._flows:
            return None
        self._position += len(data)
        self._next_sequence = (sequence + len(data)) % _MODULUS
        assert self._cutter is not None
        return self._cutter.feed(data)

    @property
    def _flows(self) -> bool:
        """Whether the direction has begun, nothing waits and no end is known."""
        return not (self._waiting or self.closed or self._cutter is None or self._end is not None)

    def take(self, segment: Segment) -> list[Cut]:
        if self.closed:
            return []
        _, _, sequence, data, syn, fin, reset = segment
        if self._cutter is None:
            self._cutter = Cutter(midway=not syn)
            self._first_sequence = self._next_sequence = (sequence + syn) % _MODULUS
        position = self._position + self._distance(sequence + syn)
        if fin:
            self._end = position + len(data)
        if data and not reset:
            self._wait(position, data)
        cuts = self._advance()
        while len(self._waiting) > MAX_WAITING_SEGMENTS or self._waiting_bytes > MAX_WAITING_BYTES:
            cuts += self._jump()
        if reset or (self._end is not None and self._position >= self._end):
            cuts += self.close()
        return cuts

    def close(self) -> list[Cut]:
        """Return what still waits, with its gaps; nothing more is accepted."""
        cuts: list[Cut] = []
        while self._waiting:
            cuts += self._jump()
        if self._cutter is not None and not self.closed:
            cuts += self._cutter.finish()
        self.closed = True
        return cuts

    def _distance(self, sequence: int) -> int:
        """How far a sequence number is ahead of the next byte; negative if behind."""
        return (sequence - self._next_sequence + _MODULUS // 2) % _MODULUS - _MODULUS // 2

    def _wait(self, position: int, data: bytes) -> None:
        if position + len(data) <= self._position:
            return  # already seen
        present = self._waiting.get(position, b"")
        if len(data) > len(present):
            self._waiting[position] = data
            self._waiting_bytes += len(data) - len(present)

    def _advance(self) -> list[Cut]:
        """Pass on everything up to the next hole."""
        assert self._cutter is not None
        cuts: list[Cut] = []
        while self._waiting:
            first = self._position if self._position in self._waiting else min(self._waiting)
            if first > self._position:
                break
            data = self._waiting.pop(first)
            self._waiting_bytes -= len(data)
            fresh = data[self._position - first :]
            self._move(len(fresh))
            cuts += self._cutter.feed(fresh)
        return cuts

    def _jump(self) -> list[Cut]:
        """Declare the hole before the first waiting segment a gap."""
        assert self._cutter is not None
        cuts: list[Cut] = []
        hole = min(self._waiting) - self._position
        if hole > 0:
            self._move(hole)
            cuts += self._cutter.gap(hole)
        return cuts + self._advance()

    def _move(self, count: int) -> None:
        self._position += count
        self._next_sequence = (self._next_sequence + count) % _MODULUS


class Connection:
    """Both directions between two endpoints. Connections are numbered in order of appearance."""

    __slots__ = ("directions", "ends", "number")

    def __init__(self, number: int, ends: frozenset[Endpoint]) -> None:
        self.number = number
        self.ends = ends
        self.directions: dict[Endpoint, Direction] = {}

    def direction(self, source: Endpoint) -> Direction:
        found = self.directions.get(source)
        if found is None:
            found = self.directions[source] = Direction()
        return found


class StreamCut(NamedTuple):
    """A cut with its connection and direction."""

    cut: Cut
    source: Endpoint
    destination: Endpoint
    stream: int


class Streams:
    """All connections of a capture."""

    def __init__(self) -> None:
        self._connections: OrderedDict[frozenset[Endpoint], Connection] = OrderedDict()
        self._ways: dict[tuple[Endpoint, Endpoint], tuple[Connection, Direction]] = {}
        self.count = 0

    def take(self, segment: Segment) -> list[StreamCut]:
        source, destination = segment.source, segment.destination
        way = self._ways.get((source, destination))
        if way is not None:
            connection, direction = way
            cuts = direction.follow(segment)
            if cuts is not None:
                self._connections.move_to_end(connection.ends)
                return [StreamCut(cut, source, destination, connection.number) for cut in cuts]
        found, connection = self._connection(segment)
        direction = connection.direction(source)
        self._ways[source, destination] = connection, direction
        number = connection.number
        return found + [StreamCut(cut, source, destination, number) for cut in direction.take(segment)]

    def _connection(self, segment: Segment) -> tuple[list[StreamCut], Connection]:
        """The connection of a segment, perhaps a new one, and the last cuts of connections that were closed for it."""
        ends = frozenset((segment.source, segment.destination))
        found: list[StreamCut] = []
        connection = self._connections.get(ends)
        if connection is not None and connection.direction(segment.source).restarts(segment):
            found = self._close(ends)
            connection = None
        if connection is not None:
            self._connections.move_to_end(ends)
            return found, connection
        if len(self._connections) >= MAX_CONNECTIONS:
            found += self._close(next(iter(self._connections)))
        self.count += 1
        connection = self._connections[ends] = Connection(self.count, ends)
        return found, connection

    def close(self) -> list[StreamCut]:
        """Close all connections at the end of the capture."""
        return [cut for ends in list(self._connections) for cut in self._close(ends)]

    def _close(self, ends: frozenset[Endpoint]) -> list[StreamCut]:
        connection = self._connections.pop(ends)
        found: list[StreamCut] = []
        for source, direction in connection.directions.items():
            destination = next((end for end in ends if end != source), source)
            self._ways.pop((source, destination), None)
            found += [StreamCut(cut, source, destination, connection.number) for cut in direction.close()]
        return found
