"""How long a caller waits: anything that a number of seconds can be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from msmq.client.timeouts import milliseconds
from tests.client.support import QUEUE, connected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, None), (0, 0), (0.25, 250), (True, 1000), (1 << 40, None), (1e300, None), (math.inf, None)],
)
def test_seconds_are_milliseconds_or_for_ever(seconds: float | None, expected: int | None) -> None:
    assert milliseconds(seconds) == expected


async def test_what_is_no_time_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    wrong: list[Any] = [-1, -0.001, -math.inf, math.nan, "5", b"5"]
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("x")
        async with queue.cursor() as cursor:
            for timeout in wrong:
                for wait in (queue.receive, queue.peek, cursor.current, cursor.next):
                    with pytest.raises(ValueError, match=r"timeout is .* seconds from 0 on"):
                        await wait(timeout)
        assert (await queue.receive(timeout=math.inf)).text == "x"
