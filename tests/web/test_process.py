"""The process of the console: its plan, and that it is no less careful by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from msmq.server.web_settings import WebSettings
from msmq.web.plan import Plan, bound
from msmq.web.process import run


@pytest.mark.slow
async def test_a_console_whose_queue_manager_is_away_says_so(tmp_path: Path) -> None:
    plan = Plan(
        WebSettings(metrics_open=True, requests_per_second=1, requests_at_once=5),
        {"A": f"unix:{tmp_path}/no"},
    )
    over, listening = asyncio.Event(), bound("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    running = asyncio.create_task(run(plan, [listening], over))
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        assert (await client.get(f"{url}/api/health")).json() == {"status": "up"}
        away, told = await asyncio.gather(
            client.get(f"{url}/api/me", headers={"authorization": "Bearer x"}),
            client.get(f"{url}/metrics"),
        )
        assert away.status_code == 503
        assert told.text.splitlines()[-1] == "openmsmq_up 0"
        answers = [(await client.get(f"{url}/api/health")).status_code for _ in range(12)]
        assert 429 in answers, "nobody asks without end"
    over.set()
    await running
