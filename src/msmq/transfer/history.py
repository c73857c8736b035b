"""Duplicates of messages without a transaction (MS-MQQB 3.1.5.8.1): MessageIDHistoryTable.

A sender that lost its session sends again what was not acknowledged, so that express and recoverable messages may
come twice. The receiver remembers the identifiers of what it took lately: at most ``size`` of them, and each for as
long as the cleanup timer says after it was last seen. It is help, not a promise; exactly once is what transactions
are for.

The caller asks :meth:`MessageIdHistory.seen` of every arrival and tells :meth:`MessageIdHistory.record` of those
it takes, storing the entry with the message where the message is stored. The duplicate of a recoverable message is
acknowledged like one that was stored; if the first copy is still on its way to the disk, with it and not before.

Entries are kept in groups, oldest first: messages of one source that came in one second. Each source knows in which
group a number was seen last; a number that was seen again later is no entry of the older group any more.

Times are seconds since 1970, because entries outlive the process.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msmq.wire.headers import NULL_GUID
from msmq.wire.message import UserMessage

DEFAULT_SIZE: Final = 10_000
"""RemoveDuplicateSize (note 25)."""
_GROUP: Final = 1_024
"""Messages after which a new group begins, although they came in the same second."""
_GUID_BYTES: Final = len(NULL_GUID)


def message_identifier(message: UserMessage) -> bytes:
    """SourceQueueManager and MessageID as they lie in the packet: the MessageIdentifier of an entry."""
    return message.identifier.encode()


def split(identifier: bytes) -> tuple[bytes, int]:
    """SourceQueueManager and MessageID of a MessageIdentifier."""
    return identifier[:_GUID_BYTES], int.from_bytes(identifier[_GUID_BYTES:], "little")


class _Group:
    """Messages of one source that came in one second: ``live`` of the ``numbers`` from ``start`` on. The others were
    seen again and belong to a later group."""

    __slots__ = ("live", "numbers", "source", "start", "time_s")

    def __init__(self, source: bytes, time_s: int) -> None:
        self.source = source
        self.time_s = time_s
        self.numbers: list[int] = []
        self.start = 0
        self.live = 0


class MessageIdHistory:
    """The messages seen lately, oldest first."""

    __slots__ = ("_cleanup_s", "_count", "_groups", "_size", "_sources", "deadline_s")

    def __init__(
        self,
        cleanup_ms: int,
        now_s: int,
        size: int = DEFAULT_SIZE,
        stored: Iterable[tuple[bytes, int]] = (),
    ) -> None:
        """``stored`` are the entries of an earlier run: identifier and time."""
        self._cleanup_s = cleanup_ms // 1_000
        self._size = size
        self._groups: OrderedDict[_Group, None] = OrderedDict()
        self._sources: dict[bytes, dict[int, _Group]] = {}
        self._count = 0
        self.deadline_s: int | None = None
        for identifier, time_s in sorted(stored, key=lambda entry: entry[1]):
            self.record(identifier, time_s)
        if self._count:
            self.deadline_s = now_s + self._cleanup_s

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        for group in self._groups:
            known = self._sources[group.source]
            for number in group.numbers[group.start :]:
                if known.get(number) is group:
                    yield group.source + number.to_bytes(4, "little"), group.time_s

    def seen(self, identifier: bytes, now_s: int) -> bool:
        """Whether this is a duplicate; if so, it is remembered anew from now on."""
        source, number = split(identifier)
        known = self._sources.get(source)
        if known is None or number not in known:
            return False
        self._enter(source, (number,), now_s)
        return True

    def record(self, identifier: bytes, now_s: int) -> None:
        """A message was taken; the oldest entry makes room when there is none."""
        source, number = split(identifier)
        self.record_all(source, (number,), now_s)

    def fresh(
        self, source: bytes, numbers: Sequence[int], indices: Sequence[int], now_s: int
    ) -> Sequence[int]:
        """Which of some messages of a source are no duplicates, also not of another one among them, given as indices
        into their numbers; the others are remembered anew."""
        known, new = self._sources.get(source, {}), dict[int, int]()
        for index in indices:
            number = numbers[index]
            if number in known:
                self._enter(source, (number,), now_s)
            else:
                new.setdefault(number, index)
        return indices if len(new) == len(indices) else sorted(new.values())

    def record_all(self, source: bytes, numbers: Sequence[int], now_s: int) -> None:
        """Like :meth:`record`, for many messages that are all :meth:`fresh`."""
        if not self._count:
            self.deadline_s = now_s + self._cleanup_s
        self._enter(source, numbers, now_s)
        while self._count > self._size:
            self._forget(next(iter(self._groups)), self._count - self._size)

    def _enter(self, source: bytes, numbers: Sequence[int], now_s: int) -> None:
        known = self._sources.setdefault(source, {})
        group = next(reversed(self._groups)) if self._groups else None
        if len(numbers) == 1 and (before := known.pop(numbers[0], None)) is not None:
            self._seen_again(before, known)
            group = None  # else it could stand twice in one group
        if group is None or group.source != source or group.time_s != now_s or len(group.numbers) >= _GROUP:
            group = _Group(source, now_s)
            self._groups[group] = None
        group.numbers.extend(numbers)
        group.live += len(numbers)
        known.update(dict.fromkeys(numbers, group))
        self._count += len(numbers)

    def _seen_again(self, group: _Group, known: dict[int, _Group]) -> None:
        """An entry leaves its group, which gets rid of what it has no more before that costs memory."""
        self._count -= 1
        group.live -= 1
        if not group.live:
            del self._groups[group]
        elif 2 * group.live < len(group.numbers):
            group.numbers = [number for number in group.numbers[group.start :] if known.get(number) is group]
            group.start = 0

    def _forget(self, group: _Group, most: int) -> None:
        """Up to so many of the oldest entries, all of them in the oldest group."""
        known = self._sources[group.source]
        numbers = group.numbers[group.start : group.start + most]
        if group.live < len(group.numbers) - group.start:
            numbers = [number for number in numbers if known.get(number) is group]
        group.start += most
        group.live -= len(numbers)
        self._count -= len(numbers)
        deque(map(known.pop, numbers), maxlen=0)
        if not group.live:
            del self._groups[group]
            if not known:
                del self._sources[group.source]

    def handle_timer(self, now_s: int) -> None:
        """Forget what is too old (3.1.6.7); the timer runs while anything is left."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return
        limit_s = now_s - self._cleanup_s
        while self._groups and (oldest := next(iter(self._groups))).time_s < limit_s:
            self._forget(oldest, len(oldest.numbers))
        self.deadline_s = now_s + self._cleanup_s if self._count else None
