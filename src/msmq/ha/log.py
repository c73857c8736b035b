"""The rows of the log that instances share, and what a leader needs of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from msmq.store import Answered
from msmq.store.layout import FORMAT_FILE, segment_name, segment_number

FORMAT_SEGMENT: Final = 0
"""The number of the FORMAT file in the log; segments begin at 1."""
PIECE_BYTES: Final = 1 << 20
"""The most bytes in one row. Rows that are sent together are inserted together or not at all."""


class Row(NamedTuple):
    """A change of one file. A row without ``data`` cuts the file at ``offset``."""

    segment: int
    offset: int
    data: bytes | None

    @property
    def size(self) -> int:
        return 0 if self.data is None else len(self.data)


class NumberedRow(NamedTuple):
    """A row with its number in the log. Numbers rise by one from row to row, whichever instance wrote them."""

    number: int
    row: Row


class SharedLog(Protocol):
    """The log as its leader uses it, from one thread."""

    @property
    def where(self) -> str:
        """The name of the log for messages, without a password."""

    def send(self, rows: list[Row], answered: Answered) -> None:
        """Add all rows or none, behind those of earlier calls. ``answered`` is called in the order of the calls, with
        None when the rows are durable, or with an error:

        NotLeaderError: it is unknown whether they are, or another instance leads. Final.

        StoreFullError: there was no room, and neither these rows nor those sent after them were added. They may be
        sent again after the last of these errors.
        """

    def wait(self) -> None:
        """Return once everything that was sent is answered."""

    def drop(self, segment: int) -> None:
        """Drop a segment soon. Segments are dropped in the order of the calls."""


def file_of(segment: int) -> str:
    return FORMAT_FILE if segment == FORMAT_SEGMENT else segment_name(segment)


def segment_of(name: str) -> int | None:
    """The number of a file in the log, or None for files that are not in it."""
    return FORMAT_SEGMENT if name == FORMAT_FILE else segment_number(name)


def in_pieces(rows: Iterable[Row]) -> Iterator[Row]:
    """Divide rows that are too large."""
    for row in rows:
        if row.data is None or len(row.data) <= PIECE_BYTES:
            yield row
        else:
            for start in range(0, len(row.data), PIECE_BYTES):
                yield Row(row.segment, row.offset + start, row.data[start : start + PIECE_BYTES])
