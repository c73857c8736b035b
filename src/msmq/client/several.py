"""Several addresses of one queue manager, whose instances take turns: one of them answers.

A standby instance does not listen, so the one that accepts a connection is the leader. When the connection breaks, or
the instance shows no sign of life, the others are tried in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from msmq.client.problems import ServerNotAvailableError
from msmq.client.stream import Carrier, Stream
from msmq.errors import MsmqError

SILENT_S: Final = 5.0
"""How long an instance may be silent, if there are others."""
_ATTEMPT_S: Final = 1.0


class SeveralCarrier:
    """Makes calls through the first carrier that has a connection: a :class:`msmq.client.stream.Carrier`."""

    def __init__(
        self,
        carriers: Sequence[Carrier],
        timeout_s: float,
        no_answer: Callable[[Exception | None], MsmqError],
    ) -> None:
        self._carriers = list(carriers)
        self._timeout_s = timeout_s
        self._no_answer = no_answer

    async def ready(self) -> None:
        last: Exception | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    try:
                        async with asyncio.timeout(_ATTEMPT_S):
                            await self._carriers[0].ready()
                        return
                    except (TimeoutError, ServerNotAvailableError) as error:
                        last = error
                        self._carriers.append(self._carriers.pop(0))
        except TimeoutError:
            raise self._no_answer(last if str(last) else None) from None

    async def stream(
        self, name: str, received: Callable[[Any], None], lost: Callable[[MsmqError], None]
    ) -> Stream:
        await self.ready()
        return await self._carriers[0].stream(name, received, lost)

    async def call(self, name: str, request: Any) -> Any:
        await self.ready()
        return await self._carriers[0].call(name, request)

    async def replies(self, name: str, request: Any) -> AsyncGenerator[Any, None]:
        await self.ready()
        async with aclosing(self._carriers[0].replies(name, request)) as replies:
            async for reply in replies:
                yield reply

    async def close(self) -> None:
        await asyncio.gather(*(carrier.close() for carrier in self._carriers))
