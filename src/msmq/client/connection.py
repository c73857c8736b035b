"""A connection to a queue manager."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc

from msmq.api.addresses import server_address, unix_path
from msmq.api.rpc import CHANNEL_OPTIONS
from msmq.client.administration import Administration
from msmq.client.line import open_line
from msmq.client.problems import ConnectionLostError, ServerNotAvailableError
from msmq.client.queue import Queue
from msmq.client.sender import Sender
from msmq.client.stream import GrpcStream, Stream, multicallable, problem
from msmq.client.transaction import Transaction
from msmq.errors import MsmqError

_OPTIONS: Final = (
    *CHANNEL_OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
)
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Tls:
    """How to trust a server on another computer, and how to be trusted by it. Files are PEM."""

    authorities: Path | str | None = None
    """Who signed the server's certificate; None for those the system trusts."""
    certificate: Path | str | None = None
    private_key: Path | str | None = None
    """One's own certificate, where the server asks for one."""
    server_name: str = ""
    """The name in the server's certificate, if it is not the one in the address."""

    def credentials(self) -> grpc.ChannelCredentials:
        authorities, key, certificate = (
            Path(given).read_bytes() if given else None
            for given in (self.authorities, self.private_key, self.certificate)
        )
        return grpc.ssl_channel_credentials(authorities, key, certificate)


def connect(
    server: str | None = None,
    *,
    token: str | None = None,
    tls: Tls | None = None,
    timeout: float = 30.0,
    window: int = 1024,
) -> Connection:
    """Connect to a queue manager: ``async with msmq.connect() as mq:``.

    ``server`` is ``unix:PATH`` or ``HOST:PORT``; without it ``MSMQ_SERVER`` is asked, then the usual socket of this
    user, then that of the system. ``token`` and ``tls`` are for servers on other computers. ``timeout`` is how many
    seconds a call waits for a server that cannot be reached before it gives up, at the beginning or when the
    connection breaks. ``window`` is how many messages to one queue may be under way.
    """
    return Connection(server_address(server), token=token, tls=tls, timeout=timeout, window=window)


class Connection(Administration):
    """A connection. Use it with ``async with``; any number of tasks may share it."""

    def __init__(
        self, address: str, *, token: str | None, tls: Tls | None, timeout: float, window: int
    ) -> None:
        self.address = address
        self.window = window
        self._token = token
        self._tls = tls
        self._timeout_s = timeout
        self._line_path = "" if token or tls else unix_path(address)
        self._channel: grpc.aio.Channel | None = None
        self._senders: dict[str, Sender] = {}

    def __repr__(self) -> str:
        return f"<Connection to {self.address}>"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; raises ServerNotAvailableError when nobody answers in time."""
        target = self.address.removeprefix("tls:")
        tls = self._tls or (Tls() if target != self.address else None)
        if tls is None:
            self._channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        else:
            named = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
            options = [*_OPTIONS, *named]
            self._channel = grpc.aio.secure_channel(target, tls.credentials(), options=options)
        try:
            await self._until_ready()
        except BaseException:
            await self._channel.close()
            self._channel = None
            raise

    async def close(self) -> None:
        """Send what is on its way, then hang up."""
        senders, self._senders = self._senders, {}
        for sender in senders.values():
            await sender.close()
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    # --- queues and transactions --------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """A queue by its path or format name."""
        return Queue(self, name)

    def transaction(self) -> Transaction:
        """A transaction: ``async with mq.transaction() as tx:``."""
        return Transaction(self)

    @property
    def dead_letters(self) -> Queue:
        """Messages of this computer that could not be delivered."""
        return Queue(self, ".\\deadletter$")

    @property
    def transactional_dead_letters(self) -> Queue:
        """The same for transactional messages."""
        return Queue(self, ".\\xactdeadletter$")

    @property
    def journal(self) -> Queue:
        """Copies of delivered messages, for those who asked for them."""
        return Queue(self, ".\\journal$")

    def sender(self, queue: str) -> Sender:
        """The stream that sends to a queue; one for each, shared by all tasks."""
        if queue not in self._senders:
            self._senders[queue] = Sender(self, queue)
        return self._senders[queue]

    # --- calls --------------------------------------------------------------------------------------------------

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of gRPC."""
        if self._channel is None:
            raise ConnectionLostError("The connection is not open; use `async with msmq.connect() as mq:`.")
        return self._channel

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._token}"),) if self._token else ()

    async def _until_ready(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.channel.channel_ready()
        except TimeoutError:
            raise ServerNotAvailableError(
                f"No queue manager answers at {self.address}. Start one with `msmq serve`, or say where it is: "
                "MSMQ_SERVER=unix:PATH or HOST:PORT."
            ) from None

    async def call(self, name: str, request: Any, *, safe: bool = False) -> Any:
        """One call. One that is ``safe`` to make twice is made again when the connection breaks."""
        function = multicallable(self.channel, name)
        while True:
            try:
                return await function(request, metadata=self._metadata)
            except grpc.aio.AioRpcError as failure:
                error = problem(failure)
                if not isinstance(error, ConnectionLostError) or not safe:
                    raise error from failure
            await asyncio.sleep(_PAUSE_S)
            await self._until_ready()

    async def server_stream(self, name: str, request: Any) -> AsyncIterator[Any]:
        """A call with many answers."""
        call = multicallable(self.channel, name)(request, metadata=self._metadata)
        try:
            async for reply in call:
                yield reply
        except grpc.aio.AioRpcError as failure:
            raise problem(failure) from failure
        finally:
            call.cancel()

    async def stream(
        self, name: str, received: Callable[[Any], None], lost: Callable[[MsmqError], None]
    ) -> Stream:
        """A call with streams on both sides; waits for the connection first. On a unix socket it takes the short line,
        elsewhere gRPC."""
        give_up_s = time.monotonic() + self._timeout_s
        while True:
            await self._until_ready()
            if not self._line_path:
                return GrpcStream(multicallable(self.channel, name)(metadata=self._metadata), received, lost)
            try:
                return await open_line(self._line_path, name, received, lost, self._no_line)
            except OSError as error:  # it is just going, and gRPC does not know yet
                if time.monotonic() > give_up_s:
                    raise ServerNotAvailableError(f"{self.address} cannot be reached: {error}.") from error
                await asyncio.sleep(_PAUSE_S)

    def _no_line(self) -> None:
        self._line_path = ""
