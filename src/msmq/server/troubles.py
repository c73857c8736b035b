"""Troubles with the disk: damaged records, and a full disk. They are logged, counted, and kept across restarts, so
that operators still learn of them weeks later.

The rooms below note troubles where they find them; here they are collected periodically.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.ledger.ledger import Kind, LostRecord
from msmq.store import Store

VALUE: Final = "troubles"
FULL: Final = "there was no room on the disk, and messages were refused"
_MOST: Final = 200
"""The most troubles that are kept with their words; earlier ones are only counted."""
_LOGGED_AT_ONCE: Final = 20
_AGAIN_S: Final = 60
"""How often a lasting trouble is logged and stored."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Trouble:
    first_s: int
    last_s: int
    count: int


class Troubles:
    """The troubles that operators should know."""

    def __init__(self, core: Core, store: Store, values: Mapping[str, Any]) -> None:
        self._core = core
        self._store = store
        earlier, kept = values.get(VALUE, (0, []))
        self._earlier: int = earlier
        self._kept = {words: _Trouble(*numbers) for words, *numbers in kept}
        self._seen = self._refused = self._unwritten = self._logged = 0
        self._written_s = 0
        for place in store.report.damaged:
            self._note(f"the log of messages was damaged on the disk: {place}")
        self.look()

    @property
    def told(self) -> list[str]:
        """The troubles in plain words, the earliest first."""
        lines = [f"{self._earlier} earlier troubles"] if self._earlier else []
        for words, trouble in self._kept.items():
            again = f" ({trouble.count} times until {_date(trouble.last_s)})" if trouble.count > 1 else ""
            lines.append(f"{_date(trouble.first_s)}: {words}{again}")
        return lines

    def look(self) -> None:
        """Log and store new troubles."""
        self._logged = 0
        found, self._seen = self._core.lost_records[self._seen :], len(self._core.lost_records)
        for lost in found:
            self._note(words_of(lost))
        if self._logged > _LOGGED_AT_ONCE:
            _log.error("and %d more; see `msmq manager show`", self._logged - _LOGGED_AT_ONCE)
        due = self._core.now_s - self._written_s >= _AGAIN_S
        if self._store.refused > self._refused and (due or FULL not in self._kept):
            self._refuse(self._store.refused - self._refused)
        if self._unwritten:
            self._write()

    def _refuse(self, count: int) -> None:
        self._refused += count
        self._logged = 0
        self._note(FULL, count)
        _log.error("%s: %d times; %s", FULL, count, self._store.refusal)

    def _note(self, words: str, again: int = 0) -> None:
        """Note a trouble. Damage is found again after each restart, and counts once."""
        now_s, known = self._core.now_s, self._kept.pop(words, None)
        if known is None:
            self._logged += 1
            if self._logged <= _LOGGED_AT_ONCE and not again:
                _log.error("%s", words)
            self._kept[words] = _Trouble(now_s, now_s, max(again, 1))
        else:
            self._kept[words] = known
            if not again:
                return
            known.last_s, known.count = now_s, known.count + again
        self._unwritten += 1
        while len(self._kept) > _MOST:
            self._kept.pop(next(iter(self._kept)))
            self._earlier += 1

    def _write(self) -> None:
        kept = [[words, one.first_s, one.last_s, one.count] for words, one in self._kept.items()]
        size = sum(3 * len(words) + 64 for words in self._kept) + 64
        with suppress(MessageStorageFailedError):  # a full disk may have room for it later
            with self._core.event(size, 1, freeing=True):
                self._core.ledger.put_value(VALUE, [self._earlier, kept])
            self._unwritten = 0
        self._written_s = self._core.now_s


def words_of(lost: LostRecord) -> str:
    """What was lost, in plain words."""
    if lost.kind is Kind.MESSAGE:
        where = f" of {lost.name}" if lost.name else ""
        return f"a message{where} was damaged on the disk and is lost (lookup id {lost.lookup_id}): {lost.reason}"
    if lost.kind is Kind.VALUE:
        return f"what was written down as {lost.name or 'a setting'} was damaged on the disk: {lost.reason}"
    return f"a note that messages were taken or moved was damaged on the disk: {lost.reason}"


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
