"""The door by remote read (MS-MQRR): queues of any MSMQ host, Windows machines among them.

``server`` is ``mqrr:HOST`` or ``mqrr:HOST:PORT``. Remote read shows only messages that nobody holds, and does not tell
that there are others: a stream that uses it should be the only reader of its queue. Nor does it identify the host and
the queue: one that was set up anew is not noticed.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from ipaddress import ip_address
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from msmq.client.queue import QueueIdentity, Removal, Survey, Waiting
from msmq.direct import Access as Opening
from msmq.direct import Credentials, RemoteHost, RemoteMessage, RemoteQueue, browse, remove
from msmq.errors import MsmqError, RemoteMachineNotAvailableError
from msmq.spark.doors import Claim, Host
from msmq.spark.options import REMOTE_READ, Access, OptionError
from msmq.spark.schema import Messages
from msmq.wire.headers import INFINITE

_BATCH: Final = 256
_PAUSE_S: Final = 0.2
_T = TypeVar("_T")


class RemoteDoor:
    """The door by remote read. One thread uses it; its event loop runs only during a call."""

    def __init__(self, access: Access) -> None:
        host, _, port = (access.server or "").removeprefix(REMOTE_READ).partition(":")
        if not host or (port and not port.isdigit()):
            raise OptionError(
                f"server is {REMOTE_READ}HOST or {REMOTE_READ}HOST:PORT, not {access.server!r}."
            )
        self._name = host
        self._port = int(port) if port else None
        self._access = access
        self._runner = asyncio.Runner()
        self._host: RemoteHost | None = None
        self._open: dict[tuple[str, Opening], RemoteQueue] = {}

    def __enter__(self) -> Self:
        try:
            self._again(self._connected)
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._runner:  # closes the runner, even if hanging up fails
            self._runner.run(self._hang_up())

    # --- what the source asks ---------------------------------------------------------------------------------------

    def queues(self, pattern: str) -> list[str]:
        raise OptionError("Remote read does not tell which queues there are: name them by queue or queues.")

    @property
    def host(self) -> Host:
        return Host(self._name, self._identity.queue_manager)

    def spelt(self, queue: str) -> str:
        computer, backslash, rest = queue.partition("\\")
        return f".\\{rest}" if backslash and computer.lower() == self._name.lower() else queue

    def waiting(self, queue: str, spans: Sequence[tuple[int, int]]) -> Waiting:
        found = self.survey(queue, spans)
        ends = [
            max(inside)
            for after, upto in spans
            if (inside := [one for one in found.lookup_ids if after < one <= upto])
        ]
        return Waiting(len(found.lookup_ids), found.bytes, 0, array("Q", ends))

    def hold(self, queue: str, holder: str) -> None:
        """Do nothing: remote read cannot lock a queue, so let nobody else receive from it."""

    def claim(self, queue: str, label: str, body: bytes) -> None:
        raise OptionError(
            "By remote read a host keeps no claims: what consumes from it needs its checkpoint in a local folder."
        )

    def claims(self, queue: str) -> list[Claim]:
        return []

    def forget(self, queue: str, lookup_ids: Sequence[int]) -> None:
        """Do nothing: remote read keeps no claims."""

    def survey(
        self,
        queue: str,
        spans: Sequence[tuple[int, int]],
        most_messages: int = 0,
        most_bytes: int = 0,
        *,
        known: QueueIdentity | None = None,
        seen: int = 0,
    ) -> Survey:
        return self._again(lambda: self._survey(queue, spans, most_messages, most_bytes))

    def read(self, queue: str, after: int, upto: int) -> Iterator[Messages]:
        while True:
            messages = browse(self._again(lambda: self._queue(queue)), after, upto)
            try:
                while batch := self._runner.run(_some(messages)):
                    yield Messages.of(
                        queue,
                        [message.lookup_id for message in batch],
                        [message.arrival_time for message in batch],
                        [message.packet.data for message in batch],
                    )
                    after = batch[-1].lookup_id
                return
            except (RemoteMachineNotAvailableError, OSError):
                self._runner.run(self._hang_up())  # and on from there
            finally:
                self._runner.run(messages.aclose())

    def remove(self, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        wanted = array("Q", lookup_ids)
        if identity is not None and not identity.is_same(self._identity):
            return Removal(0, array("Q"), array("Q"), elsewhere=True)
        found = self._again(lambda: self._remove(queue, wanted))
        return Removal(len(found), array("Q", (each for each in wanted if each not in found)), array("Q"))

    @property
    def _identity(self) -> QueueIdentity:
        """Identify the queue by the host's address: remote read tells the GUID of neither."""
        return QueueIdentity((self._access.server or "").lower(), "")

    # --- by remote read ---------------------------------------------------------------------------------------------

    async def _survey(
        self, queue: str, spans: Sequence[tuple[int, int]], most_messages: int, most_bytes: int
    ) -> Survey:
        found, size = array("Q"), 0
        expiring: set[int] = set()
        opened = await self._queue(queue)
        for after, upto in spans:
            async with aclosing(browse(opened, after, upto, max_body=0)) as messages:
                async for message in messages:
                    length = len(message.packet.data)
                    full = most_messages and len(found) >= most_messages
                    if full or (most_bytes and found and size + length > most_bytes):
                        return Survey(found, array("Q"), size, self._identity, frozenset(expiring))
                    found.append(message.lookup_id)
                    if message.packet.user.time_to_be_received_s != INFINITE:
                        expiring.add(message.lookup_id)
                    size += length
        return Survey(found, array("Q"), size, self._identity, frozenset(expiring))

    async def _remove(self, queue: str, wanted: array[int]) -> set[int]:
        return await remove(await self._queue(queue, Opening.RECEIVE), wanted)

    async def _connected(self) -> RemoteHost:
        if self._host is None:
            user = self._access.user
            credentials = Credentials(user, self._access.password) if user else None
            self._host = await RemoteHost.connect(self._name, self._port, credentials)
        return self._host

    async def _queue(self, name: str, opening: Opening = Opening.PEEK) -> RemoteQueue:
        if (name, opening) not in self._open:
            host = await self._connected()
            self._open[name, opening] = await host.open(self._format_name(name), opening)
        return self._open[name, opening]

    def _format_name(self, name: str) -> str:
        """Write a path on that host as a direct name; format names stay as they are."""
        if "=" in name:
            return name
        return f"DIRECT={self._protocol}:{self._name}\\{name.partition(chr(92))[2]}"

    @property
    def _protocol(self) -> str:
        """The protocol of a direct name: it differs for an address and a host name."""
        try:
            ip_address(self._name)
        except ValueError:
            return "OS"
        return "TCP"

    async def _hang_up(self) -> None:
        host, self._host, self._open = self._host, None, {}
        if host is not None:
            with suppress(MsmqError, OSError):
                await host.close()

    def _again(self, ask: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Make a call, with new connections while the host is away."""
        deadline = time.monotonic() + self._access.timeout_s
        while True:
            try:
                return self._runner.run(ask())
            except (RemoteMachineNotAvailableError, OSError):
                self._runner.run(self._hang_up())
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)


async def _some(messages: AsyncGenerator[RemoteMessage, None]) -> list[RemoteMessage]:
    """Return the next few messages."""
    batch: list[RemoteMessage] = []
    async for message in messages:
        batch.append(message)
        if len(batch) == _BATCH:
            break
    return batch
