"""Ports, and the endpoint mapper."""

from __future__ import annotations

import socket

import pytest

from msmq.errors import RemoteMachineNotAvailableError
from msmq.remote_read.door import DoorSettings, RemoteReadDoor, server_config
from msmq.remote_read.interface import REMOTE_READ
from msmq.remote_read.policy import Policy
from msmq.remote_read.session import RemoteHost, find_port
from msmq.rpc.channel import Limits
from msmq.rpc.client import RpcClient
from msmq.rpc.epm import EPM, EPT_LOOKUP, EptLookup, read_tower
from msmq.rpc.ndr import NULL_HANDLE
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.status import RpcConnectionError
from tests.remote_read.support import Served, direct, on_loop, serving
from tests.server.support import ALICE, free_port


def door_of(served: Served, port: int, mapper_port: int = 0, address: str = ALICE) -> RemoteReadDoor:
    served.door = RemoteReadDoor(DoorSettings((address,), port, mapper_port), served.service)
    return served.door


@pytest.mark.spec("MQRR-3.1.4.1-b", "MQRR-3.1.4.1-c", "MQRR-2.1-c")
@pytest.mark.parametrize("taken", [0, 1, 2])
@on_loop
async def test_a_port_that_is_taken(taken: int) -> None:
    address, first = f"127.0.21.{taken + 1}", DoorSettings().port
    holders = []
    for number in range(taken):
        holder = socket.socket()
        holder.bind((address, first + 11 * number))
        holder.listen()
        holders.append(holder)
    served = Served()
    door = door_of(served, first, address=address)
    await door.open()
    try:
        expected = (2103, 2114, 2125)[taken]
        assert door.server.ports == [(address, expected)]
        async with await RpcClient.connect(address, expected, REMOTE_READ) as client:
            reply = await client.call(REMOTE_READ["R_GetServerPort"], _nothing())
            assert reply.status == expected
    finally:
        await door.close()
        for holder in holders:
            holder.close()
        served.host.store.close()


def _nothing() -> object:
    from msmq.remote_read.interface import Nothing

    return Nothing()


@pytest.mark.spec("MQRR-3.1.3-a", "MQRR-2.1-a", "MQRR-2.1-b", "MQRR-1.5-a")
@on_loop
async def test_open_and_registered_then_closed_and_forgotten() -> None:
    port, mapper_port = free_port(), free_port()
    served = Served(Policy(AuthLevel.NONE))
    with pytest.raises(RemoteMachineNotAvailableError):
        await RemoteHost.connect(ALICE, port)
    door = door_of(served, port, mapper_port)
    await door.open()
    served.queue("orders", b"one")
    assert await find_port(ALICE, mapper_port=mapper_port) == port
    async with await RpcClient.connect(ALICE, mapper_port, EPM) as client:
        found = await client.call(EPT_LOOKUP, EptLookup(0, None, None, 1, NULL_HANDLE, 100))
        towers = [
            read_tower(entry.tower.tower_octet_string) for entry in found.entries if entry.tower is not None
        ]
        assert [(tower.interface, tower.protocols, tower.port) for tower in towers] == [
            (REMOTE_READ.syntax, (0x0B, 0x07, 0x09), port)  # TCP and nothing else
        ]
    async with await RemoteHost.connect(ALICE, mapper_port=mapper_port) as host:
        queue = await host.open(direct())
        pending = await queue.begin_receive()
        assert pending.message.body == b"one"
        await door.close()
        assert not served.service.handles.open
        assert served.service.port == 0
    for away in (port, mapper_port):
        with pytest.raises(RpcConnectionError):
            await RpcClient.connect(ALICE, away, REMOTE_READ)
    (entry,) = served.host.find().positions
    assert entry.state.name == "AVAILABLE"
    served.host.store.close()


@pytest.mark.spec("MQRR-3.1.4.1-d")
@on_loop
async def test_a_port_that_cannot_be_told_is_zero() -> None:
    async with serving() as served, await served.connect() as peer:
        assert await peer.get_port() == served.door.server.ports[0][1]
        served.service.port = 0
        assert await peer.get_port() == 0


@on_loop
async def test_several_addresses_and_a_mapper_that_may_not_be() -> None:
    port, mapper_port = free_port(), free_port()
    holder = socket.socket()
    holder.bind((ALICE, mapper_port))
    holder.listen()
    served = Served()
    settings = DoorSettings((ALICE, "127.0.0.3"), port, mapper_port)
    served.door = RemoteReadDoor(settings, served.service)
    await served.door.open()
    try:
        for address in (ALICE, "127.0.0.3"):
            async with await RpcClient.connect(address, port, REMOTE_READ):
                pass
        assert (
            await find_port("127.0.0.3", mapper_port=mapper_port) == port
        )  # the other address has its mapper
    finally:
        holder.close()
        await served.door.close()
        served.host.store.close()


def test_room_for_callers_without_identity() -> None:
    closed, free = server_config(Policy()), server_config(Policy(AuthLevel.NONE))
    assert closed.limits == Limits()
    assert free.limits.max_unknown_calls == Limits().max_calls
