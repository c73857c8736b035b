"""Segments and batches as the running store uses them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from msmq.store.checksum import crc32
from msmq.store.disk import DiskFile
from msmq.store.layout import (
    BATCH_HEADER_SIZE,
    INDEX_MARKER,
    LARGE,
    LEAD,
    OFFSET_BITS,
    RECORD_SIZE,
    ROW,
    BatchHeader,
    Trailer,
    pack_batch_header,
    pack_rows,
    pack_trailer,
    segment_name,
    zero_sectors,
)
from msmq.wire.pieces import gathered


@dataclass(slots=True)
class Segment:
    """One file of the log, with counts of what is live in it."""

    number: int
    size: int
    """The size of the file, with its preallocated part."""
    end: int = 0
    """Where the last batch ends."""
    first_sequence: int = 0
    next_sequence: int = 0
    standing_records: int = 0
    standing_bytes: int = 0
    released_records: int = 0
    released_bytes: int = 0
    barrier: int = 0
    """The batch that must be durable before the segment may be deleted: it holds the records that made the ones here
    dead."""
    rows: list[bytes] = field(default_factory=list)
    """The rows of the index, until it is on disk."""
    file: DiskFile | None = None
    """The open file, as long as the segment is written to."""
    closed: bool = False
    """True once no write to this segment is to come or under way."""

    @property
    def name(self) -> str:
        return segment_name(self.number)

    @property
    def base(self) -> int:
        return self.number << OFFSET_BITS

    @property
    def live_records(self) -> int:
        return self.standing_records - self.released_records

    @property
    def live_bytes(self) -> int:
        return self.standing_bytes - self.released_bytes

    @property
    def dead_bytes(self) -> int:
        """The dead bytes of records; batch headers are not counted, because copies would need them again."""
        batches = self.next_sequence - self.first_sequence
        return self.end - batches * BATCH_HEADER_SIZE - self.live_bytes

    def writable(self) -> DiskFile:
        assert self.file is not None, f"{self.name} is not open for writing"
        return self.file

    def seal(self, store_id: bytes) -> None:
        """Write the index after the batches, which must be durable, and end the file there.

        Nothing depends on the index; without it the segment is scanned at the next start. So it is not
        synced.
        """
        index = b"".join((INDEX_MARKER, *self.rows))
        trailer = Trailer(
            self.number,
            (len(index) - len(INDEX_MARKER)) // ROW.size,
            self.end,
            self.first_sequence,
            self.next_sequence,
            self.standing_bytes,
            self.standing_records,
            crc32(index),
        )
        data = index + pack_trailer(store_id, trailer)
        size = self.end + len(data)
        file = self.writable()
        file.allocate(size)
        file.pwrite(data, self.end)
        file.truncate(size)
        self.size = size
        self.rows.clear()


@dataclass(slots=True)
class Chunk:
    """The part of a commit that lies in one segment: a batch on disk."""

    segment: Segment
    start: int
    parts: list[bytes] = field(default_factory=list)
    """For each record its header with the beginning of the payload, the rest of the payload, and padding; for a block
    the block and two empty pieces."""
    data: list[bytes] = field(default_factory=list)
    """The whole batch in consecutive pieces, once it is complete."""
    addresses: list[int] = field(default_factory=list)
    """The addresses of records and blocks."""
    blocks: dict[int, bytes] = field(default_factory=dict)
    """The indices of the blocks among them, and the rows of their records."""
    further: int = 0
    """The records in blocks, except the first of each block."""
    passing_records: int = 0
    passing_bytes: int = 0
    sequence: int = 0
    continued: bool = False
    """True if it is kept only together with the following one."""
    seals: bool = False
    """True if nothing more will be written to the segment."""

    @property
    def records(self) -> int:
        return len(self.addresses) + self.further

    @property
    def size(self) -> int:
        """The bytes to write, once it is complete."""
        return sum(map(len, self.data))

    def add_block(self, block: bytes, rows: bytes, address: int) -> None:
        self.blocks[len(self.addresses)] = rows
        self.addresses.append(address)
        self.parts += (block, b"", b"")
        self.further += len(rows) // ROW.size - 1

    def close(self, store_id: bytes, sequence: int, end: int, *, continued: bool) -> None:
        """Complete the batch; ``end`` is where its last record ends."""
        segment = self.segment
        self.sequence, self.continued = sequence, continued
        count = self.records
        pieces = gathered(self.parts, LARGE)
        zeros = len(zero_sectors(pieces, self.start + BATCH_HEADER_SIZE))
        header = BatchHeader(end - self.start, sequence, segment.base | self.start, count, continued, zeros)
        self.data = [pack_batch_header(store_id, header), *pieces]
        segment.rows += self._rows()
        segment.end = end
        segment.first_sequence = segment.first_sequence or sequence
        segment.next_sequence = sequence + 1
        segment.standing_records += count - self.passing_records
        segment.standing_bytes += end - self.start - BATCH_HEADER_SIZE - self.passing_bytes

    def _rows(self) -> Iterator[bytes]:
        """Yield the rows of the index, in the order of the records."""
        begin = 0
        for index, rows in self.blocks.items():
            yield self._single_rows(begin, index)
            yield rows
            begin = index + 1
        yield self._single_rows(begin, len(self.addresses))

    def _single_rows(self, begin: int, end: int) -> bytes:
        pieces = self.parts[3 * begin : 3 * end : 3]
        if not pieces:
            return b""
        sizes = [size for size, _, _ in map(LEAD.unpack_from, pieces)]
        return pack_rows(pieces, self.addresses[begin:end], sizes)

    def payload(self, address: int) -> tuple[bytes, bytes] | None:
        """Return the payload of a record of this chunk, in two parts."""
        index = bisect_right(self.addresses, address) - 1
        if index < 0:
            return None
        offset = address - self.addresses[index]
        piece, rest, _ = self.parts[3 * index : 3 * index + 3]
        if index not in self.blocks:
            return None if offset else (piece[RECORD_SIZE:], rest)
        if offset >= len(piece):
            return None
        payload_size: int = LEAD.unpack_from(piece, offset)[0]
        return b"", piece[offset + RECORD_SIZE : offset + RECORD_SIZE + payload_size]

    def block(self, address: int) -> tuple[int, bytes] | None:
        """Return the block of this chunk that holds a record, and the address where the block begins."""
        index = bisect_right(self.addresses, address) - 1
        if index < 0:
            return None
        start, piece = self.addresses[index], self.parts[3 * index]
        return (start, piece) if index in self.blocks and start + len(piece) > address else None

    def touches(self, first: int, last: int) -> bool:
        """True if any of its records may lie between two addresses."""
        addresses, further = self.addresses, len(self.parts[-3]) if self.parts else 0
        return bool(addresses) and addresses[0] <= last and first < addresses[-1] + further


@dataclass(slots=True)
class Batch:
    """What one commit makes durable: usually one chunk, more if segments ended within it."""

    chunks: list[Chunk]
    lsn: int
    """The value of ``Store.durable`` after this batch."""

    @property
    def size(self) -> int:
        """The bytes to write."""
        return sum(chunk.size for chunk in self.chunks)

    @property
    def records(self) -> int:
        return sum(chunk.records for chunk in self.chunks)
