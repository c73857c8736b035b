"""Read the segments of a store that nobody has open, each without the others: for programs that divide a store among
many workers. Nothing is changed.

:func:`segments` looks at the directory once and collects what is needed to read each segment alone. A worker then reads
the index of a sealed segment, or all of an unsealed one, and fetches only the payloads that are wanted; it holds one
segment's index and one payload at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from io import SEEK_END
from pathlib import Path
from typing import BinaryIO, NamedTuple

from msmq.store.checksum import crc32
from msmq.store.disk import RealDisk
from msmq.store.inspection import inspect
from msmq.store.layout import (
    LEAD,
    OFFSET_MASK,
    RECORD_SIZE,
    ROW,
    TRAILER_SIZE,
    Trailer,
    parse_trailer,
    segment_name,
    segment_number,
    segment_seed,
)
from msmq.store.scan import UNKNOWN, Damage, index_rows, scan


class SegmentFile(NamedTuple):
    """One segment, with what its neighbours tell about it."""

    directory: str
    store_id: bytes
    number: int
    following: int | None
    """The sequence number of the first batch after it, as :func:`msmq.store.scan.scan` needs it."""
    size: int

    @property
    def path(self) -> Path:
        return Path(self.directory) / segment_name(self.number)


class Record(NamedTuple):
    """A record whose checksum was verified. ``payload`` is None if it was not asked for."""

    kind: int
    head: bytes
    address: int
    payload: bytes | None


def segments(directory: str | Path) -> list[SegmentFile]:
    """List the segments of a store, oldest first.

    Raises:
        NotAStoreError: it is none.
        StoreLockedError: a queue manager runs on it.
    """
    found = inspect(RealDisk(directory, create=False))
    made: list[SegmentFile] = []
    following: int | None = None
    for info in reversed(found.segments):
        number = segment_number(info.name)
        assert number is not None
        made.append(SegmentFile(str(directory), found.store_id, number, following, info.file_bytes))
        if info.first_sequence is not None:
            following = info.first_sequence
        elif info.records:
            following = UNKNOWN
    return made[::-1]


def records(
    segment: SegmentFile, kinds: Collection[int], *, with_payload: Callable[[int], bool] = lambda kind: True
) -> Iterator[Record | Damage]:
    """Yield the records of some kinds in order, and the damage. ``with_payload`` tells for a kind whether its payloads
    are wanted; if the segment has a sound index, only those are read and verified."""
    with segment.path.open("rb", buffering=1 << 20) as file:
        trailer = _trailer(file, segment)
        rows: bytes | None = None
        if trailer is not None:
            file.seek(trailer.data_end)
            rows = index_rows(file.read(trailer.index_size), trailer)
        if rows is None:
            file.seek(0)
            end = segment.size if trailer is None else trailer.data_end
            following = segment.following if trailer is None else trailer.next_sequence
            whole = scan(file.read(end), segment.store_id, segment.number, following)
            yield from whole.damaged
            rows = bytes(whole.rows)
        seed = segment_seed(segment.store_id, segment.number)
        for kind, _, head, address, size in ROW.iter_unpack(rows):
            if kind not in kinds:
                continue
            if not with_payload(kind):
                yield Record(kind, head, address, None)
                continue
            offset = address & OFFSET_MASK
            file.seek(offset)
            data = file.read(RECORD_SIZE + size)
            if _is_sound(data, size, offset, seed):
                yield Record(kind, head, address, data[RECORD_SIZE:])
            else:
                reason = "a record does not have its checksum"
                yield Damage(segment.path.name, offset, RECORD_SIZE + size, reason)


def _trailer(file: BinaryIO, segment: SegmentFile) -> Trailer | None:
    size = file.seek(0, SEEK_END)
    file.seek(max(0, size - TRAILER_SIZE))
    return parse_trailer(file.read(TRAILER_SIZE), segment.store_id, segment.number, size)


def _is_sound(data: bytes, size: int, offset: int, seed: int) -> bool:
    if len(data) != RECORD_SIZE + size:
        return False
    claimed, crc, marks = LEAD.unpack_from(data)
    return bool(claimed == size and crc32(data[LEAD.size :], seed ^ offset ^ marks) == crc)
