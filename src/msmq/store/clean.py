"""Give space back while the store is in use.

Segments are deleted oldest first, so a single live record in the oldest one keeps all later ones. When more than a
certain share of the closed segments is dead, the live records of the oldest are copied to the end of the log, a little
at a time, and the segment is deleted when the copies are durable. A cleaned segment costs at most as many bytes to
write as the log had dead ones, so the work stays in proportion to what is deleted.

A copy is an ordinary record. Until its old segment is deleted a crash may leave both, the copy later in the
log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from msmq.store.errors import DamagedRecordError, StoreFullError
from msmq.store.layout import HEAD_SIZE, PASSING, footprint
from msmq.store.scan import read_bytes, read_index, read_trailer, scan
from msmq.store.segment import Segment
from msmq.store.space import Space

if TYPE_CHECKING:
    from msmq.store.store import Store

_ROW: Final = Struct(f"<BBH{HEAD_SIZE}sQI")
"""A row of the index with the attributes, which are the store's own."""
_LOOK_COST_BYTES: Final = 64
_FREED_PER_STEP: Final = 2
_MANY_SEGMENTS: Final = 16
_RUN_RECORDS: Final = 256
_RUN_BYTES: Final = 1 << 17
"""How many records are copied together: at most so many, and no more once they have so many bytes."""
_Row = tuple[int, int, int, bytes, int, int]
"""Kind, flags, attributes, head, address and size of the payload."""


class Owner(Protocol):
    """Knows which records still matter. The store asks it during cleaning."""

    def is_live(self, kind: int, head: bytes, address: int) -> bool:
        """True if the record at ``address`` has not been released."""

    def current_head(self, kind: int, head: bytes, address: int) -> bytes:
        """Return the head for the copy. It must contain what later records said about this one, because these may be
        deleted before it."""

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None:
        """Called when the record has moved to ``new``; ``head`` is the one it had. ``old`` is released already.

        Records appended in here are kept or lost together with the copy.
        """

    def lost(self, kind: int, head: bytes, address: int, error: DamagedRecordError) -> None:
        """Called when a live record is damaged and could not be copied; it is released already."""


