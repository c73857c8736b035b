"""Detect duplicates of messages without a transaction (MS-MQQB 3.1.5.8.1): MessageIDHistoryTable.

A sender that lost its session resends what was not acknowledged, so express and recoverable messages may come twice.
The receiver remembers the identifiers of recent messages: at most ``size`` of them, each until the cleanup time after
it was last seen has passed. This is best effort; exactly once is what transactions are for.

The caller asks :meth:`MessageIdHistory.seen` about every arrival and calls :meth:`MessageIdHistory.record` for those it
accepts; the entry of a stored message is stored with it. The duplicate of a recoverable message is acknowledged as if
it were stored; but not before the first copy is on the disk.

Entries are kept in groups, oldest first: messages of one source that came in one second. For each source the table
knows the group in which a number was last seen; a number that was seen again no longer counts in its older group.

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
"""The size at which a new group begins even in the same second."""
_GUID_BYTES: Final = len(NULL_GUID)


def message_identifier(message: UserMessage) -> bytes:
    """Return the MessageIdentifier of a message: SourceQueueManager and MessageID as in the packet."""
    return message.identifier.encode()


def split(identifier: bytes) -> tuple[bytes, int]:
    """Split a MessageIdentifier into SourceQueueManager and MessageID."""
    return identifier[:_GUID_BYTES], int.from_bytes(identifier[_GUID_BYTES:], "little")


class _Group:
    """Messages of one source that came in one second: those of ``numbers`` from ``start`` on, of which ``live`` still
    count. The others were seen again and belong to a later group."""

    __slots__ = ("live", "numbers", "source", "start", "time_s")

    def __init__(self, source: bytes, time_s: int) -> None:
        self.source = source
        self.time_s = time_s
        self.numbers: list[int] = []
        self.start = 0
        self.live = 0


class MessageIdHistory:
    """The recently seen messages, oldest first."""

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
        """True if this is a duplicate; its entry is then renewed."""
        source, number = split(identifier)
        known = self._sources.get(source)
        if known is None or number not in known:
            return False
        self._enter(source, (number,), now_s)
        return True

    def record(self, identifier: bytes, now_s: int) -> None:
        """Record a message that was accepted; the oldest entry makes room if necessary."""
        source, number = split(identifier)
        self.record_all(source, (number,), now_s)

    def fresh(
        self, source: bytes, numbers: Sequence[int], indices: Sequence[int], now_s: int
    ) -> Sequence[int]:
        """Return which messages of a source are no duplicates, also not of each other, as indices into their numbers.
        The entries of duplicates are renewed."""
        known, new = self._sources.get(source, {}), dict[int, int]()
        for index in indices:
            number = numbers[index]
            if number in known:
                self._enter(source, (number,), now_s)
            else:
                new.setdefault(number, index)
        return indices if len(new) == len(indices) else sorted(new.values())

    def record_all(self, source: bytes, numbers: Sequence[int], now_s: int) -> None:
        """Record many messages that are all :meth:`fresh`; see :meth:`record`."""
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
            group = None  # else it could be twice in one group
        if group is None or group.source != source or group.time_s != now_s or len(group.numbers) >= _GROUP:
            group = _Group(source, now_s)
            self._groups[group] = None
        group.numbers.extend(numbers)
        group.live += len(numbers)
        known.update(dict.fromkeys(numbers, group))
        self._count += len(numbers)

    def _seen_again(self, group: _Group, known: dict[int, _Group]) -> None:
        """Remove an entry from its group; the group drops its removed entries before they cost much memory."""
        self._count -= 1
        group.live -= 1
        if not group.live:
            del self._groups[group]
        elif 2 * group.live < len(group.numbers):
            group.numbers = [number for number in group.numbers[group.start :] if known.get(number) is group]
            group.start = 0

    def _forget(self, group: _Group, most: int) -> None:
        """Forget up to ``most`` entries of the oldest group."""
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
        """Forget entries that are too old (3.1.6.7); the timer runs while any are left."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return
        limit_s = now_s - self._cleanup_s
        while self._groups and (oldest := next(iter(self._groups))).time_s < limit_s:
            self._forget(oldest, len(oldest.numbers))
        self.deadline_s = now_s + self._cleanup_s if self._count else None
