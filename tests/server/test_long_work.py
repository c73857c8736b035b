"""Slice after slice, each when the one before is durable and others have had their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from msmq.errors import InsufficientResourcesError
from msmq.manager.chores import Chores
from msmq.server.group_commit import GroupCommit
from msmq.server.long_work import LongWork
from msmq.store import HEAD_SIZE, RealDisk, Store
from tests.server.support import eventually


class Scene:
    """A store, its commits, and work that writes a record in each slice."""

    def __init__(self, directory: Path) -> None:
        self.store = Store.open(RealDisk(directory))
        list(self.store.recover())
        self.commit = GroupCommit(self.store, self._failed)
        self.chores = Chores()
        self.failures: list[Exception] = []
        self.undurable: list[int] = []
        """How many slices found that the one before them was not durable."""
        self.done = 0

    def _failed(self, error: Exception) -> None:
        self.failures.append(error)

    def start(self) -> LongWork:
        return LongWork(self.chores, self.commit, self._failed)

    def slices(self, count: int, fails: Exception | None = None) -> Iterator[int]:
        for number in range(count):
            if number > 1 and self.store.durable < self.store.appended:
                self.undurable.append(number)
            if number == 3 and fails is not None:
                raise fails
            self.store.append(1, bytes(HEAD_SIZE), b"x")
            self.done += 1
            yield 1


async def test_a_slice_waits_for_the_one_before_and_for_others(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start()
    chore = scene.chores.start(scene.slices(20))
    turns = 0
    while not chore.done:
        turns += 1
        await asyncio.sleep(0)
    assert (scene.done, chore.messages, scene.undurable) == (20, 20, [])
    assert turns >= 18
    await eventually(lambda: scene.store.durable == scene.store.appended)


async def test_work_that_was_left_over_goes_on_at_the_start(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    chore = scene.chores.start(scene.slices(10))
    assert not chore.done
    scene.start()
    await eventually(lambda: chore.done)
    assert scene.done == 10


async def test_no_more_after_the_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    work = scene.start()
    chore = scene.chores.start(scene.slices(50))
    work.stop()
    done = scene.done
    await scene.commit.drain()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (scene.done, chore.done) == (done, False)


async def test_a_full_disk_ends_the_work_and_nothing_else(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start()
    full = InsufficientResourcesError("full")
    chore, other = scene.chores.start(scene.slices(10, full)), scene.chores.start(scene.slices(5))
    await eventually(lambda: chore.done and other.done)
    assert (chore.error, other.error, scene.failures) == (full, None, [])


async def test_an_error_of_our_own_is_told_and_ends_everything(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start()
    mistake = AssertionError("never")
    scene.chores.start(scene.slices(10, mistake))
    other = scene.chores.start(scene.slices(50))
    await eventually(lambda: scene.failures == [mistake])
    done = scene.done
    for _ in range(20):
        await asyncio.sleep(0)
    assert (scene.done, other.done) == (done, False)
