"""Failed messages in groups: those in dead-letter and error queues, by reason, destination and exception.

Grouping means reading, and there may be millions. So counts are kept (`Tallies`), and only what came since is read the
next time; a request reads for a few seconds at most and says how far it got. Not everybody may read every queue, so
each user has separate counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.connection import Connection
from msmq.errors import MsmqError
from msmq.web.hosts import statistics
from msmq.web.messages import find
from msmq.web.people import Credential
from msmq.web.shapes import class_name, exception_of
from msmq.wire.times import time_text

DEAD_LETTERS: Final = (".\\deadletter$", ".\\xactdeadletter$")
_STEP: Final = 2_000
_LOOK_S: Final = 2.0
"""How long a request reads messages before it says how far it got."""
_AGAIN_S: Final = 30.0
_MOST_GROUPS: Final = 1_000
_MOST_TALLIES: Final = 64


class Failed(NamedTuple):
    """The properties of a message that decide its group."""

    lookup_id: int
    reason: str
    destination: str
    exception: str
    class_name: str
    size: int
    arrived_s: int
    label: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of a group: reason, destination, exception."""
        return self.reason, self.destination, self.exception


def failed(found: pb.FoundMessage) -> Failed:
    given, message = found.delivered, found.delivered.message
    return Failed(
        given.lookup_id,
        given.dead_letter_reason,
        given.destination,
        exception_of(message.extension) if message.extension else "",
        class_name(given.dead_letter_class or message.message_class),
        found.size,
        given.arrived_time,
        message.label,
    )


@dataclass(slots=True)
class Group:
    """Messages that failed in the same way."""

    queue: str
    reason: str
    destination: str
    exception: str
    class_name: str
    messages: int = 0
    bytes: int = 0
    oldest_s: int = 1 << 32
    newest_s: int = 0
    labels: list[str] = field(default_factory=list)

    def add(self, each: Failed) -> None:
        self.messages += 1
        self.bytes += each.size
        self.oldest_s = min(self.oldest_s, each.arrived_s)
        self.newest_s = max(self.newest_s, each.arrived_s)
        if len(self.labels) < 3 and each.label not in self.labels:
            self.labels.append(each.label)

    def shown(self) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "reason": self.reason,
            "destination": self.destination,
            "exception": self.exception,
            "class_name": self.class_name,
            "messages": str(self.messages),
            "bytes": str(self.bytes),
            "oldest": time_text(datetime.fromtimestamp(self.oldest_s, UTC)),
            "newest": time_text(datetime.fromtimestamp(self.newest_s, UTC)),
            "labels": self.labels,
        }


async def rows(
    mq: Connection, queue: str, given: dict[str, Any], most: int | None = None
) -> AsyncIterator[Failed]:
    """Yield the matching messages of a queue, read a part at a time."""
    given, looked_at = dict(given), 0
    while most is None or looked_at < most:
        found = await find(mq, queue, given, _STEP, shape=failed, body_bytes=0)
        looked_at += found["looked_at"]
        for each in found["items"]:
            yield each
        if found["end"] or not found["looked_at"]:
            return
        given["after"] = found["last"]


Figures = tuple[int, int, int]
"""When the queue manager started, how many messages have come since, and how many have gone."""


class _State(NamedTuple):
    """Values that tell whether a queue has only grown."""

    queue: tuple[str, datetime]
    figures: Figures

    def only_grew_to(self, other: _State) -> bool:
        (started, arrived, removed), (started_then, arrived_then, removed_then) = other.figures, self.figures
        same = (self.queue, started_then, removed_then) == (other.queue, started, removed)
        return same and arrived_then <= arrived


def _figures(given: pb.Statistics, path: str) -> Figures | None:
    for each in given.queues:
        if each.path == path:
            return given.started_ms, each.arrived_total, each.removed_total
    return None


