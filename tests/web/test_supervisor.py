"""The console starts at the latest when somebody comes, comes back when it dies, and goes with its queue manager."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest

from msmq.server.web_settings import WebError, WebSettings
from msmq.web.plan import Plan
from msmq.web.supervisor import Supervisor
from tests.server.support import free_port


async def test_from_the_first_knock_to_the_end(tmp_path: Path) -> None:
    port = free_port()
    plan = Plan(WebSettings(listen=f"127.0.0.1:{port}"), {"A": f"unix:{tmp_path}/no"}, state=str(tmp_path))
    supervisor = Supervisor(plan)
    assert supervisor.open() == f"http://127.0.0.1:{port}/"
    with pytest.raises(WebError, match="in use"):
        Supervisor(plan).open()
    assert supervisor.process is None, "nobody came yet"
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        url = f"http://127.0.0.1:{port}/api/health"
        assert (await client.get(url)).status_code == 200
        first = supervisor.process
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        await first.wait()
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        assert (await client.get(url)).status_code == 200
    second = supervisor.process
    assert second is not None
    assert second.pid != first.pid
    await supervisor.close()
    assert second.returncode == 0
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(url)
