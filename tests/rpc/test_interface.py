"""Interfaces and their operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from msmq.rpc.interface import Interface, Operation, Promise
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


class Watched:
    """A promise and everything that becomes of it."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.promise = Promise(lambda: self.seen.append("abandoned"), lambda: self.seen.append("hurried"))
        self.room: list[Callable[[], None]] = []
        self.promise.deliver_to(self.seen.append, self.room.append)


def test_a_promise_is_kept_once() -> None:
    watched = Watched()
    watched.promise.hurry()
    watched.promise.answer(Nothing())
    watched.promise.answer(Nothing())
    watched.promise.abandon()
    watched.promise.hurry()
    assert watched.seen == ["hurried", Nothing()]
    assert watched.promise.over


def test_nobody_gets_the_answer_of_an_abandoned_promise() -> None:
    watched = Watched()
    watched.promise.abandon()
    watched.promise.abandon()
    watched.promise.answer(Nothing())
    watched.promise.hurry()
    assert watched.seen == ["abandoned"]


def test_a_promise_that_nobody_watches() -> None:
    promise = Promise()
    promise.hurry()
    with pytest.raises(AssertionError):
        promise.answer(Nothing())
    with pytest.raises(AssertionError):
        promise.when_room(list)
    promise.abandon()
    assert promise.over


def test_a_promise_that_is_over_needs_no_room() -> None:
    watched = Watched()
    watched.promise.when_room(watched.seen.clear)
    assert watched.room == [watched.seen.clear]
    watched.promise.abandon()
    watched.promise.when_room(watched.seen.clear)
    assert len(watched.room) == 1
