"""When the console starts by itself, and where it does not open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from msmq.server.web_settings import WebError, WebSettings
from msmq.web.plan import Plan
from msmq.web.supervisor import Supervisor
from tests.server.support import free_port


async def test_it_does_not_open_without_tls_where_others_can_reach_it() -> None:
    with pytest.raises(WebError, match="no certificate"):
        Supervisor(Plan(WebSettings(listen=f"0.0.0.0:{free_port()}"))).open()


async def test_it_starts_and_comes_back_though_nobody_comes(tmp_path: Path) -> None:
    plan = Plan(WebSettings(listen=f"127.0.0.1:{free_port()}"), {"A": f"unix:{tmp_path}/no"})
    supervisor = Supervisor(plan)
    supervisor.open()
    while (first := supervisor.process) is None:
        await asyncio.sleep(0.01)
    first.kill()
    while supervisor.process is first:
        await asyncio.sleep(0.01)
    await supervisor.close()
