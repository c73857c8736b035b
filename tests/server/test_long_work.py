"""Long work goes on by itself, slice after slice, each when the one before is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from msmq.errors import MessageStorageFailedError
from msmq.manager.chores import Chores
from msmq.server.group_commit import GroupCommit
from msmq.server.long_work import LongWork


class Commit:
    """Says that something is durable when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.requests = 0

    def when_durable(self, action: Callable[[], None], *, patient: bool = False) -> None:
        self.waiting.append(action)

    def request(self) -> None:
        self.requests += 1

    async def durable(self) -> None:
        waiting, self.waiting = self.waiting, []
        for action in waiting:
            action()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def slices(done: list[int], count: int, error: Exception | None = None) -> Iterator[int]:
    for number in range(count):
        done.append(number)
        yield 1
    if error is not None:
        raise error


def test_a_slice_waits_until_the_one_before_is_durable() -> None:
    async def test() -> None:
        chores, commit, done = Chores(), Commit(), list[int]()
        LongWork(chores, cast(GroupCommit, commit), pytest.fail)
        chore = chores.start(slices(done, 5))
        begun = len(done)
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(done) == begun, "nothing is durable yet"
        for _ in range(8):
            await commit.durable()
        assert chore.done
        assert chore.messages == len(done) == 5
        assert not commit.waiting

    asyncio.run(test())


def test_a_full_disk_ends_the_work_and_an_internal_error_ends_more() -> None:
    async def test() -> None:
        failures: list[BaseException] = []
        chores, commit = Chores(), Commit()
        LongWork(chores, cast(GroupCommit, commit), failures.append)
        full = chores.start(slices([], 4, MessageStorageFailedError("full")))
        for _ in range(8):
            await commit.durable()
        assert isinstance(full.error, MessageStorageFailedError)
        assert not failures
        wrong = ValueError("a fault of ours")
        chores.start(slices([], 4, wrong))
        for _ in range(8):
            await commit.durable()
        assert failures == [wrong]
        assert not commit.waiting, "nothing goes on"

    asyncio.run(test())
