"""Rows of messages that are sent a part at a time, and each message once."""

from __future__ import annotations

from pathlib import Path

import pytest

import msmq
from msmq.api import rows
from msmq.errors import InvalidParameterError
from tests.api.support import QUEUE
from tests.client.support import Restartable

BOOKS = ".\\private$\\books"


async def bodies(mq: msmq.Connection, queue: str) -> list[bytes]:
    return [message.body async for message in mq.queue(queue).browse()]


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_part_that_was_sent_is_passed_over(tmp_path: Path, transactional: bool) -> None:
    async with Restartable(tmp_path) as host, msmq.connect(host.address) as mq:
        queue = await mq.create_queue(QUEUE, transactional=transactional)
        assert await queue.send_once([], row="r", place=0) == 0
        assert await queue.send_once([b"0", b"1"], row="r", place=0) == 2
        assert await queue.send_once([b"0", b"1"], row="r", place=0) == 2
        assert await queue.send_once([b"1", b"2"], row="r", place=1) == 3
        await host.stop()
        await host.start()
        assert await queue.send_once([b"0", b"1", b"2", b"3"], row="r", place=0) == 4
        assert await bodies(mq, QUEUE) == [b"0", b"1", b"2", b"3"]
        assert await queue.send_once([b"0"], row="other", place=0) == 1
        await queue.forget_row("r")
        await queue.forget_row("r")
        assert await queue.send_once([], row="r", place=0) == 0
        await host.stop()
        await host.start()
        assert await queue.send_once([], row="r", place=0) == 0
        assert await queue.send_once([], row="other", place=0) == 1


async def test_what_is_refused_ends_the_part(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as host, msmq.connect(host.address) as mq:
        queue = await mq.create_queue(QUEUE, quota_kb=1)
        with pytest.raises(msmq.RowError) as told:
            await queue.send_once([b"0", b"x" * 5000, b"2"], row="r", place=0)
        assert told.value.sent == 1
        assert await bodies(mq, QUEUE) == [b"0"]
        await mq.set_queue(QUEUE, quota_kb=100)
        assert await queue.send_once([b"1", b"2"], row="r", place=1) == 3


async def test_parts_that_do_not_follow_and_names_that_are_none(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as host, msmq.connect(host.address) as mq:
        queue = await mq.create_queue(QUEUE)
        for row, place, body in (
            ("r", 1, b""),
            ("", 0, b""),
            ("r" * 65, 0, b""),
            ("r", 0, bytes(1 << 20)),
        ):
            with pytest.raises(InvalidParameterError):
                await queue.send_once([body, body], row=row, place=place)
        assert await bodies(mq, QUEUE) == []


async def test_so_many_rows_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_MOST_ROWS", 2)

    async with Restartable(tmp_path) as host, msmq.connect(host.address) as mq:
        queue = await mq.create_queue(QUEUE)
        for row in ("a", "b", "a", "c"):
            await queue.send_once([b"x", b"y"], row=row, place=0)
        await queue.send_once([b"x", b"y", b"z"], row="c", place=0)
        assert [await queue.send_once([], row=row, place=0) for row in "bc"] == [2, 3]
        assert await queue.send_once([], row="a", place=0) == 0
