"""Hostile callers of remote read, before and after they have proven who they are.

Real conversations are spoiled on their way to the server, and calls are made with spoiled stubs by callers who are let
in. Whatever comes: the server answers in whole PDUs or closes the connection, nothing fails that it did not foresee
(it would log an error), it keeps nothing, and a healthy reader is served meanwhile. ``MSMQ_HOSTILE_SECONDS`` and
``MSMQ_HOSTILE_SEED`` (`make hostile`) make the campaign longer, and another one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msmq.admission.gate import Crowding
from msmq.errors import MsmqError
from msmq.remote_read import interface as idl
from msmq.remote_read.policy import Policy
from msmq.rpc.client import RpcClient
from msmq.rpc.interface import Operation
from msmq.rpc.pdu import WHOLE, AuthLevel, PduFlags, PduType
from msmq.rpc.status import FaultStatus, RpcFault
from msmq.security.sddl import parse_sddl
from tests.remote_read.cutting import Books, Proxy, Scripts
from tests.remote_read.support import (
    ACCESS_DENIED,
    OK,
    PATIENCE_S,
    QUEUE_NOT_FOUND,
    Loose,
    Peer,
    Served,
    direct,
    eventually,
    on_loop,
    packet_of,
    serving,
)
from tests.rpc.support import ALICE, HOST

SECONDS = float(os.environ.get("MSMQ_HOSTILE_SECONDS", "6"))
SEED = int(os.environ.get("MSMQ_HOSTILE_SEED", "1801"))
MEMORY_LIMIT = 48 << 20
FROM_SERVER = {
    PduType.RESPONSE, PduType.FAULT, PduType.BIND_ACK, PduType.BIND_NAK, PduType.ALTER_CONTEXT_RESP, PduType.SHUTDOWN,
}  # fmt: skip
EDGES = (0, 1, 0x7F, 0x80, 0xFF)
SIZES = (0, 1, 15, 16, 23, 24, 0x7FFF, 0xFFFF)


def _set(pdu: bytes, at: int, value: int, size: int) -> bytes:
    return pdu[:at] + value.to_bytes(size, "little") + pdu[at + size :]


class Mutator(Proxy):
    """Passes a conversation on and spoils what the client sends from PDU ``start`` on, now and then."""

    def __init__(self, port: int, random: Random, start: int) -> None:
        super().__init__(port)
        self.random = random
        self.start = start
        self.answers: list[int] = []
        self._memory: list[bytes] = []

    async def _pass(self, pdu: bytes, sink: asyncio.StreamWriter, from_client: bool) -> None:
        number = self.pdus
        self.pdus += 1
        if not from_client:
            assert pdu[0] == 5
            assert pdu[2] in FROM_SERVER, pdu[:32].hex()
            self.answers.append(pdu[2])
            sink.write(pdu)
            return
        self._memory.append(pdu)
        if number < self.start or (number > self.start + 1 and self.random.random() < 0.7):
            sink.write(pdu)
            return
        for piece in self._spoil(pdu):
            sink.write(piece)
        # Most of this leaves the two sides waiting for each other.
        asyncio.get_running_loop().call_later(0.05, self._drop_all)

    def _drop_all(self) -> None:
        self.over.set()
        self._drop(reset=False)

    def _spoil(self, pdu: bytes) -> list[bytes]:
        random = self.random
        choice = random.randrange(12)
        at = random.randrange(len(pdu))
        if choice == 0:
            return [pdu[:at] + bytes((random.choice(EDGES),)) + pdu[at + 1 :]]
        if choice == 1:
            spoiled = bytearray(pdu)
            for _ in range(random.randrange(1, 8)):
                spoiled[random.randrange(len(pdu))] = random.randrange(256)
            return [bytes(spoiled)]
        if choice == 2:
            return [_set(pdu, 8, random.choice([*SIZES, len(pdu) - 1, len(pdu) + 1]), 2)]  # frag_length
        if choice == 3:
            return [_set(pdu, 10, random.choice([*SIZES, len(pdu)]), 2)]  # auth_length
        if choice == 4:
            return [_set(pdu, 2, random.randrange(256 if random.random() < 0.2 else 20), 1)]  # PTYPE
        if choice == 5:
            return [_set(pdu, 3, random.randrange(256), 1)]  # flags
        if choice == 6:
            return [pdu, pdu]
        if choice == 7:
            return [random.choice(self._memory), pdu]
        if choice == 8:
            return [_set(pdu, 22, random.randrange(20), 2)]  # opnum
        if choice == 9:
            return [pdu[:at]]
        if choice == 10:  # from some place on, noise; the length is right
            return [pdu[: max(at, 16)] + random.randbytes(len(pdu) - max(at, 16))]
        # more than one fragment, of which the rest never comes
        return [_set(pdu, 3, PduFlags.FIRST_FRAG, 1), _set(pdu, 3, 0, 1)]


class Healthy:
    """A reader with an identity that receives and gives back all the while."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.reads = 0
        self.over = False

    async def run(self) -> None:
        async with await self.served.connect("alice") as peer:
            handle = await peer.open(direct("healthy"))
            while not self.over:
                assert packet_of(await peer.start(handle)).body == b"fine"
                assert await peer.end(handle, ack=idl.RR_NACK) == OK
                self.reads += 1
                await asyncio.sleep(0.01)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def on_served(test: Callable[[Served], Awaitable[None]], policy: Policy | None = None) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S + 3 * SECONDS):
            async with serving(policy or Policy(AuthLevel.NONE)) as served:
                served.queue("healthy", b"fine")
                healthy = Healthy(served)
                task = asyncio.create_task(healthy.run())
                try:
                    await test(served)
                    before = healthy.reads
                    await eventually(lambda: task.done() or healthy.reads > before)
                finally:
                    healthy.over = True
                await task
                server = served.door.server
                await eventually(lambda: not (server.connections or len(server.groups)))
                assert not served.service.handles.open

    asyncio.run(run())


