"""Remote read over loopback: what a message costs that is received with acknowledgment, and one that is peeked at.

Run: ``python bench/remote_read.py [--messages 2000] [--window 32] [--level privacy]`` (or ``make bench``). Servers are
processes of their own, as people run them. What counts is the ratio. Without ``--level`` every level is measured, each
with an echo of its own.

* **One at a time**: R_StartReceive and R_EndReceive, each waits for its answer.
* **Pipelined**: the same with a window of messages under way.
* **Peeked**: `msmq.direct.browse` with as many chains.
* **Echo**: the same PDUs, byte for byte as long and in the same order, between two bare asyncio protocols. Both find
  the end of each PDU by its length field and nothing else; the server writes its answer to each as soon as it has
  found it, the client has a future for each call and a task that awaits it, with the same number of calls under way.
  Two calls are one message. Where the real PDUs are signed or sealed, those of the echo are as long and both of its
  sides do the same cryptography for each, with bare calls.

Both use asyncio's own loop, here and in the servers. They take turns, a short round of one and one of the other, and
what is told are medians, that of the ratios of the rounds too: this says more than the best on a machine where others
are at work. The application of both looks at what it was sent: the body of each message, the bytes of each answer.

Messages are 1 KB, express, in a queue on a simulated disk: what a disk costs is measured by ``bench/manager.py``.
Callers who are authenticated are so with NTLM. The processor time of both sides is told too: it depends less on who
else is at work. Signed and sealed it should not be more than three times that of an unsigned message.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from multiprocessing.connection import Connection
from random import Random
from statistics import median
from typing import Any, Final, NamedTuple

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.hashes import MD5
from cryptography.hazmat.primitives.hmac import HMAC

from msmq import direct
from msmq.manager.core import Environment
from msmq.manager.initialization import Identity
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.remote_read import interface as idl
from msmq.remote_read.door import DoorSettings, RemoteReadDoor, server_config
from msmq.remote_read.policy import Policy
from msmq.remote_read.service import RemoteReadService
from msmq.rpc.ntlm import Account, nt_hash_of
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.security import Authentication
from msmq.security.access import Token
from msmq.security.sddl import parse_sddl
from msmq.security.sid import Sid
from msmq.store import Store
from msmq.testing.disk import SimulatedDisk
from msmq.wire.headers import USER_MP, BaseHeader, MessagePropertiesHeader, QueueReference, UserHeader
from msmq.wire.message import UserMessage

HOST: Final = "127.0.0.1"
NAME: Final = "DIRECT=OS:HOST\\private$\\bench"
BODY: Final = bytes(range(256)) * 4
GOALS: Final = {
    AuthLevel.NONE: 0.4, AuthLevel.CONNECT: 0.4, AuthLevel.INTEGRITY: 0.35, AuthLevel.PRIVACY: 0.3,
}  # fmt: skip
MOST_PROCESSOR: Final = 3
ROUNDS: Final = 11
FEWER: Final = 4
"""One at a time they are slow, and so many times fewer are enough."""
USER, PASSWORD = "alice", "Secret-1"
KEY: Final = bytes(16)
VERIFICATION: Final = 80
"""What a signed request has behind its parameters: who is meant."""
VERIFIER: Final = 24
"""What a signed PDU ends with."""
ONE, PIPELINED, PEEKED = "received, one at a time", "received, pipelined", "peeked"


class Speed(NamedTuple):
    """Messages a second, and microseconds of processor time that each costs the client and the server."""

    messages_s: float
    client_us: float
    server_us: float


# --- servers, each a process --------------------------------------------------------------------------


class Accounts:
    """The only one who may come with a password."""

    def find(self, name: str) -> Account | None:
        token = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1001"))
        return Account(USER, nt_hash_of(PASSWORD), token) if name == USER else None


class Bench:
    """A queue manager that is served."""

    def __init__(self) -> None:
        store = Store.open(SimulatedDisk())
        environment = Environment(time.time, Random(1).randbytes)
        self.manager = QueueManager(store, environment, lambda: Identity("HOST"))
        self.manager.start()
        everybody = parse_sddl("D:(A;;0x10000000;;;WD)(A;;0x10000000;;;AN)").encode()
        self.queue: Queue = self.manager.queues.create(QueueRequest(".\\private$\\bench", security=everybody))
        policy = Policy(AuthLevel.NONE)
        settings = DoorSettings((HOST,), 0, 0, policy, server=server_config(policy))
        known = Authentication(accounts=Accounts())
        self.door = RemoteReadDoor(settings, RemoteReadService(self, policy), known)
        user = UserHeader(
            sent_time=int(time.time()),
            message_id=1,
            flags=USER_MP | QueueReference.DIRECT << 10,
            destination_queue="OS:host\\private$\\q",
        )
        properties = MessagePropertiesHeader()
        self._made = UserMessage.build(base=BaseHeader(), user=user, properties=properties, body=BODY)

    def when_durable(self, action: Callable[[], None]) -> None:
        action()

    def fill(self, count: int) -> None:
        """Have so many messages in the queue."""
        wanted = count - len(self.queue.positions)
        if wanted > 0:
            messages = [StoredMessage(UserMessage.route(self._made.data)) for _ in range(wanted)]
            self.manager.sending.enqueue(self.queue, Batch.of(messages, self.manager.core.record.identifier))


class Bare:
    """What one side of NTLM computes for each PDU of one direction, and nothing around it."""

    def __init__(self, level: AuthLevel) -> None:
        self._signs, self._seals = level >= AuthLevel.INTEGRITY, level is AuthLevel.PRIVACY
        self._cipher = Cipher(ARC4(KEY), mode=None).encryptor().update
        self._keyed = HMAC(KEY, MD5())

    def compute(self, pdu: bytes | bytearray) -> None:
        if self._seals:
            self._cipher(bytes(pdu[24:-24]))
        if self._signs:
            keyed = self._keyed.copy()
            keyed.update(bytes(pdu))
            self._cipher(keyed.finalize()[:8])


class EchoServer(asyncio.Protocol):
    """Answers each PDU with one of the size that the first byte of its body asks for."""

    answers: tuple[bytes, ...] = ()
    level = AuthLevel.NONE

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._in, self._out = Bare(self.level), Bare(self.level)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 16:
            size = int.from_bytes(self._buffer[8:10], "little")
            if len(self._buffer) < size:
                return
            kind = self._buffer[16]
            self._in.compute(self._buffer[:size])
            del self._buffer[:size]
            self._out.compute(self.answers[kind])
            self._transport.write(self.answers[kind])  # type: ignore[attr-defined]


async def commanded(pipe: Connection, fill: Callable[[int], None]) -> None:
    """Answer each number with the processor time so far, once so many messages are there; anything else ends it."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def command() -> None:
        try:
            wanted = pipe.recv()
        except EOFError:  # whoever measures was killed
            wanted = None
        if not isinstance(wanted, int):
            over.set_result(None)
            return
        fill(wanted)
        pipe.send(time.process_time())

    loop.add_reader(pipe.fileno(), command)
    await over
    loop.remove_reader(pipe.fileno())


