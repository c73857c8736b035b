"""What a batch has: planned on the driver, from surveys of the queues.

A plan goes from one position to another (:mod:`msmq.spark.offsets`). Whatever is not as a position says, because
messages, queues or queue managers are gone or are others, is data loss, which is an error or a warning.
"""

from __future__ import annotations

import logging
import os
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pyspark.sql.datasource import InputPartition

from msmq.client.queue import QueueIdentity, Survey
from msmq.errors import QueueNotFoundError
from msmq.spark.doors import Door
from msmq.spark.offsets import LANES, Offset, Span, lane_of
from msmq.spark.options import SourceOptions
from msmq.spark.telling import PlainError
from msmq.wire.headers import INFINITE

_log = logging.getLogger(__name__)

_LAST_NUMBER: Final = (1 << 56) - 1
_LEAST_PER_PARTITION: Final = 5_000
_LARGEST_MESSAGE: Final = 8 << 20
"""More than any message takes: a survey that stops so far below its limit has seen all that is there."""
_HELD_PAUSE_S: Final = 0.1


class DataLossError(PlainError):
    """Messages that were to be read are not in their queue."""


class MessagesPartition(InputPartition):
    """The messages of one task: of one queue, ascending."""

    def __init__(self, queue: str, identity: QueueIdentity | None, lookup_ids: array[int]) -> None:
        self.queue = queue
        self.identity = identity
        self.lookup_ids = lookup_ids

    def __repr__(self) -> str:
        return f"MessagesPartition({self.queue!r}, {len(self.lookup_ids)} messages)"