@pytest.mark.parametrize(
    "level", [AuthLevel.NONE, AuthLevel.INTEGRITY, AuthLevel.PRIVACY], ids=lambda level: level.name
)
def test_spoiled_conversations(level: AuthLevel, caplog: pytest.LogCaptureFixture) -> None:
    print(f"seed {SEED}, {SECONDS:g} s")
    random = Random(f"{SEED}{level}")
    scripts = Scripts(direct(), level)
    seen: Counter[int] = Counter()

    async def test(served: Served) -> None:
        queue = served.queue("orders")
        end = time.monotonic() + SECONDS / 3
        conversations = 0
        while time.monotonic() < end or conversations < 60:
            conversations += 1
            while len(queue.positions) < 4:
                served.host.send(queue, b"%08d" % conversations)
            script = random.choice(list(scripts.all.values()))
            async with Mutator(served.port, random, random.randrange(12)) as proxy:
                with suppress(MsmqError, OSError, AssertionError, TimeoutError):
                    async with asyncio.timeout(2):
                        await script(proxy.port, Books())
            seen.update(proxy.answers)

    on_served(test)
    assert not errors(caplog)
    assert set(seen) > {PduType.BIND_ACK, PduType.RESPONSE, PduType.FAULT}


OPERATIONS: dict[int, Operation[Any, Any]] = {
    operation.opnum: operation
    for operation in (
        idl.R_GET_SERVER_PORT, idl.R_OPEN_QUEUE, idl.R_CLOSE_QUEUE, idl.R_CREATE_CURSOR, idl.R_CLOSE_CURSOR,
        idl.R_PURGE_QUEUE, idl.R_START_RECEIVE, idl.R_CANCEL_RECEIVE, idl.R_END_RECEIVE, idl.R_MOVE_MESSAGE,
        idl.R_OPEN_QUEUE_FOR_MOVE, idl.R_ENLIST_REMOTE_TRANSACTION, idl.R_START_TRANSACTIONAL_RECEIVE,
        idl.R_SET_USER_ACKNOWLEDGEMENT_CLASS, idl.R_END_TRANSACTIONAL_RECEIVE,
    )
}  # fmt: skip
NUMBERS = st.sampled_from([0, 1, 2, 3, 7, 0x7FFFFFFF, 0x80000000, 0xC0000010, 0xFFFFFFFF]) | st.integers(
    0, 0xFFFFFFFF
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(sorted(OPERATIONS)),
        st.lists(NUMBERS, min_size=12, max_size=12),
        st.none()
        | st.tuples(st.integers(0, 200), st.binary(max_size=12)),  # where, and what with, it is spoiled
        st.sampled_from([None] * 3) | st.integers(0, 100),  # where it ends
        st.sampled_from((0, 0, 0, 0, 1, 2, 3)),  # whose handle: mostly its own
    ),
    min_size=4,
    max_size=20,
)


