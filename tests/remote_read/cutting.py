"""Readers whose connection breaks at a chosen byte, and the books that say what may have become of their messages.

A `Proxy` stands between a reader and a server, counts PDUs in both directions together, and at one of them lets only a
part through; then both sides lose the connection. Before that ``disaster`` may happen, such as the death of the server.

What must hold, `Books` checks. A message is *gone* when it is no longer in the queue.

1. Whoever was told that its acknowledgment succeeded has the message alone: it is gone, for ever, and nobody else is
   told so of the same message.
2. What nobody acknowledged is in the queue, once, available, at its old place.
3. In doubt are only acknowledgments of which no answer came: these messages may be gone or not. Never are more gone
   than acknowledgments reached the server whole.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from bisect import insort
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from msmq.errors import RemoteMachineNotAvailableError
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import Action
from msmq.remote_read.reader import receive
from msmq.remote_read.remote_message import full_lookup_id
from msmq.remote_read.session import RemoteHost
from msmq.rpc.client import RpcClient
from msmq.rpc.pdu import AuthLevel, AuthType, PduType
from msmq.rpc.security import Credentials
from msmq.rpc.status import RpcBindError, RpcConnectionError
from msmq.testing.traffic import Draft
from tests.mail import rank
from tests.remote_read.support import OK, PATIENCE_S, Peer, packet_of
from tests.rpc.support import HOST, PASSWORD

CUT_OFF = (RpcConnectionError, RemoteMachineNotAvailableError, OSError)
"""How a reader may learn that it is cut off: it is never told anything else."""
_HEADER_SIZE, _LENGTH_AT, _OPNUM_AT = 16, 8, 22
_ENDS = (9, 15)
"""R_EndReceive and R_EndTransactionalReceive."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where and how a connection ends."""

    pdu: int
    """The number of the PDU, from 0, of both directions together."""
    share: float
    """How much of it gets through, from 0 to 1."""
    reset: bool = False
    """By a reset, and not in order."""

    def bytes_of(self, size: int) -> int:
        if self.share in (0, 1):
            return int(size * self.share)
        return min(max(int(size * self.share), 1), size - 1)


SHARES = (0.0, 0.01, 0.5, 0.99, 1.0)


def cuts_of(pdus: int, shares: Iterable[float] = SHARES) -> list[Cut]:
    """Cuts between every pair of PDUs of a conversation, and inside each."""
    return [
        Cut(pdu, share, reset) for pdu in range(pdus) for share in shares for reset in (False, True)
    ]  # fmt: skip


async def _nothing() -> None:
    pass


class Proxy:
    """Passes PDUs on until it is time."""

    def __init__(
        self,
        port: int,
        cut: Cut | None = None,
        disaster: Callable[[], Awaitable[None]] = _nothing,
        address: str = HOST,
    ) -> None:
        self.target, self.address = port, address
        self.cut = cut
        self.disaster = disaster
        self.pdus = 0
        self.ends = 0
        """Acknowledgments that went to the server whole."""
        self.port = 0
        self.over = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._drop(reset=False)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection(self.address, self.target)
        self._writers += [writer, out]
        for source, sink in ((reader, out), (there, writer)):
            task = asyncio.ensure_future(self._pump(source, sink, from_client=sink is out))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while not self.over.is_set():
                head = await source.readexactly(_HEADER_SIZE)
                size = int.from_bytes(head[_LENGTH_AT : _LENGTH_AT + 2], "little")
                pdu = head + await source.readexactly(size - _HEADER_SIZE)
                if self.over.is_set():
                    return
                await self._pass(pdu, sink, from_client)
        with suppress(OSError, RuntimeError):
            sink.close()

    async def _pass(self, pdu: bytes, sink: asyncio.StreamWriter, from_client: bool) -> None:
        cut, number = self.cut, self.pdus
        self.pdus += 1
        if cut is None or number < cut.pdu:
            sink.write(pdu)
        elif number == cut.pdu:
            self.over.set()
            passed = pdu[: cut.bytes_of(len(pdu))]
            sink.write(passed)
            with suppress(OSError):
                await sink.drain()
            if len(passed) == len(pdu):
                self._count(pdu, from_client)
            await self.disaster()
            self._drop(reset=cut.reset)
            return
        self._count(pdu, from_client)

    def _count(self, pdu: bytes, from_client: bool) -> None:
        is_request = from_client and pdu[2] == PduType.REQUEST
        if is_request and int.from_bytes(pdu[_OPNUM_AT : _OPNUM_AT + 2], "little") in _ENDS:
            self.ends += 1

    def _drop(self, *, reset: bool) -> None:
        for writer in self._writers:
            if reset:
                raw = writer.get_extra_info("socket")
                with suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
        self._writers.clear()


