"""A client in another language: JavaScript, made from the contract by packages of npm, sends and receives."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from scripts.proto import SOURCE
from tests.api.support import address, daemon

ROOT = Path(__file__).parent.parent.parent
SET_UP_S = 600
RUN_S = 25


@pytest.fixture(scope="module")
def modules() -> Path:
    """The packages of the client, installed once and kept."""
    subprocess.run([str(ROOT / "scripts" / "node.sh")], check=True, timeout=SET_UP_S)
    return ROOT / "build" / "node"


async def test_a_client_in_javascript(tmp_path: Path, modules: Path) -> None:
    async with daemon(tmp_path) as running:
        program = str(Path(__file__).parent / "node" / "client.js")
        arguments = (str(modules), str(SOURCE / "msmq.proto"), address(running))
        process = await asyncio.create_subprocess_exec(
            "node", program, *arguments, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
        )
        async with asyncio.timeout(RUN_S):
            output, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(output) == {
        "transactional": True,
        "confirmed": ["1", "2"],
        "first": ["body 1", "grüße"],
        "settled": 1,
        "second": "body 2",
        "decided": "committed",
        "left": "answer",
        "answers": True,
        "error": "MQ_ERROR_QUEUE_NOT_FOUND",
    }
