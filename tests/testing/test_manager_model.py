"""The model: events change it, promises hold what they touch, and it can tell two states apart."""

from __future__ import annotations

import pytest

from msmq.manager.model import OperationType
from msmq.testing.manager_model import (
    Ended,
    Gone,
    Item,
    Moved,
    Operation,
    Promised,
    Put,
    QueueGone,
    QueueWritten,
    State,
    Traits,
    number_of,
    root_of,
)

QUEUE = "host\\private$\\q"
ITEM = Item(QUEUE, b"text", 100, None, True)
PROMISE = Promised(
    b"t", (Operation(OperationType.ENQUEUE, 2, ITEM), Operation(OperationType.DEQUEUE, 1, ITEM))
)


def state(*changes: QueueWritten | QueueGone | Put | Gone | Moved | Promised | Ended) -> State:
    made = State()
    made.apply([QueueWritten(QUEUE, Traits()), Put(1, ITEM), *changes])
    return made


def test_messages_come_move_and_go() -> None:
    assert state(Moved(1, QUEUE + ";a")).messages[1].place == QUEUE + ";a"
    assert state(Gone(1)).messages == {}
    with pytest.raises(AssertionError, match="given out twice"):
        state(Put(1, ITEM))


def test_a_promise_holds_messages_until_it_ends() -> None:
    promised = state(PROMISE)
    assert promised.standing.keys() == {1, 2}
    assert promised.messages.keys() == {1}
    promised.apply([Ended(b"t")])
    assert promised == state()


def test_what_goes_takes_its_operations_along() -> None:
    gone = state(PROMISE, Gone(1))
    assert [member.lookup_id for member in gone.promised[b"t"]] == [2]
    assert state(PROMISE, QueueGone(QUEUE)).promised == {b"t": ()}


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (state(Gone(1)), "messages: 1"),
        (state(Put(2, ITEM)), "messages: 2"),
        (state(Moved(1, QUEUE + ";a")), "messages: 1"),
        (state(QueueWritten(QUEUE, Traits(journaling=True))), "queues"),
        (state(Promised(b"t", ())), "promised transactions"),
    ],
)
def test_differences_are_named(other: State, what: str) -> None:
    assert state().differs(state()) == ""
    assert state().differs(other).startswith(what)


def test_damaged_messages_do_not_count() -> None:
    assert state().differs(state(Gone(1)), besides={1}) == ""
    without = state(Promised(b"t", PROMISE.operations[:1]))
    assert state(PROMISE).differs(without).startswith("promised transactions")
    assert state(PROMISE).differs(without, besides={1}) == ""


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_message_stands_nowhere(lost: int) -> None:
    left = state(PROMISE)
    left.forget(lost)
    assert left.standing.keys() == {1, 2} - {lost}
    assert [member.lookup_id for member in left.promised[b"t"]] == [3 - lost]


def test_a_copy_is_of_its_own() -> None:
    one = state()
    other = one.copy()
    other.apply([Gone(1)])
    assert one == state() != other


def test_names_and_numbers() -> None:
    assert root_of(QUEUE + ";journal") == QUEUE == root_of(QUEUE)
    assert number_of(4 << 56 | 77) == 77
