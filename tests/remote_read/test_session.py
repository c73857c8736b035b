"""Finding a server, getting in, and opening queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from msmq.errors import (
    AccessDeniedError,
    InvalidHandleError,
    MQError,
    OperationNotSupportedByRemoteComputerError,
    QueueNotFoundError,
    RemoteMachineNotAvailableError,
    SharingViolationError,
    UnsupportedFormatnameOperationError,
)
from msmq.remote_read import interface as idl
from msmq.remote_read.policy import Policy
from msmq.remote_read.session import Access, Caller, NoRemoteReadError, RemoteHost, Share, find_port
from msmq.rpc.epm import EPM, EndpointMap, register_endpoint_mapper
from msmq.rpc.interface import Call
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.security import Credentials
from msmq.rpc.server import RpcServer
from msmq.security.sddl import parse_sddl
from tests.remote_read.support import direct, eventually, on_loop, serving
from tests.remote_read.test_remote_queue import opnums, watched
from tests.rpc.support import ALICE, HOST, PASSWORD

NONE, INTEGRITY, PRIVACY = AuthLevel.NONE, AuthLevel.INTEGRITY, AuthLevel.PRIVACY
WHO = Credentials("alice", PASSWORD, AuthType.NTLM)


@pytest.mark.spec("MQRR-3.2.3-a", "MQRR-2.1-b", "MQRR-3.2.4.1-b", "MQRR-7-d", "MQRR-3.1.4.1-e", "MQRR-2.1-c")
@pytest.mark.parametrize("ask_port", [False, True], ids=["stays", "asks for the port"])
@pytest.mark.parametrize("by_mapper", [False, True], ids=["known port", "endpoint mapper"])
@on_loop
async def test_ways_to_a_server(by_mapper: bool, ask_port: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        # The door serves the mapper too; another one would be on port 135.
        port = None if by_mapper else served.port
        server = served.door.server
        enter, entered = server.entered, []

        def count(connection: Any) -> None:
            entered.append(connection)
            enter(connection)

        monkeypatch.setattr(server, "entered", count)
        async with await RemoteHost.connect(HOST, port, mapper_port=served.port, ask_port=ask_port) as host:
            queue = await host.open(direct())
            assert (await queue.receive()).body == b"one"
            await eventually(lambda: server.connections == 1)
        assert len(entered) == 1 + by_mapper + ask_port
        await eventually(lambda: not server.connections)


@pytest.mark.spec("MQRR-3.2.4.1-c", "MQRR-7-b")
@on_loop
async def test_a_server_without_remote_read() -> None:
    server = RpcServer()
    register_endpoint_mapper(server, EndpointMap())
    port = await server.listen(HOST, 0)
    try:
        with pytest.raises(NoRemoteReadError, match=r"MS-MQRR.*MS-MQQP") as older:
            await RemoteHost.connect(HOST, mapper_port=port)
        told = f"{older.value} {older.value.advice}"
        assert "\n" not in told
        assert told.count("MS-MQRR") == 1, "it is said once"
        assert "--rpc-port" in told
        assert "on 127.0.0.1 itself" in told, "what can be done without it"
        assert isinstance(older.value, OperationNotSupportedByRemoteComputerError)
        with pytest.raises(NoRemoteReadError):
            await RemoteHost.connect(HOST, port)  # which serves another interface there
    finally:
        await server.close()


@pytest.mark.spec("MQMQ-2.4-n")
@on_loop
async def test_nobody_there() -> None:
    async with serving() as served:
        port = served.port
    with pytest.raises(RemoteMachineNotAvailableError) as away:
        await RemoteHost.connect(HOST, port)
    assert away.value.code == 0xC00E0069
    with pytest.raises(RemoteMachineNotAvailableError):
        await find_port(HOST, mapper_port=port)


@on_loop
async def test_an_endpoint_mapper_that_refuses() -> None:
    server = RpcServer()
    server.register(EPM, {})  # every operation of it is out of range
    port = await server.listen(HOST, 0)
    try:
        with pytest.raises(RemoteMachineNotAvailableError, match="endpoint mapper"):
            await RemoteHost.connect(HOST, mapper_port=port)
    finally:
        await server.close()


@on_loop
async def test_a_port_that_is_told_and_closed() -> None:
    server = RpcServer()

    async def tell(call: Call, request: idl.Nothing) -> idl.Status:
        return idl.Status(1)

    server.register(idl.REMOTE_READ, {idl.R_GET_SERVER_PORT.opnum: tell})
    port = await server.listen(HOST, 0)
    try:
        with pytest.raises(RemoteMachineNotAvailableError, match="at port 1"):
            await RemoteHost.connect(HOST, port, ask_port=True)
    finally:
        await server.close()


@pytest.mark.spec(
    "MQRR-3.2.4.1-a", "MQRR-3.2.4.1-d", "MQRR-3.1.4.2-h", "MQRR-3.1.4.2-j", "MQRR-7-i", "MQRR-7-j"
)
@pytest.mark.parametrize("routing", [False, True], ids=["client", "routing server"])
@on_loop
async def test_what_an_open_says(routing: bool) -> None:
    async with watched() as (served, host, seen):
        served.queue("orders", b"one")
        own = bytes(range(16))
        await (await host.open(direct(), Access.PEEK)).close()
        assert seen.pop(0)[1].f_non_routing_server == 1  # who says nothing of itself is no routing server
        seen.clear()
        host.caller = Caller(own, routing_server=routing, workgroup=False)
        queue = await host.open(direct(), Access.PEEK, Share.DENY_SHARE)
        request = seen[0][1]
        assert (request.dw_access, request.dw_share_mode, request.p_client_id) == (0x20, 1, own)
        assert request.f_non_routing_server == (0 if routing else 1)
        assert (request.major, request.minor) == (6, 1)
        assert request.build_number
        assert request.f_workgroup == 0
        assert host.queues == {queue}
        assert (await queue.peek()).body == b"one"
        await queue.close()
        assert not host.queues


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (direct("nope"), QueueNotFoundError),
        (direct("taken"), SharingViolationError),
        (direct("closed"), AccessDeniedError),
        ("CONNECTOR=00000000-0000-0000-0000-000000000001", MQError),
    ],
)
@pytest.mark.spec("MQRR-3.1.4.2-n", "MQRR-3.1.4.11-g")
@on_loop
async def test_opens_that_fail_leave_nothing(name: str, error: type[MQError]) -> None:
    async with serving() as served:
        served.host.open(served.queue("taken"))
        served.queue("closed", security=parse_sddl(f"D:(A;;0x10000000;;;{ALICE})").encode())
        async with await RemoteHost.connect(HOST, served.port) as host:
            with pytest.raises(error):
                await host.open(name, share=Share.DENY_SHARE)
            assert not host.queues
            assert not served.service.handles.open


@on_loop
async def test_several_queues_at_once_cannot_be_read() -> None:
    async with serving() as served, await RemoteHost.connect(HOST, served.port) as host:
        with pytest.raises(UnsupportedFormatnameOperationError):
            await host.open(f"{direct('a')},{direct('b')}")


@pytest.mark.parametrize(
    ("minimum", "levels", "enters"),
    [
        (PRIVACY, (), True),
        (PRIVACY, (INTEGRITY,), False),
        (INTEGRITY, (NONE, INTEGRITY), False),  # NONE is let in, and may not open
        (NONE, (NONE,), True),
    ],
)
@pytest.mark.spec("MQRR-7-c")
@on_loop
async def test_levels_of_authentication(
    minimum: AuthLevel, levels: tuple[AuthLevel, ...], enters: bool
) -> None:
    async with serving(Policy(minimum)) as served:
        served.queue("orders", b"one")
        async with await RemoteHost.connect(HOST, served.port, WHO, levels=levels) as host:
            if enters:
                assert (await (await host.open(direct())).receive()).body == b"one"
            else:
                with pytest.raises(AccessDeniedError):
                    await host.open(direct())


@on_loop
async def test_a_server_that_does_not_know_us_lets_nobody_in() -> None:
    async with serving() as served:
        wrong = Credentials("alice", "wrong", AuthType.NTLM)
        with pytest.raises(AccessDeniedError):
            await RemoteHost.connect(HOST, served.port, wrong)
        async with await RemoteHost.connect(HOST, served.port, wrong, levels=(PRIVACY, NONE)) as host:
            served.queue("orders", b"one")
            assert (await (await host.open(direct())).receive()).body == b"one"


@on_loop
async def test_peeking_where_receiving_is_denied() -> None:
    peekers = parse_sddl("D:(A;;0x2;;;AN)").encode()
    async with serving() as served:
        served.queue("orders", b"one", security=peekers)
        async with await RemoteHost.connect(HOST, served.port) as host:
            with pytest.raises(AccessDeniedError):
                await host.open(direct())
            queue = await host.open(direct(), peek_too=True)
            assert queue.access is Access.PEEK
            assert (await queue.peek()).body == b"one"
            with pytest.raises(AccessDeniedError):
                await queue.receive()


@pytest.mark.spec("MQRR-3.1.2.1-a", "MQRR-3.2.2-a")
@on_loop
async def test_a_server_that_never_answers() -> None:
    stalled = asyncio.Event()

    async def stall(call: Call, request: object) -> idl.Status:
        await stalled.wait()
        return idl.Status(0)

    async with watched({2: stall, 11: stall, 12: stall}) as (_, host, seen):
        assert host.call_timeout_s == 300
        host.call_timeout_s = 0.05
        for calling in (
            host.open(direct()),
            host.open_for_move(direct()),
            host.enlist(bytes(16), b"", direct()),
        ):
            with pytest.raises(RemoteMachineNotAvailableError, match="not answered"):
                await calling
        assert opnums(seen) == [2, 11, 12]
        assert not host.queues


@on_loop
async def test_a_server_that_goes_away() -> None:
    async with serving() as served:
        served.queue("orders")
        host = await RemoteHost.connect(HOST, served.port)
        queue = await host.open(direct())
        read = asyncio.create_task(queue.receive(timeout_s=None))
        await asyncio.sleep(0.05)
        host.client.abort()
        with pytest.raises(RemoteMachineNotAvailableError):
            await read
        await host.close()


@on_loop
async def test_a_handle_the_server_does_not_know() -> None:
    async with serving() as served:
        served.queue("orders")
        async with await RemoteHost.connect(HOST, served.port) as host:
            queue = await host.open(direct())
            queue.handle = bytes(4) + bytes(range(16))
            with pytest.raises(InvalidHandleError):
                await queue.peek()
