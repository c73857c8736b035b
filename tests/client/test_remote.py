"""Receiving from queues of another host by their names: the client goes there itself, by remote read."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import msmq
from msmq.client.connection import RemoteAccess
from msmq.errors import (
    AccessDeniedError,
    InvalidParameterError,
    IoTimeoutError,
    QueueNotFoundError,
    RemoteMachineNotAvailableError,
)
from msmq.rpc.accounts import AccountFile
from tests.client.support import connected
from tests.server.support import ALICE, Node, run
from tests.server.test_remote_read_door import EVERYBODY, NAME, node


@asynccontextmanager
async def two(directory: Path) -> AsyncIterator[tuple[msmq.Connection, Node]]:
    """A client of one queue manager, and another one with a queue that it may read."""
    (directory / "here").mkdir()
    (directory / "there").mkdir()
    AccountFile(directory / "users").add("alice", "Secret-1")
    accounts = {"accounts": str(directory / "users"), "minimum_level": "privacy"}
    async with node(directory / "there", **accounts) as there:
        there.queue(security=EVERYBODY)
        who = RemoteAccess("alice", "Secret-1", port=there.config.rpc.port)
        async with connected(directory / "here", remote=who) as mq:
            yield mq, there


def test_receiving_and_looking(tmp_path: Path) -> None:
    async def test() -> None:
        async with two(tmp_path) as (mq, there):
            for body in (b"one", b"two", b"three", b"four"):
                there.send(NAME, body)
            queue = mq.queue(NAME)
            assert (await queue.peek()).body == b"one"
            assert (await queue.receive(5)).body == b"one"
            async with queue.receiver(prefetch=1) as receiver:
                await (await receiver.receive(5)).reject()
                again = await receiver.receive(5)
                third = await receiver.receive(5)
                assert (again.body, third.body) == (b"two", b"three")
                await receiver.acknowledge(again, third)
                fourth = await receiver.receive(5)
                with pytest.raises(InvalidParameterError):
                    await fourth.reject("later")
            async with queue.receiver(mode=msmq.Mode.PEEK) as receiver:
                assert (await receiver.receive(5)).body == b"four"
                with pytest.raises(IoTimeoutError):
                    await receiver.receive(0)
            async with queue.receiver(mode=msmq.Mode.TAKE, prefetch=1) as receiver:
                assert (await receiver.receive(5)).body == b"four"
            with pytest.raises(IoTimeoutError):
                await queue.receive(0)
            with pytest.raises(IoTimeoutError):
                await queue.receive(0.05)

    run(test)


def test_waiting_and_being_cancelled_loses_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with two(tmp_path) as (mq, there):
            queue = mq.queue(NAME)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(queue.receive(), 0.05)
            waiting = asyncio.create_task(queue.receive())
            await asyncio.sleep(0)
            there.send(NAME, b"late")
            assert (await waiting).body == b"late"
            there.send(NAME, b"left")
            async with queue.receiver() as receiver:
                assert (await receiver.receive(5)).body == b"left"
            assert (await queue.receive(5)).body == b"left"

    run(test)


def test_the_command_line(tmp_path: Path) -> None:
    async def test() -> None:
        async with two(tmp_path) as (mq, there):
            port = str(there.config.rpc.port)
            who = {"MSMQ_USER": "alice", "MSMQ_PASSWORD": "Secret-1", "MSMQ_REMOTE_PORT": port}

            async def msmq_(*arguments: str) -> tuple[int | None, str]:
                program = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "msmq", "--server", mq.address, *arguments),
                    env={**os.environ, **who},
                    stdout=asyncio.subprocess.PIPE,
                )
                out, _ = await program.communicate()
                return program.returncode, out.decode()

            for body in (b"one", b"two", b"three"):
                there.send(NAME, body)
            code, shown = await msmq_("peek", NAME, "--all", "--json")
            assert (code, [json.loads(line)["body"] for line in shown.splitlines()]) == (
                0,
                ["one", "two", "three"],
            )
            second = json.loads(shown.splitlines()[1])["lookup_id"]
            code, shown = await msmq_("message", "show", NAME, str(second), "--json")
            assert (code, json.loads(shown)["body"]) == (0, "two")
            code, shown = await msmq_("receive", NAME, "--id", str(second), "--json")
            assert (code, json.loads(shown)["body"]) == (0, "two")
            code, shown = await msmq_("peek", NAME, "--id", str(second))
            assert (code, shown) == (1, "")
            there.send(NAME, b"four")
            code, shown = await msmq_("receive", f"FormatName:{NAME}", "--json")
            assert (code, json.loads(shown)["body"]) == (0, "one")
            assert await msmq_("queue", "purge", NAME, "--yes") == (0, f"removed 2 messages from {NAME}\n")
            assert await msmq_("receive", NAME) == (3, "")

    run(test)


def test_purging(tmp_path: Path) -> None:
    async def test() -> None:
        async with two(tmp_path) as (mq, there):
            for _ in range(5):
                there.send(NAME, b"x")
            assert await mq.queue(NAME).purge() == 5
            with pytest.raises(IoTimeoutError):
                await mq.queue(NAME).receive(0)

    run(test)


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    async def test() -> None:
        async with two(tmp_path) as (mq, there):
            with pytest.raises(QueueNotFoundError):
                await mq.queue(f"DIRECT=TCP:{ALICE}\\private$\\absent").receive(0)
            with pytest.raises(QueueNotFoundError, match="on this computer"):
                await mq.queue(".\\private$\\absent").receive(0)
            stranger = RemoteAccess("alice", "wrong", port=there.config.rpc.port)
            async with msmq.connect(mq.address, remote=stranger) as other:
                with pytest.raises(AccessDeniedError):
                    await other.queue(NAME).receive(0)
            nobody = RemoteAccess(port=1)
            async with msmq.connect(mq.address, remote=nobody) as other:
                with pytest.raises(RemoteMachineNotAvailableError):
                    await other.queue("127.0.0.9\\private$\\orders").receive(0)

    run(test)


def test_who_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MSMQ_USER", "MSMQ_PASSWORD", "MSMQ_REMOTE_PORT", "KRB5CCNAME"):
        monkeypatch.delenv(name, raising=False)
    assert RemoteAccess.of_environment() == RemoteAccess()
    monkeypatch.setenv("KRB5CCNAME", "FILE:tickets")
    assert RemoteAccess.of_environment() == RemoteAccess(kerberos=True)
    monkeypatch.setenv("MSMQ_USER", "alice")
    monkeypatch.setenv("MSMQ_PASSWORD", "secret")
    monkeypatch.setenv("MSMQ_REMOTE_PORT", "2103")
    assert RemoteAccess.of_environment() == RemoteAccess("alice", "secret", port=2103)
