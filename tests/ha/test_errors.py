"""The errors of high availability."""

from __future__ import annotations

import pytest

from msmq.ha import errors
from msmq.store import StoreError


@pytest.mark.parametrize("name", ["NotLeaderError", "DatabaseError", "NewerSchemaError", "BehindError"])
def test_they_are_errors_of_the_store(name: str) -> None:
    """So whoever handles a store that fails handles these."""
    kind = getattr(errors, name)
    assert issubclass(kind, errors.HaError)
    assert issubclass(kind, StoreError)
