"""MessagePositionList (MS-MQDMPR 3.1.1.2): the messages of one queue, in order, at a few bytes each.

How it works
------------
A message's place is its LookupIdentifier: priority in the top byte (7 - priority, so that higher priorities
come first), arrival order below. "Along the list" and "ascending by LookupIdentifier" are the same thing, and a place
outlives its message: a cursor at a message that was taken still knows what comes next.

Each top byte has a *lane*; new messages always go to the end of their lane because arrival numbers only rise.
A lane is a row of chunks, and a chunk keeps its messages in parallel arrays (identifier, store address, size, state,
marks, front): about 24 bytes a message, whatever its body. Only a message that was moved is inserted before the end.

``START`` and ``END`` are the reserved entries before the head and behind the tail.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import IntEnum
from functools import partial
from itertools import accumulate, compress, islice
from typing import Final, NamedTuple

from msmq.wire.columns import picker

START: Final = -1
END: Final = 1 << 64
CHUNK: Final = 512


class PositionState(IntEnum):
    """MessagePosition.State."""

    AVAILABLE = 0
    LOCKED = 1
    PURGE_PENDING = 2
    DELETED = 3


class PositionMark(IntEnum):
    """Bits of ``marks``: facts about a message that must be known without reading it.

    FIRST and LAST are FirstInTransaction and LastInTransaction, which a packet does not have when it is written before
    they are known. OWES_NOTHING: no acknowledgment can be due for the message after its arrival, whatever becomes of
    it. OWES_NO_RECEIPT: none is due if it is received; this one is only in memory, and after a restart the message is
    read to find it out. KEPT_UNREAD: its sender wants it kept if nobody reads it. HAS_LOCAL: its record also has local
    attributes. HAS_SOURCE: its record has the address of the host it came from. DIRECT_SESSION: its FinalAck goes to
    that address, because the session that brought it knew no GUIDs.
    """

    FIRST = 1
    LAST = 2
    OWES_NOTHING = 4
    KEPT_UNREAD = 8
    HAS_LOCAL = 16
    HAS_SOURCE = 32
    DIRECT_SESSION = 64
    OWES_NO_RECEIPT = 128


# Members of an enumeration are slow to compare.
_FREE, _LOCKED, _GONE = map(int, (PositionState.AVAILABLE, PositionState.LOCKED, PositionState.DELETED))
_FREE_BYTE = bytes((_FREE,))
_ALL_OF: Final = [bytes((state,)) for state in PositionState]
_MEANT: Final = 4
_IS_MEANT: Final = bytes(_MEANT <= each < _MEANT + _GONE for each in range(256))
_CHANGED: Final = [bytes(state if each >= _MEANT else each for each in range(256)) for state in range(_MEANT)]
"""Tables for ``bytes.translate`` of states to which ``_MEANT`` is added for places that are meant: 1 for messages that
are there and meant; and, by a new state, the states after those that are meant have changed into it."""
_SPREAD: Final = 8
"""How many times as many places as those that are looked for a window may have."""


class Entry(NamedTuple):
    """One place: where its message is stored, its size, its state and marks."""

    lookup_id: int
    address: int
    size: int
    state: PositionState
    marks: int = 0


class Positions(NamedTuple):
    """Places of a queue in columns of equal length."""

    ids: array[int]
    addresses: array[int]
    """Where the store keeps each message; 0 for messages in memory."""
    sizes: array[int]
    """The sizes of the packets."""
    states: bytearray
    marks: bytearray
    fronts: array[int]
    """The bytes in front of each packet in its record."""

    def only(self, chosen: Sequence[int]) -> Positions:
        """The places with these indices."""
        pick = picker(chosen)
        return Positions(
            array("Q", pick(self.ids)),
            array("Q", pick(self.addresses)),
            array("I", pick(self.sizes)),
            bytearray(pick(self.states)),
            bytearray(pick(self.marks)),
            array("H", pick(self.fronts)),
        )

    def chosen(self, meant: Sequence[int]) -> Positions:
        """The places for which ``meant`` is 1 and not 0."""
        return self.only(list(compress(range(len(self.ids)), meant)))

    def divided(self, chosen: Collection[int]) -> tuple[Positions, Positions]:
        """The places of messages that are among those chosen, and the other places."""
        meant = bytes(map(chosen.__contains__, self.ids))
        return self.chosen(meant), self.chosen(meant.translate(b"\1\0" + bytes(254)))


_STATES: Final = tuple(PositionState)
_new_entry: Final[Callable[[tuple[int, int, int, PositionState, int]], Entry]] = partial(tuple.__new__, Entry)


class _Chunk:
    __slots__ = ("addresses", "available", "fronts", "ids", "live", "marks", "sizes", "states")

    def __init__(self, places: Positions) -> None:
        self.ids, self.addresses, self.sizes, self.states, self.marks, self.fronts = places
        self.live = len(self.states) - self.states.count(_GONE)
        self.available = self.states.count(_FREE)

    def extend(self, places: Positions, state: int) -> None:
        """Enter places behind all others, which have one state."""
        self.ids.extend(places.ids)
        self.addresses.extend(places.addresses)
        self.sizes.extend(places.sizes)
        self.states.extend(places.states)
        self.marks.extend(places.marks)
        self.fronts.extend(places.fronts)
        self.live += len(places.ids)
        if state == _FREE:
            self.available += len(places.ids)

    def insert(self, index: int, *place: int) -> None:
        """Enter a place; what is said of it comes in the order of the columns."""
        for name, value in zip(Positions._fields, place, strict=True):
            getattr(self, name).insert(index, value)

    def delete(self, index: int) -> None:
        for name in Positions._fields:
            del getattr(self, name)[index]

    def set_states(self, start: int, end: int, meant: bytes, state: int) -> None:
        """Change the states of the places of a window."""
        before = self.states[start:end]
        states = _both(before, meant).translate(_CHANGED[state]) if meant else _ALL_OF[state] * (end - start)
        self.states[start:end] = states
        self.available += states.count(_FREE) - before.count(_FREE)

    def meant(self, start: int, end: int, wanted: array[int]) -> bytes:
        """For each place between two indices 1 if its message is there and is ``wanted``, and 0 if not; b"" if all of
        them are, and no others are wanted."""
        ids, has_gone = self.ids[start:end], self.states.find(_GONE, start, end) >= 0
        if ids == wanted and not has_gone:
            return b""
        meant = bytes(map(frozenset(wanted).__contains__, ids))
        return _both(self.states[start:end], meant).translate(_IS_MEANT) if has_gone else meant

    def split(self) -> _Chunk:
        """Move the upper half into a new chunk, and return that."""
        half = len(self.ids) // 2
        upper = _Chunk(_part(self, half, len(self.ids)))
        for name in Positions._fields:
            del getattr(self, name)[half:]
        self.live -= upper.live
        self.available -= upper.available
        return upper


_Window = tuple[_Chunk, int, int, bytes]
"""Places of one chunk: the chunk, the first index, the index behind the last, and for each place between them 1 if it
belongs to them and 0 if not; b"" if all do."""


class _Lane:
    """The messages of one priority."""

    __slots__ = ("chunks", "firsts", "top")

    def __init__(self, top: int) -> None:
        self.top = top
        self.chunks: list[_Chunk] = []
        self.firsts: list[int] = []  # ids[0] of each chunk, to find a chunk by bisection

    def add(self, places: Positions, state: int) -> None:
        """Enter places of one state, given in ascending order; as a rule they stand behind all others."""
        ids, done = places.ids, 0
        while done < len(ids):
            chunk = self.chunks[-1] if self.chunks else None
            if chunk is not None and ids[done] <= chunk.ids[-1]:  # it comes back among older ones
                self.insert(*(column[done] for column in places))
                done += 1
                continue
            room = CHUNK if chunk is None else CHUNK - len(chunk.ids)
            some = _part(places, done, done + (room or CHUNK)) if done or len(ids) > room else places
            if chunk is None or not room:
                self.chunks.append(_Chunk(some))
                self.firsts.append(ids[done])
            else:
                chunk.extend(some, state)
            done += len(some.ids)

    def insert(self, lookup_id: int, address: int, size: int, state: int, marks: int, front: int) -> None:
        """Insert a message among others, after a move or at recovery."""
        place = max(bisect_right(self.firsts, lookup_id) - 1, 0)
        chunk = self.chunks[place]
        if len(chunk.ids) >= CHUNK:
            upper = chunk.split()
            self.chunks.insert(place + 1, upper)
            self.firsts.insert(place + 1, upper.ids[0])
            if lookup_id >= upper.ids[0]:
                place, chunk = place + 1, upper
        index = bisect_left(chunk.ids, lookup_id)
        if index < len(chunk.ids) and chunk.ids[index] == lookup_id:
            assert chunk.states[index] == _GONE, f"{lookup_id:#x} is in the list already"
            chunk.delete(index)
        chunk.insert(index, lookup_id, address, size, state, marks, front)
        self.firsts[place] = chunk.ids[0]
        chunk.live += 1
        if not state:
            chunk.available += 1

    def find(self, lookup_id: int) -> tuple[_Chunk, int] | None:
        place = bisect_right(self.firsts, lookup_id) - 1
        if place < 0:
            return None
        chunk = self.chunks[place]
        ids = chunk.ids
        index = bisect_left(ids, lookup_id)
        if index == len(ids) or ids[index] != lookup_id or chunk.states[index] == _GONE:
            return None
        return chunk, index

    def discard(self, chunk: _Chunk) -> None:
        place = bisect_right(self.firsts, chunk.ids[0]) - 1
        del self.chunks[place], self.firsts[place]

    def chunks_after(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Each chunk with places behind ``lookup_id``, and the index of the first."""
        for place in range(max(bisect_right(self.firsts, lookup_id) - 1, 0), len(self.chunks)):
            chunk = self.chunks[place]
            yield chunk, bisect_right(chunk.ids, lookup_id)

    def _chunks_before(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Each chunk with places in front of ``lookup_id``, nearest first, and the index behind the last."""
        for place in range(bisect_left(self.firsts, lookup_id) - 1, -1, -1):
            chunk = self.chunks[place]
            yield chunk, bisect_left(chunk.ids, lookup_id)

    def after(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Live places behind ``lookup_id``, ascending. The lane must not change while iterating."""
        for chunk, start in self.chunks_after(lookup_id):
            for index in range(start, len(chunk.ids)):
                if chunk.states[index] != _GONE:
                    yield chunk, index

    def before(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Live places in front of ``lookup_id``, descending."""
        for chunk, end in self._chunks_before(lookup_id):
            for index in range(end - 1, -1, -1):
                if chunk.states[index] != _GONE:
                    yield chunk, index

    def next_available(self, lookup_id: int) -> tuple[_Chunk, int] | None:
        """The next available place, the most common look-up. Chunks count their available messages, so long stretches
        of locked ones cost little."""
        chunks, firsts = self.chunks, self.firsts
        place = bisect_right(firsts, lookup_id) - 1
        if place >= 0:  # the message is in this chunk, or behind its last one
            chunk = chunks[place]
            if chunk.available:
                index = chunk.states.find(_FREE, bisect_right(chunk.ids, lookup_id))
                if index >= 0:
                    return chunk, index
        for later in range(place + 1, len(chunks)):
            chunk = chunks[later]
            if chunk.available:
                return chunk, chunk.states.find(_FREE)
        return None

    def available(
        self, found: list[_Window], behind: int, upto: int, most: int, most_bytes: int
    ) -> tuple[int, int]:
        """Extend ``found`` by available places behind one identifier up to and including another. Returns what is left
        of ``most`` and ``most_bytes``."""
        for chunk, start in self.chunks_after(behind):
            if not chunk.available:
                continue
            start = chunk.states.find(_FREE, start)
            while start >= 0:
                states = chunk.states[start : start + most]
                stop = start + len(states) - len(states.lstrip(_FREE_BYTE))
                if chunk.ids[stop - 1] > upto:
                    stop = bisect_right(chunk.ids, upto, start, stop)
                sizes = chunk.sizes[start:stop]
                size = sum(sizes)
                if size > most_bytes and stop > start:
                    sums = list(accumulate(sizes))
                    enough = bisect_left(sums, most_bytes)
                    stop, size = start + enough + 1, sums[enough]
                if stop > start:
                    found.append((chunk, start, stop, b""))
                    most -= stop - start
                    most_bytes -= size
                if most_bytes <= 0 or most <= 0 or (stop < len(chunk.ids) and chunk.ids[stop] > upto):
                    return most, most_bytes
                start = chunk.states.find(_FREE, stop)
        return most, most_bytes

    def windows(self, found: list[_Window], wanted: array[int]) -> None:
        """Extend ``found`` by the places of messages that are looked for in ascending order, if they are there."""
        start = 0
        while start < len(wanted) and self.chunks:
            place = max(bisect_right(self.firsts, wanted[start]) - 1, 0)
            chunk = self.chunks[place]
            stop = bisect_right(wanted, chunk.ids[-1], start)
            if start == stop:  # it would stand behind the last one of this chunk
                following = self.firsts[place + 1] if place + 1 < len(self.firsts) else END
                start = bisect_left(wanted, following, start)
                continue
            first = bisect_left(chunk.ids, wanted[start])
            last = bisect_right(chunk.ids, wanted[stop - 1], first)
            while last - first > _SPREAD * (stop - start):  # nearly all would be others
                stop = (start + stop + 1) // 2
                last = bisect_right(chunk.ids, wanted[stop - 1], first)
            meant = chunk.meant(first, last, wanted[start:stop])
            if first < last and (not meant or 1 in meant):
                found.append((chunk, first, last, meant))
            start = stop

    def previous_available(self, lookup_id: int) -> tuple[_Chunk, int] | None:
        for chunk, end in self._chunks_before(lookup_id):
            if chunk.available and (index := chunk.states.rfind(_FREE, 0, end)) >= 0:
                return chunk, index
        return None


class PositionList:
    """The ordered places of one queue, with the bytes they hold."""

    __slots__ = ("_lanes", "_ordered", "count", "total_bytes")

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._ordered: list[_Lane] = []
        self.count = 0
        self.total_bytes = 0

    def __len__(self) -> int:
        return self.count

    @property
    def free(self) -> int:
        """How many messages can be received now."""
        return sum(chunk.available for lane in self._ordered for chunk in lane.chunks)

    def _lane(self, top: int) -> _Lane:
        """Make a lane for a new priority."""
        lane = self._lanes[top] = _Lane(top)
        self._ordered = sorted(self._lanes.values(), key=lambda each: each.top)
        return lane

    def add(
        self,
        ids: Sequence[int],
        addresses: Sequence[int],
        sizes: Sequence[int],
        fronts: Sequence[int],
        marks: bytes | bytearray,
        state: PositionState = PositionState.AVAILABLE,
    ) -> None:
        """Enter places. Those of one priority are given in ascending order; as a rule they stand behind all others."""
        if not ids:
            return
        self.count += len(ids)
        self.total_bytes += sum(sizes)
        tops = [lookup_id >> 56 for lookup_id in ids]
        if tops.count(tops[0]) < len(tops):
            pick = picker(sorted(range(len(tops)), key=tops.__getitem__))
            ids, addresses, sizes, fronts = map(pick, (ids, addresses, sizes, fronts))
            marks = bytearray(pick(marks))
        # An array takes a part of another one at once, and the values of a list one by one.
        stored = array("Q", ids), array("Q", addresses), array("I", sizes)
        places = Positions(*stored, bytearray((state,)) * len(tops), bytearray(marks), array("H", fronts))
        start = 0
        for top in sorted(set(tops)):
            stop = start + tops.count(top)
            lane = self._lanes.get(top) or self._lane(top)
            lane.add(places if stop - start == len(tops) else _part(places, start, stop), state)
            start = stop

    def _find(self, lookup_id: int) -> tuple[_Chunk, int] | None:
        lane = self._lanes.get(lookup_id >> 56)
        return None if lane is None else lane.find(lookup_id)

    def get(self, lookup_id: int) -> Entry | None:
        """The place with this identifier, or None if it is empty."""
        found = self._find(lookup_id)
        return None if found is None else _entry(*found)

    def address_of(self, lookup_id: int) -> int | None:
        """Where the store keeps a message; None if it is not here."""
        lane = self._lanes.get(lookup_id >> 56)
        found = lane.find(lookup_id) if lane is not None else None
        return None if found is None else found[0].addresses[found[1]]

    def marks_of(self, lookup_id: int) -> int:
        """The marks of a message that is here."""
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        return found[0].marks[found[1]]

    def set_state(self, lookup_id: int, state: PositionState) -> None:
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        chunk, index = found
        chunk.set_states(index, index + 1, b"", state)

    def set_states(self, ids: array[int], state: PositionState) -> None:
        """Change the state of those messages that are there, given in the order of the list."""
        for chunk, first, last, meant in self._windows(ids):
            chunk.set_states(first, last, meant, state)

    def mark(self, lookup_id: int, mark: PositionMark) -> None:
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        found[0].marks[found[1]] |= mark

    def set_address(self, lookup_id: int, address: int) -> None:
        """Note that the store has moved the message."""
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        found[0].addresses[found[1]] = address

    def change_states(self, old: PositionState, new: PositionState, number: int) -> None:
        """Change the state of all messages in another one, up to an arrival number; neither state is AVAILABLE or
        DELETED."""
        before, after = bytes((old,)), bytes((new,))
        for lane in self._ordered:
            last = lane.top << 56 | number
            for chunk in lane.chunks[: bisect_right(lane.firsts, last)]:
                if chunk.live > chunk.available:
                    stop = bisect_right(chunk.ids, last)
                    chunk.states[:stop] = chunk.states[:stop].replace(before, after)

    def find(self, ids: Sequence[int]) -> Positions:
        """The places of those messages that are there, in the order of the list."""
        return _copied(self._windows(array("Q", sorted(ids))))

    def remove(self, ids: array[int]) -> int:
        """Remove the places that are there, given in the order of the list. Returns the bytes of their messages."""
        size = 0
        for chunk, first, last, meant in self._windows(ids):
            chunk.set_states(first, last, meant, _GONE)
            sizes = chunk.sizes[first:last]
            size += sum(compress(sizes, meant)) if meant else sum(sizes)
            count = meant.count(1) if meant else last - first
            chunk.live -= count
            if not chunk.live:
                self._lanes[chunk.ids[0] >> 56].discard(chunk)
            self.count -= count
        self.total_bytes -= size
        return size

    def available(self, behind: int, most: int, most_bytes: int = END, upto: int = END) -> Positions:
        """Up to ``most`` available places behind one identifier up to and including another, in order, stopping when
        their messages have ``most_bytes``; at least one, if there is any."""
        found: list[_Window] = []
        top = behind >> 56
        for lane in self._ordered:
            if lane.top >= top and lane.chunks:
                most, most_bytes = lane.available(found, behind, upto, most, most_bytes)
                if most_bytes <= 0 or most <= 0 or lane.top >= upto >> 56:
                    break
        return _copied(found)

    def first_locked(self, behind: int, upto: int) -> int | None:
        """The first place behind one identifier up to and including another whose message somebody holds."""
        for lane in self._ordered:
            for chunk, start in lane.chunks_after(behind):
                if chunk.ids[0] > upto:
                    return None
                if chunk.live > chunk.available and (index := chunk.states.find(_LOCKED, start)) >= 0:
                    return chunk.ids[index] if chunk.ids[index] <= upto else None
        return None

    def _windows(self, wanted: array[int]) -> list[_Window]:
        """The places of messages that are looked for in the order of the list, as far as they are there."""
        found: list[_Window] = []
        start, count = 0, len(wanted)
        while start < count:
            top = wanted[start] >> 56
            stop = bisect_left(wanted, (top + 1) << 56, start)
            lane = self._lanes.get(top)
            if lane is not None:
                lane.windows(found, wanted if stop - start == count else wanted[start:stop])
            start = stop
        return found

    def place_of(self, index: int) -> int:
        """The place of the message with this index from the front, or the last place if there are not so many."""
        last = START
        for lane in self._ordered:
            for chunk in lane.chunks:
                if index >= chunk.live:
                    index, last = index - chunk.live, chunk.ids[-1]
                    continue
                if chunk.live == len(chunk.ids):
                    return chunk.ids[index]
                live = (at for at, state in enumerate(chunk.states) if state != _GONE)
                return chunk.ids[next(islice(live, index, None))]
        return last

    def next_available(self, lookup_id: int) -> Entry | None:
        """The first available place behind ``lookup_id``, which may be START or an empty place."""
        top = lookup_id >> 56
        for lane in self._ordered:
            if lane.top >= top and lane.chunks and (found := lane.next_available(lookup_id)) is not None:
                return _entry(*found)
        return None

    def previous_available(self, lookup_id: int) -> Entry | None:
        """The nearest available place in front of ``lookup_id``, which may be END."""
        top = lookup_id >> 56
        for lane in reversed(self._ordered):
            if lane.top <= top and (found := lane.previous_available(lookup_id)) is not None:
                return _entry(*found)
        return None

    def after(self, lookup_id: int) -> Iterator[Entry]:
        """Places behind ``lookup_id``, which may be START or one whose message is gone."""
        top = lookup_id >> 56
        for lane in self._ordered:
            if lane.top >= top:
                for chunk, index in lane.after(lookup_id):
                    yield _entry(chunk, index)

    def before(self, lookup_id: int) -> Iterator[Entry]:
        """Places in front of ``lookup_id``, which may be END, nearest first."""
        top = lookup_id >> 56
        for lane in reversed(self._ordered):
            if lane.top <= top:
                for chunk, index in lane.before(lookup_id):
                    yield _entry(chunk, index)

    def __iter__(self) -> Iterator[Entry]:
        return self.after(START)


def _entry(chunk: _Chunk, index: int) -> Entry:
    state = _STATES[chunk.states[index]]
    return _new_entry(
        (chunk.ids[index], chunk.addresses[index], chunk.sizes[index], state, chunk.marks[index])
    )


def no_positions() -> Positions:
    return Positions(array("Q"), array("Q"), array("I"), bytearray(), bytearray(), array("H"))


def _part(places: _Chunk | Positions, start: int, stop: int) -> Positions:
    """A copy of the places from one index up to another."""
    return Positions(
        places.ids[start:stop],
        places.addresses[start:stop],
        places.sizes[start:stop],
        places.states[start:stop],
        places.marks[start:stop],
        places.fronts[start:stop],
    )


def _copied(windows: Sequence[_Window]) -> Positions:
    """Copy the places of windows into one."""
    if not windows:
        return no_positions()
    found, *others = [_part(chunk, start, stop) for chunk, start, stop, _ in windows]
    for other in others:
        for column, more in zip(found, other, strict=True):
            column.extend(more)
    if not any(meant for *_, meant in windows):
        return found
    return found.chosen(b"".join(meant or b"\1" * (stop - start) for _, start, stop, meant in windows))


def _both(states: bytearray, meant: bytes) -> bytes:
    """States, to which ``_MEANT`` is added for the places that are meant."""
    both = int.from_bytes(states, "little") | int.from_bytes(meant, "little") * _MEANT
    return both.to_bytes(len(states), "little")
