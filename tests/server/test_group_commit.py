"""One commit for many, and nothing before it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from msmq.server.group_commit import GroupCommit
from msmq.store import HEAD_SIZE, RealDisk, Store, StoreFailedError, StoreFullError
from tests.server.support import PATIENCE_S, eventually

HEAD = bytes(HEAD_SIZE)


class PacedDisk(RealDisk):
    """A disk that is as quick as the test says."""

    def __init__(self, directory: Path, quick: bool) -> None:
        super().__init__(directory)
        self.quick = quick

    @property
    def is_quick(self) -> bool:
        return self.quick


class SlowStore:
    """A store that writes when the test lets it, and counts how often."""

    def __init__(self, directory: Path, *, quick: bool = False) -> None:
        self.store = Store.open(PacedDisk(directory, quick))
        list(self.store.recover())
        self.write = self.store.write
        self.store.write = self._write  # type: ignore[method-assign]
        self.gate = threading.Event()
        self.gate.set()
        self.writes = 0
        self.writers: set[int] = set()
        self.errors: list[Exception] = []

    def _write(self, batch: Any) -> None:
        self.gate.wait(PATIENCE_S)
        self.writes += 1
        self.writers.add(threading.get_ident())
        if self.errors:
            raise self.errors.pop(0)
        self.write(batch)

    def append(self) -> int:
        self.store.append(1, HEAD, b"x")
        return self.store.appended


async def test_with_nothing_to_wait_for_it_is_now(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    called: list[int] = []
    commit.when_durable(lambda: called.append(1))
    assert called == [1]
    assert slow.writes == 0
    slow.store.close()


@pytest.mark.parametrize(
    ("quick", "size", "here"),
    [(True, 1, True), (False, 1, False), (True, 2 << 20, False)],
    ids=["quick", "slow", "much"],
)
async def test_a_slow_disk_or_much_to_write_lets_the_loop_go_on(
    tmp_path: Path, quick: bool, size: int, here: bool
) -> None:
    """A quick disk is waited for; otherwise writing is left to a thread."""
    slow = SlowStore(tmp_path, quick=quick)
    commit = GroupCommit(slow.store, lambda error: None)
    called: list[int] = []
    slow.store.append(1, HEAD, bytes(size))
    commit.when_durable(lambda: called.append(threading.get_ident()))
    if not here:
        slow.gate.clear()
        await eventually(lambda: commit._writing is not None)
        assert not called, "the loop goes on, the disk does not"
        slow.gate.set()
    await eventually(lambda: called)
    assert called == [threading.get_ident()]
    assert (slow.writers == {threading.get_ident()}) == here
    assert slow.writes == 1
    slow.store.close()


async def test_who_asks_in_one_turn_shares_a_commit(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    called: list[int] = []
    for number in range(10):
        slow.append()
        commit.when_durable(lambda number=number: called.append(number))
    assert called == []
    await eventually(lambda: len(called) == 10)
    assert called == list(range(10))
    assert slow.writes == 1
    assert not commit.busy
    slow.store.close()


async def test_who_comes_during_a_write_shares_the_next_one(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    called: list[tuple[int, int]] = []

    def ask(number: int) -> None:
        mark = slow.append()
        commit.when_durable(lambda: called.append((number, slow.store.durable >= mark)))

    slow.gate.clear()
    ask(0)
    ask(1)
    await asyncio.sleep(0.05)
    assert commit.busy
    for number in range(2, 8):
        ask(number)
        await asyncio.sleep(0)
    assert called == []
    slow.gate.set()
    await eventually(lambda: len(called) == 8)
    assert called == [(number, True) for number in range(8)]
    assert slow.writes == 2
    slow.store.close()


async def test_much_is_written_while_the_loop_goes_on(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    slow.gate.clear()
    called: list[int] = []
    slow.store.append(1, HEAD, bytes(1 << 16))
    commit.when_durable(lambda: called.append(1))
    turns = 0
    while turns < 100:  # which would come to a stop at the gate
        await asyncio.sleep(0)
        turns += 1
    assert not called
    slow.gate.set()
    await eventually(lambda: called)
    slow.store.close()


async def test_records_nobody_waits_for(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    mark = slow.append()
    commit.request()
    await eventually(lambda: slow.store.durable == mark)
    await commit.drain()
    slow.store.close()


async def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("msmq.server.group_commit._RETRY_FULL_S", 0.01)

    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    slow.errors = [StoreFullError("full"), StoreFullError("full")]
    called: list[int] = []
    slow.append()
    commit.when_durable(lambda: called.append(1))
    await eventually(lambda: called)
    assert slow.writes == 3
    slow.store.close()


async def test_a_failed_disk_says_nothing_to_anybody(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    failures: list[Exception] = []
    commit = GroupCommit(slow.store, failures.append)
    failure = StoreFailedError("no more")
    slow.errors = [failure]
    called: list[int] = []
    for _ in range(2):
        slow.append()
        commit.when_durable(lambda: called.append(1))
    await eventually(lambda: failures)
    commit.when_durable(lambda: called.append(2))
    await commit.drain()
    await asyncio.sleep(0.05)
    assert failures == [failure]
    assert called == []
    slow.store._in_flight = None
    slow.store._refuse(failure)
    slow.store.close()


async def test_what_is_begun_meanwhile_is_waited_for_too(tmp_path: Path) -> None:
    """Whoever waits for everything goes on alone, without a batch under way."""
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)

    def append_more() -> None:
        slow.append()
        slow.gate.clear()
        asyncio.get_running_loop().call_later(0.05, slow.gate.set)

    slow.append()
    commit.when_durable(append_more)
    await commit.drain()
    assert not commit.busy
    assert slow.writes == 2
    slow.store.close()


async def test_an_error_of_the_thread_that_nobody_expects_is_reported_at_once(tmp_path: Path) -> None:
    """By a callback of the loop, and not when the task that it ended is forgotten."""
    slow = SlowStore(tmp_path)
    slow.errors.append(ZeroDivisionError())
    commit = GroupCommit(slow.store, lambda error: None)
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    called: list[int] = []
    slow.append()
    commit.when_durable(lambda: called.append(1))
    await eventually(lambda: told)
    assert isinstance(told[0]["exception"], ZeroDivisionError)
    assert "handle" in told[0]
    assert not called
    slow.store.abandon(StoreFailedError("an internal error"))
    slow.store.close()


async def test_a_waiter_that_raises_does_not_hold_up_the_others(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    called: list[int] = []
    slow.append()
    commit.when_durable(lambda: [][0])
    commit.when_durable(lambda: called.append(1))
    await eventually(lambda: called)
    slow.store.close()


async def test_what_nobody_waits_for_is_written_in_a_moment(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    commit.request_lazily()
    assert not commit.busy
    for _ in range(5):
        slow.append()
        commit.request_lazily()
        await asyncio.sleep(0)
    assert slow.writes == 0
    await eventually(lambda: slow.store.durable == slow.store.appended)
    assert slow.writes == 1
    slow.store.close()


async def test_who_asks_later_for_no_more_is_called_later(tmp_path: Path) -> None:
    """Even one whose records are durable already does not overtake another who is about to be called."""
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    called: list[str] = []
    mark = slow.append()

    def first() -> None:
        called.append("first")
        commit.when_durable(lambda: called.append("later"), mark)

    commit.when_durable(first)
    commit.when_durable(lambda: called.append("second"))
    await eventually(lambda: len(called) == 3)
    assert called == ["first", "second", "later"]
    slow.store.close()


async def test_who_needs_less_does_not_wait_for_more(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    commit = GroupCommit(slow.store, lambda error: None)
    called: list[str] = []
    mark = slow.append()
    await commit.drain()
    slow.gate.clear()
    slow.append()
    commit.when_durable(lambda: called.append("more"))
    commit.when_durable(lambda: called.append("less"), mark)
    assert called == ["less"]
    slow.gate.set()
    await eventually(lambda: called == ["less", "more"])
    slow.store.close()


async def test_a_full_disk_is_not_waited_for_at_the_end(tmp_path: Path) -> None:
    slow = SlowStore(tmp_path)
    failures: list[Exception] = []
    commit = GroupCommit(slow.store, failures.append)
    slow.errors = [StoreFullError("full") for _ in range(100)]
    called: list[int] = []
    slow.append()
    commit.when_durable(lambda: called.append(1))
    await eventually(lambda: slow.writes)
    await commit.finish()
    assert [str(failure) for failure in failures] == [str(StoreFullError("full"))]
    assert not called, "nobody is told that it is safe"
    slow.store.close()
    assert not list(Store.open(RealDisk(tmp_path)).recover())
