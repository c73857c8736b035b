"""Plan the messages of a batch, on the driver and from surveys of the queues.

A plan leads from one position to another (:mod:`msmq.spark.offsets`). If something is not as a position says, because
messages, queues or queue managers are gone or were replaced, that is data loss, which is an error or a warning.
"""

from __future__ import annotations

import logging
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from msmq.client.queue import QueueIdentity, Survey, Waiting
from msmq.errors import QueueNotFoundError
from msmq.spark.doors import Door
from msmq.spark.offsets import LANES, Offset, Span, lane_of
from msmq.spark.options import SourceOptions
from msmq.spark.telling import PlainError

_log = logging.getLogger(__name__)

_LAST_NUMBER: Final = (1 << 56) - 1
_MESSAGES_PER_TASK: Final = 1 << 14
_BYTES_PER_TASK: Final = 16 << 20
"""A Python data source is not told how many processors a cluster has. So parts are just large enough to be worth a
task, and the cluster runs as many of them at once as it can."""
_LARGEST_MESSAGE: Final = 8 << 20
"""More than any message takes: a survey that stops this far below its limit has seen everything."""
_HELD_PAUSE_S: Final = 0.1


class DataLossError(PlainError):
    """Messages that were to be read are not in their queue."""


class MessagesPartition(InputPartition):
    """The messages of one task: from one queue of one server, ascending."""

    def __init__(
        self,
        server: str,
        queue: str,
        identity: QueueIdentity | None,
        lookup_ids: array[int],
        expiring: frozenset[int] = frozenset(),
        size: int = 0,
    ) -> None:
        self.server = server
        self.queue = queue
        self.identity = identity
        self.lookup_ids = lookup_ids
        self.expiring = expiring
        """Messages that may have expired when they are read, as their senders wanted."""
        self.size = size
        """Their approximate size in bytes."""

    def chosen(self, lookup_ids: array[int]) -> MessagesPartition:
        """Return some of the messages."""
        expiring = self.expiring.intersection(lookup_ids) if self.expiring else self.expiring
        size = self.size * len(lookup_ids) // max(len(self.lookup_ids), 1)
        return MessagesPartition(self.server, self.queue, self.identity, lookup_ids, expiring, size)

    @property
    def per_task(self) -> int:
        """How many of them are worth a task. It is a power of two, so that a repeated batch is divided as before even
        if a restarted queue manager reports slightly different sizes: the sink relies on that."""
        average = max(self.size // max(len(self.lookup_ids), 1), 1)
        return 1 << max(min(_MESSAGES_PER_TASK, _BYTES_PER_TASK // average), 1).bit_length() - 1

    def __repr__(self) -> str:
        return f"MessagesPartition({self.queue!r}, {len(self.lookup_ids)} messages)"


class Read(NamedTuple):
    """What was planned of one queue for the last batch."""

    messages: int
    bytes: int


class Planner:
    """The part that batch and streaming reads share on the driver, for the queues of one server."""

    def __init__(
        self,
        options: SourceOptions,
        door: Door,
        wanted: Callable[[str], bool] | None = None,
        server: str = "",
    ) -> None:
        self._options = options
        self._door = door
        self._wanted = wanted
        self._server = server
        self._told_of_pattern = False
        self.planned: dict[str, Read] = {}
        """What :meth:`latest` found for the batch, by queue."""

    def queues(self) -> tuple[str, ...]:
        pattern = self._options.pattern
        if pattern is not None:
            queues = tuple(self._door.queues(pattern))
        else:
            queues = tuple(dict.fromkeys(map(self._door.spelt, self._options.queues)))
        if not queues:
            self.nothing_matches()
        return queues if self._wanted is None else tuple(filter(self._wanted, queues))

    def latest(
        self, start: Offset, upto: Offset | None = None, most_messages: int = 0, most_bytes: int = 0
    ) -> Offset:
        """Return how far to read from a position, at most to ``upto``. Each queue has its share of a limit, and what
        some leave of theirs goes to the others."""
        position, left, left_bytes = start, most_messages, most_bytes
        waiting, first = list(self.queues()), True
        self.planned = {}
        while waiting:
            full: list[str] = []
            for place, queue in enumerate(waiting):
                if (most_messages and left <= 0) or (most_bytes and left_bytes <= 0):
                    return position
                others = len(waiting) - place
                # 0 means no limit, also to the door
                share, share_bytes = -(-max(left, 0) // others), -(-max(left_bytes, 0) // others)
                begun, found = self._survey(queue, position, upto, share, share_bytes)
                if found is None or (not first and most_bytes and found.bytes > left_bytes):
                    continue  # a survey returns at least one message, which only the first round needs
                left -= len(found.lookup_ids)
                left_bytes -= found.bytes
                before = self.planned.get(queue, Read(0, 0))
                self.planned[queue] = Read(
                    before.messages + len(found.lookup_ids), before.bytes + found.bytes
                )
                position = begun.reading(queue, found.identity, _ends(found.lookup_ids), found.expiring)
                by_count = most_messages and len(found.lookup_ids) >= share
                by_size = most_bytes and found.lookup_ids and found.bytes > share_bytes - _LARGEST_MESSAGE
                if by_count or by_size:
                    full.append(queue)
            waiting, first = full, False
        return position

    def since(self, time_s: float) -> Offset:
        """Return the position before the first message of each queue and priority that came at a time or later."""
        position = Offset()
        for queue in self.queues():
            _, found = self._survey(queue, Offset(), None, 0, 0)
            if found is None:
                continue
            ids, earlier = found.lookup_ids, array("Q")
            for first, last in runs(ids):
                begin, end = bisect_left(ids, first), bisect_left(ids, last) + 1
                place = bisect_left(ids, time_s, begin, end, key=partial(self._arrived, queue))
                if place > begin:
                    earlier.append(ids[place - 1])
            position = position.reading(queue, found.identity, earlier, found.expiring)
        return position

    def _arrived(self, queue: str, lookup_id: int) -> float:
        """Return when a message came; one that is gone meanwhile counts as early."""
        for part in self._door.read(queue, lookup_id - 1, lookup_id):
            return part.arrived_times[0] or 0.0
        return 0.0

    def waiting(self, start: Offset) -> dict[str, Waiting]:
        """Count what waits after a position, queue by queue."""
        found: dict[str, Waiting] = {}
        for queue in self.queues():
            with suppress(QueueNotFoundError):
                found[queue] = self._door.waiting(queue, _whole(start, queue, None))
        return found

    def now(self, start: Offset) -> list[MessagesPartition]:
        """Return the messages after a position that may be read now, queue by queue."""
        found = ((queue, self._survey(queue, start, None, 0, 0)[1]) for queue in self.queues())
        return [self._part(queue, survey) for queue, survey in found if survey]

    def _part(self, queue: str, survey: Survey) -> MessagesPartition:
        ids, size = survey.lookup_ids, survey.bytes
        return MessagesPartition(self._server, queue, survey.identity, ids, survey.expiring, size)

    def _survey(
        self, queue: str, start: Offset, upto: Offset | None, most_messages: int, most_bytes: int
    ) -> tuple[Offset, Survey | None]:
        """Survey a queue. Returns the position before it, and the survey; None if the queue is gone and that is no
        error. If it is not the queue that was read before, it is surveyed from its beginning."""
        try:
            found = self._ask(queue, start, _whole(start, queue, upto), most_messages, most_bytes)
            if start.is_of(queue, found.identity) and not found.restored:
                return start, found
            self.replaced(queue, start.identity(queue), found)
            begun = start.anew(queue, found.identity)
            found = self._ask(queue, begun, _whole(begun, queue, upto), most_messages, most_bytes)
            return begun, found if begun.is_of(queue, found.identity) else None
        except QueueNotFoundError:
            named = self._options.pattern is None
            if named and queue not in start.queues:
                if self._options.directory is None:
                    raise
                return start, None  # not every server in a directory need have the queue
            if named and self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{self._name(queue)} was deleted, with whatever came to it and was not read yet. The option "
                    "failOnDataLoss=false waits for another one of that name."
                ) from None
            _log.warning("%s is gone, and is read again when it is back.", self._name(queue))
            return start, None

    def _ask(
        self,
        queue: str,
        known: Offset,
        spans: Sequence[tuple[int, int]],
        most_messages: int = 0,
        most_bytes: int = 0,
    ) -> Survey:
        identity, seen = known.identity(queue), known.highest(queue)
        return self._door.survey(queue, spans, most_messages, most_bytes, known=identity, seen=seen)

    def between(self, start: Offset, end: Offset, *, exact: bool) -> list[MessagesPartition]:
        """Return the messages between two positions, queue by queue. ``exact`` says that the end was seen in the queue,
        so that it must be there."""
        spans: dict[str, list[Span]] = {}
        for span in start.spans(end):
            if self._wanted is not None and not self._wanted(span.queue):
                continue
            spans.setdefault(span.queue, []).append(span)
        found: list[MessagesPartition] = []
        for queue, parts in spans.items():
            try:
                survey = self._all_of(queue, parts, end)
            except QueueNotFoundError:
                self.deleted(queue)
                continue
            if survey.restored or not end.is_of(queue, survey.identity):
                self.replaced(queue, end.identity(queue), survey)
                continue
            if exact:
                there = set(survey.lookup_ids)
                missing = [part for part in parts if part.last_lookup_id not in there]
                expired = sum(end.may_expire(queue, part.lane) for part in missing)
                self.expired(queue, expired)
                self.lost(queue, len(missing) - expired)
            found.append(self._part(queue, survey))
        return found

    def _all_of(self, queue: str, parts: list[Span], end: Offset) -> Survey:
        """Survey all of some spans; waits for messages that somebody holds, because they may come back."""
        wanted = [(part.first_lookup_id, part.last_lookup_id) for part in parts]
        deadline = time.monotonic() + self._options.access.timeout_s
        while True:
            survey = self._ask(queue, end, wanted)
            held = survey.held
            if not held:
                return survey
            if time.monotonic() > deadline:
                raise DataLossError(
                    f"Another reader, or an open transaction, holds {len(held)} message(s) of {self._name(queue)} that "
                    f"belong to this batch, {held[0]:#x} among them. Let nobody else receive from the queue, or try "
                    "again."
                )
            time.sleep(_HELD_PAUSE_S)

    # --- what is not as it should be --------------------------------------------------------------------------------

    def _name(self, queue: str) -> str:
        return f"{queue} of {self._server}" if self._server else queue

    def nothing_matches(self) -> None:
        """Report that no queue matches the pattern: one may still come, or the pattern is wrong."""
        if not self._told_of_pattern and self._options.directory is None:
            _log.warning(
                "No queue has a whole path that queuePattern=%s matches. Paths are like HOST\\private$\\orders, and a "
                "backslash and a dollar sign of theirs are written \\\\ and \\$ in a regular expression.",
                self._options.pattern,
            )
        self._told_of_pattern = True

    def deleted(self, queue: str) -> None:
        """Report that a queue is gone, with messages of a batch."""
        self._loss(
            f"{self._name(queue)} was deleted before this batch was read. The option failOnDataLoss=false goes on "
            "without it, and reads it again when it is back."
        )

    def replaced(self, queue: str, before: QueueIdentity | None, survey: Survey) -> None:
        """Report that another queue now has the name of one that was read before."""
        assert before is not None
        now, name = survey.identity, self._name(queue)
        if before.queue_manager != now.queue_manager:
            what = (
                f"{name} is that of another queue manager now, {now.queue_manager}; {before.queue_manager} was read "
                "before: it was set up anew, or the option server names another one"
            )
        elif before.queue != now.queue:
            what = f"{name} was deleted and created again"
        else:
            what = f"The queue manager of {name} goes on from an older copy of its data than the one that was read"
        self._loss(
            f"{what}. What came to the old queue and was not read yet is lost. The option failOnDataLoss=false begins "
            "anew, with everything that is in the queue now."
        )

    def missing(self, part: MessagesPartition, gone: set[int]) -> None:
        """Report that some messages of a batch were not there when a task came to read them."""
        expired = len(gone & part.expiring)
        self.expired(part.queue, expired)
        self.lost(part.queue, len(gone) - expired)

    def expired(self, queue: str, count: int) -> None:
        """Note that some messages expired before they were read: that is no loss."""
        if count:
            _log.warning("%d message(s) of %s have expired before they were read.", count, self._name(queue))

    def lost(self, queue: str, count: int) -> None:
        """Report that some messages are gone."""
        if count:
            self._loss(
                f"{count} message(s) of {self._name(queue)} that belong to this batch are gone: another reader took "
                "them. The option failOnDataLoss=false goes on without them."
            )

    def _loss(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        _log.warning(text)


def divide(options: SourceOptions, messages: Sequence[MessagesPartition]) -> list[MessagesPartition]:
    """Divide messages into parts: as many as the options say, or as are worth a task."""
    total = sum(len(part.lookup_ids) for part in messages)
    most = max(-(-total // (options.partitions or options.min_partitions or 1)), 1)
    parts: list[MessagesPartition] = []
    for part in messages:
        size = most if options.partitions else min(most, part.per_task)
        places = range(0, len(part.lookup_ids), size)
        parts += [part.chosen(part.lookup_ids[place : place + size]) for place in places]
    return parts


def _whole(start: Offset, queue: str, upto: Offset | None) -> list[tuple[int, int]]:
    """Return everything after a position, lane by lane, which is the order of the queue."""
    begun = start.lanes(queue)
    ended = None if upto is None else upto.lanes(queue, start.identity(queue))
    spans = (
        Span(queue, lane, begun.get(lane, 0), _LAST_NUMBER if ended is None else ended.get(lane, 0))
        for lane in range(LANES)
    )
    return [(span.first_lookup_id, span.last_lookup_id) for span in spans if span.end > span.start]


def _ends(ids: array[int]) -> array[int]:
    """Return the last identifier of each lane."""
    return array("Q", (last for _, last in runs(ids)))


def runs(ids: array[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each lane among ascending identifiers; what lies between belongs to other lanes."""
    start = 0
    while start < len(ids):
        end = bisect_left(ids, lane_of(ids[start]) + 1, start, key=lane_of)
        yield ids[start], ids[end - 1]
        start = end
