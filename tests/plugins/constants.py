"""Hypothesis tries the constants of the source as examples. It reads them once, when tests are only collected
(``make check``), and not in each of the processes that run tests afterwards: it keeps them in ``.hypothesis``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        draw()


@settings(max_examples=10, database=None, deadline=None)
@given(st.lists(st.integers(), min_size=50))
def draw(_: list[int]) -> None:
    """Make so many examples that a constant is among them."""