def _stub(opnum: int, handle: bytes, numbers: list[int], peer: Peer, ndr64: bool) -> bytes:
    """A stub as it should be, but for its numbers."""
    n = numbers
    if opnum in (2, 11):
        access, share = (n[0], n[1]) if n[2] % 2 else ({2: 1, 11: 4}[opnum], 0)
        return peer.request(direct(), access, share).encode(ndr64)
    if opnum in (7, 13):
        timeout_ms = n[2] % 3
        values = (
            handle,
            n[0] << 32 | n[1],
            n[3] % 3,
            n[4] if n[5] % 2 else 0,
            timeout_ms,
            n[6] % 4,
            n[7],
            n[8],
        )
        if opnum == 7:
            return idl.StartReceive(*values).encode(ndr64)
        return idl.StartTransactionalReceive(*values, bytes(16) if n[9] % 2 else bytes(range(16))).encode(
            ndr64
        )
    if opnum == 12:
        token = bytes(n[0] % 40)
        return idl.EnlistRemoteTransaction(
            bytes(range(16)), len(token), token, peer.request(None).p_queue_format
        ).encode(ndr64)
    tails = {5: (n[0],), 8: (n[0] % 4,), 9: (n[1] % 4, n[0] % 4), 15: (n[1] % 4, n[0] % 4)}
    tail = b"".join(number.to_bytes(4, "little") for number in tails.get(opnum, ()))
    if opnum == 10:
        tail = bytes(4) + b"".join(number.to_bytes(8, "little") for number in n[:2]) + bytes(16)
    if opnum == 14:
        tail = bytes(4) + n[0].to_bytes(8, "little") + (n[1] & 0xFFFF).to_bytes(2, "little")
    return b"" if opnum == 0 else handle + tail


@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(calls=CALLS)
def test_spoiled_stubs_of_a_caller_who_is_let_in(ndr64: bool, calls: list[Any]) -> None:
    """In any order, on handles that are open, closed, of another caller, or none at all."""
    caught: list[logging.LogRecord] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = caught.append  # type: ignore[method-assign]

    async def test() -> None:
        async with serving(Policy(AuthLevel.PRIVACY)) as served:
            queue = served.queue("orders", b"1", b"2", b"3", transactional=True)
            async with (
                await served.connect("alice", ndr64=ndr64) as peer,
                await served.connect("bob") as other,
            ):
                handles = [await peer.open(), await other.open(), bytes(20), bytes(range(20))]
                for opnum, numbers, spoiled, end, whose in calls:
                    stub = _stub(opnum, handles[whose], numbers, peer, ndr64)
                    if spoiled is not None:
                        at, noise = spoiled
                        stub = stub[:at] + noise + stub[at + len(noise) :]
                    request = Loose(stub[:end] if end is not None else stub)
                    with suppress(RpcFault):
                        await peer.call(OPERATIONS[opnum], request)
                # Its connection still serves it, and so does the server the other one.
                assert await peer.get_port() == served.port
                assert await other.read(handles[1], 0x80000000) in (b"1", b"2", b"3", 0xC00E001B)
            await eventually(lambda: not served.service.handles.open)
            assert len(queue.positions) <= 3

    logging.getLogger().addHandler(handler)
    try:
        on_loop(test)()
    finally:
        logging.getLogger().removeHandler(handler)
    assert not caught, caught[0].getMessage()


def _request(
    stub: bytes, *, flags: int = int(WHOLE), hint: int = 0xFFFFFFFF, call_id: int = 9, opnum: int = 12
) -> bytes:
    body = hint.to_bytes(4, "little") + bytes(2) + opnum.to_bytes(2, "little") + stub
    head = bytes((5, 0, PduType.REQUEST, flags, 0x10, 0, 0, 0))
    return head + (16 + len(body)).to_bytes(2, "little") + bytes(2) + call_id.to_bytes(4, "little") + body


COUNT = (0x7FFFFFFF).to_bytes(4, "little")