class Cleaner:
    """The state of cleaning."""

    def __init__(self, store: Store, space: Space, store_id: bytes) -> None:
        self._store = store
        self._space = space
        self._store_id = store_id
        self._victim: Segment | None = None
        self._rows: Iterator[_Row] = iter(())
        self._again: Sequence[_Row] = ()
        """Rows for which there was no room, to be handled first."""
        self._clean_up_to = 0
        self._seen_appended = -1

    def everything(self) -> None:
        """Plan to clean all present segments, however much in them is live."""
        active = self._space.active
        if active is not None and active.end:
            self._store.start_segment(active.size)
        self._clean_up_to = max((s.number for s in self._space.segments.values() if s.closed), default=0)

    @property
    def ahead_bytes(self) -> int:
        """The bytes that :meth:`everything` still has to clean."""
        segments = self._space.segments.values()
        return sum(segment.end for segment in segments if segment.number <= self._clean_up_to)

    def step(self, owner: Owner, budget_bytes: int) -> bool:
        """Do some cleaning. Returns whether there is more to do; raises StoreFullError if there is no room for
        copies.
        """
        freed = self._store.free_segments(_FREED_PER_STEP)
        if self._victim is None or self._victim.number not in self._space.segments:
            self._victim = None
            oldest = next(iter(self._space.segments.values()), None)
            if oldest is None or not oldest.closed:
                return freed or self._shrink_when_idle()
            if not oldest.live_records:
                return True  # it is deleted when the records that emptied it are durable
            if not self._wanted(oldest):
                return freed or self._shrink_when_idle()
            self._victim = oldest
            self._rows, self._again = _ROW.iter_unpack(self._index(oldest)), ()
        return self._copy(self._victim, owner, budget_bytes)

    def _wanted(self, oldest: Segment) -> bool:
        if oldest.number <= self._clean_up_to:
            return True
        closed = [segment for segment in self._space.segments.values() if segment.closed]
        total = sum(segment.end for segment in closed)
        dead = sum(segment.dead_bytes for segment in closed)
        options = self._space.options
        mostly_dead = dead > options.clean_above * total and dead >= 2 * options.smallest_segment_bytes
        # Each restart seals a segment, however small it is.
        scattered = len(closed) > _MANY_SEGMENTS and total < len(closed) * options.smallest_segment_bytes // 4
        return mostly_dead or scattered

    def _index(self, segment: Segment) -> bytes:
        if segment.rows:
            return b"".join(segment.rows)
        file = self._space.reader(segment)
        trailer = read_trailer(file, self._store_id, segment.number)
        rows = read_index(file, trailer) if trailer is not None else None
        if rows is None:
            found = scan(
                read_bytes(file, segment.end, 0), self._store_id, segment.number, segment.next_sequence
            )
            rows = bytes(found.rows)
        return rows

    def _copy(self, victim: Segment, owner: Owner, budget_bytes: int) -> bool:
        again, size = iter(self._again), 0
        run: list[_Row] = []
        others = run
        try:
            for row in chain(again, self._rows):
                kind, flags, attributes, head, address, payload_size = row
                if not attributes & PASSING and owner.is_live(kind, head, address):
                    if run and (len(run) >= _RUN_RECORDS or size > _RUN_BYTES or (kind, flags) != run[0][:2]):
                        others, run, size = run, [row], payload_size
                        self._copy_run(owner, others)
                        if not owner.is_live(kind, head, address):  # what was lost there may have ended it
                            run, size = [], 0
                    else:
                        run.append(row)
                        size += payload_size
                    budget_bytes -= footprint(payload_size)
                budget_bytes -= _LOOK_COST_BYTES
                if budget_bytes <= 0:
                    break
            others, run = run, []
            self._copy_run(owner, others)
        except StoreFullError:
            self._again = [*others, *run, *again]
            raise
        self._again = list(again)
        if budget_bytes <= 0:
            return True
        # Nothing live is left, even if the owner forgot to release a record.
        victim.released_records = victim.standing_records
        victim.released_bytes = victim.standing_bytes
        self._victim = None
        return True

    def _copy_run(self, owner: Owner, run: Sequence[_Row]) -> None:
        """Copy live records of one kind together, if there is room for all of them."""
        if not run:
            return
        store, (kind, flags, *_) = self._store, run[0]
        places = [(address, size) for *_, address, size in run]
        store.reserve(sum(size for _, size in places), len(run), freeing=True)
        try:
            payloads = [] if flags else store.read_many(places, bytes(len(places)))[1]
        except DamagedRecordError:
            payloads = []
        if not payloads:  # records with flags, or a damaged one
            for _, _, _, head, address, size in run:
                self._copy_record(owner, kind, flags, head, address, size)
            return
        heads = b"".join(owner.current_head(kind, head, address) for *_, head, address, _ in run)
        copies = store.append_all(kind, heads, payloads)
        store.release_all(*zip(*places, strict=True))
        for (*_, head, address, _), copy in zip(run, copies, strict=True):
            owner.relocated(kind, head, address, copy)

    def _copy_record(self, owner: Owner, kind: int, flags: int, head: bytes, address: int, size: int) -> None:
        store = self._store
        try:
            payload = store.read(address, size) if size else b""  # the head is known in any case
        except DamagedRecordError as error:
            store.release(address, size)
            owner.lost(kind, head, address, error)
            return
        new = store.append(kind, owner.current_head(kind, head, address), payload, flags=flags)
        store.release(address, size)
        owner.relocated(kind, head, address, new)

    def _shrink_when_idle(self) -> bool:
        """Replace large files, made for a busier time, by small ones if nothing happened since the last call."""
        idle = self._store.idle and self._store.appended == self._seen_appended
        self._seen_appended = self._store.appended
        active = self._space.active
        if not idle or active is None:
            return False
        fitting = self._space.fitting_size()
        spare = self._space.spare
        free = active.size - active.end + (spare.size if spare is not None else 0)
        # Leaving a segment gives its unused space back, whatever is live in it.
        if free > 4 * fitting:
            with suppress(StoreFullError):
                self._store.start_segment(fitting)
                return True
        return False