class Planner:
    """What batch and streaming have in common, on the driver."""

    def __init__(
        self, options: SourceOptions, door: Door, wanted: Callable[[str], bool] | None = None
    ) -> None:
        self._options = options
        self._door = door
        self._wanted = wanted
        self._told_of_pattern = False

    def queues(self) -> tuple[str, ...]:
        pattern = self._options.pattern
        queues = self._options.queues if pattern is None else tuple(self._door.queues(pattern))
        if not queues:
            self.nothing_matches()
        return queues if self._wanted is None else tuple(filter(self._wanted, queues))

    def latest(
        self, start: Offset, upto: Offset | None = None, most_messages: int = 0, most_bytes: int = 0
    ) -> Offset:
        """How far one may read from a position; never beyond ``upto``. Each queue has its share of a limit, and what
        some leave of it goes to the others."""
        position, left, left_bytes = start, most_messages, most_bytes
        waiting, first = list(self.queues()), True
        while waiting:
            full: list[str] = []
            for place, queue in enumerate(waiting):
                if (most_messages and left <= 0) or (most_bytes and left_bytes <= 0):
                    return position
                others = len(waiting) - place
                # 0 is no limit, for the door too
                share, share_bytes = -(-max(left, 0) // others), -(-max(left_bytes, 0) // others)
                found = self._survey(queue, position, upto, share, share_bytes)
                if found is None or (not first and most_bytes and found.bytes > left_bytes):
                    continue  # a survey gives at least one message; only the first round need have one
                left -= len(found.lookup_ids)
                left_bytes -= found.bytes
                position = position.reading({queue: _ends(found.lookup_ids)}, {queue: found.identity})
                by_count = most_messages and len(found.lookup_ids) >= share
                by_size = most_bytes and found.lookup_ids and found.bytes > share_bytes - _LARGEST_MESSAGE
                if by_count or by_size:
                    full.append(queue)
            waiting, first = full, False
        return position

    def with_expiring(self, start: Offset, end: Offset) -> Offset:
        """The end of a batch, knowing which of its last messages may expire before they are read."""
        lanes: dict[str, list[int]] = {}
        for span in start.spans(end):
            last = span.last_lookup_id
            try:
                found = [
                    message for part in self._door.read(span.queue, last - 1, last) for message in part.each()
                ]
            except QueueNotFoundError:
                continue
            if found and found[0].packet.user.time_to_be_received_s != INFINITE:
                lanes.setdefault(span.queue, []).append(span.lane)
        return end.expiring(lanes)

    def now(self, start: Offset) -> list[MessagesPartition]:
        """The messages behind a position that may be read now, queue by queue."""
        found = ((queue, self._survey(queue, start, None, 0, 0)) for queue in self.queues())
        return [
            MessagesPartition(queue, survey.identity, survey.lookup_ids) for queue, survey in found if survey
        ]

    def _survey(
        self, queue: str, start: Offset, upto: Offset | None, most_messages: int, most_bytes: int
    ) -> Survey | None:
        """What is in a queue; None if it is gone, and that is no error. A queue that is not the one that was read is
        surveyed from its beginning."""
        try:
            found = self._door.survey(queue, _whole(start, queue, upto), most_messages, most_bytes)
            if start.is_of(queue, found.identity):
                return found
            self.replaced(queue, start.identity(queue), found.identity)
            begun = start.reading({queue: ()}, {queue: found.identity})
            found = self._door.survey(queue, _whole(begun, queue, upto), most_messages, most_bytes)
            return found if begun.is_of(queue, found.identity) else None
        except QueueNotFoundError:
            named = self._options.pattern is None
            if named and queue not in start.queues:
                raise
            if named and self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{queue} was deleted, with whatever came to it and was not read yet. The option "
                    "failOnDataLoss=false waits for another one of that name."
                ) from None
            _log.warning("%s is gone, and is read again when it is back.", queue)
            return None

    def between(self, start: Offset, end: Offset, *, exact: bool) -> list[MessagesPartition]:
        """The messages between two positions, queue by queue. ``exact``: the end was seen in the queue, so that it
        must be there."""
        spans: dict[str, list[Span]] = {}
        for span in start.spans(end):
            if self._wanted is not None and not self._wanted(span.queue):
                continue
            spans.setdefault(span.queue, []).append(span)
        found: list[MessagesPartition] = []
        for queue, parts in spans.items():
            try:
                survey = self._all_of(queue, parts)
            except QueueNotFoundError:
                self.deleted(queue)
                continue
            if not end.is_of(queue, survey.identity):
                self.replaced(queue, end.identity(queue), survey.identity)
                continue
            if exact:
                there = set(survey.lookup_ids)
                missing = [part for part in parts if part.last_lookup_id not in there]
                expired = [part for part in missing if end.may_expire(queue, part.lane)]
                if expired:
                    _log.warning(
                        "%d message(s) of %s have expired before they were read.", len(expired), queue
                    )
                self.lost(queue, len(missing) - len(expired))
            found.append(MessagesPartition(queue, survey.identity, survey.lookup_ids))
        return found

    def _all_of(self, queue: str, parts: list[Span]) -> Survey:
        """Everything in some spans; waits for messages that somebody holds, which may come back."""
        wanted = [(part.first_lookup_id, part.last_lookup_id) for part in parts]
        deadline = time.monotonic() + self._options.access.timeout_s
        while True:
            survey = self._door.survey(queue, wanted)
            held = survey.held
            if not held:
                return survey
            if time.monotonic() > deadline:
                raise DataLossError(
                    f"Another reader, or an open transaction, holds {len(held)} message(s) of {queue} that belong to "
                    f"this batch, {held[0]:#x} among them. Let nobody else receive from the queue, or try again."
                )
            time.sleep(_HELD_PAUSE_S)

    def nothing_matches(self) -> None:
        """No queue has a path like the pattern: one may come, or the pattern was meant otherwise."""
        if not self._told_of_pattern:
            _log.warning(
                "No queue has a whole path that queuePattern=%s matches. Paths are like HOST\\private$\\orders, and a "
                "backslash and a dollar sign of theirs are written \\\\ and \\$ in a regular expression.",
                self._options.pattern,
            )
        self._told_of_pattern = True

    def deleted(self, queue: str) -> None:
        """A queue is gone, with messages of a batch."""
        text = (
            f"{queue} was deleted before this batch was read. The option failOnDataLoss=false goes on without it, and "
            "reads it again when it is back."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        _log.warning(text)

    def replaced(self, queue: str, before: QueueIdentity | None, now: QueueIdentity) -> None:
        """A queue has the name of one that was read before and is not there any more."""
        assert before is not None
        if before.queue_manager != now.queue_manager:
            what = (
                f"{queue} is that of another queue manager now, {now.queue_manager}; {before.queue_manager} was read "
                "before: it was set up anew, or the option server names another one"
            )
        else:
            what = f"{queue} was deleted and created again"
        text = (
            f"{what}. What came to the old queue and was not read yet is lost. The option failOnDataLoss=false begins "
            "anew, with everything that is in the queue now."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        _log.warning(text)

    def lost(self, queue: str, count: int) -> None:
        """Some messages are gone."""
        if not count:
            return
        text = (
            f"{count} message(s) of {queue} that belong to this batch are gone: another reader took them, or they "
            "expired. The option failOnDataLoss=false goes on without them."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        _log.warning(text)

    def divide(self, messages: Sequence[MessagesPartition]) -> list[MessagesPartition]:
        """Messages in about equal parts: as many as the option says, or as there are processors here."""
        total = sum(len(part.lookup_ids) for part in messages)
        wanted = self._options.partitions or min(os.cpu_count() or 1, -(-total // _LEAST_PER_PARTITION))
        size = max(-(-total // max(wanted, 1)), 1)
        return [
            MessagesPartition(part.queue, part.identity, part.lookup_ids[place : place + size])
            for part in messages
            for place in range(0, len(part.lookup_ids), size)
        ]


def _whole(start: Offset, queue: str, upto: Offset | None) -> list[tuple[int, int]]:
    """Everything behind a position, lane by lane; that is the order of the queue."""
    begun = start.lanes(queue)
    ended = None if upto is None else upto.lanes(queue, start.identity(queue))
    spans = (
        Span(queue, lane, begun.get(lane, 0), _LAST_NUMBER if ended is None else ended.get(lane, 0))
        for lane in range(LANES)
    )
    return [(span.first_lookup_id, span.last_lookup_id) for span in spans if span.end > span.start]


def _ends(ids: array[int]) -> array[int]:
    """The last of each lane."""
    return array("Q", (last for _, last in runs(ids)))


def runs(ids: array[int]) -> Iterator[tuple[int, int]]:
    """First and last of each lane among ascending identifiers: what lies between lanes is another's."""
    start = 0
    while start < len(ids):
        end = bisect_left(ids, lane_of(ids[start]) + 1, start, key=lane_of)
        yield ids[start], ids[end - 1]
        start = end
