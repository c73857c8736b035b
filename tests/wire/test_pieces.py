"""Small neighbours are joined, large parts stay what they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from msmq.wire.pieces import gathered

LARGE = 8


@given(st.lists(st.binary(max_size=2 * LARGE)))
def test_the_bytes_are_the_same_and_large_ones_are_not_copied(parts: list[bytes]) -> None:
    pieces = gathered(parts, LARGE)
    assert b"".join(pieces) == b"".join(parts)
    large = [part for part in parts if len(part) >= LARGE]
    assert sum(map(len, large)) == sum(len(piece) for piece in pieces if any(piece is part for part in large))
    assert len(pieces) <= 2 * len(large) + 1, "what lies between two large ones is one piece"


def test_nothing_is_one_empty_piece() -> None:
    assert gathered([], LARGE) == [b""]
