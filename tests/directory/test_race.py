"""Attempts that are made beside each other: the first that succeeds counts, and nobody waits for the others."""

from __future__ import annotations

import threading

import pytest

from msmq.directory.race import AllFailedError, first

LONG_S = 60.0


def refuse() -> str:
    raise OSError("refused")


def test_one_that_fails_gives_way_at_once() -> None:
    assert first([refuse, refuse, lambda: "here"], LONG_S, head_start_s=LONG_S) == (2, "here")


def test_one_that_hangs_is_overtaken_and_disposed_of_when_it_ends() -> None:
    go_on, disposed = threading.Event(), threading.Event()
    late: list[str] = []

    def hang() -> str:
        go_on.wait(LONG_S)
        return "late"

    def dispose(result: str) -> None:
        late.append(result)
        disposed.set()

    assert first([hang, lambda: "here"], LONG_S, dispose, head_start_s=0.01) == (1, "here")
    go_on.set()
    assert disposed.wait(LONG_S)
    assert late == ["late"]


def test_when_none_succeeds_every_reason_is_told() -> None:
    go_on = threading.Event()
    with pytest.raises(AllFailedError, match="refused; no answer in time") as caught:
        first([refuse, lambda: go_on.wait(LONG_S)], 0.1)
    go_on.set()
    assert [type(reason) for reason in caught.value.reasons] == [OSError, type(None)]


def test_nothing_to_attempt() -> None:
    with pytest.raises(AllFailedError):
        first([], LONG_S)