async def serve(pipe: Connection) -> None:
    bench = Bench()
    await bench.door.open()
    pipe.send(bench.door.service.port)
    await commanded(pipe, bench.fill)
    await bench.door.close()


async def serve_echo(pipe: Connection) -> None:
    EchoServer.answers, EchoServer.level = pipe.recv()
    server = await asyncio.get_running_loop().create_server(EchoServer, HOST, 0)
    pipe.send(server.sockets[0].getsockname()[1])
    await commanded(pipe, lambda _: None)
    server.close()


def run_server(pipe: Connection, work: Callable[[Connection], Awaitable[None]]) -> None:
    asyncio.run(work(pipe))  # type: ignore[arg-type]


class Server:
    """A server process, seen from the client."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.port: int = 0

    def ready(self) -> None:
        self.port = self._pipe.recv()

    def tell(self, what: object) -> None:
        self._pipe.send(what)

    async def processor_s(self, messages: int = 0) -> float:
        """Its processor time, when it has so many messages. Nothing is measured while we wait."""
        self._pipe.send(messages)
        used: float = await asyncio.to_thread(self._pipe.recv)
        return used


@contextmanager
def process(work: Callable[[Connection], Awaitable[None]]) -> Any:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    started = context.Process(target=run_server, args=(theirs, work), daemon=True)
    started.start()
    try:
        yield Server(ours)
        ours.send(None)
    finally:
        started.join(10)
        started.terminate()


# --- the client ---------------------------------------------------------------------------------------


class EchoClient(asyncio.Protocol):
    def __init__(self, level: AuthLevel) -> None:
        self._buffer = bytearray()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._in, self._out = Bare(level), Bare(level)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 16:
            size = int.from_bytes(self._buffer[8:10], "little")
            if len(self._buffer) < size:
                return
            answer = bytes(self._buffer[:size])
            self._in.compute(answer)
            del self._buffer[:size]
            self._waiting.popleft().set_result(answer)

    async def call(self, request: bytes) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._out.compute(request)
        self._transport.write(request)  # type: ignore[attr-defined]
        return await answer


def pdu(size: int, kind: int) -> bytes:
    """Bytes that look like a PDU as far as its length goes."""
    return bytes(8) + (24 + size).to_bytes(2, "little") + bytes(6) + bytes((kind,)) + bytes(7 + size)


async def timed(server: Server, count: int, work: Callable[[], Awaitable[None]]) -> Speed:
    theirs = await server.processor_s(count)
    ours, before = time.process_time(), time.perf_counter()
    await work()
    took, ours = time.perf_counter() - before, time.process_time() - ours
    theirs = await server.processor_s() - theirs
    return Speed(count / took, ours * 1e6 / count, theirs * 1e6 / count)


async def in_window(count: int, window: int, one: Callable[[], Awaitable[object]]) -> None:
    left = count

    async def work() -> None:
        nonlocal left
        while left:
            left -= 1
            await one()

    await asyncio.gather(*[work() for _ in range(window)])


Measured = dict[str, Callable[[], Awaitable[None]]]


def reading(queue: direct.RemoteQueue, messages: int, window: int) -> Measured:
    """The real thing."""

    async def one() -> None:
        assert len((await queue.receive()).body) == len(BODY)

    async def browsed() -> None:
        size = 0
        async for message in direct.browse(queue, chains=window):
            size += len(message.body)
        assert size == messages * len(BODY)

    return {
        ONE: lambda: in_window(messages // FEWER, 1, one),
        PIPELINED: lambda: in_window(messages, window, one),
        PEEKED: browsed,
    }


def echoing(client: EchoClient, sizes: tuple[int, ...], messages: int, window: int) -> Measured:
    requests = (pdu(sizes[0], 0), pdu(sizes[2], 1))
    lengths = tuple(len(pdu(size, 0)) for size in (sizes[1], sizes[3]))

    async def peek() -> None:
        assert len(await client.call(requests[0])) == lengths[0]

    async def message() -> None:
        await peek()
        assert len(await client.call(requests[1])) == lengths[1]

    return {
        ONE: lambda: in_window(messages // FEWER, 1, message),
        PIPELINED: lambda: in_window(messages, window, message),
        PEEKED: lambda: in_window(messages, window, peek),
    }


async def stubs_of(server: Server, queue: direct.RemoteQueue, level: AuthLevel) -> tuple[int, ...]:
    """How long the four PDUs of a receive are behind their fixed part."""
    await server.processor_s(1)
    start = idl.StartReceive(queue.handle, 0, 0, direct.Action.RECEIVE, 0, 1, 1 << 30, 1 << 30)
    end = idl.EndReceive(queue.handle, idl.RR_ACK, 1)
    reply = await queue.host.client.call(idl.R_START_RECEIVE, start)
    status = await queue.host.client.call(idl.R_END_RECEIVE, end)
    assert not reply.status | status.status
    sizes = [len(stub.encode()) for stub in (start, reply, end, status)]
    if level < AuthLevel.INTEGRITY:
        return tuple(sizes)
    with_trailers = (sizes[0] + VERIFICATION, sizes[1], sizes[2] + VERIFICATION, sizes[3])
    return tuple(size + -size % 16 + VERIFIER for size in with_trailers)


async def measure(
    server: Server, echo: Server, options: argparse.Namespace, level: AuthLevel
) -> list[tuple[dict[str, Speed], dict[str, Speed]]]:
    """Round after round: the real thing and the echo of each kind."""
    messages, window = options.messages, options.window
    credentials = direct.Credentials(USER, PASSWORD, level=level) if level is not AuthLevel.NONE else None
    rounds = []
    async with direct.reading(NAME, host=HOST, port=server.port, credentials=credentials) as queue:
        sizes = await stubs_of(server, queue, level)
        echo.tell(((pdu(sizes[1], 0), pdu(sizes[3], 1)), level))
        echo.ready()
        loop = asyncio.get_running_loop()
        transport, client = await loop.create_connection(lambda: EchoClient(level), HOST, echo.port)
        ours, theirs = reading(queue, messages, window), echoing(client, sizes, messages, window)
        for _ in range(options.rounds):
            found: tuple[dict[str, Speed], dict[str, Speed]] = ({}, {})
            for name in (ONE, PIPELINED, PEEKED):
                count = messages // FEWER if name == ONE else messages
                found[0][name] = await timed(server, count, ours[name])
                found[1][name] = await timed(echo, count, theirs[name])
            rounds.append(found)
        transport.close()
    return rounds


def middle(speeds: list[Speed]) -> Speed:
    return Speed(*(median(column) for column in zip(*speeds, strict=True)))


def show(
    level: AuthLevel, rounds: list[tuple[dict[str, Speed], dict[str, Speed]]], unsigned: dict[str, float]
) -> None:
    """Print the figures of a level; ``unsigned`` keeps the processor time of messages that nobody signs."""
    for name in (ONE, PIPELINED, PEEKED):
        ours, bare = (middle([found[side][name] for found in rounds]) for side in (0, 1))
        ratios = [mine[name].messages_s / theirs[name].messages_s for mine, theirs in rounds]
        used_us = ours.client_us + ours.server_us
        unsigned.setdefault(name, used_us)
        print(
            f"  {name:<24} {ours.messages_s:>8,.0f} /s   echo {bare.messages_s:>8,.0f} /s   "
            f"ratio {median(ratios):.2f}, in rounds {min(ratios):.2f} to {max(ratios):.2f}   "
            f"(goal {GOALS[level]})   processor: client {ours.client_us:.0f} us, echo {bare.client_us:.0f}; "
            f"server {ours.server_us:.0f} us, echo {bare.server_us:.0f}; "
            f"{used_us / unsigned[name]:.1f} of the first level's (at most {MOST_PROCESSOR})"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--window", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--level", choices=[level.name.lower() for level in GOALS], action="append")
    options = parser.parse_args()
    unsigned: dict[str, float] = {}
    for level in [AuthLevel[name.upper()] for name in options.level or ()] or GOALS:
        with process(serve) as server, process(serve_echo) as echo:
            server.ready()
            rounds = asyncio.run(measure(server, echo, options, level))
        print(
            f"{options.messages} messages of {len(BODY)} bytes, {options.window} under way, authentication "
            f"{level.name.lower()}, medians of {options.rounds} rounds"
        )
        show(level, rounds, unsigned)
    return 0


if __name__ == "__main__":
    sys.exit(main())
