"""The simulated event loop under asyncio's own tools."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from msmq.testing.loop import SimulatedLoop
from msmq.testing.network import SimulatedNetwork


def loop_and_network() -> tuple[SimulatedNetwork, SimulatedLoop]:
    network = SimulatedNetwork(Random(1))
    return network, network.boot("10.0.0.1")


def complete(network: SimulatedNetwork, loop: SimulatedLoop, coroutine: Any, until: float = 100.0) -> Any:
    with loop.running():
        task = loop.create_task(coroutine)
    while network.step(until) is not None:
        pass
    return task.result()


def test_time_passes_only_while_everybody_waits() -> None:
    network, loop = loop_and_network()

    async def sleeper() -> list[float]:
        moments = [loop.time()]
        await asyncio.sleep(5)
        moments.append(loop.time())
        async with asyncio.timeout(10):
            await asyncio.sleep(1)
        moments.append(loop.time())
        return moments

    assert complete(network, loop, sleeper()) == [0.0, 5.0, 6.0]
    assert network.now == 100.0
    network.close()


def test_time_outs() -> None:
    network, loop = loop_and_network()

    async def waiter() -> None:
        async with asyncio.timeout(3):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        complete(network, loop, waiter())
    network.close()


def test_a_task_that_fails_is_a_failure_at_once() -> None:
    """Even if nobody awaits it and it is kept."""
    network, loop = loop_and_network()

    async def fail() -> None:
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        complete(network, loop, fail())
    assert [str(error) for error in loop.failures] == ["on purpose"]
    network.close()


def test_timers_in_order_and_cancelled() -> None:
    network, loop = loop_and_network()
    called: list[str] = []
    loop.call_later(2, called.append, "second")
    loop.call_at(1, called.append, "first")
    loop.call_later(1.5, called.append, "never").cancel()
    loop.call_soon(called.append, "now")
    loop.call_soon(called.append, "not now").cancel()
    assert loop.next_time == 0
    while network.step(10):
        pass
    assert called == ["now", "first", "second"]
    assert loop.next_time is None
    network.close()


def test_work_in_threads_takes_time() -> None:
    network, loop = loop_and_network()
    network.working_s = (0.5, 0.5)

    def fail() -> None:
        raise KeyError("inside")

    async def worker() -> tuple[int, float]:
        result = await loop.run_in_executor(None, sum, [1, 2])
        with pytest.raises(KeyError):
            await loop.run_in_executor(None, fail)
        return result, loop.time()

    assert complete(network, loop, worker()) == (3, 1.0)
    cancelled = loop.run_in_executor(None, fail)
    cancelled.cancel()
    while network.step(200):
        pass
    assert not loop.failures
    network.close()


def test_what_nobody_caught_is_kept() -> None:
    network, loop = loop_and_network()
    loop.call_soon(lambda: 1 // 0)
    while network.step(1):
        pass
    assert [type(error) for error in loop.failures] == [ZeroDivisionError]
    network.close()


def test_a_process_that_dies_does_nothing_more() -> None:
    network, loop = loop_and_network()
    ended: list[str] = []

    async def worker() -> None:
        try:
            await asyncio.sleep(1)
            ended.append("done")
        finally:
            ended.append("cleaned up")

    with loop.running():
        loop.create_task(worker())
        loop.create_task(worker())
    network.step(0.5)
    network.end("10.0.0.1", silently=True)
    assert network.step(10) is None
    assert ended == ["cleaned up"]  # only the one that had begun
    assert loop.dead
    assert not loop.failures
