"""An error in a task that nobody waits for is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from msmq.errors import NoDsError
from msmq.errors.tasks import Task, closing, raise_again


async def told(work: Callable[[], None], *callbacks: Callable[[Task], None]) -> list[BaseException]:
    """What the owner of the loop is told of a task, while somebody still holds it."""
    heard: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(context))

    async def run() -> None:
        work()

    task = loop.create_task(run())
    for callback in callbacks:
        task.add_done_callback(callback)
    await asyncio.wait({task})
    await asyncio.sleep(0)
    return [context["exception"] for context in heard]


def fail() -> None:
    raise ZeroDivisionError


def refuse() -> None:
    raise NoDsError


def cancel() -> None:
    raise asyncio.CancelledError


async def test_what_ended_a_task_is_raised_again() -> None:
    (error,) = await told(fail, raise_again)
    assert isinstance(error, ZeroDivisionError)
    (refused,) = await told(refuse, raise_again)
    assert isinstance(refused, NoDsError)


@pytest.mark.parametrize("work", [lambda: None, cancel])
async def test_a_task_that_ended_well_or_was_cancelled_tells_nothing(work: Callable[[], None]) -> None:
    closed: list[None] = []
    assert await told(work, raise_again, closing(lambda: closed.append(None))) == []
    assert closed == []


async def test_what_its_caller_expects_is_not_told() -> None:
    def callback(task: Task) -> None:
        raise_again(task, (NoDsError,))

    assert await told(refuse, callback) == []
    assert len(await told(fail, callback)) == 1


async def test_a_task_of_one_connection_closes_it() -> None:
    closed: list[None] = []
    assert len(await told(fail, closing(lambda: closed.append(None)))) == 1
    assert closed == [None]
