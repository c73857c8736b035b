"""Places of transactional messages, made durable (MS-MQQB 3.1.1.5).

The messages that get their places together are one value of the ledger: the sequence, the first number and their
lookup identifiers in order. A value is dropped when all its messages are done **and all values before it have been
dropped**: so as long as any message of a sequence is left, the last number is known, and no number is used twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

from msmq.manager.ledger.ledger import Ledger
from msmq.transfer.order_sender import Place

LAST_SEQUENCE: Final = "transfer/last sequence"
_PREFIX: Final = "transfer/places"
RECORD_BYTES: Final = 256
PLACE_BYTES: Final = 24
"""The room to reserve in the store for a value, and for each message in it."""


@dataclass(slots=True, eq=False)
class _Group:
    key: str
    sequence_id: int
    first: int
    count: int
    left: int
    """The number of its messages that are left."""


class Places:
    """The places given to messages of one outgoing queue."""

    def __init__(self, ledger: Ledger, queue_number: int) -> None:
        self._ledger = ledger
        self._queue_number = queue_number
        self._groups: deque[_Group] = deque()
        self._of: dict[int, _Group] = {}

    @property
    def last(self) -> tuple[int, int]:
        """The last (TxSequenceID, TxSequenceNumber) used, as far as it still matters."""
        if not self._groups:
            return (0, 0)
        group = self._groups[-1]
        return group.sequence_id, group.first + group.count - 1

    def write(self, first: Place, lookup_ids: list[int]) -> None:
        """Store the places of messages: consecutive numbers from ``first`` on. The caller has reserved room."""
        key = f"{_PREFIX}/{self._queue_number}/{first.tx_sequence_id}/{first.tx_sequence_number}"
        self._ledger.put_value(key, _shortened(lookup_ids))
        self._add(key, first.tx_sequence_id, first.tx_sequence_number, lookup_ids, lookup_ids)

    def done(self, lookup_id: int) -> None:
        """Note that a message has left its queue, after that was recorded."""
        self.done_all((lookup_id,))

    def done_all(self, lookup_ids: Iterable[int]) -> None:
        """Note that messages have left their queue, after that was recorded."""
        of = self._of
        if of:
            for group, count in Counter(map(of.pop, lookup_ids, repeat(None))).items():
                if group is not None:
                    group.left -= count
            self._trim()

    def _trim(self) -> None:
        while self._groups and not self._groups[0].left:
            self._ledger.drop_value(self._groups.popleft().key)

    def restore(
        self, values: list[tuple[int, int, list[int]]], present: set[int]
    ) -> list[tuple[int, int, int]]:
        """Restore the values of an earlier run. Returns sequence, number and lookup identifier of each message that is
        left."""
        found = []
        for sequence_id, first, lookup_ids in sorted(values):
            key = f"{_PREFIX}/{self._queue_number}/{sequence_id}/{first}"
            here = [lookup_id for lookup_id in lookup_ids if lookup_id in present]
            self._add(key, sequence_id, first, lookup_ids, here)
            found += [
                (sequence_id, first + index, lookup_id)
                for index, lookup_id in enumerate(lookup_ids)
                if lookup_id in present
            ]
        self._trim()  # a crash may have come between the removal of a message and that of its value
        return found

    def _add(self, key: str, sequence_id: int, first: int, every: list[int], here: list[int]) -> None:
        group = _Group(key, sequence_id, first, len(every), len(here))
        self._groups.append(group)
        self._of.update(dict.fromkeys(here, group))


def stored_places(values: Mapping[str, Any]) -> dict[int, list[tuple[int, int, list[int]]]]:
    """The values of earlier runs, by the number of the queue: sequence, first number, lookup identifiers."""
    found: dict[int, list[tuple[int, int, list[int]]]] = {}
    for key, lookup_ids in values.items():
        if key.startswith(_PREFIX + "/"):
            queue, sequence_id, first = key[len(_PREFIX) + 1 :].split("/")
            found.setdefault(int(queue), []).append((int(sequence_id), int(first), _lengthened(lookup_ids)))
    return found


def _shortened(lookup_ids: list[int]) -> list[int] | dict[str, int]:
    """The stored form of identifiers: of consecutive ones, as most are, only the first and the last."""
    first, last = lookup_ids[0], lookup_ids[-1]
    if len(lookup_ids) > 1 and lookup_ids == list(range(first, last + 1)):
        return {"first": first, "last": last}
    return lookup_ids


def _lengthened(written: list[int] | dict[str, int]) -> list[int]:
    return list(range(written["first"], written["last"] + 1)) if isinstance(written, dict) else written
