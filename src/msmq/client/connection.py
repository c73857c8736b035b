"""A connection to a queue manager."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Self

from msmq.api.addresses import server_address
from msmq.api.generated import msmq_pb2 as pb
from msmq.client.administration import Administration
from msmq.client.line import LineCarrier
from msmq.client.message import ReceivedMessage
from msmq.client.problems import ConnectionLostError, ServerNotAvailableError
from msmq.client.queue import Queue
from msmq.client.sender import Kinds, Sender
from msmq.client.several import SILENT_S, SeveralCarrier
from msmq.client.stream import Carrier, Stream
from msmq.client.target import Target, Tls
from msmq.client.transaction import Transaction
from msmq.client.watcher import Watching
from msmq.errors import MsmqError

_PAUSE_S: Final = 0.05
_IDLE_S: Final = 10.0
"""How often the client closes the streams of queues that it no longer sends to."""


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """The credentials for reading queues of other hosts: a user with a password, or the Kerberos ticket of this
    process."""

    user: str = ""
    password: str = field(default="", repr=False)
    kerberos: bool = False
    port: int | None = None
    """The port of remote read; None asks the endpoint mapper of the host."""
    timeout_s: float | None = None
    """How long the other host may stay silent during a call; None means the time-out of the connection."""

    @classmethod
    def of_environment(cls) -> RemoteAccess:
        """Read ``MSMQ_USER`` and ``MSMQ_PASSWORD``; without a user, use the ticket that ``KRB5CCNAME`` names; else be
        anonymous."""
        user, port = os.environ.get("MSMQ_USER", ""), os.environ.get("MSMQ_REMOTE_PORT", "")
        return cls(
            user,
            os.environ.get("MSMQ_PASSWORD", ""),
            not user and "KRB5CCNAME" in os.environ,
            int(port) if port.isdecimal() else None,
        )


class Patience:
    """The time in which a call is tried again before it fails."""

    def __init__(self, timeout_s: float) -> None:
        self._end_s = time.monotonic() + timeout_s

    async def wait(self, error: MsmqError) -> None:
        """Pause before the next try, or raise ``error`` if the time is up."""
        if time.monotonic() > self._end_s:
            raise error
        await asyncio.sleep(_PAUSE_S)


def connect(
    server: str | None = None,
    *,
    token: str | None = None,
    tls: Tls | None = None,
    timeout: float = 30.0,
    window: int = 1024,
    remote: RemoteAccess | None = None,
    act_as: str = "",
    telemetry: Watching | None = None,
) -> Connection:
    """Connect to a queue manager: ``async with msmq.connect() as mq:``.

    ``server`` is ``unix:PATH`` or ``HOST:PORT``, or several of these with commas between them for a queue manager whose
    instances take turns; without it the client looks at ``MSMQ_SERVER``, then for this user's usual socket, then for
    the system's. ``token`` and ``tls`` are for servers on other computers. ``timeout`` is how many seconds a call waits
    for a server that cannot be reached or shows no sign of life. ``window`` is how many messages to one queue may be
    under way. ``remote`` holds the credentials for queues of other hosts; by default they come from ``MSMQ_USER`` and
    ``MSMQ_PASSWORD`` or a Kerberos ticket. ``act_as`` says on whose behalf a process on the unix socket calls: ``Bearer
    TOKEN``, or, if it is an administrator, a SID. ``telemetry`` is a :class:`msmq.telemetry.Telemetry`, which makes
    spans of what is done with messages.
    """
    return Connection(
        server_address(server),
        token=token,
        tls=tls,
        timeout=timeout,
        window=window,
        remote=remote,
        act_as=act_as,
        telemetry=telemetry,
    )


class Connection(Administration):
    """A connection. Use it with ``async with``; any number of tasks may share it."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None,
        tls: Tls | None,
        timeout: float,
        window: int,
        remote: RemoteAccess | None = None,
        act_as: str = "",
        telemetry: Watching | None = None,
    ) -> None:
        self.address = address
        self._remote = remote
        self.window = window
        self.watcher = None if telemetry is None else telemetry.watcher(address)
        """Reports what happens to messages to the telemetry, if there is one."""
        self._token = token
        self._act_as = act_as
        self._tls = tls
        self._timeout_s = timeout
        self._is_open = False
        self._carrier: Carrier | None = None
        self._process = 0
        self._senders: dict[str, Sender] = {}
        self.kinds = Kinds()
        self._sweeping: asyncio.TimerHandle | None = None
        self._conversations: set[Stream] = set()
        """The open streams to other hosts."""

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
        self._is_open = True
        try:
            await self._ready()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Send what is still under way, then disconnect."""
        self._is_open = False
        carrier, self._carrier = self._carrier, None
        senders, self._senders = self._senders, {}
        sweeping, self._sweeping = self._sweeping, None
        conversations, self._conversations = self._conversations, set()
        if carrier is None or self._process != os.getpid():
            return
        if sweeping is not None:
            sweeping.cancel()
        try:
            await asyncio.gather(*(sender.close() for sender in senders.values()))
            await asyncio.gather(*(one.close() for one in conversations if not one.over))
        finally:
            await carrier.close()

    # --- queues and transactions --------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """Return a queue by its path or format name."""
        return Queue(self, name)

    def transaction(self) -> Transaction:
        """Begin a transaction: ``async with mq.transaction() as tx:``."""
        return Transaction(self)

    @property
    def dead_letters(self) -> Queue:
        """The dead-letter queue of this computer, with messages that could not be delivered."""
        return Queue(self, ".\\deadletter$")

    @property
    def transactional_dead_letters(self) -> Queue:
        """The dead-letter queue of transactional messages."""
        return Queue(self, ".\\xactdeadletter$")

    @property
    def journal(self) -> Queue:
        """The journal of this computer, with copies of delivered messages whose senders asked for one."""
        return Queue(self, ".\\journal$")

    def sender(self, queue: str) -> Sender:
        """Return the stream that sends to a queue; all tasks share it."""
        self._carry()  # a forked child must not use its parent's senders
        if queue not in self._senders:
            self._senders[queue] = Sender(self, queue)
            if self._sweeping is None:
                self._sweep_later()
        return self._senders[queue]

    def _sweep_later(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(_IDLE_S, self._sweep)

    def _sweep(self) -> None:
        """Close the senders of queues to which nothing was sent for a while."""
        self._senders = {queue: sender for queue, sender in self._senders.items() if not sender.rest()}
        self._sweeping = None
        if self._senders:
            self._sweep_later()

    # --- calls --------------------------------------------------------------------------------------------------

    def _carry(self) -> Carrier:
        """Return the carrier of this process; a forked child gets a new one."""
        if not self._is_open:
            raise ConnectionLostError("The connection is not open; use `async with msmq.connect() as mq:`.")
        if self._carrier is None or self._process != os.getpid():
            self._process = os.getpid()
            self._senders, self._sweeping, self._conversations = {}, None, set()
            addresses = [address.strip() for address in self.address.split(",")]
            if len(addresses) == 1:
                self._carrier = self._carrier_to(self.address, self._timeout_s)
            else:
                silent_s = min(SILENT_S, self._timeout_s)
                carriers = [self._carrier_to(address, silent_s) for address in addresses]
                self._carrier = SeveralCarrier(carriers, self._timeout_s, self._no_answer)
        return self._carrier

    def _carrier_to(self, address: str, timeout_s: float) -> Carrier:
        target = Target(address, self._tls)
        said = self._act_as if target.path else f"Bearer {self._token}" if self._token else ""
        return LineCarrier(target, said, timeout_s, self._no_answer)

    def _no_answer(self, error: Exception | None) -> ServerNotAvailableError:
        why = f" ({error})" if error is not None else ""
        return ServerNotAvailableError(
            f"No queue manager answers at {self.address}{why}. Start one with `msmq serve`, or say where it is: "
            "MSMQ_SERVER=unix:PATH or HOST:PORT."
        )

    async def _ready(self) -> Carrier:
        """Wait for the connection, then return the carrier."""
        carrier = self._carry()
        await carrier.ready()
        return carrier

    def took(self, message: ReceivedMessage, transaction: Transaction | None = None) -> None:
        """Report a message that the program got without a receiver."""
        if self.watcher is not None:
            self.watcher.received(message, self.watcher.now())
            if transaction is not None:
                transaction.took(message)

    async def elsewhere(self, queue: str) -> tuple[RemoteAccess, pb.QueuePlace] | None:
        """Return the credentials and the place of a queue on another computer; None if the queue is the server's
        own."""
        place: pb.QueuePlace = await self.call("LocateQueue", pb.QueueName(queue=queue), safe=True)
        if place.here:
            return None
        access = self._remote or RemoteAccess.of_environment()
        return access if access.timeout_s else replace(access, timeout_s=self._timeout_s), place

    def joined(self, conversation: Stream) -> Stream:
        """Remember a stream to another host. Closing the connection waits for its end, because its last word may be
        that a message was received."""
        self._conversations = {one for one in self._conversations if not one.over} | {conversation}
        return conversation

    def patience(self) -> Patience:
        """Start the clock for a call that begins now."""
        return Patience(self._timeout_s)

    async def call(self, name: str, request: Any, *, safe: bool = False) -> Any:
        """Make a call. If the connection breaks, a call that is ``safe`` to make twice is made again."""
        patience = self.patience()
        while True:
            carrier = await self._ready()
            try:
                return await carrier.call(name, request)
            except ConnectionLostError as error:
                if not safe:
                    raise
                await patience.wait(error)

    async def server_stream(self, name: str, request: Any) -> AsyncIterator[Any]:
        """Make a call with many replies."""
        carrier = await self._ready()
        async with aclosing(carrier.replies(name, request)) as replies:
            async for reply in replies:
                yield reply

    async def stream(
        self, name: str, received: Callable[[Any], None], lost: Callable[[MsmqError], None]
    ) -> Stream:
        """A call with streams on both sides; waits for the connection first."""
        return await (await self._ready()).stream(name, received, lost)
