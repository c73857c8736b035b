"""The durable log of the queue manager.

How it works ------------ The caller changes its memory and *appends* records that say what it changed; a record is a
kind, a few flags, a head of fixed size and a payload, none of which the store understands. Appended records gather in a
batch until a *commit* writes it in one piece and syncs it, so one sync serves everyone who appended meanwhile. A batch
survives a crash whole or not at all. Nobody may be told about a record before ``durable`` has reached its number.

A record has an address from the moment it is appended, and its payload can be read at once, from memory until the batch
is on disk. After a restart :meth:`Store.recover` yields kind, flags, head and address of every record in the order in
which they were appended, without reading payloads.

The caller *releases* records that no longer matter. Segments without live records are deleted, oldest first,
and when too much of the log is dead, :meth:`Store.clean_step` copies what is live in the oldest segment to
the end of the log. See :mod:`msmq.store.layout` for the bytes, :mod:`msmq.store.scan` for torn tails and
damage, :mod:`msmq.store.space` for full disks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Final

from msmq.errors import EncodeError
from msmq.store.block import block_rows, build_block
from msmq.store.checksum import crc32
from msmq.store.clean import Cleaner, Owner
from msmq.store.disk import Disk, DiskFile
from msmq.store.errors import (
    StoreError,
    StoreFailedError,
    StoreFullError,
)
from msmq.store.identity import read_store_id, write_store_id
from msmq.store.layout import (
    BATCH_HEADER_SIZE,
    HEAD_SIZE,
    ID_SIZE,
    LARGE,
    LARGEST_PAYLOAD,
    LOCK_FILE,
    OFFSET_BITS,
    PASSING,
    RECORD,
    RECORD_SIZE,
    ROW,
    Entry,
    footprint,
    footprints,
    segment_seed,
)
from msmq.store.payloads import Reader
from msmq.store.recovery import Recovery, RecoveryReport
from msmq.store.segment import Batch, Chunk, Segment
from msmq.store.space import NO_SPACE_ERRORS, Space, StoreOptions

_pack_record: Final = RECORD.pack
_PADDING: Final = tuple(bytes(length) for length in range(8))
_LARGEST_FRAME: Final = footprint(7)
_NO_ROOM: Final = -1
_FREED_PER_COMMIT: Final = 2
_COMPACT_BYTES: Final = 1 << 22


class Store:
    """An open store. One thread uses it; only :meth:`write` may run in another one, one batch at a time.

    On a remote disk several batches may be under way: they are :meth:`put` and :meth:`completed` in the order in which
    they were taken.
    """

    def __init__(self, disk: Disk, options: StoreOptions, store_id: bytes) -> None:
        self._disk = disk
        self._store_id = store_id
        self._space = Space(disk, options)
        self._reader = Reader(self._space, store_id, self._unwritten)
        self._cleaner = Cleaner(self, self._space, store_id)
        self._unusable: Exception | None = StoreError(f"{disk.where} was not recovered yet.")
        self.report = RecoveryReport()
        """The results of :meth:`recover`; complete when it has ended."""
        self.refused = 0
        """How often there was no room for records; ``refusal`` is the text of the last error."""
        self.refusal = ""
        # The open batch. Offsets are in the active segment; a limit of -1 sends every call the slow way.
        self._chunk = Chunk(Segment(0, 0), 0)
        self._parts, self._addresses = self._chunk.parts, self._chunk.addresses
        self._tail = self._full_at = 0
        self._limit = self._reserve_limit = _NO_ROOM
        self._base = 0
        self._seed = 0
        # What was appended before the open batch.
        self._ready: list[Chunk] = []
        self._in_flight: list[Batch] = []
        """Batches that were taken and are not durable yet, oldest first."""
        self._next_sequence = 1
        self._durable_sequence = 0
        self._appended = 0
        self._durable = 0

    # --- opening and closing --------------------------------------------------------------------------------

    @classmethod
    def open(cls, disk: Disk, options: StoreOptions | None = None, *, new_id: bytes | None = None) -> Store:
        """Lock the store on ``disk``; an empty disk becomes a new store. :meth:`recover` must be called next.

        ``new_id`` is the identifier of a new store, 16 random bytes if it is not given.
        """
        disk.lock(LOCK_FILE)
        try:
            store_id = read_store_id(disk) or write_store_id(disk, new_id or os.urandom(ID_SIZE))
            return cls(disk, options or StoreOptions(), store_id)
        except BaseException:
            disk.unlock()
            raise

    def recover(self) -> Iterator[Entry]:
        """Yield every record as (kind, flags, head, address, payload size), in the order in which they were appended.
        Nothing can be appended before this has ended.

        A record that was being copied by :meth:`clean_step` may come twice; the second one counts, and the first must
        be released. Records may be read and released while this runs.
        """
        for rows in self.recover_rows():
            yield from ROW.iter_unpack(rows)

    def recover_rows(self) -> Iterator[bytes]:
        """Like :meth:`recover`, but yields the index rows of one segment at a time: kind, flags, two bytes of the
        store's own, head, address (8 bytes), payload size (4 bytes)."""
        recovery = Recovery(self._space, self._store_id)
        self.report = recovery.report
        with self._failing():
            yield from recovery.run()
            self._space.start()
        self._next_sequence = recovery.next_sequence
        self._durable_sequence = recovery.next_sequence - 1
        self._unusable = None
        self._begin_chunk()

    def close(self) -> None:
        """Commit what is pending, seal the log and unlock the store. No batch may be in flight."""
        assert not self._in_flight or self._unusable, "a batch is still being written"
        try:
            if self._unusable is None:
                self.commit()
                with self._failing():
                    self._end_log()
        finally:
            self._refuse(StoreError(f"{self._disk.where} is closed."))
            self._space.close()
            self._disk.unlock()

    def abandon(self, why: StoreError) -> None:
        """Give up what is not durable; after this the store can only be closed."""
        self._refuse(why)

    def _end_log(self) -> None:
        active, spare = self._space.active, self._space.spare
        if spare is not None:
            self._space.discard(spare)
            self._space.spare = None
        if active is not None and active.end:
            self._seal(active)
            active.writable().fdatasync()
        elif active is not None:
            self._space.discard(active)

    # --- appending ------------------------------------------------------------------------------------------

    def reserve(self, size: int, records: int = 1, *, freeing: bool = False) -> None:
        """Make sure that ``records`` records with ``size`` bytes of payload together can be appended next.

        Raises StoreFullError otherwise; then nothing has changed. With ``freeing``, for records which say that others
        are gone, the spare segment may be used up too.

        It also divides commits: records before and after a call may get into different batches, while records without a
        call in between survive together or not at all.
        """
        needed = size + records * _LARGEST_FRAME
        if self._tail > self._full_at:
            self._require_usable()
            self._divide()
        if self._tail + needed > (self._limit if freeing else self._reserve_limit):
            self._require_usable()
            try:
                if not freeing:
                    self._space.ensure_spare()
                    self._set_limits()
                if self._tail + needed > self._limit:
                    self._next_segment(needed, keep_spare=not freeing, continued=False)
            except StoreFullError as error:
                self.refused += 1
                self.refusal = str(error)
                raise

    def append(
        self,
        kind: int,
        head: bytes,
        payload: bytes | tuple[bytes, bytes] = b"",
        *,
        flags: int = 0,
        live: bool = True,
    ) -> int:
        """Put a record into the open batch. Returns its address, which is never 0. A payload may come in two parts, the
        second of which may be large: it is not copied before the batch is made.

        ``live=False`` is for records that matter only as long as something before them exists: that another record is
        dead, or that a transaction has ended. They need not be released.
        """
        beginning, rest = (b"", payload) if isinstance(payload, bytes) else payload
        size = len(beginning) + len(rest)
        length = size + (RECORD_SIZE + 7) & ~7
        offset = self._tail
        if offset + length > self._limit or len(head) != HEAD_SIZE:
            self._make_room(head, size)
            offset = self._tail
        attributes = 0 if live else PASSING
        seed = self._seed ^ offset ^ (kind | flags << 8 | attributes << 16)
        checksum = crc32(rest, crc32(head + beginning, seed))
        header = _pack_record(size, checksum, kind, flags, attributes, head)
        address = self._base | offset
        self._parts += (header + beginning, rest, _PADDING[length - size - RECORD_SIZE])
        self._addresses.append(address)
        if not live:
            self._chunk.passing_records += 1
            self._chunk.passing_bytes += length
        elif len(rest) >= LARGE:
            self._reader.recent.keep(address, (beginning, rest))
        self._tail = offset + length
        return address

    def append_all(
        self, kind: int, fronts: bytes, tails: Sequence[bytes], *, live: bool = True
    ) -> Sequence[int]:
        """Put many records into the open batch, as :meth:`append` does with one. Returns their addresses. ``fronts``
        holds, for each record, the head and the beginning of the payload, with the same length for all; ``tails``
        holds the rest. If there is no room for all of them, StoreFullError is raised and none is in the batch."""
        count = len(tails)
        width = len(fronts) // count
        sizes = list(map((width - HEAD_SIZE).__add__, map(len, tails)))
        if count == 1:
            return [self.append(kind, fronts[:HEAD_SIZE], (fronts[HEAD_SIZE:], tails[0]), live=live)]
        offsets = list(accumulate(map(footprint, sizes), initial=self._tail))
        if offsets[-1] > self._limit:
            self._make_room(fronts[:HEAD_SIZE], *sizes)
            offsets = list(accumulate(map(footprint, sizes), initial=self._tail))
        if not live:
            self._chunk.passing_records += count
            self._chunk.passing_bytes += offsets[-1] - offsets[0]
        marks = kind if live else kind | PASSING << 16
        self._tail = offsets.pop()
        addresses = list(map(self._base.__or__, offsets))
        block = build_block(marks, self._seed, offsets, fronts, tails, sizes)
        self._chunk.add_block(block, block_rows(marks, fronts, sizes, addresses), addresses[0])
        return addresses

    def _make_room(self, head: bytes, *sizes: int) -> None:
        """Go on in the next segment if records with payloads of these sizes do not fit into this one."""
        if len(head) != HEAD_SIZE:
            raise EncodeError(f"the head of a record has {HEAD_SIZE} bytes, not {len(head)}")
        if max(sizes) > LARGEST_PAYLOAD:
            raise EncodeError(f"a record holds at most {LARGEST_PAYLOAD} bytes, not {max(sizes)}")
        self._require_usable()
        needed = sum(map(footprint, sizes))
        if self._tail + needed > self._limit:
            self._next_segment(needed, keep_spare=False, continued=bool(self._addresses))

    def release(self, address: int, payload_size: int | None = None) -> None:
        """Say that the record no longer matters. Append the record that says so first: the space is given back only
        when that one is durable. Without ``payload_size`` the size is looked up."""
        if payload_size is None:
            payload_size = self._reader.payload_size(address)
        self.release_all((address,), (payload_size,))

    def release_all(self, addresses: Sequence[int], payload_sizes: Sequence[int]) -> None:
        """Release many records; see :meth:`release`."""
        segments, barrier = self._space.segments, self._next_sequence
        if not addresses:
            return
        if max(payload_sizes) >= LARGE:
            self._reader.forget(addresses, payload_sizes)
        if min(addresses) >> OFFSET_BITS == max(addresses) >> OFFSET_BITS:  # as nearly always
            of: dict[int, Sequence[int]] = {addresses[0] >> OFFSET_BITS: payload_sizes}
        else:
            split: dict[int, list[int]] = {}
            for address, size in zip(addresses, payload_sizes, strict=True):
                split.setdefault(address >> OFFSET_BITS, []).append(size)
            of = {**split}
        for number, sizes in of.items():
            segment = segments[number]
            segment.released_records += len(sizes)
            segment.released_bytes += footprints(sizes)
            segment.barrier = barrier

    # --- committing -----------------------------------------------------------------------------------------

    @property
    def is_quick(self) -> bool:
        """True if a small batch is written so quickly that the caller may simply wait for it."""
        return self._disk.is_quick

    @property
    def pending(self) -> int:
        """The number of records that were appended and not yet taken for writing."""
        return self._chunk.records + sum(chunk.records for chunk in self._ready)

    @property
    def pending_bytes(self) -> int:
        """The bytes that are still to be taken for writing, in one batch or several."""
        return self._tail - self._chunk.start + sum(chunk.size for chunk in self._ready)

    @property
    def idle(self) -> bool:
        """True if nothing has to be written or is being written."""
        return not self._addresses and not self._ready and not self._in_flight

    @property
    def appended(self) -> int:
        """The number of records appended since the store was opened, which is the number of the last one."""
        return self._appended + self._chunk.records

    @property
    def durable(self) -> int:
        """The number of the last record that will survive a crash."""
        return self._durable

    def commit(self) -> None:
        """Make everything appended so far durable."""
        assert not self._in_flight or self._unusable, "the batch before is still being written"
        while (batch := self.take()) is not None:
            try:
                self.write(batch)
            except StoreFullError:
                self._ready, self._in_flight = batch.chunks + self._ready, []  # it can be tried again
                raise
            self.completed(batch)

    def take(self) -> Batch | None:
        """Return the oldest batch for :meth:`write`, and close it if it is still open; None if there is nothing to
        write."""
        self._require_usable()
        if self._addresses and not self._full_chunks():
            self._divide()
        if not self._ready:
            return None
        count = self._full_chunks() or len(self._ready)
        chunks, self._ready = self._ready[:count], self._ready[count:]
        batch = Batch(chunks, self._appended - sum(chunk.records for chunk in self._ready))
        self._in_flight.append(batch)
        return batch

    def write(self, batch: Batch) -> None:
        """Write a batch and sync it. Blocks; may run in a thread of its own.

        If the disk is full although the space was preallocated, StoreFullError is raised and the same batch may be
        written again later. Any other failure is final, since after a failed sync nobody knows what is on the disk.
        """
        self._require_usable()
        try:
            for chunk in batch.chunks:
                if chunk.addresses:
                    file = chunk.segment.writable()
                    self._put(file, chunk)
                    file.fdatasync()
        except OSError as error:
            raise self._fail(error) from error
        except StoreFullError:
            raise
        except StoreError as error:  # a disk that reports a final failure itself
            self._refuse(error)
            raise
        self.seal(batch)

    def put(self, batch: Batch) -> None:
        """Write a batch without syncing, on a disk that others sync; :meth:`seal` must follow when that is done. A
        batch that found no room may be put again."""
        self._require_usable()
        with self._failing():
            for chunk in batch.chunks:
                if chunk.addresses:
                    self._put(chunk.segment.writable(), chunk)

    def seal(self, batch: Batch) -> None:
        """Write the indexes of the segments that a batch has left. The batch must be durable, because an index says
        that all batches of its segment are whole, with their continuations."""
        with self._failing():
            for chunk in batch.chunks:
                if chunk.seals:
                    self._seal(chunk.segment)

    def _put(self, file: DiskFile, chunk: Chunk) -> None:
        try:
            file.pwritev(chunk.data, chunk.start)
        except OSError as error:
            if error.errno not in NO_SPACE_ERRORS:
                raise
            raise StoreFullError(
                f"{self._disk.where} cannot hold {chunk.size} bytes that were set aside: free space there."
            ) from error

    def _seal(self, segment: Segment) -> None:
        """Write the index, unless the segment is about to be deleted or the disk has no room for it."""
        if segment.live_records > 0:
            try:
                segment.seal(self._store_id)
            except OSError as error:
                if error.errno not in NO_SPACE_ERRORS:
                    raise

    def completed(self, batch: Batch) -> None:
        """Note that the batch is durable now, and delete segments that became free."""
        assert batch in self._in_flight[:1], "this batch was not being written, or is not the oldest"
        self._require_usable()
        del self._in_flight[0]
        self._durable = batch.lsn
        for chunk in batch.chunks:
            self._durable_sequence = max(self._durable_sequence, chunk.sequence)
            if chunk.seals:
                segment = chunk.segment
                segment.writable().close()
                segment.file = None
                segment.closed = True
        self.free_segments(_FREED_PER_COMMIT)

    # --- reading --------------------------------------------------------------------------------------------

    def read(self, address: int, payload_size: int | None = None) -> bytes:
        """Return the payload of a record; raises DamagedRecordError if its checksum is wrong.

        Giving the size saves work if the payload is large.
        """
        return self._reader.read(address, payload_size)

    def read_many(
        self, records: Sequence[tuple[int, int]], cuts: Sequence[int]
    ) -> tuple[list[bytes], list[bytes]]:
        """Return the payloads of several records, given as (address, payload size), each divided after so many bytes:
        the beginnings, and the rests. Adjacent records are read together."""
        return self._reader.read_many(records, cuts)

    def glimpse(self, first: int, last: int, last_size: int) -> bytes | None:
        """Return the bytes from one record to the end of another, neither divided nor verified: enough to rule out that
        something occurs in them. None if the records must be read one by one."""
        return self._reader.glimpse(first, last, last_size)

    def beginning(self, address: int, size: int) -> bytes:
        """Return the first bytes of a larger payload, not verified."""
        return self._reader.beginning(address, size)

    def _unwritten(self) -> Sequence[Chunk]:
        """Return the chunks whose records are not durable yet, the oldest first."""
        in_flight = [chunk for batch in self._in_flight for chunk in batch.chunks]
        return (*in_flight, *self._ready, self._chunk)

    def is_durable(self, first: int, last: int) -> bool:
        """True if all records between these addresses will survive a crash; it may be False without need."""
        return not any(chunk.touches(first, last) for chunk in self._unwritten())

    # --- space ----------------------------------------------------------------------------------------------

    @property
    def disk_bytes(self) -> int:
        """The bytes that the segments take on disk now, with preallocated space."""
        return self._space.disk_bytes

    @property
    def live_bytes(self) -> int:
        """The bytes of the records that were not released; pending ones are not counted yet."""
        return sum(segment.live_bytes for segment in self._space.segments.values())

    def clean_step(self, owner: Owner, budget_bytes: int = 1 << 20) -> bool:
        """Give space back: delete dead segments, copy live records out of mostly dead ones, shrink when idle.

        Does about ``budget_bytes`` of work and appends ordinary records, which the next commit makes durable. Returns
        True if there is more to do, which may need that commit first. Call it now and then, when there is time.
        """
        self._require_usable()
        with suppress(StoreFullError):
            return self._cleaner.step(owner, budget_bytes)
        return False

    def compact(self, owner: Owner, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Rewrite the log so that only live records are left; raises StoreFullError if the disk has no room for the
        copies. Takes as long as reading and writing them. ``progress`` is called with the bytes done and the bytes
        in total."""
        self._require_usable()
        self.commit()
        self._cleaner.everything()
        total = self._cleaner.ahead_bytes
        while self._cleaner.step(owner, _COMPACT_BYTES):
            self.commit()
            progress(total - self._cleaner.ahead_bytes, total)

    def free_segments(self, most: int) -> bool:
        """Delete up to ``most`` of the oldest segments without live records. Returns whether there were any."""
        with self._failing():
            return self._space.free_oldest(None if self.idle else self._durable_sequence, most) > 0

    def start_segment(self, size: int) -> None:
        """Leave the active segment for one of ``size`` bytes. Nothing may be pending."""
        assert self.idle, "something is still to be written"
        active = self._space.active
        with self._failing():
            self._space.shrink_spare(size)
            if active is not None and not active.end:
                self._space.shrink(active, size)
                self._begin_chunk()
            else:
                self._next_segment(0, keep_spare=False, continued=False)
                self.commit()
            with suppress(StoreFullError):
                self._space.ensure_spare()
            self._set_limits()

    # --- the open batch -------------------------------------------------------------------------------------

    def _begin_chunk(self) -> None:
        active = self._space.active
        if active is not None:
            self._chunk = Chunk(active, active.end)
            self._parts, self._addresses = self._chunk.parts, self._chunk.addresses
            self._tail = active.end + BATCH_HEADER_SIZE
            self._full_at = self._tail + self._space.options.largest_batch_bytes
            self._base = active.base
            self._seed = segment_seed(self._store_id, active.number)
        self._set_limits()

    def _full_chunks(self) -> int:
        """Return how many of the oldest chunks fill a batch; 0 if all of them do not."""
        size = 0
        for count, chunk in enumerate(self._ready, 1):
            size += chunk.size
            if size >= self._space.options.largest_batch_bytes and not chunk.continued:
                return count
        return 0

    def _divide(self) -> None:
        """Begin a new batch with what follows."""
        self._close_chunk(continued=False)
        self._begin_chunk()

    def _close_chunk(self, *, continued: bool) -> None:
        self._chunk.close(self._store_id, self._next_sequence, self._tail, continued=continued)
        self._next_sequence += 1
        self._appended += self._chunk.records
        self._ready.append(self._chunk)

    def _next_segment(self, needed: int, *, keep_spare: bool, continued: bool) -> None:
        """Go on in the spare. Raises StoreFullError before anything has changed."""
        left = self._space.active
        with self._failing():
            self._space.ensure_spare(needed)
            self._space.advance(keep_spare=keep_spare)
            if left is not None:
                self._leave(left, continued=continued)
        self._begin_chunk()

    def _leave(self, segment: Segment, *, continued: bool) -> None:
        if self._addresses:
            self._close_chunk(continued=continued)
        elif segment.end:
            # All its batches were taken already; an empty chunk seals it.
            self._ready.append(Chunk(segment, segment.end))
        else:
            self._space.discard(segment)
            return
        self._ready[-1].seals = True

    def _set_limits(self) -> None:
        active = self._space.active
        self._limit = active.size if active is not None and self._unusable is None else _NO_ROOM
        self._reserve_limit = self._limit if self._space.spare is not None else _NO_ROOM

    # --- failures -------------------------------------------------------------------------------------------

    def _require_usable(self) -> None:
        if self._unusable is not None:
            raise self._unusable

    def _refuse(self, reason: Exception) -> None:
        self._unusable = reason
        self._limit = self._reserve_limit = _NO_ROOM

    def _fail(self, error: OSError) -> Exception:
        failure = StoreFailedError(
            f"{self._disk.where} failed ({error.strerror or error}); restart, to find out what it holds."
        )
        self._refuse(failure)
        return failure

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """A context in which an error of the disk closes the store for good."""
        try:
            yield
        except OSError as error:
            raise self._fail(error) from error
