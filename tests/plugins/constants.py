"""Hypothesis tries the constants of the source as examples, and looks up what kinds of characters there are. It does so
once, when tests are only collected (``make check``), and not in each process that runs tests afterwards: what it found
is kept in ``.hypothesis``."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        draw()


@settings(max_examples=10, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(), min_size=50), st.text())
def draw(numbers: list[int], text: str) -> None:
    """Make so many examples that a constant is among them."""
