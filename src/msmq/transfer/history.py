"""Duplicates of messages without a transaction (MS-MQQB 3.1.5.8.1): MessageIDHistoryTable.

A sender that lost its session sends again what was not acknowledged, so that express and recoverable messages may
come twice. The receiver remembers the identifiers of what it took lately: at most ``size`` of them, and each for as
long as the cleanup timer says after it was last seen. It is help, not a promise; exactly once is what transactions
are for.

The caller asks :meth:`MessageIdHistory.seen` of every arrival and tells :meth:`MessageIdHistory.record` of those
it takes, storing the entry with the message where the message is stored. The duplicate of a recoverable message is
acknowledged like one that was stored; if the first copy is still on its way to the disk, with it and not before.

Times are seconds since 1970, because entries outlive the process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msmq.wire.message import UserMessage

DEFAULT_SIZE: Final = 10_000
"""RemoveDuplicateSize (note 25)."""
_SOURCE: Final = slice(16, 32)
_MESSAGE_ID: Final = slice(56, 60)


def message_identifier(message: UserMessage) -> bytes:
    """SourceQueueManager and MessageID as they lie in the packet: the MessageIdentifier of an entry."""
    data = message.data
    return data[_SOURCE] + data[_MESSAGE_ID]


class MessageIdHistory:
    """The messages seen lately, oldest first."""

    __slots__ = ("_cleanup_s", "_entries", "_size", "deadline_s")

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
        self._entries: OrderedDict[bytes, int] = OrderedDict()
        self.deadline_s: int | None = None
        for identifier, time_s in sorted(stored, key=lambda entry: entry[1]):
            self.record(identifier, time_s)
        if self._entries:
            self.deadline_s = now_s + self._cleanup_s

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return iter(self._entries.items())

    def seen(self, identifier: bytes, now_s: int) -> bool:
        """Whether this is a duplicate; if so, it is remembered anew from now on."""
        if identifier not in self._entries:
            return False
        self._entries[identifier] = now_s
        self._entries.move_to_end(identifier)
        return True

    def record(self, identifier: bytes, now_s: int) -> None:
        """A message was taken; the oldest entry makes room when there is none."""
        if not self._entries:
            self.deadline_s = now_s + self._cleanup_s
        elif len(self._entries) >= self._size:
            self._entries.popitem(last=False)
        self._entries[identifier] = now_s

    def all_new(self, identifiers: Sequence[bytes]) -> bool:
        """Whether none of several messages is a duplicate, not even of another one among them."""
        return len(set(identifiers)) == len(identifiers) and self._entries.keys().isdisjoint(identifiers)

    def record_all(self, identifiers: Sequence[bytes], now_s: int) -> None:
        """As :meth:`record`, for many messages that are :meth:`all_new`."""
        entries = self._entries
        if not entries:
            self.deadline_s = now_s + self._cleanup_s
        entries.update(dict.fromkeys(identifiers, now_s))
        for _ in range(len(entries) - self._size):
            entries.popitem(last=False)

    def handle_timer(self, now_s: int) -> None:
        """Forget what is too old (3.1.6.7); the timer runs while anything is left."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return
        limit_s = now_s - self._cleanup_s
        while self._entries and next(iter(self._entries.values())) < limit_s:
            self._entries.popitem(last=False)
        self.deadline_s = now_s + self._cleanup_s if self._entries else None
