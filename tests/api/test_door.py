"""Where the channel listens, and whom it believes there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from msmq.api.callers import token_digest
from msmq.api.door import DoorError
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError
from msmq.server.daemon import Daemon
from tests.api.authority import Authority
from tests.api.support import QUEUE, address, calling, config, daemon
from tests.server.support import PATIENCE_S

ALICE = "S-1-5-21-1-2-3-1001"


async def test_who_says_nothing_is_shown_out(tmp_path: Path) -> None:
    """By the gate, on a unix socket and on TCP."""

    running = Daemon(replace(config(tmp_path), opening_timeout_s=1))
    await running.start()
    try:
        streams = [await asyncio.open_unix_connection(str(tmp_path / "api"))]
        host, _, port = address(running, "127").rpartition(":")
        streams.append(await asyncio.open_connection(host, int(port)))
        async with asyncio.timeout(PATIENCE_S):
            for reader, writer in streams:
                while await reader.read(1_000):
                    pass
                writer.close()
    finally:
        await running.stop()


async def test_health_and_reflection(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, grpc.aio.insecure_channel(address(running)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", "msmq.v1.Messages"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflected: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        async for reply in reflected.ServerReflectionInfo(iter([request])):
            names = {service.name for service in reply.list_services_response.service}
            assert {"msmq.v1.Messages", "msmq.v1.Administration"} <= names


async def test_nobody_comes_in_by_tcp_without_a_token(tmp_path: Path) -> None:
    """Whatever the call: what there is, who may do what, figures, and messages for others."""

    async with daemon(tmp_path) as running, calling(address(running, "127")) as call:
        requests: list[tuple[str, Any]] = [
            ("ListQueues", pb.ListQueuesRequest()),
            ("GetSecurity", pb.QueueName()),
            ("GetManager", pb.GetManagerRequest()),
            ("Send", pb.SendRequest(queue="DIRECT=TCP:192.0.2.1\\private$\\q", messages=[pb.Message()])),
        ]
        for name, request in requests:
            with pytest.raises(AccessDeniedError, match="token or a client certificate"):
                await call(name, request)
        with pytest.raises(grpc.aio.AioRpcError):
            await call.stream("WatchStatistics", pb.WatchStatisticsRequest(count=1)).read()


async def test_anonymous_callers_only_if_they_are_allowed(tmp_path: Path) -> None:
    tokens = {token_digest("sesame"): ALICE}
    async with daemon(tmp_path, tokens=tokens, allow_anonymous=True) as running:
        target = address(running, "127")
        async with calling(target) as call:
            assert (await call("GetManager", pb.GetManagerRequest())).caller == "S-1-5-7"
            with pytest.raises(AccessDeniedError):
                await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        async with calling(target, "sesame") as call:
            assert (await call("GetManager", pb.GetManagerRequest())).caller == ALICE
        async with calling(target, "guess") as call:
            with pytest.raises(AccessDeniedError, match="bearer token"):
                await call("GetManager", pb.GetManagerRequest())


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:5", "example.com:5"])
async def test_nothing_goes_outside_in_the_clear(listen: str, tmp_path: Path) -> None:
    with pytest.raises(DoorError, match="tls:"):
        await Daemon(config(tmp_path, listen=(listen,))).start()


async def test_tls_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(DoorError, match="certificate"):
        await Daemon(config(tmp_path, listen=("tls:127.0.0.1:0",))).start()


async def test_tls_with_tokens_and_with_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    api: dict[str, Any] = {
        "listen": ("tls:localhost:0",),
        "certificate": str(certificate),
        "private_key": str(key),
        "tokens": {token_digest("sesame"): ALICE},
        "certificates": {"bob": "S-1-5-21-1-2-3-1002"},
    }
    roots = authority.file.read_bytes()
    async with daemon(tmp_path / "a", **api) as running:
        target = address(running, "tls").removeprefix("tls:")
        async with calling(target, "sesame", grpc.ssl_channel_credentials(roots)) as call:
            assert (await call("GetManager", pb.GetManagerRequest())).caller == ALICE
    async with daemon(tmp_path / "b", **api, client_authorities=str(authority.file)) as running:
        target = address(running, "tls").removeprefix("tls:")
        theirs, their_key = authority.issue("bob")
        pair = their_key.read_bytes(), theirs.read_bytes()
        async with calling(target, "", grpc.ssl_channel_credentials(roots, *pair)) as call:
            assert (await call("GetManager", pb.GetManagerRequest())).caller == "S-1-5-21-1-2-3-1002"
        async with calling(target, "", grpc.ssl_channel_credentials(roots)) as call:
            with pytest.raises(grpc.aio.AioRpcError):  # no certificate, no conversation
                await call("GetManager", pb.GetManagerRequest())


async def test_rules_and_certificates_follow_the_files(tmp_path: Path) -> None:
    """A reload takes tokens away, gives others, and shows the certificate that is in the file now."""

    first, second = Authority(tmp_path), Authority(tmp_path / "second")
    certificate, key = first.issue("localhost")
    api: dict[str, Any] = {
        "listen": ("tls:localhost:0",),
        "certificate": str(certificate),
        "private_key": str(key),
        "tokens": {token_digest("old"): ALICE},
    }
    async with daemon(tmp_path / "a", **api) as running:
        target = address(running, "tls").removeprefix("tls:")

        async def caller(token: str, authority: Authority) -> str:
            roots = grpc.ssl_channel_credentials(authority.file.read_bytes())
            async with calling(target, token, roots) as call:
                found: str = (await call("GetManager", pb.GetManagerRequest())).caller
                return found

        assert await caller("old", first) == ALICE
        for source, file in zip(second.issue("localhost"), (certificate, key), strict=True):
            source.rename(file)
        wanted = config(tmp_path / "a", **{**api, "tokens": {token_digest("new"): ALICE}})
        assert running.reload(wanted) == []
        assert await caller("new", second) == ALICE
        with pytest.raises(AccessDeniedError):
            await caller("old", second)
        with pytest.raises(grpc.aio.AioRpcError):
            await caller("new", first)
        certificate.write_text("no certificate")
        with pytest.raises(DoorError):
            running.reload(config(tmp_path / "a", **{**api, "tokens": {}}))
        assert await caller("new", second) == ALICE  # nothing has changed
        for source, file in zip(first.issue("localhost"), (certificate, key), strict=True):
            assert source == file
        moved = config(tmp_path / "a", **{**api, "listen": (), "client_authorities": str(first.file)})
        assert running.reload(moved) == ["api.listen", "api.client_authorities"]
        assert await caller("old", first) == ALICE


async def test_an_address_in_use(tmp_path: Path) -> None:
    async with daemon(tmp_path / "a") as running:
        with pytest.raises(DoorError, match="cannot be opened"):
            await Daemon(config(tmp_path / "b", listen=(address(running, "127"),))).start()