class Tally:
    """The counts of one queue, as far as it was read."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.groups: dict[tuple[str, str, str], Group] = {}
        self.classes: Counter[str] = Counter()
        self.messages = 0
        """How many messages there were at the last look."""
        self._overflowed = False
        self._ended = False
        self._unseen = 0
        """Messages that could not be read, because somebody holds them."""
        self._begun_s = 0.0
        self._state: _State | None = None
        self._path = ""
        self._after = "0"
        self._lock = asyncio.Lock()

    @property
    def counted(self) -> int:
        return self.classes.total()

    @property
    def whole(self) -> bool:
        return self._ended and not self._overflowed

    def unchanged(self, given: pb.Statistics) -> bool:
        """True if everything was counted, and the figures say that nothing has come or gone since. Only for queues that
        are never deleted: another one of the same name may have the same figures."""
        if self._state is None or not self.whole or self._unseen:
            return False
        return self._state.figures == _figures(given, self._path)

    async def go_on(self, mq: Connection) -> None:
        """Count what came since, and continue with what there was no time for."""
        async with self._lock:
            info = await mq.queue_info(self.queue)
            given = await statistics(mq)
            # For some queues, such as journals, the only figure is the number of messages.
            figures = _figures(given, info.path) or (given.started_ms, info.messages, 0)
            state, self._path = _State((info.identifier, info.created_time), figures), info.path
            if not self._holds(state, info.messages):
                self._forget()
            self._state, self.messages = state, info.messages
            self._ended = await self._look(mq)
            if self._ended and self.counted + self._unseen < self.messages:
                # Because of their priorities, some came before what was counted already.
                self._forget()
                self._ended = await self._look(mq)
                self._unseen = max(self.messages - self.counted, 0) if self._ended else 0

    def _holds(self, state: _State, messages: int) -> bool:
        """True if what was counted is still there. What somebody holds may be given back, which is not reported."""
        if self._unseen and asyncio.get_running_loop().time() - self._begun_s > _AGAIN_S:
            return False
        return self._state is not None and self._state.only_grew_to(state) and self.counted <= messages

    def _forget(self) -> None:
        self.groups.clear()
        self.classes.clear()
        self._overflowed, self._after, self._unseen = False, "0", 0
        self._begun_s = asyncio.get_running_loop().time()

    async def _look(self, mq: Connection) -> bool:
        """Read on while there is time. Returns whether that was everything."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + _LOOK_S
        while True:
            found = await find(mq, self.queue, {"after": self._after}, _STEP, shape=failed, body_bytes=0)
            self._after = found["last"]
            for each in found["items"]:
                self._add(each)
            if found["end"] or not found["looked_at"]:
                return True
            if loop.time() > give_up_s:
                return False

    def _add(self, each: Failed) -> None:
        self.classes[each.class_name] += 1
        group = self.groups.get(each.key)
        if group is None:
            if len(self.groups) >= _MOST_GROUPS:
                self._overflowed = True
                return
            group = self.groups[each.key] = Group(self.queue, *each.key, each.class_name)
        group.add(each)


class Tallies:
    """The counts, for every user who may read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, Credential, str], Tally] = OrderedDict()

    async def of(self, mq: Connection, host: str, credential: Credential, queue: str) -> Tally:
        """Return the counts of a queue, brought up to date as far as there was time."""
        tally = self._tally(host, credential, queue)
        await tally.go_on(mq)
        return tally

    def _tally(self, host: str, credential: Credential, queue: str) -> Tally:
        key = host, credential, queue.casefold()
        tally = self._kept.setdefault(key, Tally(queue))
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_TALLIES:
            self._kept.popitem(last=False)
        return tally

    async def dead_letters(
        self, mq: Connection, host: str, credential: Credential, given: pb.Statistics
    ) -> dict[str, int]:
        """Return how many dead letters there are for each reason, as far as the user may read them; those that there
        was no time for have a reason of their own."""
        counts: Counter[str] = Counter()
        for queue in DEAD_LETTERS:
            tally = self._tally(host, credential, queue)
            try:
                if not tally.unchanged(given):
                    await tally.go_on(mq)
            except MsmqError:
                continue  # the user may not read them
            counts += tally.classes
            counts["not counted yet"] += max(tally.messages - tally.counted, 0)
        return {reason: number for reason, number in counts.items() if number}
