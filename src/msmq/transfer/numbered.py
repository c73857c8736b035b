"""The messages of a sequence by their numbers, and whether the next hop has stored them (MS-MQQB 3.1.1.5).

Numbers only rise, and messages with many consecutive numbers are added, stored and removed together. So they are kept
in *spans* of consecutive numbers, with one byte of state for each message. Operations on many messages work on slices,
and cost about the same for one and for hundreds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import attrgetter, ne
from typing import Final, Generic, TypeVar, cast

T = TypeVar("T")

_GONE, _HERE, _STORED = 0, 1, 2
_STORE: Final = bytes.maketrans(bytes((_HERE,)), bytes((_STORED,)))
_UNSTORE: Final = bytes.maketrans(bytes((_STORED,)), bytes((_HERE,)))
_WANTED: Final = {least: bytes(state >= least for state in range(256)) for least in (_HERE, _STORED)}
_FULL: Final = 1_024
"""The length up to which a span grows."""
_HIGHEST: Final = 1 << 32


class _Span(Generic[T]):
    """Messages with consecutive numbers."""

    __slots__ = ("first", "here", "states", "tokens")

    def __init__(self, first: int) -> None:
        self.first = first
        self.tokens: list[T | None] = []
        self.states = bytearray()
        self.here = 0

    @property
    def following(self) -> int:
        """The number after the last one."""
        return self.first + len(self.tokens)


_first_of: Final = attrgetter("first")


class Numbered(Generic[T]):
    """Messages in the order of their numbers."""

    __slots__ = ("_count", "_spans")

    def __init__(self) -> None:
        self._spans: list[_Span[T]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, first: int, tokens: Sequence[T]) -> None:
        """Add messages with consecutive numbers from ``first`` on, after all others."""
        span = self._spans[-1] if self._spans else None
        if span is None or span.following != first or len(span.tokens) >= _FULL:
            span = _Span(first)
            self._spans.append(span)
        span.tokens.extend(tokens)
        span.states.extend(bytes((_HERE,)) * len(tokens))
        span.here += len(tokens)
        self._count += len(tokens)

    def _between(self, low: int, high: int) -> Iterator[tuple[_Span[T], int, int]]:
        """Yield the spans with numbers from ``low`` to ``high``, and the part of each that lies in this range."""
        spans = self._spans
        for place in range(max(bisect_right(spans, low, key=_first_of) - 1, 0), len(spans)):
            span = spans[place]
            if span.first > high:
                return
            start, stop = max(low - span.first, 0), min(high + 1, span.following) - span.first
            if start < stop:
                yield span, start, stop

    def get(self, number: int) -> T | None:
        """Return the message with a number; None if there is none or it was removed."""
        for span, start, _ in self._between(number, number):
            return span.tokens[start]
        return None

    def before(self, number: int) -> int:
        """Return the number of the message before this one; 0 if there is none."""
        place = bisect_right(self._spans, number - 1, key=_first_of)
        for span in reversed(self._spans[:place]):
            stop = min(number - span.first, len(span.states))
            found = max(span.states.rfind(_HERE, 0, stop), span.states.rfind(_STORED, 0, stop))
            if found >= 0:
                return span.first + found
        return 0

    def count(self, low: int, high: int) -> int:
        """Count the messages from one number to another."""
        spans = self._between(low, high)
        return sum(stop - start - span.states.count(_GONE, start, stop) for span, start, stop in spans)

    def items(self, low: int = 0, high: int = _HIGHEST) -> Iterator[tuple[int, T]]:
        """Yield the messages from one number to another, with their numbers."""
        for span, start, stop in self._between(low, high):
            for index in range(start, stop):
                if span.states[index]:
                    yield span.first + index, cast(T, span.tokens[index])

    def standing(self, first: int, tokens: Sequence[T]) -> bytearray:
        """Tell which of these messages are still there, with consecutive numbers from ``first`` on: a byte for each,
        zero for those that are not."""
        found = bytearray()
        for span, start, stop in self._between(first, first + len(tokens) - 1):
            done = span.first + start - first
            found.extend(bytes(done - len(found)))
            found += span.states[start:stop]
            others = list(map(ne, span.tokens[start:stop], tokens[done : done + stop - start]))
            if True in others:
                for index in compress(range(done, done + len(others)), others):
                    found[index] = _GONE
        found.extend(bytes(len(tokens) - len(found)))
        return found

    def store(self, low: int, high: int) -> None:
        """Note that the next hop has stored the messages with these numbers."""
        self._translate(low, high, _STORE)

    def unstore(self, low: int = 0, high: int = _HIGHEST) -> None:
        """Note that these messages no longer count as stored by the next hop."""
        self._translate(low, high, _UNSTORE)

    def _translate(self, low: int, high: int, table: bytes) -> None:
        for span, start, stop in self._between(low, high):
            span.states[start:stop] = span.states[start:stop].translate(table)

    def take(self, low: int, high: int, *, stored: bool = False) -> list[tuple[int, list[T]]]:
        """Remove messages, or with ``stored`` only those that the next hop has stored. Returns rows of adjacent ones,
        each with its first number."""
        rows: list[tuple[int, list[T]]] = []
        for span, start, stop in list(self._between(low, high)):
            for begin, end in _rows(span.states[start:stop], _STORED if stored else _HERE):
                self._cut(span, start + begin, start + end, rows)
        return rows

    def _cut(self, span: _Span[T], start: int, stop: int, rows: list[tuple[int, list[T]]]) -> None:
        """Remove adjacent messages that are all there."""
        rows.append((span.first + start, cast(list[T], span.tokens[start:stop])))
        span.tokens[start:stop] = [None] * (stop - start)
        span.states[start:stop] = bytes(stop - start)
        span.here -= stop - start
        self._count -= stop - start
        if not span.here:
            del self._spans[bisect_right(self._spans, span.first, key=_first_of) - 1]


def _rows(states: bytearray, least: int) -> Iterator[tuple[int, int]]:
    """Yield where adjacent messages begin and end whose state is at least ``least``."""
    wanted = states.translate(_WANTED[least])
    begin = wanted.find(1)
    while begin >= 0:
        end = wanted.find(0, begin)
        yield begin, end if end >= 0 else len(wanted)
        begin = wanted.find(1, end) if end >= 0 else -1
