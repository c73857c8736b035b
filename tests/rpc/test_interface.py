"""Interfaces and their operations."""

from __future__ import annotations

import pytest

from msmq.rpc.interface import Interface, Operation
from msmq.rpc.mgmt import Nothing
from tests.rpc.echo import ECHO, ECHOES


def test_operations_are_found_by_name_and_number() -> None:
    assert ECHOES["Echo"] is ECHO
    assert ECHOES.find(0) is ECHO
    assert ECHOES.find(99) is None


@pytest.mark.parametrize(
    "second", [Operation(0, "Other", Nothing, Nothing), Operation(1, "One", Nothing, Nothing)]
)
def test_no_operation_stands_twice(second: Operation[Nothing, Nothing]) -> None:
    with pytest.raises(AssertionError):
        Interface("bad", ECHOES.syntax, (Operation(0, "One", Nothing, Nothing), second))
