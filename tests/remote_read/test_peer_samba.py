"""Samba's RPC client, which we did not write, calls every method of our server."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests.remote_read.clients import SUCCEEDS, Stage
from tests.remote_read.support import eventually, on_loop, serving
from tests.rpc.support import PASSWORD

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def samba() -> None:
    subprocess.run([HERE.parent.parent / "scripts" / "samba.sh"], check=True, timeout=600)


@pytest.mark.parametrize("level", SUCCEEDS["Samba"])
@pytest.mark.spec("MQRR-3.1.4.2-m", "MQRR-6-c", "MQRR-4.2-a")
@on_loop
async def test_every_method(level: str, tmp_path: Path) -> None:
    (tmp_path / "smb.conf").write_text("[global]\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SMB_CONF_PATH": str(tmp_path / "smb.conf"),
    }

    async def start(*purpose: str) -> asyncio.subprocess.Process:
        command = (
            "/usr/bin/python3",
            str(HERE / "samba_client.py"),
            str(served.port),
            level,
            PASSWORD,
            *purpose,
        )
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, env=environment, cwd=tmp_path, stdout=pipe, stderr=pipe
        )

    async def told(client: asyncio.subprocess.Process) -> str:
        out, err = await client.communicate()
        assert client.returncode == 0, out.decode() + err.decode()
        return out.decode().split("ok ")[1].strip()

    async with serving() as served:
        stage = Stage(served)
        first = await start("every", *stage.transaction)
        assert first.stdout is not None
        waiting = (await first.stdout.readline()).decode().split()
        assert waiting[:1] == ["waiting"], (await first.communicate())[1].decode()
        await eventually(lambda: stage.orders.waiting)
        (group,) = [each for each in served.door.server.groups if len(each.handles)]
        second = await start("cancel", str(group.group_id), waiting[1])
        assert await told(second) == "[8]"
        done = await told(first)
        await eventually(lambda: not served.door.server.connections)
        assert sorted([8, *map(int, done.strip("[]").split(","))]) == SUCCEEDS["Samba"][level]
        await stage.check()
