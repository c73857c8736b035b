"""Which port is listened on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from msmq.rpc.ports import candidates, listen_on_fixed_port
from msmq.rpc.server import RpcServer
from tests.rpc.support import HOST


def test_the_order_of_ports() -> None:
    assert list(candidates())[:3] == [2103, 2114, 2125]


def test_a_taken_port_is_passed_over() -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            first = taken.getsockname()[1]
            server = RpcServer()
            port = await listen_on_fixed_port(server, HOST, first)
            assert port > first
            assert (port - first) % 11 == 0
            await server.close()

    asyncio.run(run())


def test_none_is_free() -> None:
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system says
        asyncio.run(listen_on_fixed_port(RpcServer(), "192.0.2.1"))
