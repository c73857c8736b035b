"""A loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from msmq.ha.worker import Worker


def test_work_runs_in_its_thread_while_others_wait() -> None:
    async def where() -> int:
        return threading.get_ident()

    worker = Worker()
    try:
        assert worker.begin(where()).result(120) != threading.get_ident()
        assert asyncio.run(worker.do(where())) != threading.get_ident()
    finally:
        worker.stop()


def test_what_still_runs_ends_with_it() -> None:
    worker = Worker()
    future = worker.begin(asyncio.sleep(3600))
    worker.stop()
    with pytest.raises(CancelledError):
        future.result(120)
    assert worker.loop.is_closed()
