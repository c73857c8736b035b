"""What the tests of daemons rely on."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.server.support import ALICE, CAROL, Node, neighbourhood


@pytest.mark.parametrize("end", [Node.crash, Node.stop], ids=["killed", "stopped"])
@pytest.mark.parametrize("turns", range(5))
def test_a_host_that_ends_while_somebody_comes_leaves_no_socket_open(
    tmp_path: Path, turns: int, end: Callable[[Node], Coroutine[Any, Any, None]]
) -> None:
    """At each of the turns that asyncio takes to let a connection in."""

    async def come_and_end() -> None:
        async with neighbourhood(tmp_path) as here:
            alice = await here.node(ALICE)
            with socket.socket() as visitor:
                visitor.setblocking(False)
                visitor.bind((CAROL, 0))
                visitor.connect_ex((ALICE, here.port))
                for _ in range(turns):
                    await asyncio.sleep(0)
                await end(alice)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(come_and_end())
        gc.collect()
    assert [str(each.message) for each in caught if each.category is ResourceWarning] == []
