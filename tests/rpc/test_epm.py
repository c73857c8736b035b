"""The endpoint mapper by our own client; tests of impacket's are in test_peer_impacket."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from impacket.dcerpc.v5.epm import EPMTower

from msmq.errors import DecodeError
from msmq.rpc.client import RpcClient
from msmq.rpc.epm import (
    EPM,
    EPT_LOOKUP,
    EPT_MAP,
    NOT_REGISTERED,
    Endpoint,
    EndpointMap,
    EptLookup,
    EptMap,
    Tower,
    TowerTarget,
    build_tower,
    read_tower,
    serve_endpoint_mapper,
)
from msmq.rpc.mgmt import IfId
from msmq.rpc.ndr import NULL_HANDLE
from msmq.rpc.pdu import Syntax
from msmq.rpc.status import FaultStatus, RpcFault
from tests.rpc.support import HOST

MANY = [Endpoint(Syntax(bytes((n,)) * 16, 1, n), 2000 + n, annotation=f"number {n}") for n in range(7)]


@given(st.binary(min_size=16, max_size=16), st.integers(0, 65535), st.integers(0, 65535))
def test_towers_come_back(uuid: bytes, version: int, port: int) -> None:
    syntax = Syntax(uuid, version, version ^ 1)
    tower = build_tower(syntax, port, "10.1.2.3")
    assert read_tower(tower) == TowerTarget(syntax, (0x0B, 0x07, 0x09), port, "10.1.2.3")
    assert len(tower) == 75
    assert EPMTower(tower)["NumberOfFloors"] == 5


def test_an_address_that_has_no_floor() -> None:
    assert read_tower(build_tower(MANY[0].interface, 1, "::1")).host == "0.0.0.0"


@given(st.binary(max_size=80))
def test_towers_that_are_none(data: bytes) -> None:
    try:
        read_tower(data)
    except DecodeError:
        return


async def conversation(port: int) -> None:
    async with await RpcClient.connect(HOST, port, EPM) as client:

        async def lookup(
            kind: int = 0, asked: IfId | None = None, option: int = 1, limit: int = 9
        ) -> list[bytes]:
            found: list[bytes] = []
            handle = NULL_HANDLE
            while True:
                reply = await client.call(EPT_LOOKUP, EptLookup(kind, None, asked, option, handle, limit))
                assert reply.num_ents == len(reply.entries) <= limit
                assert (reply.status == 0) is bool(reply.entries)
                found += [entry.annotation for entry in reply.entries]
                handle = reply.entry_handle
                if handle == NULL_HANDLE:
                    return found

        everything = [endpoint.annotation.encode() for endpoint in MANY]
        assert await lookup() == everything
        assert await lookup(limit=2) == everything
        three = MANY[3].interface
        for option, minor, found in (
            (1, 9, True),
            (2, 2, True),
            (2, 4, False),
            (3, 3, True),
            (3, 2, False),
            (4, 9, True),
        ):
            assert await lookup(1, IfId(three.uuid, 1, minor), option) == ([b"number 3"] if found else [])
        assert await lookup(1, IfId(three.uuid, 1, 2), 5) == []
        assert await lookup(1, IfId(three.uuid, 2, 0), 5) == [b"number 3"]
        by_object = EptLookup(2, bytes(range(16)), None, 1, NULL_HANDLE, 9)
        assert (await client.call(EPT_LOOKUP, by_object)).status == NOT_REGISTERED

        tower = build_tower(three, 0, "0.0.0.0")
        reply = await client.call(EPT_MAP, EptMap(None, Tower(len(tower), tower), NULL_HANDLE, 4))
        assert reply.towers[0] is not None
        assert read_tower(reply.towers[0].tower_octet_string) == TowerTarget(
            three, (0x0B, 0x07, 0x09), 2003, HOST
        )
        for bad in (None, Tower(3, b"xyz")):
            reply = await client.call(EPT_MAP, EptMap(None, bad, NULL_HANDLE, 4))
            assert (reply.status, reply.towers) == (NOT_REGISTERED, [])
        with pytest.raises(RpcFault) as refused:
            await client.call(EPT_LOOKUP, EptLookup(0, None, None, 1, bytes(range(20)), 9))
        assert refused.value.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_lookup_and_map() -> None:
    async def run() -> None:
        endpoints = EndpointMap()
        for endpoint in (*MANY, MANY[0]):
            endpoints.add(endpoint)
        server = await serve_endpoint_mapper(HOST, endpoints, port=0)
        assert server is not None
        await conversation(server.ports[0][1])
        endpoints.remove(MANY[0])
        assert endpoints.matching(MANY[0].interface) == []
        await server.close()

    asyncio.run(asyncio.wait_for(run(), 240))


def test_a_port_that_is_taken_is_done_without() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert asyncio.run(serve_endpoint_mapper(HOST, EndpointMap(), port=port)) is None
