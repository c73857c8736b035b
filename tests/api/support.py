"""A daemon in this process with a channel for applications, and ways to call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from msmq.api import rpc, status
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import MQError
from msmq.server.config import ApiConfig, Config
from msmq.server.daemon import Daemon
from tests.server.support import nobody_at_the_door

QUEUE = ".\\private$\\q"
METHODS = {method.name: method for method in rpc.methods()}


def config(directory: Path, **api: Any) -> Config:
    options: dict[str, Any] = {"listen": (f"unix:{directory / 'api'}", "127.0.0.1:0"), **api}
    return replace(
        Config(),
        data=directory / "data",
        name="HOST",
        listen=("127.0.0.1",),
        port=0,
        ping_port=0,
        api=ApiConfig(**options),
    )


@asynccontextmanager
async def daemon(directory: Path, **api: Any) -> AsyncIterator[Daemon]:
    running = Daemon(config(directory, **api))
    await running.start()
    try:
        yield running
    finally:
        await nobody_at_the_door()
        await running.stop()


def address(running: Daemon, kind: str = "unix") -> str:
    """Where a daemon listens, by the beginning of the address."""
    assert running.door is not None
    return next(found for found in running.door.addresses if found.startswith(kind))


def from_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> MQError | None:
    """The exception that the trailing metadata of a failed call tells of, if it does."""
    for key, value in metadata or ():
        if key == status.METADATA_KEY and isinstance(value, bytes):
            return status.from_message(pb.Error.FromString(value))
    return None


class Caller:
    """Calls by name, with what gRPC gives and nothing of our client."""

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self.channel = channel
        self.metadata = metadata

    def stream(self, name: str, request: Any = None) -> Any:
        method = METHODS[name]
        function = getattr(self.channel, method.kind)(
            method.path,
            request_serializer=method.serialize_request,
            response_deserializer=method.deserialize_reply,
        )
        if request is None:
            return function(metadata=self.metadata)
        return function(request, metadata=self.metadata)

    async def __call__(self, name: str, request: Any) -> Any:
        """A call with one answer; an error that it tells of is raised."""
        try:
            return await self.stream(name, request)
        except grpc.aio.AioRpcError as error:
            told = from_metadata(error.trailing_metadata())
            if isinstance(told, MQError):
                raise told from error
            raise


@asynccontextmanager
async def calling(target: str, token: str = "", credentials: Any = None) -> AsyncIterator[Caller]:
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    options = [("grpc.use_local_subchannel_pool", 1)]
    if credentials is None:
        channel = grpc.aio.insecure_channel(target, options=options)
    else:
        channel = grpc.aio.secure_channel(target, credentials, options=options)
    async with channel:
        yield Caller(channel, metadata)