def test_memory_does_not_follow_what_is_claimed(caplog: pytest.LogCaptureFixture) -> None:
    """Counts, hints and fragments without end, and many connections with half a PDU each."""
    bind: list[bytes] = []

    class Recorder(Proxy):
        async def _pass(self, pdu: bytes, sink: asyncio.StreamWriter, from_client: bool) -> None:
            if from_client and not bind:
                bind.append(pdu)
            await super()._pass(pdu, sink, from_client)

    async def connect(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, served.port)
        writer.write(bind[0])
        await reader.readexactly(16)
        return reader, writer

    async def flood(served: Served, pieces: list[bytes]) -> None:
        """Send until all is sent or nobody listens any more; what comes back is a fault or nothing."""
        reader, writer = await connect(served)
        with suppress(OSError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await reader.read()

    async def test(served: Served) -> None:
        served.queue("orders", b"one")
        async with Recorder(served.port) as proxy:
            await Scripts(direct()).acknowledged(proxy.port, Books())
        gc.collect()
        tracemalloc.start()
        try:
            await flood(served, [_request(bytes(16) + COUNT + COUNT + bytes(100))])  # a token of 2 GB
            await flood(
                served, [_request(b"\3\0\0\0\3\0\0\0" + b"\1\0\0\0" + COUNT + bytes(4) + COUNT, opnum=2)]
            )
            part = bytes(5_000)
            endless = [_request(part, flags=PduFlags.FIRST_FRAG)] + [_request(part, flags=0)] * 4_000  # 20 MB
            await flood(served, endless)
            many = [_request(part, flags=PduFlags.FIRST_FRAG, call_id=number) for number in range(4_000)]
            await flood(served, many)
            opened = [await connect(served) for _ in range(100)]
            for _, writer in opened:
                writer.write(_request(part)[:-1])
            await asyncio.sleep(0.1)
            for _, writer in opened:
                writer.close()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < MEMORY_LIMIT, peak

    on_served(test)
    assert not errors(caplog)


def test_nobody_is_locked_out(caplog: pytest.LogCaptureFixture) -> None:
    """Silent connections of many addresses, bound ones without a call, and callers of whom nobody reads the answers."""
    large = bytes(1 << 20)
    admitted = 0

    async def test(served: Served) -> None:
        nonlocal admitted
        server = served.door.server
        server.gate.crowding = Crowding(connections=120, per_address=60, opening=50)
        served.queue("large", large)
        silent, greedy = [], []
        for number in range(200):
            source = f"127.0.9.{number % 4 + 1}"
            silent.append(await asyncio.open_connection(HOST, served.port, local_addr=(source, 0)))
        for _ in range(20):
            greedy.append(await RpcClient.connect(HOST, served.port, idl.REMOTE_READ))
        deaf = [await served.connect("bob", level=AuthLevel.INTEGRITY) for _ in range(3)]
        for peer in deaf:
            handle = await peer.open(direct("large"))
            assert peer.client._transport is not None
            peer.client._transport.pause_reading()
            for number in range(100):
                asked = asyncio.ensure_future(peer.start(handle, 0x80000000, request_id=number))
                asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        await eventually(lambda: server.unread.total > 0)
        for _ in range(20):
            async with await served.connect("alice") as newcomer:
                assert (
                    packet_of(await newcomer.start(await newcomer.open(direct("large")), 0x80000000)).body
                    == large
                )
                admitted += 1
        assert server.connections <= 120
        assert server.unread.total <= 3 * (server.config.max_unread + 2 * len(large))
        for client in (*greedy, *(peer.client for peer in deaf)):
            client.abort()
        for _, writer in silent:
            writer.close()

    on_served(test)
    assert admitted == 20
    assert not errors(caplog)


@pytest.mark.spec("MQRR-2.1-d", "MQRR-2.1-e", "MQRR-3.1.4.2-p")
@on_loop
async def test_a_caller_without_rights_learns_nothing() -> None:
    """Who is not authenticated well enough gets one fault whatever it asks for; who is, and has no rights, one error,
    whatever the queue is like and whoever reads it."""
    async with serving(Policy(AuthLevel.PRIVACY)) as served:
        secret = parse_sddl(f"D:(A;;0x10000000;;;{ALICE})").encode()
        served.queue("orders", b"secret", security=secret)
        served.queue("empty", security=secret)
        served.queue("ledger", b"secret", security=secret, transactional=True)

        async with (
            await served.connect() as nobody,
            await served.connect("bob", level=AuthLevel.INTEGRITY) as weak,
        ):
            for peer in (nobody, weak):
                told = {await refusal(peer, name) for name in ("orders", "empty", "ledger", "missing")}
                assert told == {(FaultStatus.ACCESS_DENIED, True)}
        async with await served.connect("alice") as alice, await served.connect("bob") as bob:
            handle = await alice.open(direct("ledger"), share=1)  # nobody else may read
            for access in (1, 0x20):
                told = {await refusal(bob, name, access) for name in ("orders", "empty", "ledger")}
                assert told == {(ACCESS_DENIED, False)}
                assert await refusal(bob, "orders", access, subqueue="retry") == (ACCESS_DENIED, False)
                assert await refusal(bob, "missing", access) == (QUEUE_NOT_FOUND, False)
            assert await bob.get_port() == served.port  # anybody may connect, and ask this
            # The handle of somebody else is no handle; not even its kind is told.
            for context in (handle, bytes(range(20))):
                with pytest.raises(RpcFault) as fault:
                    await bob.start(context)
                assert fault.value.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
            assert packet_of(await alice.start(handle)).body == b"secret"
            assert [each.descriptor.queue for each in served.service.handles.open] == [
                served.host.find("ledger")
            ]
            assert "retry" not in served.host.find().subqueue_collection


async def refusal(peer: Peer, name: str, access: int = 1, subqueue: str = "") -> tuple[int, bool]:
    with pytest.raises(RpcFault) as fault:
        await peer.open(direct(name, subqueue), access)
    return fault.value.status, fault.value.did_not_execute
