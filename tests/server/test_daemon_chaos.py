"""Ten thousand transactional messages through processes that are killed and lines that are cut."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.server.chaos import Chaos
from tests.server.support import ALICE, BOB, CAROL


@pytest.mark.parametrize(
    ("addresses", "count", "kills"),
    [((ALICE, BOB), 10_000, 6), ((ALICE, BOB, CAROL), 1_700, 6)],
    ids=["two", "three"],
)
async def test_exactly_once_and_in_order(
    tmp_path: Path, addresses: tuple[str, ...], count: int, kills: int
) -> None:
    """Two processes: ten thousand one way. Three: six ways, ten thousand and two hundred together."""
    async with asyncio.timeout(900), Chaos(tmp_path, 11, addresses) as chaos:
        streams = chaos.streams[:1] if len(addresses) == 2 else chaos.streams
        share = count // (kills + 1)
        for process in chaos.processes:
            chaos.use(process, streams, share, 0)
            await process.start()
        for _ in range(kills):
            await asyncio.sleep(chaos.rng.uniform(0.1, 1.5))
            await chaos.kill_one(streams, share)
        for line in chaos.lines:
            line.unruly = False
        for process in chaos.processes:
            await process.kill()
            for stream in streams:
                if stream.source is process:
                    with process.opened() as node:
                        stream.send(node, count - stream.sent, chaos.rng)
            await process.start()
        await chaos.settle(streams, 600)
        for stream in streams:
            assert stream.sent == count
            assert stream.received == list(range(count))
        assert sum(line.cuts for line in chaos.lines) > 0
