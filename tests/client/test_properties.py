"""Names of properties: known to type checkers, and said clearly when nobody knows them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api.generated import msmq_pb2 as pb
from msmq.client.properties import MessageProperties, QueueSettings, check_names
from tests.client.support import QUEUE, connected

WRONG = """
import msmq

async def asynchronous(mq: msmq.Connection) -> None:
    queue = await mq.create_queue("q", lable="x")
    await queue.send("x", lable="x")
    await queue.send_many(["x"], priorty=3)
    await mq.set_queue("q", qouta_kb=1)

def synchronous(mq: msmq.SyncConnection) -> None:
    mq.create_queue("q", lable="x").send("x", priorty=3)
    message = mq.queue("q").receive()
    number: int = message.label
    message.txt
"""


def test_every_property_has_its_type() -> None:
    assert set(MessageProperties.__annotations__) == {field.name for field in fields(msmq.Message)} - {"body"}
    assert set(QueueSettings.__annotations__) == {field.name for field in pb.QueueSettings.DESCRIPTOR.fields}


async def test_a_misspelt_property_says_what_was_meant(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        with pytest.raises(TypeError, match="no property 'lable'; did you mean 'label'"):
            await mq.create_queue(QUEUE, lable="x")
        queue = await mq.create_queue(QUEUE)
        with pytest.raises(TypeError, match="did you mean 'priority'"):
            await queue.send("x", priorty=3)
        with pytest.raises(TypeError, match="did you mean 'quota_kb'"):
            await mq.set_queue(queue, qouta_kb=3)
        assert (await mq.queue_info(queue)).messages == 0
    with pytest.raises(TypeError, match="there are label, type"):
        check_names({"xyz": 1}, QueueSettings.__annotations__)


async def test_a_value_that_a_queue_cannot_have_is_told_by_its_name(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        await mq.create_queue(QUEUE, label="one")
        wrong: list[tuple[dict[str, Any], type[Exception]]] = [
            ({"max_deliveries": -5}, ValueError),
            ({"quota_kb": 1 << 40}, ValueError),
            ({"label": 5}, TypeError),
            ({"label": "fine", "base_priority": "high"}, TypeError),
        ]
        for given, kind in wrong:
            name = [*given][-1]
            with pytest.raises(kind, match=f"^{name} cannot be "):
                await mq.set_queue(QUEUE, **given)
        assert (await mq.queue_info(QUEUE)).label == "one"


def test_a_misspelt_property_is_an_error_of_types(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    cache = Path(__file__).resolve().parents[2] / ".mypy_cache"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "wrong.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300).stdout
    wrong = {
        int(line.split(":")[1])
        for line in found.splitlines()
        if line.startswith("wrong.py:") and "error" in line
    }
    assert wrong == {5, 6, 7, 8, 11, 13, 14}, found
