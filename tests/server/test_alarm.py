"""The timer that follows a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest
import uvloop

from msmq.server.alarm import Alarm, now_ms
from msmq.testing.network import SimulatedNetwork
from tests.server.support import eventually


async def test_it_goes_off_once() -> None:
    called: list[int] = []
    alarm = Alarm(lambda: called.append(now_ms()))
    deadline = now_ms() + 30
    alarm.set(deadline)
    alarm.set(deadline + 500)  # it goes off where it was set first
    await eventually(lambda: called)
    assert called[0] >= deadline - 1
    await asyncio.sleep(0.05)
    assert len(called) == 1


async def test_an_earlier_deadline_counts() -> None:
    called: list[int] = []
    alarm = Alarm(lambda: called.append(1))
    alarm.set(now_ms() + 60_000)
    alarm.set(now_ms() + 10)
    await eventually(lambda: called)


async def test_it_can_be_stopped() -> None:
    called: list[int] = []
    alarm = Alarm(lambda: called.append(1))
    alarm.set(now_ms() + 10)
    alarm.set(None)
    alarm.stop()
    await asyncio.sleep(0.05)
    assert called == []


@pytest.mark.parametrize(
    "factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_a_deadline_that_has_passed_is_not_put_off(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def test() -> None:
        called: list[int] = []
        alarm = Alarm(lambda: called.append(1))
        alarm.set(now_ms() - 10)
        alarm.set(now_ms() + 60_000)
        await eventually(lambda: called)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(test())


def test_a_deadline_is_reached_when_its_alarm_goes_off() -> None:
    """1.019 * 1,000 is less than 1,019."""
    network = SimulatedNetwork(Random(1))
    loop = network.boot("10.0.0.1")
    reached: list[int] = []
    with loop.running():
        Alarm(lambda: reached.append(now_ms())).set(1_019)
    while network.step(2):
        pass
    assert reached == [1_019]
    network.close()
