"""Rows of the shared log."""

from __future__ import annotations

from msmq.ha.log import PIECE_BYTES, Row, file_of, in_pieces, segment_of


def test_files_have_numbers() -> None:
    assert [segment_of(name) for name in ("FORMAT", "00000007.log", "LOCK", "FORMAT.new")] == [
        0,
        7,
        None,
        None,
    ]
    assert [file_of(number) for number in (0, 7)] == ["FORMAT", "00000007.log"]


def test_large_rows_go_in_pieces_that_are_the_same_together() -> None:
    data = bytes(range(256)) * (PIECE_BYTES // 100)
    rows = [Row(1, 0, b"small"), Row(1, 5, data), Row(2, 9, None)]
    pieces = list(in_pieces(rows))
    assert pieces[0] == rows[0]
    assert pieces[-1] == rows[-1]
    assert max(piece.size for piece in pieces) == PIECE_BYTES
    assert b"".join(piece.data or b"" for piece in pieces[1:-1]) == data
    places = [piece.offset for piece in pieces[1:-1]]
    assert places == [5 + index * PIECE_BYTES for index in range(len(places))]
