"""One commit for many on a disk that is on other computers: the next batch goes before the last is answered."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from msmq.server import group_commit
from msmq.server.group_commit import GroupCommit
from msmq.store import HEAD_SIZE, Answered, RealDisk, Store, StoreError, StoreFullError, StoreOptions
from msmq.store.disk import RealFile
from tests.server.support import eventually

HEAD = bytes(HEAD_SIZE)
SMALL = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=4096)


class LocalFarDisk(RealDisk):
    """A disk that answers when the test lets it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.ahead_bytes = 0
        self.waiting: deque[Answered] = deque()
        self.sent = 0
        self.is_full_here = False

    def open(self, name: str, *, create: bool = False) -> RealFile:
        file = super().open(name, create=create)
        write = file.pwritev

        def pwritev(pieces: Sequence[bytes], offset: int) -> None:
            if self.is_full_here:
                raise OSError(errno.ENOSPC, "no space left")
            write(pieces, offset)

        file.pwritev = pwritev  # type: ignore[method-assign]
        return file

    def send(self, answered: Answered) -> None:
        self.waiting.append(answered)
        self.sent += 1

    def answer(self, error: StoreError | None = None) -> None:
        self.waiting.popleft()(error)


class World:
    """A queue manager's store on it, and what it hears."""

    def __init__(self, directory: Path) -> None:
        self.disk = LocalFarDisk(directory)
        self.store = Store.open(self.disk, SMALL)
        list(self.store.recover())
        self.failures: list[Exception] = []
        self.full: list[bool] = []
        self.called: list[int] = []
        self.commit = GroupCommit(self.store, self.failures.append, self.full.append, far=self.disk)

    def append(self, number: int, size: int = 10) -> None:
        self.store.append(1, HEAD, bytes(size))
        self.commit.when_durable(partial(self.called.append, number))

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


async def test_two_batches_are_under_way_and_the_rest_gathers(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(5):
        world.append(number)
        await world.turn()
    assert world.disk.sent == 2
    assert not world.called
    world.disk.answer()
    assert world.called == [0]
    await world.turn()
    assert world.disk.sent == 3, "what has gathered is one batch"
    world.disk.answer()
    world.disk.answer()
    assert world.called == [0, 1, 2, 3, 4]
    assert not world.commit.busy
    world.store.close()


async def test_little_waits_for_the_answer_and_much_does_not(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.disk.ahead_bytes = 500
    for number in range(3):
        world.append(number)
        await world.turn()
    assert world.disk.sent == 1
    world.append(3, 500)
    await world.turn()
    assert world.disk.sent == 2
    world.disk.answer()
    world.disk.answer()
    assert world.called == [0, 1, 2, 3]
    world.append(4)
    await world.turn()
    assert world.disk.sent == 3
    world.disk.answer()
    world.store.close()


async def test_batches_over_several_segments_are_whole(tmp_path: Path) -> None:
    """Segments are sealed when they are durable, while the next ones are under way."""
    world = World(tmp_path)
    for number in range(100):
        world.append(number, 500)
        await world.turn()
        if number % 3 == 0 and world.disk.waiting:
            world.disk.answer()
    while world.disk.waiting:
        world.disk.answer()
        await world.turn()
    assert world.called == list(range(100))
    world.store.close()
    again = Store.open(RealDisk(tmp_path), SMALL)
    assert len(list(again.recover())) == 100
    assert not again.report.damaged
    again.close()


async def test_what_found_no_room_goes_again_with_what_was_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_RETRY_FULL_S", 0.001)
    world = World(tmp_path)
    for number in range(2):
        world.append(number)
        await world.turn()
    world.append(2)
    world.disk.answer(StoreFullError("no room"))
    assert not world.full, "the second is not answered yet"
    world.disk.answer(StoreFullError("no room"))
    assert world.full == [True]
    await eventually(lambda: world.disk.sent == 3)
    world.disk.answer(StoreFullError("no room"))
    await eventually(lambda: world.disk.sent == 4)
    assert not world.called
    world.disk.answer()
    assert world.full == [True, False]
    assert world.called == [0, 1]
    await eventually(lambda: world.disk.sent == 5)
    world.disk.answer()
    assert world.called == [0, 1, 2]
    world.store.close()


async def test_what_was_refused_goes_before_what_was_about_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes in the turn of the loop in which the next batch was decided on."""
    monkeypatch.setattr(group_commit, "_RETRY_FULL_S", 0.001)
    world = World(tmp_path)
    world.append(0)
    await world.turn()
    world.append(1)
    world.disk.answer(StoreFullError("no room"))
    await world.turn()
    assert world.disk.sent == 1, "nothing goes while something waits for room"
    await eventually(lambda: world.disk.sent == 2)
    world.disk.answer()
    assert world.called == [0]
    await eventually(lambda: world.disk.sent == 3)
    world.disk.answer()
    assert world.called == [0, 1]
    assert not world.failures
    world.store.close()


@pytest.mark.parametrize("refused", [False, True], ids=["answered", "refused too"])
async def test_files_here_that_are_full_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    """While an older batch is under way, which the other computers take or have no room for either."""
    monkeypatch.setattr(group_commit, "_RETRY_FULL_S", 0.001)
    world = World(tmp_path)
    world.append(0)
    await world.turn()
    world.disk.is_full_here = True
    world.append(1)
    await world.turn()
    assert world.disk.sent == 1
    assert not world.full, "nobody knows yet what becomes of the first"
    world.disk.answer(StoreFullError("no room") if refused else None)
    assert world.full == [True]
    assert world.called == ([] if refused else [0])
    world.disk.is_full_here = False
    await eventually(lambda: world.disk.sent == 2)
    world.disk.answer()
    assert world.full == [True, False]
    assert world.called == [0, 1]
    await world.turn()
    assert not world.commit.busy
    world.store.close()


async def test_what_found_no_room_when_it_ends_is_a_failure(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(1)
    await world.turn()
    finishing = asyncio.create_task(world.commit.finish())
    await world.turn()
    world.disk.answer(StoreFullError("no room"))
    await finishing
    assert [type(failure) for failure in world.failures] == [StoreFullError]
    assert not world.called
    world.store.close()


async def test_in_the_end_nothing_is_under_way(tmp_path: Path) -> None:
    """Not even what nobody waits for: the store is closed then."""
    world = World(tmp_path)
    world.append(1)
    await world.turn()
    finishing = asyncio.create_task(world.commit.finish())
    await world.turn()
    world.store.append(1, HEAD, b"x")
    world.commit.request()
    await world.turn()
    assert world.disk.sent == 2
    world.disk.answer()
    await world.turn()
    assert not finishing.done()
    world.disk.answer()
    await finishing
    world.store.close()


async def test_nobody_is_answered_after_a_failure(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(3):
        world.append(number)
        await world.turn()
    world.disk.answer(StoreError("another instance leads"))
    world.disk.answer(None)
    await world.turn()
    assert len(world.failures) == 1
    assert not world.called
    assert world.disk.sent == 2
    with pytest.raises(StoreError, match="another instance"):
        world.store.take()
    world.store.close()
