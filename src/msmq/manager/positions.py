"""MessagePositionList (MS-MQDMPR 3.1.1.2): the messages of one queue, in order, at a few bytes each.

How it works
------------
A message's place is its LookupIdentifier: priority in the top byte (7 - priority, so that higher priorities
come first), arrival order below. "Along the list" and "ascending by LookupIdentifier" are the same thing, and
a place outlives its message: whoever stands on a message that was taken still knows what comes next.

Each top byte has a *lane*; new messages always go to the end of their lane because arrival numbers only rise.
A lane is a row of chunks, and a chunk keeps its messages in parallel arrays (identifier, store address, size,
state, marks): about 22 bytes a message, whatever its body. Only a message moved between queues is inserted elsewhere
than at the end.

``START`` and ``END`` are the reserved entries before the head and behind the tail.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

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
    """Bits of ``marks``: FirstInTransaction and LastInTransaction of the message, which its packet does not say,
    because it is written before anybody knows; that no acknowledgment can be due for it, whatever becomes of it;
    and that it wants to be kept if nobody reads it."""

    FIRST = 1
    LAST = 2
    OWES_NOTHING = 4
    KEPT_UNREAD = 8


_AVAILABLE, _DELETED = PositionState.AVAILABLE, PositionState.DELETED
_FREE, _GONE = int(_AVAILABLE), int(_DELETED)  # members of an enumeration are slow to compare
_HELD: Final = int(PositionState.LOCKED)
_PLAIN: Final = bytes((PositionMark.OWES_NOTHING, PositionMark.OWES_NOTHING | PositionMark.KEPT_UNREAD))
_FREE_BYTE, _GONE_BYTE = bytes((_FREE,)), bytes((_GONE,))


class Entry(NamedTuple):
    """One place: where its message is kept, how large it is, and what may be done with it."""

    lookup_id: int
    address: int
    size: int
    state: PositionState
    marks: int = 0


class Run(NamedTuple):
    """Plain places: their messages are on disk, and no acknowledgment can be due for them. Columns, not entries, so
    that many of them cost little."""

    lookup_ids: array[int]
    addresses: array[int]
    sizes: array[int]
    spans: list[tuple[_Chunk, int, int]]


class Stretch(NamedTuple):
    """Places that stand one behind the other, as columns."""

    ids: array[int]
    addresses: array[int]
    sizes: array[int]
    marks: bytearray


_STATES: Final = tuple(PositionState)
_new_entry: Final[Callable[[tuple[int, int, int, PositionState, int]], Entry]] = partial(tuple.__new__, Entry)
_COLUMNS: Final = ("ids", "addresses", "sizes", "states", "marks")


class _Chunk:
    __slots__ = ("addresses", "available", "ids", "live", "marks", "sizes", "states")

    def __init__(self) -> None:
        self.ids = array("Q")
        self.addresses = array("Q")
        self.sizes = array("I")
        self.states = bytearray()
        self.marks = bytearray()
        self.live = 0
        self.available = 0

    def insert(self, index: int, lookup_id: int, address: int, size: int, state: int, marks: int) -> None:
        self.ids.insert(index, lookup_id)
        self.addresses.insert(index, address)
        self.sizes.insert(index, size)
        self.states.insert(index, state)
        self.marks.insert(index, marks)

    def delete(self, index: int) -> None:
        for name in _COLUMNS:
            del getattr(self, name)[index]

    def plain_places(self, start: int, most: int) -> int:
        """How many places from ``start`` on, up to ``most``, are plain and in the state that the first one is in."""
        states = self.states[start : start + most]
        states = states[: len(states) - len(states.lstrip(states[:1]))]
        marks = self.marks[start : start + len(states)]
        count = len(marks) - len(marks.lstrip(_PLAIN))
        addresses = self.addresses[start : start + count]
        return addresses.index(0) if 0 in addresses else count

    def set_states(self, start: int, end: int, state: int) -> None:
        before = self.states.count(_FREE, start, end)
        self.states[start:end] = bytes((state,)) * (end - start)
        self.available += (0 if state else end - start) - before

    def split(self) -> _Chunk:
        """Give the upper half away."""
        half = len(self.ids) // 2
        upper = _Chunk()
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(upper, name, column[half:])
            del column[half:]
        for chunk in (self, upper):
            chunk.live = len(chunk.states) - chunk.states.count(_DELETED)
            chunk.available = chunk.states.count(_AVAILABLE)
        return upper


class _Lane:
    """The messages of one priority."""

    __slots__ = ("chunks", "firsts", "top")

    def __init__(self, top: int) -> None:
        self.top = top
        self.chunks: list[_Chunk] = []
        self.firsts: list[int] = []  # ids[0] of each chunk, to find a chunk by bisection

    def add(self, lookup_id: int, address: int, size: int, state: int, marks: int) -> None:
        """Where the last chunk does not simply go on."""
        if not self.chunks or lookup_id > self.chunks[-1].ids[-1]:
            chunk = self.extend(lookup_id)
            chunk.insert(0, lookup_id, address, size, state, marks)
        else:
            chunk = self._insert(lookup_id, address, size, state, marks)
        chunk.live += 1
        if not state:
            chunk.available += 1

    def extend(self, lookup_id: int) -> _Chunk:
        chunk = _Chunk()
        self.chunks.append(chunk)
        self.firsts.append(lookup_id)
        return chunk

    def _insert(self, lookup_id: int, address: int, size: int, state: int, marks: int) -> _Chunk:
        """A message that comes back among older ones: after a move, or at recovery."""
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
            assert chunk.states[index] == _DELETED, f"{lookup_id:#x} is in the list already"
            chunk.delete(index)
        chunk.insert(index, lookup_id, address, size, state, marks)
        self.firsts[place] = chunk.ids[0]
        return chunk

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

    def _chunks_after(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Each chunk with places behind ``lookup_id`` and where they begin in it."""
        for place in range(max(bisect_right(self.firsts, lookup_id) - 1, 0), len(self.chunks)):
            chunk = self.chunks[place]
            yield chunk, bisect_right(chunk.ids, lookup_id)

    def _chunks_before(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Each chunk with places in front of ``lookup_id``, nearest first, and where they end in it."""
        for place in range(bisect_left(self.firsts, lookup_id) - 1, -1, -1):
            chunk = self.chunks[place]
            yield chunk, bisect_left(chunk.ids, lookup_id)

    def after(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Live places behind ``lookup_id``, ascending. Do not change the lane while going on."""
        for chunk, start in self._chunks_after(lookup_id):
            for index in range(start, len(chunk.ids)):
                if chunk.states[index] != _DELETED:
                    yield chunk, index

    def before(self, lookup_id: int) -> Iterator[tuple[_Chunk, int]]:
        """Live places in front of ``lookup_id``, descending."""
        for chunk, end in self._chunks_before(lookup_id):
            for index in range(end - 1, -1, -1):
                if chunk.states[index] != _DELETED:
                    yield chunk, index

    def next_available(self, lookup_id: int) -> tuple[_Chunk, int] | None:
        """The usual read. Chunks know how many available messages they hold, so locked runs cost little."""
        chunks, firsts = self.chunks, self.firsts
        place = bisect_right(firsts, lookup_id) - 1
        if place >= 0:  # it stands in this chunk, or behind its last one
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

    def available_run(self, lookup_id: int, most: int) -> list[Entry]:
        """Up to ``most`` available places behind ``lookup_id``, ascending."""
        found: list[Entry] = []
        for chunk, start in self._chunks_after(lookup_id):
            if not chunk.available:
                continue
            find, index = chunk.states.find, start - 1
            ids, addresses, sizes, marks = chunk.ids, chunk.addresses, chunk.sizes, chunk.marks
            while (index := find(_FREE, index + 1)) >= 0:
                entry = (ids[index], addresses[index], sizes[index], _AVAILABLE, marks[index])
                found.append(_new_entry(entry))
                if len(found) == most:
                    return found
        return found

    def available_stretch(self, lookup_id: int, most: int) -> Stretch | None:
        """Up to ``most`` neighbours, the first of them the first available one behind ``lookup_id``."""
        found = self.next_available(lookup_id)
        if found is None:
            return None
        chunk, start = found
        states = chunk.states[start : start + most]
        stop = start + len(states) - len(states.lstrip(_FREE_BYTE))
        part = slice(start, stop)
        return Stretch(chunk.ids[part], chunk.addresses[part], chunk.sizes[part], chunk.marks[part])

    def neighbours(self, ids: array[int], start: int) -> tuple[_Chunk, int, int] | None:
        """The chunk of the place ``ids[start]``, where it stands there, and how many of those that follow in ``ids``
        stand right behind it; None when they are not the next ones there, or one of them is gone."""
        place = bisect_right(self.firsts, ids[start]) - 1
        if place < 0:
            return None
        chunk = self.chunks[place]
        there = chunk.ids
        index = bisect_left(there, ids[start])
        last = there[-1]
        count = bisect_right(ids, last, start) - start
        part = slice(index, index + count)
        if not count or there[part] != ids[start : start + count] or _GONE in chunk.states[part]:
            return None
        return chunk, index, count

    def previous_available(self, lookup_id: int) -> tuple[_Chunk, int] | None:
        for chunk, end in self._chunks_before(lookup_id):
            if chunk.available and (index := chunk.states.rfind(_AVAILABLE, 0, end)) >= 0:
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

    def _lane(self, top: int) -> _Lane:
        """A lane for a priority that had none yet."""
        lane = self._lanes[top] = _Lane(top)
        self._ordered = sorted(self._lanes.values(), key=lambda each: each.top)
        return lane

    def add(
        self,
        lookup_id: int,
        address: int,
        size: int,
        state: PositionState = PositionState.AVAILABLE,
        marks: int = 0,
    ) -> None:
        lane = self._lanes.get(lookup_id >> 56)
        if lane is None:
            lane = self._lane(lookup_id >> 56)
        chunk = lane.chunks[-1] if lane.chunks else None
        if chunk is not None and len(ids := chunk.ids) < CHUNK and lookup_id > ids[-1]:  # the usual case
            ids.append(lookup_id)
            chunk.addresses.append(address)
            chunk.sizes.append(size)
            chunk.states.append(state)
            chunk.marks.append(marks)
            chunk.live += 1
            if not state:
                chunk.available += 1
        else:
            lane.add(lookup_id, address, size, state, marks)
        self.count += 1
        self.total_bytes += size

    def add_run(self, ids: Sequence[int], addresses: Sequence[int], sizes: Sequence[int], marks: int) -> None:
        """Enter available places of one priority behind all that are there, in ascending order."""
        top = ids[0] >> 56
        lane = self._lanes.get(top) or self._lane(top)
        done, count = 0, len(ids)
        while done < count:
            chunk = lane.chunks[-1] if lane.chunks else None
            if chunk is None or len(chunk.ids) >= CHUNK:
                chunk = lane.extend(ids[done])
            upto = min(done + CHUNK - len(chunk.ids), count)
            chunk.ids.extend(ids[done:upto])
            chunk.addresses.extend(addresses[done:upto])
            chunk.sizes.extend(sizes[done:upto])
            chunk.states.extend(bytes(upto - done))
            chunk.marks.extend(bytes((marks,)) * (upto - done))
            chunk.live += upto - done
            chunk.available += upto - done
            done = upto
        self.count += count
        self.total_bytes += sum(sizes)

    def load(self, ids: array[int], addresses: array[int], sizes: array[int], marks: bytearray) -> int:
        """Enter available places of one priority, which had none yet, in ascending order. Gives the bytes they
        hold."""
        top = ids[0] >> 56
        assert top not in self._lanes, "this priority has places already"
        lane = self._lane(top)
        for start in range(0, len(ids), CHUNK):
            chunk = _Chunk()
            chunk.ids = ids[start : start + CHUNK]
            chunk.addresses = addresses[start : start + CHUNK]
            chunk.sizes = sizes[start : start + CHUNK]
            chunk.marks = marks[start : start + CHUNK]
            chunk.live = chunk.available = len(chunk.ids)
            chunk.states = bytearray(chunk.live)
            lane.chunks.append(chunk)
            lane.firsts.append(chunk.ids[0])
        size = sum(sizes)
        self.count += len(ids)
        self.total_bytes += size
        return size

    def _find(self, lookup_id: int) -> tuple[_Lane, _Chunk, int] | None:
        lane = self._lanes.get(lookup_id >> 56)
        found = lane.find(lookup_id) if lane is not None else None
        return None if lane is None or found is None else (lane, *found)

    def get(self, lookup_id: int) -> Entry | None:
        """The place with this identifier, unless it is empty or its message was deleted."""
        lane = self._lanes.get(lookup_id >> 56)
        found = lane.find(lookup_id) if lane is not None else None
        return None if found is None else _entry(*found)

    def set_state(self, lookup_id: int, state: PositionState) -> None:
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        _, chunk, index = found
        chunk.available += (not state) - (not chunk.states[index])
        chunk.states[index] = state

    def mark(self, lookup_id: int, mark: PositionMark) -> None:
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        found[1].marks[found[2]] |= mark

    def set_address(self, lookup_id: int, address: int) -> None:
        """The store has put the message elsewhere."""
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        found[1].addresses[found[2]] = address

    def remove(self, lookup_id: int) -> Entry:
        found = self._find(lookup_id)
        assert found is not None, f"{lookup_id:#x} is not in the list"
        lane, chunk, index = found
        entry = _entry(chunk, index)
        chunk.available -= not chunk.states[index]
        chunk.states[index] = _GONE
        chunk.live -= 1
        if not chunk.live:
            lane.discard(chunk)
        self.count -= 1
        self.total_bytes -= entry.size
        return entry

    def next_available(self, lookup_id: int) -> Entry | None:
        """The first available place behind ``lookup_id``, which may be START or a place that is empty now."""
        top = lookup_id >> 56
        for lane in self._ordered:
            if lane.top >= top and lane.chunks and (found := lane.next_available(lookup_id)) is not None:
                return _entry(*found)
        return None

    def available_run(self, lookup_id: int, most: int) -> list[Entry]:
        """Up to ``most`` available places behind ``lookup_id``, in order."""
        top, found = lookup_id >> 56, list[Entry]()
        for lane in self._ordered:
            if len(found) >= most:
                break
            if lane.top >= top and lane.chunks:
                found += lane.available_run(lookup_id, most - len(found))
        return found

    def plain_run(self, most: int, most_bytes: int) -> Run:
        """Up to ``most`` available places from the front, as long as they are plain, and no more when they have
        ``most_bytes``; none when the first one is not plain."""
        run = _no_places()
        for lane in self._ordered:
            for chunk in lane.chunks:
                start = chunk.states.find(_FREE) if chunk.available else -1
                while start >= 0:
                    count = chunk.plain_places(start, most - len(run.lookup_ids))
                    if not count:
                        return run
                    sums = list(accumulate(chunk.sizes[start : start + count]))
                    enough = bisect_left(sums, most_bytes) + 1
                    _extend(run, chunk, start, start + min(count, enough))
                    if enough <= count:
                        return run
                    most_bytes -= sums[-1]
                    start = chunk.states.find(_FREE, start + count)
        return run

    def locked_run(self, lookup_ids: array[int]) -> Run | None:
        """The places of these messages, if all of them are there, locked and plain."""
        run, done = _no_places(), 0
        while done < len(lookup_ids):
            found = self._find(lookup_ids[done])
            if found is None:
                return None
            _, chunk, start = found
            count = chunk.plain_places(start, len(lookup_ids) - done)
            if not count or chunk.states[start] != _HELD:
                return None
            wanted, there = lookup_ids[done : done + count], chunk.ids[start : start + count]
            if wanted != there:  # some of those between are not meant
                count = next(index for index in range(count) if wanted[index] != there[index])
            _extend(run, chunk, start, start + count)
            done += count
        return run

    def lock_run(self, run: Run) -> None:
        for chunk, start, end in run.spans:
            chunk.set_states(start, end, _HELD)

    def remove_run(self, run: Run) -> int:
        """Take places away; gives the bytes they held."""
        for chunk, start, end in run.spans:
            chunk.set_states(start, end, _GONE)
            chunk.live -= end - start
            if not chunk.live:
                self._lanes[chunk.ids[0] >> 56].discard(chunk)
        size = sum(run.sizes)
        self.count -= len(run.lookup_ids)
        self.total_bytes -= size
        return size

    def available_stretch(self, lookup_id: int, most: int) -> Stretch | None:
        """Up to ``most`` neighbours that are available, from the first one behind ``lookup_id`` on, if there is one."""
        top = lookup_id >> 56
        for lane in self._ordered:
            if lane.top >= top and lane.chunks:
                found = lane.available_stretch(lookup_id, most)
                if found is not None:
                    return found
        return None

    def _neighbours(self, ids: array[int]) -> Iterator[tuple[_Lane, _Chunk, int, int]]:
        """The places of messages, whatever of them is there, as chunk, index and count of neighbours. In the order of
        the list they are found many at a time. What was given last may be removed before going on."""
        start = 0
        while start < len(ids):
            lane = self._lanes.get(ids[start] >> 56)
            many = None if lane is None else lane.neighbours(ids, start)
            if lane is not None and many is not None:
                yield (lane, *many)
                start += many[2]
                continue
            one = self._find(ids[start])
            if one is not None:
                yield (*one, 1)
            start += 1

    def standing(self, ids: array[int]) -> Stretch:
        """What there is of these messages."""
        found = Stretch(array("Q"), array("Q"), array("I"), bytearray())
        for _, chunk, index, count in self._neighbours(ids):
            part = slice(index, index + count)
            found.ids.extend(chunk.ids[part])
            found.addresses.extend(chunk.addresses[part])
            found.sizes.extend(chunk.sizes[part])
            found.marks.extend(chunk.marks[part])
        return found

    def set_states(self, ids: array[int], state: PositionState) -> None:
        """As :meth:`set_state`, for many."""
        for _, chunk, index, count in self._neighbours(ids):
            part = slice(index, index + count)
            chunk.available += (not state) * count - chunk.states.count(_FREE, index, index + count)
            chunk.states[part] = bytes((state,)) * count

    def remove_all(self, ids: array[int]) -> int:
        """As :meth:`remove`, for many messages, whatever of them is there; gives the bytes they held."""
        size = 0
        for lane, chunk, index, count in self._neighbours(ids):
            part = slice(index, index + count)
            chunk.available -= chunk.states.count(_FREE, index, index + count)
            chunk.states[part] = _GONE_BYTE * count
            chunk.live -= count
            size += sum(chunk.sizes[part])
            if not chunk.live:
                lane.discard(chunk)
            self.count -= count
        self.total_bytes -= size
        return size

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


def _no_places() -> Run:
    return Run(array("Q"), array("Q"), array("I"), [])


def _extend(run: Run, chunk: _Chunk, start: int, end: int) -> None:
    run.lookup_ids.extend(chunk.ids[start:end])
    run.addresses.extend(chunk.addresses[start:end])
    run.sizes.extend(chunk.sizes[start:end])
    run.spans.append((chunk, start, end))
