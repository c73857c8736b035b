"""Sending over connections that break."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.client.sender import Sender
from tests.client.support import QUEUE, Restartable, mail_to, messages_of
from tests.mail import in_order
from tests.server.support import PATIENCE_S, eventually


async def test_nothing_is_lost_or_doubled_when_the_connection_breaks(tmp_path: Path) -> None:
    """Batches that were under way go again, and the queue manager knows those it has."""

    async with Restartable(tmp_path) as server, msmq.connect(server.address, window=64) as mq:
        queue = await mq.create_queue(QUEUE)
        mail = mail_to(everything=False)
        drafts = [mail.numbered() for _ in range(5_000)]
        first, *others = messages_of(drafts)
        await queue.send(first)
        sending = asyncio.ensure_future(queue.send_many(others))
        for _ in range(5):
            await asyncio.sleep(0.03)
            server.cut()
        assert len(await sending) == len(others)
        async with msmq.connect(server.address) as other:  # the last cut may have come after the last message
            found = [message.body async for message in other.queue(QUEUE).browse()]
        assert found == [draft.body for draft in in_order(drafts)]


async def test_after_a_restart_what_was_not_confirmed_is_said_to_be_unknown(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send(0)
        assert server.daemon is not None
        kept: list[object] = []
        server.daemon.when_durable = kept.append  # type: ignore[method-assign]  # no answer any more
        unanswered = asyncio.ensure_future(queue.send(msmq.Message(1)))
        await eventually(lambda: kept)
        del server.daemon.when_durable
        await server.stop()
        await server.start()
        with pytest.raises(msmq.OutcomeUnknownError) as caught:
            await unanswered
        assert [message.body for message in caught.value.messages] == [1]
        await queue.send(2)
        found = [message.value async for message in queue.browse()]
        assert found[0] == 0
        assert found[-1] == 2


async def test_a_server_that_does_not_come_back(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address, timeout=2) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send(0)
        await server.stop()
        with pytest.raises((msmq.ServerNotAvailableError, msmq.OutcomeUnknownError)):
            await queue.send(1)
        with pytest.raises(msmq.ServerNotAvailableError):
            await mq.manager()
        await server.start()
        while True:
            try:
                await queue.send(2)
                break
            except msmq.ServerNotAvailableError:
                continue
        assert (await queue.receive(60)).value == 0


async def test_why_a_queue_is_refused_is_always_told(tmp_path: Path) -> None:
    """The refusal must not be lost to a write that was under way when it came."""

    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        for number in range(40):
            with pytest.raises(msmq.errors.QueueNotFoundError):
                await mq.queue(f".\\private$\\absent{number}").send_many(["x"] * 300)


WRONG: list[tuple[str, Any, type[Exception]]] = [
    ("extension", "text", TypeError),
    ("extension", 5, TypeError),
    ("correlation_id", "twenty characters...", TypeError),
    ("label", 5, TypeError),
    ("label", "\ud800", ValueError),
    ("priority", -1, ValueError),
    ("priority", 2.5, TypeError),
    ("priority", "high", TypeError),
    ("application_tag", 1.5, TypeError),
    ("application_tag", 1 << 32, ValueError),
    ("time_to_be_received", -5, ValueError),
    ("time_to_be_received", math.nan, ValueError),
    ("time_to_reach_queue", math.inf, ValueError),
    ("time_to_reach_queue", timedelta(days=100_000), ValueError),
    ("response_queue", 7, TypeError),
    ("sender_certificate", "text", TypeError),
]


async def test_a_value_that_cannot_be_written_is_told_by_its_name_and_costs_no_others(tmp_path: Path) -> None:
    """Whether it goes alone, with those of other tasks, or as one of many."""
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        queue = await mq.create_queue(QUEUE)
        for name, value, kind in WRONG:
            properties: Any = {name: value}
            with pytest.raises(kind, match=rf"^{name} is .*, and has to be "):
                async with asyncio.timeout(PATIENCE_S):
                    await queue.send("wrong", **properties)
            together = (queue.send("first"), queue.send("wrong", **properties), queue.send("last"))
            async with asyncio.timeout(PATIENCE_S):
                told = await asyncio.gather(*together, return_exceptions=True)
            assert [isinstance(each, kind) for each in told] == [False, True, False]
            with pytest.raises(kind, match=rf"^{name} is "):
                async with asyncio.timeout(PATIENCE_S):
                    await queue.send_many([msmq.Message("fine"), msmq.Message("wrong", **properties)])
            await queue.send("after")
            assert [message.text async for message in queue.browse()] == ["first", "last", "after"]
            await queue.purge()


async def test_a_mistake_of_ours_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sender: Sender) -> None:
        raise ZeroDivisionError

    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        queue = await mq.create_queue(QUEUE)
        with monkeypatch.context() as patch:
            patch.setattr(Sender, "_ship", fail)
            with pytest.raises(ZeroDivisionError):
                async with asyncio.timeout(PATIENCE_S):
                    await queue.send("x")
        await queue.send("y")
