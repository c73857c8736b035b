"""Read payloads back: from memory while a record waits to be written, from its segment afterwards."""

from __future__ import annotations

import errno
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from operator import le
from typing import Final

from msmq.store.checksum import crc32
from msmq.store.errors import DamagedRecordError
from msmq.store.layout import HEAD_SIZE, LARGE, LEAD, OFFSET_MASK, RECORD_SIZE, footprint, place, segment_seed
from msmq.store.segment import Chunk, Segment
from msmq.store.space import Space
from msmq.wire.columns import picker

_LIKELY_PAYLOAD: Final = 4096
_READ_AHEAD: Final = 1 << 18
_RECENT_BYTES: Final = 1 << 25
_NEAR: Final = 8192
_WIDEST_GLIMPSE: Final = 1 << 22
_read_lead: Final = LEAD.unpack_from
_LEAD_SIZE: Final = LEAD.size
_ENDS: Final = "the file ends within the record, or the disk cannot read it"
_WRONG: Final = "the record does not have its checksum"
_OTHER_SIZE: Final = "the record has another size than was asked for"


class Recent:
    """Large payloads that were appended lately and still matter, the newest ones: most messages are sent on or received
    at once, and these need not be read and checked for it."""

    def __init__(self) -> None:
        self._payloads: dict[int, tuple[bytes, bytes]] = {}
        self._size = 0

    def keep(self, address: int, payload: tuple[bytes, bytes]) -> None:
        self._payloads[address] = payload
        self._size += sum(map(len, payload))
        while self._size > _RECENT_BYTES:
            self.forget((next(iter(self._payloads)),))

    def forget(self, addresses: Sequence[int]) -> None:
        for address in addresses if self._payloads else ():
            self._size -= sum(map(len, self._payloads.pop(address, ())))

    def find(self, address: int) -> tuple[bytes, bytes] | None:
        return self._payloads.get(address)


