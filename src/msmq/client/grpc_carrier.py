"""Calls by way of gRPC, for servers on other computers and for systems without unix sockets.

gRPC cannot be used in a process that was forked from one that had used it, whatever the switches: its threads and its
poller are the parent's. So a forked child is told, instead of waiting for an answer that cannot come.

gRPC tries for ever to connect and does not tell why it cannot. A certificate that nobody trusts does not get better by
waiting, so when a connection with TLS fails, it is tried once more without gRPC, to learn the reason.

Nor does gRPC give up a server that is silent in the time that the client was told: its pings have a pause of seconds.
So while calls are under way the server is asked for its health, and when it does not answer in time the channel is
given up with all its calls, and the next call has a new one.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc

from msmq.api import status
from msmq.api.frames import METHODS
from msmq.api.rpc import CHANNEL_OPTIONS
from msmq.client.problems import ConnectionLostError, ServerNotAvailableError
from msmq.errors import InsufficientResourcesError, MsmqError

if TYPE_CHECKING:
    from msmq.client.connection import Tls

_OPTIONS: Final = (
    *CHANNEL_OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
)
_QUICKEST_PING_MS: Final = 5_000
"""Servers hang up on clients that ping more often."""
_HEALTH: Final = "/grpc.health.v1.Health/Check"
"""What every server of gRPC can be asked; the request may be empty."""
_LOOKS: Final = 4
"""How often the server is asked for a sign of life before the patience with it is at an end."""
_ALERT_S: Final = 1.0
"""How long a server may take to say that it wants a certificate of the client."""
_FIRST_PROCESS: Final[list[int]] = []
"""The process that used gRPC first, among this one and those it was forked from."""


def multicallable(channel: grpc.aio.Channel, name: str) -> Any:
    """The function of gRPC that makes a call."""
    method = METHODS[name]
    return getattr(channel, method.kind)(
        method.path,
        request_serializer=method.serialize_request,
        response_deserializer=method.deserialize_reply,
    )


def problem(error: grpc.aio.AioRpcError) -> MsmqError:
    """What a failed call tells: a status of MSMQ, that something was too large, or that the connection broke."""
    told = status.from_metadata(error.trailing_metadata())
    if told is not None:
        return told
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return InsufficientResourcesError(error.details())
    return ConnectionLostError(
        f"The connection to the queue manager broke: {error.details() or error.code().name}."
    )


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    authorities, key, certificate = (
        Path(given).read_bytes() if given else None
        for given in (tls.authorities, tls.private_key, tls.certificate)
    )
    return grpc.ssl_channel_credentials(authorities, key, certificate)


async def _tls_trouble(target: str, tls: Tls) -> str:
    """What is wrong with the certificates of either side, in one sentence; empty if nothing is."""
    host, _, port = target.rpartition(":")
    name = tls.server_name or host.strip("[]")
    try:
        context = ssl.create_default_context(cafile=tls.authorities)
        context.set_alpn_protocols(["h2"])
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.private_key)
        reader, writer = await asyncio.open_connection(
            host.strip("[]"), int(port), ssl=context, server_hostname=name
        )
        try:
            async with asyncio.timeout(_ALERT_S):
                spoken = await reader.read(1)
        finally:
            writer.transport.abort()
        if not spoken:
            raise ConnectionResetError
    except ssl.SSLCertVerificationError as error:
        return (
            f"The certificate of {target} is not trusted: {error.verify_message.rstrip('.')}. Name the authority that "
            "signed it (--tls-ca FILE, msmq.Tls(authorities=FILE))."
        )
    except ConnectionResetError:  # a server that is content with the client's certificate speaks first
        return (
            f"{target} asks for a client certificate that it trusts: give yours (--tls-certificate FILE --tls-key "
            "FILE, msmq.Tls(certificate=FILE, private_key=FILE))."
        )
    except ssl.SSLError as error:
        return f"TLS with {target} fails: {error.reason or error}."
    except (OSError, TimeoutError, ValueError):
        return ""
    return ""


class GrpcCarrier:
    """Makes calls by way of gRPC: a :class:`msmq.client.stream.Carrier`."""

    def __init__(
        self,
        target: str,
        tls: Tls | None,
        token: str | None,
        timeout_s: float,
        no_answer: Callable[[Exception | None], MsmqError],
    ) -> None:
        if not _FIRST_PROCESS:
            _FIRST_PROCESS.append(os.getpid())
        elif _FIRST_PROCESS[0] != os.getpid():
            raise ServerNotAvailableError(
                f"{target} is reached by gRPC, which does not work in a process that was forked after it was used. "
                "Start processes with the method `spawn`, or connect to a unix socket."
            )
        self._target = target
        self._tls = tls
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._timeout_s = timeout_s
        self._no_answer = no_answer
        self._streams: weakref.WeakSet[GrpcStream] = weakref.WeakSet()
        self._calls: set[Any] = set()
        self._watching: asyncio.Task[None] | None = None
        self._channel = self._new_channel()

    def _new_channel(self) -> grpc.aio.Channel:
        timeout_s, tls = self._timeout_s, self._tls
        pause_ms = max(int(timeout_s * 500), _QUICKEST_PING_MS)
        options: list[tuple[str, int | str]] = [
            *_OPTIONS,
            ("grpc.keepalive_time_ms", pause_ms),
            ("grpc.keepalive_timeout_ms", int(timeout_s * 500)),
            ("grpc.http2.max_pings_without_data", 0),
        ]
        if tls is None:
            return grpc.aio.insecure_channel(self._target, options=options)
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        return grpc.aio.secure_channel(self._target, _credentials(tls), options=options)

    async def ready(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connected()
        except TimeoutError:
            raise self._no_answer(None) from None

    async def _connected(self) -> None:
        state = self._channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.READY:
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and self._tls is not None:
                trouble = await _tls_trouble(self._target, self._tls)
                if trouble:
                    raise ServerNotAvailableError(trouble)
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state(try_to_connect=True)

    async def stream(
        self, name: str, received: Callable[[Any], None], lost: Callable[[MsmqError], None]
    ) -> GrpcStream:
        await self.ready()
        stream = GrpcStream(multicallable(self._channel, name)(metadata=self._metadata), received, lost)
        self._streams.add(stream)
        self._watch()
        return stream

    async def call(self, name: str, request: Any) -> Any:
        await self.ready()
        call = multicallable(self._channel, name)(request, metadata=self._metadata)
        with self._under_way(call):
            return await call

    async def replies(self, name: str, request: Any) -> AsyncGenerator[Any, None]:
        await self.ready()
        call = multicallable(self._channel, name)(request, metadata=self._metadata)
        try:
            with self._under_way(call):
                async for reply in call:
                    yield reply
        finally:
            call.cancel()

    @contextmanager
    def _under_way(self, call: Any) -> Iterator[None]:
        """A call that waits for an answer; raises what became of it."""
        self._calls.add(call)
        self._watch()
        try:
            yield
        except grpc.aio.AioRpcError as failure:
            raise problem(failure) from failure
        except asyncio.CancelledError:
            if call not in self._calls:
                raise self._silence() from None
            raise
        finally:
            self._calls.discard(call)

    def _silence(self) -> ServerNotAvailableError:
        return ServerNotAvailableError(f"The queue manager has not answered for {self._timeout_s:g} seconds.")

    # --- patience -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        """Ask for a sign of life while somebody waits for an answer, and give up when none has come."""
        pause_s = self._timeout_s / _LOOKS
        while self._calls or any(not stream.over for stream in self._streams):
            await asyncio.sleep(pause_s)
            ask: Any = self._channel.unary_unary(_HEALTH)
            try:
                await ask(b"", timeout=self._timeout_s - pause_s)
            except grpc.aio.AioRpcError as failure:
                if failure.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    await self._give_up()

    async def _give_up(self) -> None:
        """The server is silent: end its calls, and take a new channel for the next ones."""
        silent, self._channel = self._channel, self._new_channel()
        self._calls.clear()
        for stream in list(self._streams):
            stream.give_up(self._silence())
        await silent.close()

    async def close(self) -> None:
        leaving = [stream for stream in self._streams if stream.leaving and not stream.over]
        try:
            await asyncio.gather(*(stream.close(self._timeout_s) for stream in leaving))
        finally:
            if self._watching is not None:
                self._watching.cancel()
            await self._channel.close()


class GrpcStream:
    """A call of gRPC, as :class:`msmq.client.stream.Stream` is one."""

    def __init__(self, call: Any, received: Callable[[Any], None], lost: Callable[[MsmqError], None]) -> None:
        self._call = call
        self._received = received
        self._lost = lost
        self._outgoing: deque[Any] = deque()
        self._something = asyncio.Event()
        self._closing = False
        self.over = False
        self._reason: MsmqError | None = None
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
        self._lost(self._reason or error)

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

    def end(self) -> None:
        """Take leave: what was put in goes out, and the other side ends the stream."""
        self._closing = True
        self._something.set()

    async def close(self, timeout_s: float = 5.0) -> None:
        """Take leave, and wait for the other side to end the stream."""
        self.end()
        try:
            if not self.over:
                await asyncio.wait(self._tasks, timeout=timeout_s)
        finally:
            self.cancel()

    @property
    def leaving(self) -> bool:
        """Whether leave was taken."""
        return self._closing

    def give_up(self, error: MsmqError) -> None:
        """End it, for this reason."""
        if not self.over:
            self._reason = error
            self._call.cancel()

    def cancel(self) -> None:
        self._call.cancel()
        for task in self._tasks:
            task.cancel()
