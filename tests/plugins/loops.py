"""Runs tests that are coroutines, each on a loop of its own."""

from __future__ import annotations

import asyncio
import inspect

import pytest

LIMIT_S = 600
"""It only ends tests that hang; a slow machine is no failure."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await test(**arguments)

    asyncio.run(limited())
    return True