class Reader:
    """Reads payloads. ``chunks`` returns those whose records are not on disk yet, the oldest first."""

    def __init__(self, space: Space, store_id: bytes, chunks: Callable[[], Sequence[Chunk]]) -> None:
        self.recent = Recent()
        self._space = space
        self._store_id = store_id
        self._chunks = chunks

    def _waiting(self, address: int) -> tuple[bytes, bytes] | None:
        """Return the payload of a record that is not on disk yet, in two parts; None for all others."""
        for chunk in self._chunks():
            payload = chunk.payload(address)
            if payload is not None:
                return payload
        return None

    def _block(self, address: int) -> tuple[int, bytes] | None:
        """Return the block that holds a record which is not on disk yet, and the address where the block begins."""
        for chunk in self._chunks():
            found = chunk.block(address)
            if found is not None:
                return found
        return None

    def _frontier(self) -> int:
        """Return the address before which all records are on disk."""
        chunk = self._chunks()[0]
        return chunk.segment.base | chunk.start

    def forget(self, addresses: Sequence[int], payload_sizes: Sequence[int]) -> None:
        """Give back the memory that large payloads take, here and in the system, which would keep what it has written
        until the segment is deleted, and take ever more memory for what it writes next."""
        self.recent.forget(addresses)
        frontier = self._frontier()
        for address, size in zip(addresses, payload_sizes, strict=True):
            if size >= LARGE and address < frontier:
                number, offset = place(address)
                with suppress(OSError):  # there may be no descriptor left, and nothing depends on it
                    self._space.reader(self._space.segments[number]).uncache(offset, footprint(size))

    def read(self, address: int, payload_size: int | None) -> bytes:
        waiting = self._waiting(address)
        if waiting is not None:
            payload = b"".join(waiting)
            if payload_size not in (None, len(payload)):
                raise self._damaged(address, _OTHER_SIZE)
            return payload
        number, offset = place(address)
        segment = self._space.segments[number]
        length = RECORD_SIZE + (_LIKELY_PAYLOAD if payload_size is None else payload_size)
        data = self._pread(segment, length, offset)
        if payload_size is None:
            # If nothing came, it may be a neighbour that cannot be read.
            payload_size = self._size(segment, offset, data) if data else self.payload_size(address)
            if payload_size > _LIKELY_PAYLOAD or not data:
                data = self._pread(segment, RECORD_SIZE + payload_size, offset)
        return self._payload(data, address, payload_size, segment_seed(self._store_id, number))

    def read_many(
        self, records: Sequence[tuple[int, int]], cuts: Sequence[int]
    ) -> tuple[list[bytes], list[bytes]]:
        """Read payloads in the order in which they are stored, so that those which lie together are read together."""
        if all(map(le, records, islice(records, 1, None))):
            return self._read_ascending(records, cuts)
        order = sorted(range(len(records)), key=records.__getitem__)
        pick = picker(order)
        beginnings, rests = [b""] * len(order), [b""] * len(order)
        for at, beginning, rest in zip(order, *self._read_ascending(pick(records), pick(cuts)), strict=True):
            beginnings[at], rests[at] = beginning, rest
        return beginnings, rests

    def _read_ascending(
        self, records: Sequence[tuple[int, int]], cuts: Sequence[int]
    ) -> tuple[list[bytes], list[bytes]]:
        beginnings: list[bytes] = []
        rests: list[bytes] = []
        checksum, read_lead = crc32, _read_lead
        frontier = self._frontier()
        window, seed = b"", 0
        window_start = window_end = 0
        in_memory = False
        for (address, size), cut in zip(records, cuts, strict=True):
            end = address + RECORD_SIZE + size
            if address < window_start or end > window_end:
                in_memory = False
                if address >= frontier:
                    block = self._block(address)
                    if block is None:
                        waiting = self._waiting(address)
                        if waiting is not None:
                            beginning, rest = _cut(waiting, cut)
                            if len(beginning) + len(rest) != size:
                                raise self._damaged(address, _OTHER_SIZE)
                            beginnings.append(beginning)
                            rests.append(rest)
                            continue
                    else:
                        in_memory = True
                        window_start, window = block
                        window_end = window_start + len(window)
                if not in_memory and size >= LARGE:
                    beginning, rest = self._read_large(address, size, cut)
                    beginnings.append(beginning)
                    rests.append(rest)
                    continue
                if not in_memory:
                    number, offset = place(address)
                    segment = self._space.segments[number]
                    window_start, window_end = address, self._window_end(records, len(rests), frontier)
                    window = self._pread(segment, window_end - address, offset)
                    if not window:  # it may be a neighbour that cannot be read
                        window_end = end
                        window = self._pread(segment, end - address, offset)
                    seed = segment_seed(self._store_id, number)
            # The same as in _payload, but inline: head and payload are adjacent and have one checksum.
            start = address - window_start
            stop = start + RECORD_SIZE + size
            if len(window) < stop:
                raise self._damaged(address, _ENDS)
            stated, crc, marks = read_lead(window, start)
            middle = start + RECORD_SIZE + cut
            front, rest = window[start + _LEAD_SIZE : middle], window[middle:stop]
            if stated != size or not (
                in_memory or crc == checksum(rest, checksum(front, seed ^ address & OFFSET_MASK ^ marks))
            ):
                raise self._damaged(address, _WRONG)
            beginnings.append(front[HEAD_SIZE:])
            rests.append(rest)
        return beginnings, rests

    def _read_large(self, address: int, size: int, cut: int) -> tuple[bytes, bytes]:
        """Read the payload of a record on disk as the two pieces in which it is returned."""
        recent = self.recent.find(address)
        if recent is not None and sum(map(len, recent)) == size:
            return _cut(recent, cut)
        number, offset = place(address)
        segment = self._space.segments[number]
        front = self._pread(segment, RECORD_SIZE + cut, offset)
        rest = self._pread(segment, size - cut, offset + RECORD_SIZE + cut)
        if len(front) + len(rest) < RECORD_SIZE + size:
            raise self._damaged(address, _ENDS)
        stated, crc, marks = _read_lead(front)
        seed = segment_seed(self._store_id, number) ^ offset ^ marks
        if stated != size or crc32(rest, crc32(front[_LEAD_SIZE:], seed)) != crc:
            raise self._damaged(address, _WRONG)
        return front[RECORD_SIZE:], rest

    def glimpse(self, first: int, last: int, last_size: int) -> bytes | None:
        """Return the bytes from one record to the end of another as they are on disk, neither divided nor verified.
        None if they are not all there, cannot be read, or are too far apart."""
        number, offset = place(first)
        last_number, last_offset = place(last)
        end = last_offset + RECORD_SIZE + last_size
        if number != last_number or not 0 < end - offset <= _WIDEST_GLIMPSE or last >= self._frontier():
            return None
        return self._pread(self._space.segments[number], end - offset, offset) or None

    def beginning(self, address: int, size: int) -> bytes:
        waiting = self._waiting(address)
        if waiting is not None:
            front, rest = waiting
            return (front + rest[:size])[:size]
        number, offset = place(address)
        return self._pread(self._space.segments[number], size, offset + RECORD_SIZE)

    def _window_end(self, records: Sequence[tuple[int, int]], index: int, frontier: int) -> int:
        """Return how far to read so that records which follow closely are read too."""
        start, size = records[index]
        end = start + RECORD_SIZE + size
        limit = min(start + _READ_AHEAD, frontier)
        stop = bisect_left(records, (limit,), index + 1)
        while stop > index + 1 and sum(records[stop - 1]) + RECORD_SIZE > limit:
            stop -= 1
        # A window is a guess: a record that is not in it gets another. Usually they are all adjacent.
        last_end = sum(records[stop - 1]) + RECORD_SIZE
        if last_end <= start + 2 * (end - start) * (stop - index):
            return last_end
        for address, size in islice(records, index + 1, stop):
            if not end <= address < end + _NEAR:
                break
            end = address + RECORD_SIZE + size
        return end

    def payload_size(self, address: int) -> int:
        """Return the size that a record claims, unverified, but never more than there is."""
        waiting = self._waiting(address)
        if waiting is not None:
            return sum(map(len, waiting))
        number, offset = place(address)
        segment = self._space.segments[number]
        return self._size(segment, offset, self._pread(segment, LEAD.size, offset))

    def _pread(self, segment: Segment, length: int, offset: int) -> bytes:
        """Read from a segment. Nothing comes of a place that the disk cannot read, so that what lies there counts as
        damaged; any other error is not about this place, and is raised."""
        try:
            return self._space.reader(segment).pread(length, offset)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""

    def _size(self, segment: Segment, offset: int, data: bytes) -> int:
        return min(int.from_bytes(data[:4], "little"), max(0, segment.end - offset - RECORD_SIZE))

    def _payload(self, data: bytes, address: int, payload_size: int, seed: int) -> bytes:
        """Return the payload of the record with which the data begin, if it is sound."""
        if len(data) < RECORD_SIZE + payload_size:
            raise self._damaged(address, _ENDS)
        size, crc, marks = LEAD.unpack_from(data)
        payload = data[RECORD_SIZE : RECORD_SIZE + payload_size]
        seed ^= address & OFFSET_MASK ^ marks
        if size != payload_size or crc32(payload, crc32(data[LEAD.size : RECORD_SIZE], seed)) != crc:
            raise self._damaged(address, _WRONG)
        return payload

    def _damaged(self, address: int, reason: str) -> DamagedRecordError:
        number, offset = place(address)
        return DamagedRecordError(self._space.segments[number].name, offset, reason)


def _cut(parts: tuple[bytes, bytes], cut: int) -> tuple[bytes, bytes]:
    """Two parts of a payload as two others; as a rule they are the same."""
    if len(parts[0]) == cut:
        return parts
    payload = b"".join(parts)
    return payload[:cut], payload[cut:]
