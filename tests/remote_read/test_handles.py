"""The table of requests: what happens when the disk refuses, and limits."""

from __future__ import annotations

import pytest

from msmq.errors import InvalidParameterError, MessageStorageFailedError
from msmq.manager.mailbox.positions import PositionState
from msmq.remote_read import handles as module
from tests.remote_read.support import OK, SEVERITY, on_loop, serving


@on_loop
async def test_an_acknowledgment_the_disk_refuses_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle) == b"one"

            def refuse(*_: object, **__: object) -> None:
                raise MessageStorageFailedError("full")

            with monkeypatch.context() as patch:
                patch.setattr(served.manager.mailbox, "remove", refuse)
                assert await peer.end(handle) & SEVERITY
            assert [entry.state for entry in queue.positions] == [PositionState.LOCKED]
            assert await peer.end(handle) == OK
            assert not len(queue.positions)


@on_loop
async def test_a_cleanup_the_disk_refuses_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle) == b"one"

            def refuse(*_: object) -> None:
                raise MessageStorageFailedError("full")

            with monkeypatch.context() as patch:
                patch.setattr(served.manager.mailbox, "give_back", refuse)
                served.host.advance(300)
            assert [entry.state for entry in queue.positions] == [PositionState.LOCKED]
            served.host.advance(301)
            assert [entry.state for entry in queue.positions] == [PositionState.AVAILABLE]
            assert not served.handle.requests


@on_loop
async def test_requests_of_a_handle_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REQUESTS", 3)
    async with serving() as served:
        served.queue("orders", *[b"x"] * 5)
        async with await served.connect() as peer:
            handle = await peer.open()
            for number in (1, 2, 3):
                assert await peer.read(handle, request_id=number) == b"x"
            assert await peer.read(handle, request_id=4) == InvalidParameterError.code
            assert await peer.end(handle, 1) == OK
            assert await peer.read(handle, request_id=4) == b"x"


@on_loop
async def test_move_numbers_are_unlike_each_other() -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer:
            numbers = {
                (await peer.open_for_move("DIRECT=OS:HOST\\private$\\orders")).p_move_context
                for _ in range(50)
            }
            assert len(numbers) == 50
            assert all(number > 1 << 32 for number in numbers) or len({n >> 32 for n in numbers}) > 40
