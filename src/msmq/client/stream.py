"""One stream of the channel: requests go out in order, replies come in, and one day it is over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import grpc

from msmq.api import rpc, status
from msmq.client.problems import ConnectionLostError
from msmq.errors import MsmqError

METHODS = {method.name: method for method in rpc.methods()}


def multicallable(channel: grpc.aio.Channel, name: str) -> Any:
    """The function of gRPC that makes a call."""
    method = METHODS[name]
    return getattr(channel, method.kind)(
        method.path,
        request_serializer=method.serialize_request,
        response_deserializer=method.deserialize_reply,
    )


def problem(error: grpc.aio.AioRpcError) -> MsmqError:
    """What a failed call tells: a status of MSMQ, or that the connection broke."""
    told = status.from_metadata(error.trailing_metadata())
    if told is not None:
        return told
    return ConnectionLostError(
        f"The connection to the queue manager broke: {error.details() or error.code().name}."
    )


class Stream(Protocol):
    """A call with streams on both sides. Whoever makes one is told each reply, and once that it is over."""

    over: bool

    def put(self, request: Any) -> None:
        """Send a request."""

    async def close(self, timeout_s: float = 5.0) -> None:
        """Take leave: what was put in goes out, the other side ends the stream."""

    def cancel(self) -> None:
        """End it at once."""


class GrpcStream:
    """That of gRPC. ``received`` is called with each reply, ``lost`` once at the end."""

    def __init__(self, call: Any, received: Callable[[Any], None], lost: Callable[[MsmqError], None]) -> None:
        self._call = call
        self._received = received
        self._lost = lost
        self._outgoing: deque[Any] = deque()
        self._something = asyncio.Event()
        self._closing = False
        self.over = False
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())]

    def put(self, request: Any) -> None:
        self._outgoing.append(request)
        self._something.set()

    async def _write(self) -> None:
        try:
            while True:
                while self._outgoing:
                    await self._call.write(self._outgoing.popleft())
                if self._closing:
                    await self._call.done_writing()
                    return
                self._something.clear()
                await self._something.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reader learns why

    async def _read(self) -> None:
        error: MsmqError = ConnectionLostError("The stream has ended.")
        try:
            while (reply := await self._call.read()) is not grpc.aio.EOF:
                self._received(reply)
            if not self._closing:
                await self._status()
        except grpc.aio.AioRpcError as failure:
            error = problem(failure)
        except asyncio.CancelledError:
            if not self._call.cancelled() and not self._call.done():
                raise
            if not self._call.cancelled():
                error = await self._ended(error)
        self.over = True
        self._lost(error)

    async def _ended(self, otherwise: MsmqError) -> MsmqError:
        """Why a call is done whose reading was cut short."""
        try:
            await self._status()
        except grpc.aio.AioRpcError as failure:
            return problem(failure)
        return otherwise

    async def _status(self) -> None:
        """Raise what a stream ended with, if it was not an orderly end."""
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(
                code,
                await self._call.initial_metadata(),
                await self._call.trailing_metadata(),
                details=await self._call.details(),
            )

    async def close(self, timeout_s: float = 5.0) -> None:
        """Take leave: what was put in goes out, the other side ends the stream."""
        if not self.over:
            self._closing = True
            self._something.set()
            await asyncio.wait(self._tasks, timeout=timeout_s)
        self.cancel()

    def cancel(self) -> None:
        self._call.cancel()
        for task in self._tasks:
            task.cancel()
