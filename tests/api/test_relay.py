"""The unix socket that says who is there."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop

from msmq.api import door
from msmq.api.callers import token_digest
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.relay import Inner, SocketInUseError, is_served
from msmq.errors import AccessDeniedError
from msmq.server.daemon import Daemon
from tests.api.support import address, calling, config, daemon
from tests.server.support import eventually

ALICE = "S-1-5-21-1-2-3-1001"


async def test_the_kernel_tells_who_calls(tmp_path: Path) -> None:
    async with daemon(tmp_path, socket_mode="0660") as running:
        assert stat.S_IMODE((tmp_path / "api").stat().st_mode) == 0o660
        async with calling(address(running)) as call:
            info = await call("GetManager", pb.GetManagerRequest())
        assert info.caller == f"S-1-22-1-{os.geteuid()}"
        assert "S-1-5-32-544" in info.caller_groups


async def test_a_configured_user_has_its_own_sid(tmp_path: Path) -> None:
    sid = "S-1-5-21-7-8-9-1000"
    async with (
        daemon(tmp_path, users={str(os.geteuid()): sid}) as running,
        calling(address(running)) as call,
    ):
        assert (await call("GetManager", pb.GetManagerRequest())).caller == sid


async def test_nobody_gets_in_behind_the_relay(tmp_path: Path) -> None:
    """Whoever reaches the socket of gRPC itself has no rights at all."""

    async with daemon(tmp_path) as running:
        assert running.door is not None
        inner = running.door._private
        assert inner is not None
        assert stat.S_IMODE(inner.stat().st_mode) == 0o700
        async with calling(f"unix:{inner / 'grpc'}") as call:
            with pytest.raises(AccessDeniedError):
                await call("GetManager", pb.GetManagerRequest())


async def test_without_unix_sockets_grpc_has_a_port_that_is_of_no_use_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []

    class Noted(Inner):
        async def connect(self) -> tuple[socket.socket, str, str]:
            ports.append(self.port)
            return await super().connect()

    monkeypatch.setattr(door, "Inner", lambda _: Noted(None))
    api: dict[str, Any] = {"listen": ("127.0.0.1:0",), "tokens": {token_digest("sesame"): ALICE}}
    async with daemon(tmp_path, **api) as running:
        async with calling(address(running, "127"), "sesame") as call:
            assert (await call("GetManager", pb.GetManagerRequest())).caller == ALICE
        async with calling(f"127.0.0.1:{ports[0]}", "sesame") as call:
            with pytest.raises(AccessDeniedError, match="door"):
                await call("GetManager", pb.GetManagerRequest())


async def test_connections_come_and_go(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        assert running.door is not None
        relay, *_ = running.door._relays
        for _ in range(5):
            async with calling(address(running)) as call:
                await call("GetManager", pb.GetManagerRequest())
        for _ in range(5):  # somebody who connects and leaves without a word
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(tmp_path / "api"))
        await eventually(lambda: not relay._open)
        await eventually(lambda: not relay._callers._connections)


async def test_much_data_in_both_directions(tmp_path: Path) -> None:
    """More than the buffers of a socket hold, with a reader that is slow: nothing is lost or mixed up."""

    async with daemon(tmp_path) as running:
        body = os.urandom(3 << 20)
        options = [("grpc.max_receive_message_length", 64 << 20)]
        async with calling(address(running)) as call:
            call.channel = grpc.aio.insecure_channel(address(running), options=options)
            await call("CreateQueue", pb.CreateQueueRequest(path=".\\private$\\q"))
            for _ in range(4):
                await call("Send", pb.SendRequest(queue=".\\private$\\q", messages=[pb.Message(body=body)]))
            found = await asyncio.gather(
                *(
                    call("Lookup", pb.LookupRequest(queue=".\\private$\\q", seek=pb.SEEK_FIRST))
                    for _ in range(4)
                )
            )
            assert all(delivered.message.body == body for delivered in found)
            await call.channel.close()


async def test_a_dead_socket_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "api"))
    assert not is_served(tmp_path / "api")
    async with daemon(tmp_path):
        assert is_served(tmp_path / "api")
        second = Daemon(config(tmp_path / "second", listen=(f"unix:{tmp_path / 'api'}",)))
        with pytest.raises(SocketInUseError, match="Another queue manager"):
            await second.start()
    assert not (tmp_path / "api").exists()


def test_other_event_loops(tmp_path: Path) -> None:
    """uvloop reads once from a connection that was told not to: what came early is kept."""

    async def test() -> None:
        async with asyncio.timeout(120), daemon(tmp_path) as running:
            for _ in range(10):
                async with calling(address(running)) as call:
                    await call("GetManager", pb.GetManagerRequest())

    uvloop.run(test())
