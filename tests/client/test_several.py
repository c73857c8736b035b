"""Several addresses, of which one answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from msmq.client.problems import ServerNotAvailableError
from msmq.client.several import SeveralCarrier
from msmq.errors import MsmqError


class Carrier:
    """One that answers with its name, refuses, or never gets a connection."""

    def __init__(self, name: str, state: str = "there") -> None:
        self.name = name
        self.state = state
        self.closed = False

    async def ready(self) -> None:
        if self.state == "silent":
            await asyncio.sleep(3600)
        if self.state == "away":
            raise ServerNotAvailableError(f"{self.name} is away")

    async def stream(
        self, name: str, received: Callable[[Any], None], lost: Callable[[MsmqError], None]
    ) -> Any:
        return f"{name} to {self.name}"

    async def call(self, name: str, request: Any) -> Any:
        return f"{name} by {self.name}"

    async def replies(self, name: str, request: Any) -> AsyncGenerator[Any, None]:
        yield self.name
        yield name

    async def close(self) -> None:
        self.closed = True


def no_answer(error: Exception | None) -> MsmqError:
    return ServerNotAvailableError(f"nobody answers: {error}")


async def test_calls_go_to_the_one_that_answers_and_follow_it() -> None:
    a, b, c = Carrier("a", "away"), Carrier("b", "silent"), Carrier("c")
    several = SeveralCarrier([a, b, c], 30, no_answer)
    assert await several.call("Send", None) == "Send by c"
    assert await several.stream("Receive", print, print) == "Receive to c"
    c.state, a.state = "away", "there"
    assert await several.call("Send", None) == "Send by a"
    assert [reply async for reply in several.replies("Browse", None)] == ["a", "Browse"]
    await several.close()
    assert [each.closed for each in (a, b, c)] == [True, True, True]


async def test_nobody_answers() -> None:
    several = SeveralCarrier([Carrier("a", "silent"), Carrier("b", "silent")], 0.05, no_answer)
    with pytest.raises(ServerNotAvailableError, match="nobody answers"):
        await several.ready()
