"""What the log that instances share consists of, and what a leader asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from msmq.store import Answered
from msmq.store.layout import FORMAT_FILE, segment_name, segment_number

FORMAT_SEGMENT: Final = 0
"""The number under which the FORMAT file stands in the log; segments begin at 1."""
PIECE_BYTES: Final = 1 << 20
"""The most that one row holds. Many rows are inserted together or not at all."""


class Row(NamedTuple):
    """A change of one file. Without ``data`` the file ends at ``offset`` from then on."""

    segment: int
    offset: int
    data: bytes | None

    @property
    def size(self) -> int:
        return 0 if self.data is None else len(self.data)


class NumberedRow(NamedTuple):
    """A row as it stands in the log. Numbers rise by one from row to row, whoever wrote them."""

    number: int
    row: Row


class SharedLog(Protocol):
    """The log as its leader sees it, used by one thread."""

    @property
    def where(self) -> str:
        """What to call it in messages; no password in it."""

    def send(self, rows: list[Row], answered: Answered) -> None:
        """Add all rows or none, behind those of the calls before. ``answered`` is called in the order of the calls,
        with None when the rows will survive, or with an error:

        NotLeaderError: nobody knows whether they will, or another instance leads. Final.
        StoreFullError: none was added, because there is no room, nor were those that were sent behind them; they may be
        sent again after the last of these answers.
        """

    def wait(self) -> None:
        """Return when everything that was sent is answered."""

    def drop(self, segment: int) -> None:
        """Take a segment away, in a moment. Those that are dropped go in the order of the calls."""


def file_of(segment: int) -> str:
    return FORMAT_FILE if segment == FORMAT_SEGMENT else segment_name(segment)


def segment_of(name: str) -> int | None:
    """Under which number a file stands in the log; None for files that are nobody else's business."""
    return FORMAT_SEGMENT if name == FORMAT_FILE else segment_number(name)


def in_pieces(rows: Iterable[Row]) -> Iterator[Row]:
    """The same changes in rows that are not too large."""
    for row in rows:
        if row.data is None or len(row.data) <= PIECE_BYTES:
            yield row
        else:
            for start in range(0, len(row.data), PIECE_BYTES):
                yield Row(row.segment, row.offset + start, row.data[start : start + PIECE_BYTES])
