"""The history of message identifiers, made durable (MS-MQQB 3.1.1.3, note 26).

A receiver that crashes after it has stored a recoverable message and before its sender has learned that gets the
message again. The identifiers of the messages of one read are one value of the ledger, written after the messages: it
is never there without them, so a lost message is never taken for a duplicate. Consecutive numbers are stored as the
first one and their count. Values are dropped when everything in them would have been forgotten anyway. Express
messages do not survive a crash, and neither do their identifiers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msmq.errors import MessageStorageFailedError
from msmq.manager.ledger.ledger import Ledger
from msmq.transfer.history import DEFAULT_SIZE, MessageIdHistory, split

_PREFIX: Final = "transfer/history"
_RECORD_BYTES: Final = 256
_IDENTIFIER_BYTES: Final = 48
"""The room to reserve in the store for a value, and for each identifier in it."""


class RememberedIds:
    """Recognizes duplicates of messages without a transaction, also after a restart."""

    def __init__(
        self, ledger: Ledger, values: Mapping[str, Any], cleanup_ms: int, now_s: int, size: int = DEFAULT_SIZE
    ) -> None:
        """``values`` are those of the ledger, as recovery found them."""
        self._ledger = ledger
        self._size = size
        self._cleanup_s = cleanup_ms // 1_000
        self._fresh: dict[bytes, list[int]] = {}
        self._groups: deque[tuple[str, int, int]] = deque()  # key, time, how many
        self._written = 0
        stored = self._restore(values)
        self._history = MessageIdHistory(cleanup_ms, now_s, size, stored)
        self._next = 1 + max((_number(key) for key, _, _ in self._groups), default=0)

    def _restore(self, values: Mapping[str, Any]) -> list[tuple[bytes, int]]:
        found: list[tuple[bytes, int]] = []
        for key in sorted((key for key in values if key.startswith(_PREFIX + "/")), key=_number):
            time_s, sources = values[key]
            identifiers = [
                bytes.fromhex(source) + number.to_bytes(4, "little")
                for source, numbers in sources.items()
                for number in _unpacked(numbers)
            ]
            found += [(identifier, time_s) for identifier in identifiers]
            self._groups.append((key, time_s, len(identifiers)))
            self._written += len(identifiers)
        return found

    def __len__(self) -> int:
        return len(self._history)

    @property
    def deadline_s(self) -> int | None:
        return self._history.deadline_s

    def seen(self, identifier: bytes, now_s: int) -> bool:
        """Whether a message has come before."""
        return self._history.seen(identifier, now_s)

    def record(self, identifier: bytes, now_s: int, *, recoverable: bool) -> None:
        """Note that a message was taken."""
        self._history.record(identifier, now_s)
        if recoverable:
            source, number = split(identifier)
            self._fresh.setdefault(source, []).append(number)

    def fresh(
        self, source: bytes, numbers: Sequence[int], indices: Sequence[int], now_s: int
    ) -> Sequence[int]:
        """The indices of those messages of a source that have not come before."""
        return self._history.fresh(source, numbers, indices, now_s)

    def record_all(self, source: bytes, numbers: Sequence[int], now_s: int, *, recoverable: bool) -> None:
        """Note that messages of one source were taken, all of them :meth:`fresh`."""
        self._history.record_all(source, numbers, now_s)
        if recoverable:
            self._fresh.setdefault(source, []).extend(numbers)

    def write(self, now_s: int) -> None:
        """Store the identifiers of one read, if there is room."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, {}
        count = sum(map(len, fresh.values()))
        try:
            self._ledger.reserve(_RECORD_BYTES + _IDENTIFIER_BYTES * (count + len(fresh)))
        except MessageStorageFailedError:
            return
        sources = {source.hex(): _packed(numbers) for source, numbers in fresh.items()}
        key = f"{_PREFIX}/{self._next}"
        self._next += 1
        self._ledger.put_value(key, [now_s, sources])
        self._groups.append((key, now_s, count))
        self._written += count
        self._trim(now_s)

    def handle_timer(self, now_s: int) -> None:
        self._history.handle_timer(now_s)
        self._trim(now_s)

    def _trim(self, now_s: int) -> None:
        groups = self._groups
        while groups:
            key, time_s, count = groups[0]
            if self._written - count < self._size and time_s >= now_s - self._cleanup_s:
                break
            groups.popleft()
            self._written -= count
            self._ledger.drop_value(key)


def _number(key: str) -> int:
    return int(key.rpartition("/")[2])


def _packed(numbers: list[int]) -> list[int] | list[list[int]]:
    """The stored form of numbers, which are usually consecutive."""
    first, count = numbers[0], len(numbers)
    return [[first, count]] if count > 1 and numbers == list(range(first, first + count)) else numbers


def _unpacked(numbers: list[int | list[int]]) -> Iterator[int]:
    for each in numbers:
        if isinstance(each, int):
            yield each
        else:
            yield from range(each[0], each[0] + each[1])
