"""The client on its socket, against our server and against those that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from msmq.rpc.client import RpcClient
from msmq.rpc.mgmt import IS_SERVER_LISTENING, MGMT, Nothing
from msmq.rpc.pdu import (
    AuthLevel,
    AuthType,
    Bind,
    BindAck,
    ContextAnswer,
    ContextElement,
    PduType,
    Request,
    Response,
    build,
)
from msmq.rpc.security import Credentials
from msmq.rpc.status import RpcBindError, RpcConnectionError, RpcError, RpcFault
from msmq.rpc.syntaxes import NDR, feature_syntax
from tests.rpc.echo import ECHO, ECHOES, FAIL, RELEASE, WAIT, Data, Number
from tests.rpc.machines import take_fragments
from tests.rpc.support import HOST, PASSWORD, eventually, serving

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def against(answer: Answer, use: Callable[[int], Awaitable[None]]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        await asyncio.wait_for(use(server.sockets[0].getsockname()[1]), 240)


async def pdu(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(16)
    return head + await reader.readexactly(int.from_bytes(head[8:10], "little") - 16)


def ack() -> bytes:
    return build(PduType.BIND_ACK, 1, BindAck(5840, 5840, 5, b"1", (ContextAnswer(0, 0, NDR),)).write_body())


def test_a_server_that_hangs_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await pdu(reader)

    async def use(port: int) -> None:
        with pytest.raises(RpcConnectionError):
            await RpcClient.connect(HOST, port, ECHOES)

    asyncio.run(against(silent, use))


@pytest.mark.parametrize("rest", [b"rubbish" * 10, build(PduType.RESPONSE, 2, Response().encode() + b"\1")])
def test_an_answer_that_makes_no_sense(rest: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await pdu(reader)
        writer.write(ack())
        await pdu(reader)
        writer.write(rest)
        await reader.read()

    async def use(port: int) -> None:
        client = await RpcClient.connect(HOST, port, ECHOES)
        calls = [client.call(ECHO, Data(1, b"x")) for _ in range(2)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, RpcConnectionError) for result in results)
        with pytest.raises(RpcConnectionError):
            await client.call(ECHO, Data(1, b"x"))
        await client.closed

    asyncio.run(against(answer, use))


def test_nobody_is_there() -> None:
    async def run() -> None:
        async with serving() as running:
            port = running.port
        with pytest.raises(RpcConnectionError):
            await RpcClient.connect(HOST, port, ECHOES)

    asyncio.run(run())


def test_credentials_without_a_provider() -> None:
    async def run() -> None:
        async with serving() as running:
            who = Credentials("alice", PASSWORD, AuthType.NTLM, AuthLevel.INTEGRITY)
            running.server.authentication = type(running.server.authentication)()
            with pytest.raises(RpcBindError):
                await RpcClient.connect(HOST, running.port, ECHOES, who)

    asyncio.run(run())


def test_binding_more_while_calls_wait() -> None:
    async def run() -> None:
        async with serving() as running:
            who = Credentials("alice", PASSWORD, AuthType.NEGOTIATE, AuthLevel.PRIVACY)
            async with await RpcClient.connect(HOST, running.port, ECHOES, who, ndr64=True) as client:
                wait = asyncio.create_task(client.call(WAIT, Number(1)))
                await eventually(lambda: 1 in running.echoes.waiting)
                await asyncio.gather(*(client.bind(MGMT, ndr64=True) for _ in range(3)))
                assert (await client.call(IS_SERVER_LISTENING, Nothing())).listening == 1
                await client.call(RELEASE, Number(1))
                assert (await wait).number == 1
                assert not client.shutdown_asked

    asyncio.run(asyncio.wait_for(run(), 240))


@pytest.mark.spec("MQRR-2.2-b")
def test_a_bind_with_features_is_answered_for_each_context() -> None:
    """The bytes of such a bind and its answer; the context that was accepted is then served."""

    async def run() -> None:
        async with serving() as running:
            reader, writer = await asyncio.open_connection(HOST, running.port)
            contexts = (
                ContextElement(5, ECHOES.syntax, (NDR,)),
                ContextElement(6, ECHOES.syntax, (feature_syntax(3),)),
            )
            writer.write(build(PduType.BIND, 1, Bind(5840, 5840, contexts=contexts).write_body()))
            answer = take_fragments(await pdu(reader), 65_535)[0]
            told = BindAck.read_body(answer.body).answers
            assert [(one.result, one.reason) for one in told] == [(0, 0), (3, 3)]
            assert told[0].transfer == NDR
            stub = Data(3, b"abc").encode()
            writer.write(build(PduType.REQUEST, 2, Request(0, 5, 0).write_body() + stub))
            answer = take_fragments(await pdu(reader), 65_535)[0]
            assert answer.header.ptype == PduType.RESPONSE
            assert answer.body[Response.SIZE :] == stub
            writer.close()

    asyncio.run(asyncio.wait_for(run(), 240))


class Told:
    """Is told what became of calls, in the turn of the loop that brings it."""

    def __init__(self, got: list[bytes | RpcError]) -> None:
        self.got = got

    def done(self) -> bool:
        return False

    def set_result(self, stub: bytes, /) -> None:
        self.got.append(stub)

    def set_exception(self, error: RpcError, /) -> None:
        self.got.append(error)


def test_answers_that_are_told() -> None:
    """Without a task: in the order of the answers, faults and a lost connection among them."""

    async def use() -> None:
        got: list[bytes | RpcError] = []
        told = Told(got)
        async with serving() as running:
            client = await RpcClient.connect(HOST, running.port, ECHOES)
            stubs = [Data(1, bytes((number,))).encode() for number in range(3)]
            for stub in stubs:
                client.begin(ECHO, stub, told)
            await eventually(lambda: len(got) == 3)
            assert got == stubs
            client.begin(FAIL, Nothing().encode(), told)
            await eventually(lambda: len(got) == 4)
            assert isinstance(got[3], RpcFault)
            client.begin(WAIT, Number(5).encode(), told)
            await eventually(lambda: 5 in running.echoes.waiting)
            client.abort()
            await eventually(lambda: len(got) == 5)
            assert isinstance(got[4], RpcConnectionError)
            with pytest.raises(RpcConnectionError):
                client.begin(ECHO, stubs[0], told)
            assert len(got) == 5

    asyncio.run(asyncio.wait_for(use(), 240))


def test_an_answer_that_makes_no_sense_ends_the_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await pdu(reader)
        writer.write(ack())
        await pdu(reader)
        writer.write(build(PduType.RESPONSE, 2, Response().encode() + b"\1"))
        await reader.read()

    async def use(port: int) -> None:
        client = await RpcClient.connect(HOST, port, ECHOES)
        with pytest.raises(RpcConnectionError, match="makes no sense"):
            await client.call(ECHO, Data(0, b""))
        await client.closed

    asyncio.run(against(answer, use))
