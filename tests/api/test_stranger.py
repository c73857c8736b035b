"""The contract is enough: a program made from it, and from nothing else of ours, sends and receives."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from grpc_tools import protoc

from scripts.proto import SOURCE
from tests.api.support import address, daemon


async def test_a_client_generated_from_the_contract(tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generated.mkdir()
    outputs = [f"--python_out={generated}", f"--grpc_python_out={generated}"]
    assert protoc.main(["protoc", f"-I{SOURCE}", *outputs, str(SOURCE / "msmq.proto")]) == 0

    async with daemon(tmp_path) as running:
        program = str(Path(__file__).parent / "stranger.py")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            program,
            str(generated),
            address(running),
            stdout=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )
        async with asyncio.timeout(300):
            output, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(output) == {
        "confirmed": [1, 2],
        "first": ["1", "hello"],
        "settled": 1,
        "second": "2",
        "committed": True,
        "left": "answer",
        "answers": True,
        "error": "MQ_ERROR_QUEUE_NOT_FOUND",
    }
