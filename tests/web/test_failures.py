"""What failed, in groups that are counted once."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import msmq
from msmq.client.connection import Connection
from msmq.web import failures as module
from msmq.web.failures import Failed, Group, Tallies
from msmq.web.hosts import statistics
from msmq.web.people import Credential
from tests.web.support import Live


def test_a_group_counts_what_is_added_to_it() -> None:
    group = Group("q", "r", "d", "e", "NORMAL")
    for at_s in (20, 10, 30, 30):
        group.add(Failed(1, "r", "d", "e", "NORMAL", 5, at_s, f"at {at_s}"))
    shown = group.shown()
    assert (shown["messages"], shown["bytes"]) == ("4", "20")
    assert (shown["oldest"], shown["newest"]) == ("1970-01-01T00:00:10Z", "1970-01-01T00:00:30Z")
    assert shown["labels"] == ["at 20", "at 10", "at 30"]


def test_error_queues_are_grouped_by_exception(live: Live, admin: httpx.Client) -> None:
    headers = {
        "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
        "NServiceBus.FailedQ": "x@HOST",
    }
    live.queue(
        "error", *[msmq.Message("x", extension=json.dumps(headers).encode()) for _ in range(3)], "plain"
    )
    found = admin.get("/api/failures", params={"queue": ".\\private$\\error"}).json()
    assert {(each["exception"], each["messages"]) for each in found["items"]} == {
        ("System.TimeoutException", "3"),
        ("", "1"),
    }
    assert found["whole"] is True


QUEUE = ".\\private$\\tallied"


def _reading(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each call gave that counts."""
    read: list[int] = []
    find = module.find

    async def counting(*given: Any, **more: Any) -> dict[str, Any]:
        found = await find(*given, **more)
        read.append(len(found["items"]))
        return found

    monkeypatch.setattr(module, "find", counting)
    return read


def test_what_was_counted_is_not_read_again(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    read = _reading(monkeypatch)

    async def test(mq: Connection) -> None:
        tallies = Tallies()

        async def counts() -> tuple[int, int, int]:
            """What the groups say, how many messages there are, and how many were read for it."""
            read.clear()
            tally = await tallies.of(mq, "HOST", Credential("x"), QUEUE)
            assert tally.whole
            return sum(each.messages for each in tally.groups.values()), tally.messages, sum(read)

        queue = await mq.create_queue(QUEUE, if_missing=True)
        await queue.send_many(["x"] * 10)
        assert await counts() == (10, 10, 10)
        assert await counts() == (10, 10, 0)
        await queue.send_many(["x"] * 3)
        assert await counts() == (13, 13, 3)
        await queue.send("first of all", priority=7)
        assert await counts() == (14, 14, 14), "it came in front of those that were counted"
        await queue.receive(timeout=120)
        assert await counts() == (13, 13, 13)
        async with queue.receiver() as receiver:
            held = await receiver.receive(timeout=120)
            await queue.send("one more")
            assert (await counts())[1] == 14
            assert (await counts())[2] == 0, "what somebody holds is not looked for each time"
            await held.acknowledge()
        assert await counts() == (13, 13, 13)
        await mq.delete_queue(queue)
        await mq.create_queue(QUEUE)
        await queue.send("a queue of the same name")
        assert await counts() == (1, 1, 1)

    live.do(test)


def test_counting_goes_on_where_there_was_no_time_left(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEP", 4)
    monkeypatch.setattr(module, "_LOOK_S", -1.0)

    async def test(mq: Connection) -> None:
        tallies, queue = Tallies(), await mq.create_queue(".\\private$\\tallied-slowly", if_missing=True)
        await queue.send_many(["x"] * 10)
        for counted, whole in ((4, False), (8, False), (10, True)):
            tally = await tallies.of(mq, "HOST", Credential("x"), queue.name)
            assert (tally.counted, tally.messages, tally.whole) == (counted, 10, whole)

    live.do(test)


def test_dead_letters_that_are_not_counted_yet_are_told_too(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP", 2)
    monkeypatch.setattr(module, "_LOOK_S", -1.0)
    monkeypatch.setattr(module, "DEAD_LETTERS", (".\\private$\\as-if-dead",))
    read = _reading(monkeypatch)

    async def test(mq: Connection) -> None:
        queue = await mq.create_queue(".\\private$\\as-if-dead", if_missing=True)
        await queue.send_many(["x"] * 5)
        tallies = Tallies()

        async def counts() -> dict[str, int]:
            return await tallies.dead_letters(mq, "HOST", Credential("x"), await statistics(mq))

        assert await counts() == {"NORMAL": 2, "not counted yet": 3}
        await counts()
        assert await counts() == {"NORMAL": 5}
        read.clear()
        assert await counts() == {"NORMAL": 5}
        assert read == [], "nobody is asked while nothing comes or goes"
        await queue.send("x")
        assert await counts() == {"NORMAL": 6}

    live.do(test)
