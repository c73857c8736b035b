"""A directory that answers every request, each of them slowly: the waits of one operation do not add up for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from msmq.directory import patience
from msmq.directory.cached import CachedDirectory
from msmq.directory.patience import TOO_SLOW
from msmq.errors import NoDsError
from msmq.manager.directory import DirectoryObject, DirectoryResult, Filter, ObjectClass, by_identifier
from msmq.manager.model import Site
from msmq.testing.directory import MemoryDirectory
from scripts.samba_dc import ADMINISTRATOR
from tests.directory.support import Domain, Trace

PATIENCE_S = 30
SUCCESS, GENERIC = DirectoryResult.SUCCESS, DirectoryResult.GENERIC_ERROR


def test_an_operation_has_so_much_time_and_its_thread_is_patient_again_behind_it() -> None:
    assert not patience.is_over()
    assert patience.limited(patience.is_over, -1)
    assert not patience.limited(patience.is_over, 3600)

    def inner() -> tuple[bool, bool]:
        return patience.limited(patience.is_over, -1), patience.is_over()

    assert patience.limited(inner, 3600) == (True, False)

    def changing() -> bool:
        patience.finish()
        return patience.is_over()

    assert not patience.limited(changing, -1)
    assert not patience.is_over()


# --- calls of applications --------------------------------------------------------------------------------------------


class SlowDirectory(MemoryDirectory):
    """Tells about each object only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_tell = threading.Event()

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        assert self.may_tell.wait(PATIENCE_S)
        return super().read(object_class, conditions, attributes)

    def queues_of(self, computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
        assert self.may_tell.wait(PATIENCE_S)
        return super().queues_of(computer)


async def test_a_call_is_not_kept_waiting_and_what_comes_later_serves_the_next_one() -> None:
    slow = SlowDirectory()
    slow.put(Site(b"p" * 16, "Paris"))
    cached = CachedDirectory(slow)
    cached.go_live()
    item = DirectoryObject(ObjectClass.QUEUE, {"pathname": "HOST\\q", "identifier": b"q" * 16})

    def create() -> DirectoryResult:
        assert cached.read(ObjectClass.SITE, by_identifier(b"p" * 16), ("name",))[0] is SUCCESS
        return cached.create(item, None, None)[0]

    with pytest.raises(NoDsError, match=r"too slowly, and nothing was changed\. Try again"):
        await cached.change(create, limit_s=0.01)
    assert not slow.asked("create")
    slow.may_tell.set()
    async with asyncio.timeout(PATIENCE_S):
        while cached._loading:
            await asyncio.sleep(0.01)
    slow.may_tell.clear()  # whoever asked now would wait
    assert await cached.change(create, limit_s=PATIENCE_S) is SUCCESS
    slow.may_tell.set()
    await cached.close()


async def test_a_change_is_not_called_back_because_the_look_behind_it_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "LAST_LOOK_S", 0.01)
    slow = SlowDirectory()
    cached = CachedDirectory(slow)
    cached.go_live()
    item = DirectoryObject(ObjectClass.QUEUE, {"pathname": "HOST\\q", "identifier": b"q" * 16})

    def create() -> tuple[DirectoryResult, DirectoryResult]:
        made = cached.create(item, None, None)[0]
        return made, cached.read(ObjectClass.QUEUE, by_identifier(b"q" * 16), ("full_path",))[0]

    assert await cached.change(create, limit_s=0.01) == (SUCCESS, GENERIC)
    assert len(slow.asked("create")) == 1
    slow.may_tell.set()
    await cached.close()


async def test_a_list_of_very_many_may_take_longer() -> None:
    slow = SlowDirectory()
    cached = CachedDirectory(slow)
    cached.go_live()
    asked = asyncio.create_task(cached.ask(lambda: cached.queues_of("HOST")[0], limit_s=0.01))
    done, _ = await asyncio.wait({asked}, timeout=0.2)
    assert not done
    slow.may_tell.set()
    assert await asked is SUCCESS
    await cached.close()


# --- requests to a controller -----------------------------------------------------------------------------------------


class Clock(Trace):
    """A clock that jumps by an hour when a request of a kind is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.jumps_at = ""
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def __call__(self, data: bytes) -> None:
        super().__call__(data)
        if self.requests[-1].operation == self.jumps_at:
            self._now_s += 3600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    given = Clock()
    monkeypatch.setattr(patience, "time", given)
    return given


def test_an_operation_changes_nothing_behind_its_time_and_finishes_what_it_has_begun(
    domain: Domain, clock: Clock
) -> None:
    directory = domain.directory_as(ADMINISTRATOR, clock)
    computer = domain.queue_manager().attributes["computer_name"]
    item = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{computer}\\orders", "label": "old"})

    def carried_out(operation: Callable[[], Any], jumps_at: str) -> tuple[Any, list[str]]:
        clock.clear()
        clock.jumps_at = jumps_at
        return patience.limited(operation, 10), clock.operations

    def create() -> tuple[DirectoryResult, bytes | None]:
        return directory.create(item, ("pathname", "label"), None)

    (result, _), sent = carried_out(create, "searchRequest")
    assert (result, sent) == (GENERIC, ["searchRequest"])
    assert directory.last_failure == TOO_SLOW

    (result, identifier), sent = carried_out(create, "addRequest")
    assert (result, sent) == (SUCCESS, ["searchRequest", "addRequest", "searchRequest"])

    item = DirectoryObject(ObjectClass.QUEUE, {**item.attributes, "identifier": identifier, "label": "new"})

    def write() -> DirectoryResult:
        return directory.write(item, ("label",), None)

    result, sent = carried_out(write, "searchRequest")
    assert (result, sent) == (GENERIC, ["searchRequest"])
    path = directory.objects.names.queue(item.attributes["pathname"])
    assert domain.look(path, "mSMQLabelEx")["mSMQLabelEx"] == [b"old"]
    assert carried_out(write, "modifyRequest")[0] is SUCCESS
    assert domain.look(path, "mSMQLabelEx")["mSMQLabelEx"] == [b"new"]
