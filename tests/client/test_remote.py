"""Receiving from queues of another host by their names: the client goes there itself, by remote read."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.cli.receive import _fetch
from msmq.client.connection import RemoteAccess
from msmq.client.cursor import HeldAtCursor
from msmq.errors import (
    AccessDeniedError,
    InvalidParameterError,
    IoTimeoutError,
    QueueNotFoundError,
    RemoteMachineNotAvailableError,
)
from msmq.remote_read.interface import R_GET_SERVER_PORT
from msmq.remote_read.session import RemoteHost
from msmq.rpc.accounts import AccountFile
from msmq.rpc.client import RpcClient
from msmq.testing.traffic import Door
from tests import ready
from tests.client.support import connected
from tests.directory.relay import Mode, Relay, relay
from tests.mail import Mail, check_properties
from tests.server.support import ALICE, Node, eventually
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


async def test_receiving_and_looking(tmp_path: Path) -> None:
    async with two(tmp_path) as (mq, there):
        mail = Mail(Door.CLIENT, NAME)
        usual = {"priority": 3, "peekable_when_locked": False}
        drafts = [mail.draft(body, **usual) for body in (b"one", b"two", b"three", b"four")]
        for draft in drafts:
            there.post(draft)
        queue = mq.queue(NAME)
        check_properties(drafts[0], await queue.peek())
        check_properties(drafts[0], await queue.receive(60))
        async with queue.receiver(prefetch=1) as receiver:
            await (await receiver.receive(60)).reject()
            again = await receiver.receive(60)
            third = await receiver.receive(60)
            check_properties(drafts[1], again)
            check_properties(drafts[2], third)
            await receiver.acknowledge(again, third)
            fourth = await receiver.receive(60)
            with pytest.raises(InvalidParameterError):
                await fourth.reject("later")
        async with queue.receiver(mode=msmq.Mode.PEEK) as receiver:
            assert (await receiver.receive(60)).body == b"four"
            with pytest.raises(IoTimeoutError):
                await receiver.receive(0)
        async with queue.receiver(mode=msmq.Mode.TAKE, prefetch=1) as receiver:
            assert (await receiver.receive(60)).body == b"four"
        with pytest.raises(IoTimeoutError):
            await queue.receive(0)
        with pytest.raises(IoTimeoutError):
            await queue.receive(0.05)


async def test_what_waits_to_be_sent_to_a_queue_is_not_what_is_read_there(tmp_path: Path) -> None:
    """A host that sends to a queue has an outgoing queue of the same name."""
    async with two(tmp_path) as (mq, there):
        queue = mq.queue(NAME)
        await queue.send("waits here")
        there.send(NAME, b"waits there")
        there.send(NAME, b"too")
        place = await mq.locate(NAME)
        assert (place.here, place.host) == (False, ALICE)
        assert (await queue.peek()).body == b"waits there"
        async with queue.cursor() as cursor:
            assert [(await cursor.next()).body, (await cursor.next()).body] == [b"waits there", b"too"]
        assert (await queue.receive(60)).body == b"waits there"
        assert await queue.purge() == 1
        (outgoing,) = await mq.outgoing_queues()
        assert outgoing.messages == 1


async def test_waiting_and_being_cancelled_loses_nothing(tmp_path: Path) -> None:
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
            assert (await receiver.receive(60)).body == b"left"
        assert (await queue.receive(60)).body == b"left"


async def test_the_command_line(tmp_path: Path) -> None:
    async with two(tmp_path) as (mq, there):
        port = str(there.config.rpc.port)
        who = {"MSMQ_USER": "alice", "MSMQ_PASSWORD": "Secret-1", "MSMQ_REMOTE_PORT": port}

        async def msmq_(*arguments: str) -> tuple[int | None, str]:
            program = await asyncio.create_subprocess_exec(
                *(ready.msmq(), "--server", mq.address, *arguments),
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
        code, shown = await msmq_("move", NAME, f"{NAME};later", "--label", "*")
        assert code == 2, shown  # which messages?
        last = json.loads((await msmq_("peek", NAME, "--all", "--json"))[1].splitlines()[1])["lookup_id"]
        await mq.create_queue(".\\private$\\fetched")
        for target in (f"{NAME};later", ".\\private$\\fetched"):
            source = NAME if ";" in target else f"{NAME};later"
            code, shown = await msmq_("move", source, target, "--id", str(last), "--json")
            assert (code, json.loads(shown)["messages"]) == (0, 1)
        assert (await mq.queue(".\\private$\\fetched").receive(0)).body == b"three"
        there.send(NAME, b"three")
        there.send(NAME, b"four")
        code, shown = await msmq_("receive", f"FormatName:{NAME}", "--json")
        assert (code, json.loads(shown)["body"]) == (0, "one")
        assert await msmq_("queue", "purge", NAME, "--yes") == (0, f"removed 2 messages from {NAME}\n")
        assert await msmq_("receive", NAME) == (3, "")


async def test_moving_from_another_host_neither_loses_nor_doubles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted between the sending here and the removal there, and asked again."""
    keep = HeldAtCursor.keep

    def interrupted(held: HeldAtCursor) -> msmq.ReceivedMessage:
        if held.message.body == b"two":
            raise KeyboardInterrupt
        return keep(held)

    async with two(tmp_path) as (mq, there):
        target = await mq.create_queue(".\\private$\\fetched")
        for body in (b"one", b"two", b"three"):
            there.send(NAME, body)
        ids = [message.lookup_id async for message in mq.queue(NAME).browse()]
        monkeypatch.setattr(HeldAtCursor, "keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await _fetch(mq, NAME, ids, target.name, False)
        await eventually(lambda: not there.find("orders").open_descriptors)
        assert [message.body async for message in mq.queue(NAME).browse()] == [b"two", b"three"]
        assert [message.body async for message in target.browse()] == [b"one", b"two"]
        monkeypatch.setattr(HeldAtCursor, "keep", keep)
        assert await _fetch(mq, NAME, ids, target.name, False) == 2
        assert [message.body async for message in mq.queue(NAME).browse()] == []
        assert [message.body async for message in target.browse()] == [b"one", b"two", b"three"]


async def test_purging(tmp_path: Path) -> None:
    async with two(tmp_path) as (mq, there):
        for _ in range(5):
            there.send(NAME, b"x")
        assert await mq.queue(NAME).purge() == 5
        with pytest.raises(IoTimeoutError):
            await mq.queue(NAME).receive(0)


async def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
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


# --- hosts that go away -----------------------------------------------------------------------------------------------

Call = Callable[[msmq.Queue], Awaitable[object]]


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.receive(),
        lambda queue: queue.peek(),
        lambda queue: queue.purge(),
        lambda queue: queue.lookup(5),
        lambda queue: queue.receive_by_id(b"x" * 20),
        lambda queue: queue.move([1], f"{queue.name};sub"),
    ],
    ids=["receive", "peek", "purge", "lookup", "by id", "move"],
)
async def test_a_host_that_lets_us_in_and_says_nothing(tmp_path: Path, call: Call) -> None:
    with socket.create_server((ALICE, 0)) as silent:
        who = RemoteAccess("alice", "x", port=silent.getsockname()[1], timeout_s=0.2)
        async with connected(tmp_path, remote=who) as mq, asyncio.timeout(120):
            with pytest.raises(RemoteMachineNotAvailableError, match=r"has not answered for 0\.2 seconds"):
                await call(mq.queue(NAME))


