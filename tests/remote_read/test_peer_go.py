"""The client of go-msrpc, which we did not write, calls every method of our server with its default settings."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.remote_read.clients import SUCCEEDS, Stage
from tests.remote_read.support import eventually, on_loop, serving
from tests.rpc.support import PASSWORD

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def client() -> Path:
    """Compiled once; the next run finds it."""
    subprocess.run([ROOT / "scripts" / "go.sh"], check=True, timeout=1_200)
    return ROOT / "build" / "go" / "remote-read-client"


@pytest.mark.parametrize("mechanism", ["spnego", "ntlm"])
@pytest.mark.parametrize("level", SUCCEEDS["go-msrpc"])
def test_every_method(level: str, mechanism: str, client: Path) -> None:
    on_loop(calls)(level, mechanism, client)


async def calls(level: str, mechanism: str, client: Path) -> None:
    async with serving() as served:
        stage = Stage(served)
        pipe = asyncio.subprocess.PIPE
        command = (str(client), str(served.port), level, mechanism, PASSWORD, *stage.transaction)
        program = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, err = await program.communicate()
        assert program.returncode == 0, out.decode() + err.decode()
        await eventually(lambda: not served.door.server.connections)
        assert out.decode().split() == ["ok", *str(SUCCEEDS["go-msrpc"][level]).replace(",", "").split()]
        await stage.check()
