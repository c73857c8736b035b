"""Picking messages out of columns."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.wire.columns import picker


@given(st.lists(st.integers(0, 255), min_size=1), st.data())
def test_the_values_at_some_indices(column: list[int], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(column) - 1)))
    pick, expected = picker(indices), [column[index] for index in indices]
    for each in (column, tuple(column), bytes(column), array("Q", column)):
        assert list(pick(each)) == expected


@pytest.mark.parametrize("indices", [(5,), (0, 5)])
def test_there_is_no_value_behind_the_last(indices: tuple[int, ...]) -> None:
    with pytest.raises(IndexError):
        picker(indices)(range(5))