@asynccontextmanager
async def behind_a_door(
    directory: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> AsyncIterator[tuple[msmq.Queue, Node, Relay]]:
    """A queue of another host that is reached by a door."""
    async with two(directory) as (mq, there):
        with relay(ALICE, there.config.rpc.port or 0) as door:
            connect = RemoteHost.connect

            async def by_the_door(host: str, port: int, *given: Any) -> RemoteHost:
                return await connect("127.0.0.1", door.port, *given)

            monkeypatch.setattr(RemoteHost, "connect", by_the_door)
            who = RemoteAccess("alice", "Secret-1", port=door.port, timeout_s=timeout_s)
            async with msmq.connect(mq.address, remote=who) as connection:
                yield connection.queue(NAME), there, door


@pytest.mark.parametrize(("mode", "timeout_s"), [(Mode.CLOSED, 30), (Mode.FROZEN, 4)], ids=["gone", "frozen"])
async def test_a_receiver_goes_on_when_the_host_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, timeout_s: float
) -> None:
    async with behind_a_door(tmp_path, monkeypatch, timeout_s) as (queue, there, door):
        async with queue.receiver() as receiver:
            there.send(NAME, b"before")
            await (await receiver.receive(60)).acknowledge()
            waiting = asyncio.create_task(receiver.receive())
            before = door.connections
            door.become(mode)
            if mode is Mode.FROZEN:  # whoever waits without limit notices, and knocks again
                await eventually(lambda: door.connections > before)
            door.become(Mode.OPEN)
            there.send(NAME, b"after")
            message = await asyncio.wait_for(waiting, 120)
            assert message.body == b"after"
            await message.acknowledge()
        with pytest.raises(IoTimeoutError):
            await queue.receive(0)


async def test_a_read_that_waits_for_long_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host answers other questions meanwhile, so it is not given up."""
    async with behind_a_door(tmp_path, monkeypatch, timeout_s=4) as (queue, there, door):
        waiting = asyncio.create_task(queue.receive())
        await eventually(lambda: there.find("orders").open_descriptors)
        answered: list[object] = []
        watched = RpcClient.call

        async def counted(client: RpcClient, operation: Any, *given: Any, **options: Any) -> Any:
            found = await watched(client, operation, *given, **options)
            answered.append(operation)
            return found

        monkeypatch.setattr(RpcClient, "call", counted)
        await eventually(lambda: answered.count(R_GET_SERVER_PORT) > 1)
        assert not waiting.done()
        there.send(NAME, b"late")
        assert (await asyncio.wait_for(waiting, 120)).body == b"late"
        assert door.connections == 1


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
