"""Connections that break after every so many bytes of a receive, in either direction: nothing is ever lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from msmq.errors import MQError
from msmq.manager.positions import PositionState
from msmq.remote_read.session import RemoteHost
from msmq.rpc.status import RpcError
from tests.remote_read.support import direct, eventually, on_loop, serving
from tests.rpc.support import HOST

UP, DOWN = "to the server", "to the client"


class Wire:
    """Carries bytes between a client and the server until it has carried ``limit`` in one direction; then it breaks."""

    def __init__(self, port: int, direction: str, limit: int) -> None:
        self._port = port
        self._left = {UP: 1 << 30, DOWN: 1 << 30} | {direction: limit}
        self.carried = {UP: 0, DOWN: 0}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_server, from_server = await asyncio.open_connection(HOST, self._port)
        ends = (writer, from_server)
        tasks = [
            asyncio.ensure_future(self._carry(UP, reader, from_server)),
            asyncio.ensure_future(self._carry(DOWN, to_server, writer)),
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in ends:
            end.transport.abort()

    async def _carry(self, way: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            part = data[: self._left[way]]
            self._left[way] -= len(part)
            self.carried[way] += len(part)
            sink.write(part)
            await sink.drain()
            if len(part) < len(data) or not self._left[way]:
                # What was carried arrives before the wire breaks.
                await asyncio.sleep(0.002)
                return


@asynccontextmanager
async def wire(port: int, direction: str, limit: int) -> AsyncIterator[tuple[Wire, int]]:
    found = Wire(port, direction, limit)
    server = await asyncio.start_server(found.serve, HOST, 0)
    try:
        yield found, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("direction", [UP, DOWN])
@pytest.mark.spec("MQRR-3.1.4.9-b", "MQRR-3.1.6.2-b")
@on_loop
async def test_a_wire_that_breaks_anywhere(direction: str) -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with wire(served.port, direction, 1 << 30) as (whole, port):
            served.host.send(queue, b"one")
            async with await RemoteHost.connect(HOST, port) as host:
                opened = await host.open(direct())
                await opened.receive()
                total = whole.carried[direction]
        assert not len(queue.positions)
        delivered = lost = 0
        for limit in range(1, total + 1, 7):
            served.host.send(queue, b"one")
            got = None
            async with wire(served.port, direction, limit) as (_, port):
                try:
                    host = await RemoteHost.connect(HOST, port)
                except (MQError, RpcError):
                    host = None  # type: ignore[assignment]
                if host is not None:
                    try:
                        opened = await host.open(direct())
                        pending = await opened.begin_receive()
                        got = pending.message.body
                        await pending.acknowledge()
                        delivered += 1
                    except (MQError, RpcError):
                        lost += 1
                    host.client.abort()
            await eventually(lambda: not served.service.handles.open)
            states = [entry.state for entry in queue.positions]
            # Back in the queue, or deleted by an acknowledgment of a reader that has it. Never locked, never nowhere.
            assert states == [PositionState.AVAILABLE] or (states == [] and got == b"one"), limit
            if states:
                assert (await _receive(served.port)) == b"one"
        assert lost


async def _receive(port: int) -> bytes:
    async with await RemoteHost.connect(HOST, port) as host:
        return (await (await host.open(direct())).receive()).body
