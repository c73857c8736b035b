"""TCP addresses of the channel: every address gets its share, and no more."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.server.daemon import Daemon
from msmq.server.remote_read_door import RpcSettings
from tests.api.support import address, calling, config, daemon
from tests.server.support import PATIENCE_S, eventually, free_port

GREEDY, MODEST = "127.18.6.1", "127.18.6.2"
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")


async def end(reader: asyncio.StreamReader) -> None:
    """The other side closes a connection, whatever was said before."""
    with suppress(ConnectionError):
        while await reader.read(1_000):
            pass


@pytest.mark.parametrize("said", [b"", HTTP2], ids=["silent", "idle"])
async def test_one_address_pays_for_its_own(tmp_path: Path, said: bytes) -> None:
    """Whoever has more connections than an address may have loses its oldest; another address notices nothing."""

    running = Daemon(replace(config(tmp_path, allow_anonymous=True), max_connections_per_address=5))
    await running.start()
    try:
        host, _, port = address(running, "127").rpartition(":")
        other = await asyncio.open_connection(host, int(port), local_addr=(MODEST, 0))
        greedy = []
        for _ in range(9):
            streams = await asyncio.open_connection(host, int(port), local_addr=(GREEDY, 0))
            streams[1].write(said)
            greedy.append(streams)
        await eventually(lambda: running.gate.inside == 6)
        ends = [asyncio.create_task(end(reader)) for reader, _ in (*greedy, other)]
        await asyncio.wait(ends[:4], timeout=PATIENCE_S)
        assert [each.done() for each in ends] == [True] * 4 + [False] * 6
        async with calling(f"{host}:{port}") as call:
            await call("GetManager", pb.GetManagerRequest())
        for _, writer in (*greedy, other):
            writer.close()
        await eventually(lambda: running.gate.inside == 0)
        await asyncio.gather(*ends)
    finally:
        await running.stop()


async def test_all_doors_have_one_gate(tmp_path: Path) -> None:
    """Connections to port 1801, to the channel and to remote read count together."""
    rpc = RpcSettings(port=free_port(), endpoint_mapper_port=0)
    wanted = replace(
        config(tmp_path, allow_anonymous=True), port=free_port(), rpc=rpc, max_connections_per_address=5
    )
    running = Daemon(wanted)
    await running.start()
    try:
        host, _, port = address(running, "127").rpartition(":")
        doors = [wanted.port, int(port), rpc.port] * 3
        opened = []
        for number, door in enumerate(doors, 1):
            opened.append(await asyncio.open_connection(host, door, local_addr=(GREEDY, 0)))
            await eventually(lambda number=number: running.gate.inside == min(number, 5))
        for reader, _ in opened[:4]:  # the oldest, whichever door they came to
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), PATIENCE_S)  # up to its end
        for _, writer in opened:
            writer.close()
        await eventually(lambda: running.gate.inside == 0)
    finally:
        await running.stop()


@pytest.mark.parametrize("listen", ["localhost:0", "127.0.0.1:0"])
async def test_every_address_of_a_name_has_the_same_port(tmp_path: Path, listen: str) -> None:
    async with daemon(tmp_path, listen=(listen,), allow_anonymous=True) as running:
        port = int(address(running, listen.partition(":")[0]).rpartition(":")[2])
        infos = socket.getaddrinfo(listen.partition(":")[0], port, type=socket.SOCK_STREAM)
        for family, *_, place in infos:
            target = f"[{place[0]}]" if family == socket.AF_INET6 else place[0]
            async with calling(f"{target}:{port}") as call:
                assert (await call("GetManager", pb.GetManagerRequest())).caller == "S-1-5-7"


async def test_what_is_under_way_hears_of_the_end(tmp_path: Path) -> None:
    """A call that is open when the daemon stops is told so by gRPC, not cut off in the middle."""

    running = Daemon(config(tmp_path, allow_anonymous=True))
    await running.start()
    target = address(running, "127")
    async with grpc.aio.insecure_channel(target) as channel:
        await channel.channel_ready()
        await running.stop()
        async with asyncio.timeout(PATIENCE_S):
            while channel.get_state() is grpc.ChannelConnectivity.READY:
                await asyncio.sleep(0.01)
    assert running.gate.inside == 0