@dataclass
class Books:
    """What readers were told."""

    drafts: list[Draft] = field(default_factory=list)
    """What was sent, in the order of the queue."""
    told: Counter[bytes] = field(default_factory=Counter)
    """Acknowledgments that succeeded, by message."""
    acknowledging: set[bytes] = field(default_factory=set)
    """Messages whose acknowledgment somebody began to send."""
    gone: set[bytes] = field(default_factory=set)
    """Messages that were gone when last looked at."""

    def add(self, draft: Draft) -> None:
        """One more message was sent."""
        insort(self.drafts, draft, key=rank)

    @property
    def sent(self) -> list[bytes]:
        return [draft.body for draft in self.drafts]

    @property
    def in_doubt(self) -> set[bytes]:
        """Acknowledged, and never answered."""
        return self.acknowledging - self.told.keys()

    def check(self, contents: list[bytes], ends: int) -> None:
        """Compare with the queue after a reader is gone; ``ends`` acknowledgments reached the server meanwhile."""
        left, sent = set(contents), self.sent
        assert [body for body in sent if body in left] == contents  # once each, at their old places
        gone = set(sent) - left
        assert gone >= self.gone, f"{self.gone - gone} came back"
        assert gone <= self.acknowledging, f"{gone - self.acknowledging} are lost"
        assert gone >= self.told.keys(), f"{self.told.keys() - gone} were told to be gone"
        assert len(gone - self.gone) <= ends
        assert max(self.told.values(), default=0) <= 1
        # Whatever stayed was not acknowledged: somebody else may have it.
        self.acknowledging -= left
        self.gone = gone

    async def acknowledge(self, peer: Peer, handle: bytes, body: bytes, request_id: int = 1) -> None:
        self.acknowledging.add(body)
        assert await peer.end(handle, request_id) == OK
        self.told[body] += 1


Script = Callable[[int, Books], Awaitable[None]]


def _credentials(level: AuthLevel) -> Credentials | None:
    return Credentials("alice", PASSWORD, AuthType.NTLM, level) if level > AuthLevel.NONE else None


class Scripts:
    """The ways to receive."""

    def __init__(self, name: str, level: AuthLevel = AuthLevel.NONE) -> None:
        self.name = name
        self.level = level

    async def peer(self, port: int) -> Peer:
        return Peer(await RpcClient.connect(HOST, port, idl.REMOTE_READ, _credentials(self.level)))

    async def acknowledged(self, port: int, books: Books) -> None:
        """Open, begin, acknowledge, close."""
        async with await self.peer(port) as peer:
            handle = await peer.open(self.name)
            body = packet_of(await peer.start(handle)).body
            await books.acknowledge(peer, handle, body)
            await peer.close_queue(handle)

    async def given_back(self, port: int, books: Books) -> None:
        """Begin and give back; then begin again and close without a word."""
        async with await self.peer(port) as peer:
            handle = await peer.open(self.name)
            first = packet_of(await peer.start(handle)).body
            assert await peer.end(handle, ack=idl.RR_NACK) == OK
            assert packet_of(await peer.start(handle, request_id=2)).body == first
            await peer.close_queue(handle)

    async def looked_up(self, port: int, books: Books) -> None:
        """The second of the queue, by its lookup identifier."""
        async with await self.peer(port) as peer:
            handle = await peer.open(self.name)
            first = await peer.start(handle, Action.PEEK_CURRENT)
            lookup_id = full_lookup_id(packet_of(first), first.p_sequence_id)
            second = await peer.start(handle, Action.LOOKUP_RECEIVE_NEXT, lookup_id=lookup_id, request_id=3)
            await books.acknowledge(peer, handle, packet_of(second).body, 3)

    async def two_at_a_time(self, port: int, books: Books) -> None:
        """Two receives in flight, acknowledged in the wrong order, and a third that nobody acknowledges."""
        async with await self.peer(port) as peer:
            handle = await peer.open(self.name)
            replies = await asyncio.gather(
                *(peer.start(handle, request_id=number) for number in (1, 2, 3))
            )  # fmt: skip
            bodies = [packet_of(reply).body for reply in replies]
            await asyncio.gather(
                *(books.acknowledge(peer, handle, bodies[number - 1], number) for number in (2, 1))
            )

    async def our_client(self, port: int, books: Books) -> None:
        """The stream of our own client, with messages locked ahead."""
        async with await RemoteHost.connect(HOST, port, _credentials(self.level)) as host:
            queue = await host.open(self.name)
            taken = 0
            async for pending in receive(queue, prefetch=3, timeout_s=0):
                books.acknowledging.add(pending.message.body)
                await pending.acknowledge()
                books.told[pending.message.body] += 1
                taken += 1
                if taken == 2:
                    break

    @property
    def all(self) -> dict[str, Script]:
        return {
            script.__name__: script
            for script in (
                self.acknowledged,
                self.given_back,
                self.looked_up,
                self.two_at_a_time,
                self.our_client,
            )
        }


async def read(script: Script, books: Books, proxy: Proxy) -> bool:
    """Let a reader try; whether it came to its end."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await script(proxy.port, books)
    except (TimeoutError, RpcBindError):
        raise
    except CUT_OFF:
        return False
    except ExceptionGroup as group:
        if group.split(CUT_OFF)[1] is not None:
            raise
        return False
    return True
