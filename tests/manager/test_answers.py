"""Answers leave when the event that made them is over, in order, each one once."""

from __future__ import annotations

import pytest

from msmq.manager.answers import Answers
from msmq.manager.queues.queue import ReadResult


@pytest.fixture
def answers() -> Answers:
    return Answers()


def test_an_answer_is_given_at_once_when_nothing_is_going_on(answers: Answers) -> None:
    got: list[ReadResult] = []
    answers.give(got.append, ReadResult(1))
    assert got == [ReadResult(1)]


def test_events_hold_answers_back_and_the_outermost_one_counts(answers: Answers) -> None:
    got: list[ReadResult] = []
    with answers.held():
        answers.give(got.append, ReadResult(1))
        with answers.held():
            answers.give(got.append, ReadResult(2))
        assert got == []
    assert got == [ReadResult(1), ReadResult(2)]


def test_answers_made_by_answers_come_after_them_without_nesting(answers: Answers) -> None:
    got: list[int] = []
    inside = False

    def done(result: ReadResult) -> None:
        nonlocal inside
        assert not inside
        inside = True
        got.append(result.status)
        if result.status < 5000:
            answers.give(done, ReadResult(result.status + 1000))
            with answers.held():
                answers.give(done, ReadResult(result.status + 10_000))
        inside = False

    answers.give(done, ReadResult(0))
    assert got == [0, 1000, 10_000, 2000, 11_000, 3000, 12_000, 4000, 13_000, 5000, 14_000]


def test_an_event_that_fails_still_lets_out_what_it_answered(answers: Answers) -> None:
    got: list[ReadResult] = []

    def fail() -> None:
        with answers.held():
            answers.give(got.append, ReadResult(1))
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert got == [ReadResult(1)]


def test_a_callback_that_fails_harms_nobody_else(answers: Answers) -> None:
    got: list[ReadResult] = []

    def fail(result: ReadResult) -> None:
        raise ValueError(result.status)

    def several() -> None:
        with answers.held():
            for number in range(4):
                answers.give(fail if number % 2 else got.append, ReadResult(number))

    with pytest.raises(ValueError, match="3"):
        several()
    assert got == [ReadResult(0), ReadResult(2)]
    answers.give(got.append, ReadResult(4))
    assert got[-1] == ReadResult(4), "nothing is stuck"
