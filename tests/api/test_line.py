"""The short line: the same calls on one connection, in frames."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api import line
from msmq.api.callers import Rules, token_digest
from msmq.api.frames import (
    CANCEL,
    END,
    GREETING,
    MESSAGE,
    METHODS,
    OPEN,
    PING,
    PONG,
    WINDOW,
    WINDOW_BYTES,
    cost,
    frame,
)
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, InsufficientResourcesError, QueueNotFoundError, error_for
from msmq.server.daemon import Daemon
from tests.api.support import QUEUE, address, calling, daemon
from tests.server.support import eventually

WRITERS: list[asyncio.StreamWriter] = []


async def connection(running: Daemon) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(address(running).removeprefix("unix:"))
    WRITERS.append(writer)
    return reader, writer


def closing_all(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """A test after which everything that it opened is closed."""

    @wraps(test)
    async def talking(**arguments: Any) -> None:
        try:
            await test(**arguments)
        finally:
            for writer in WRITERS:
                writer.transport.abort()
            WRITERS.clear()

    return talking


class Calls:
    """A connection as any language could make it: a socket and frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.last = 0
        self.others: list[tuple[int, int, bytes]] = []

    @classmethod
    async def open(cls, running: Daemon) -> Calls:
        reader, writer = await connection(running)
        writer.write(GREETING)
        assert await reader.readline() == GREETING
        return cls(reader, writer)

    def call(self, name: str) -> Call:
        self.last += 1
        self.writer.writelines(frame(OPEN, self.last, name.encode()))
        return Call(self, self.last, name)

    async def next_frame(self) -> tuple[int, int, bytes]:
        head = await self.reader.readexactly(13)
        payload = await self.reader.readexactly(int.from_bytes(head[:4], "little"))
        return head[4], int.from_bytes(head[5:], "little"), payload

    async def of(self, number: int) -> tuple[int, bytes]:
        """The next frame of a call; those of others wait for their turn."""
        while True:
            for index, (kind, found, payload) in enumerate(self.others):
                if found == number:
                    del self.others[index]
                    return kind, payload
            self.others.append(await self.next_frame())


class Call:
    """One call of it."""

    def __init__(self, calls: Calls, number: int, name: str) -> None:
        self.calls, self.number = calls, number
        self.method = METHODS[name]

    @classmethod
    async def open(cls, running: Daemon, name: str) -> Call:
        return (await Calls.open(running)).call(name)

    def send(self, kind: int, payload: bytes = b"") -> None:
        self.calls.writer.writelines(frame(kind, self.number, payload))

    def put(self, request: Any) -> None:
        self.send(MESSAGE, self.method.serialize_request(request))

    async def get(self) -> tuple[int, Any]:
        kind, payload = await self.calls.of(self.number)
        return kind, self.method.deserialize_reply(payload) if kind == MESSAGE else payload

    async def message(self) -> Any:
        kind, reply = await self.get()
        assert kind == MESSAGE
        return reply

    async def end(self) -> bytes:
        self.send(END)
        kind, payload = await self.get()
        assert kind == END
        return bytes(payload)


@closing_all
async def test_messages_go_to_and_fro(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        send = await Call.open(running, "SendStream")
        send.put(pb.SendStreamRequest(open=pb.OpenToSend(queue=QUEUE)))
        assert (await send.message()).HasField("opened")
        messages = [pb.Message(body=b"%d" % number) for number in range(3)]
        send.put(pb.SendStreamRequest(batch=pb.SendBatch(number=1, messages=messages)))
        assert len((await send.message()).confirmed.result.lookup_ids) == 3
        assert await send.end() == b""
        receive = await Call.open(running, "Receive")
        receive.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=QUEUE)))
        assert (await receive.message()).HasField("opened")
        receive.put(pb.ReceiveRequest(credit=pb.Credit(messages=2)))
        found = (await receive.message()).deliveries.messages
        assert [each.message.body for each in found] == [b"0", b"1"]
        receive.put(pb.ReceiveRequest(acknowledge=pb.Acknowledge(lookup_ids=[found[0].lookup_id])))
        assert (await receive.message()).settled.messages == 1
        assert await receive.end() == b""
        assert (await call("GetQueue", pb.QueueName(queue=QUEUE))).messages == 2


@closing_all
async def test_an_error_is_told_at_the_end(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        receive = await Call.open(running, "Receive")
        receive.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=".\\private$\\none")))
        kind, payload = await receive.get()
        assert kind == END
        error = pb.Error.FromString(payload)
        assert isinstance(error_for(error.code), QueueNotFoundError)
        assert error.advice


@closing_all
async def test_the_caller_is_who_the_kernel_says_and_whom_it_speaks_for(tmp_path: Path) -> None:
    """What is said counts for the calls that are opened afterwards, and is looked at anew with each of them."""

    own, other = "S-1-5-21-7-8-9-1000", "S-1-5-21-7-8-9-1001"
    tokens = {token_digest("sesame"): other}
    async with daemon(tmp_path, users={str(os.geteuid()): own}, tokens=tokens) as running:
        assert running.door is not None
        async with msmq.connect(address(running)) as mq:
            assert (await mq.manager()).caller == own
        for speaks in ("Bearer sesame", other):
            async with msmq.connect(address(running), act_as=speaks) as mq:
                assert (await mq.manager()).caller == other
        async with msmq.connect(address(running, "127"), token="sesame") as mq:
            assert (await mq.manager()).caller == other
            running.door._callers.follow(Rules())
            with pytest.raises(AccessDeniedError, match="token"):
                await mq.manager()
        async with msmq.connect(address(running), act_as="Bearer sesame") as mq:
            with pytest.raises(AccessDeniedError, match="token"):
                await mq.manager()


@pytest.mark.parametrize("opening", [b"msmq-line/1 Receive\n", b"m" * 100, b"mist\n"])
@closing_all
async def test_who_begins_otherwise_is_cut_off(tmp_path: Path, opening: bytes) -> None:
    async with daemon(tmp_path) as running:
        reader, writer = await connection(running)
        writer.write(opening)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""


@closing_all
async def test_a_greeting_may_come_in_pieces(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        reader, writer = await connection(running)
        for start in range(len(GREETING)):
            writer.write(GREETING[start : start + 1])
            await writer.drain()
            await asyncio.sleep(0)
        assert await reader.readline() == GREETING


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\0" + bytes(8),
        b"".join((*frame(END, 1), *frame(MESSAGE, 1, b"x"))),
        b"".join(frame(MESSAGE, 9, b"x")),
        b"".join(frame(OPEN, 9, b"Nonsense")),
        b"".join(frame(OPEN, 1, b"Receive")),
        b"".join(frame(WINDOW, 1, b"short")),
    ],
    ids=["no frame", "behind the end", "not opened", "no such method", "opened twice", "no window"],
)
@closing_all
async def test_a_line_that_breaks_the_rules_is_cut(tmp_path: Path, data: bytes) -> None:
    async with daemon(tmp_path) as running:
        call = await Call.open(running, "Receive")
        call.calls.writer.write(data)
        with suppress(ConnectionResetError):
            assert len(await call.calls.reader.read()) <= 13
        assert running.door is not None
        relay, *_ = running.door._relays
        await eventually(lambda: not relay._open)


@closing_all
async def test_a_request_that_cannot_be_read_ends_the_call(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        call = await Call.open(running, "Receive")
        call.send(MESSAGE, b"\xff\xff\xff")
        kind, payload = await call.get()
        assert kind == END
        assert "could not be read" in pb.Error.FromString(payload).detail


@closing_all
async def test_calls_with_one_answer_with_many_and_with_none(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        calls = await Calls.open(running)
        create = calls.call("CreateQueue")
        create.put(pb.CreateQueueRequest(path=QUEUE))
        watch = calls.call("WatchStatistics")
        watch.put(pb.WatchStatisticsRequest(count=2, interval_ms=100))
        nothing = calls.call("GetQueue")
        failed = calls.call("GetQueue")
        failed.put(pb.QueueName(queue=".\\private$\\none"))
        assert (await create.message()).path == "HOST\\private$\\q"
        assert await create.end() == b""
        assert [len((await watch.message()).queues) > 1 for _ in range(2)] == [True, True]
        assert await watch.end() == b""
        assert "no request" in pb.Error.FromString(await nothing.end()).detail
        assert isinstance(error_for(pb.Error.FromString(await failed.end()).code), QueueNotFoundError)


@closing_all
async def test_one_call_does_not_wait_for_another(tmp_path: Path) -> None:
    """Nobody reads the replies of the first; the second is answered all the same."""

    async with daemon(tmp_path) as running:
        calls = await Calls.open(running)
        create = calls.call("CreateQueue")
        create.put(pb.CreateQueueRequest(path=QUEUE))
        await create.message()
        body = bytes(300_000)
        for _ in range(20):
            send = calls.call("Send")
            send.put(pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=body)]))
            await send.message()
        read = calls.call("ReadSpan")
        read.put(pb.ReadSpanRequest(queue=QUEUE, span=pb.Span(upto=2**64 - 1), form=pb.PACKET))
        got = 0
        while got < WINDOW_BYTES:
            kind, payload = await calls.of(read.number)
            assert kind == MESSAGE
            got += cost(payload)
        manager = calls.call("GetManager")
        manager.put(pb.GetManagerRequest())
        assert (await manager.message()).identifier
        assert not [kind for kind, number, _ in calls.others if number == read.number]
        read.send(WINDOW, (1 << 40).to_bytes(8, "little"))
        while (await calls.of(read.number))[0] != END:
            got += 1
        assert got > 20


@closing_all
async def test_who_sends_more_than_the_window_allows_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path) as running:
        assert running.door is not None
        relay, *_ = running.door._relays

        async def busy(method: Any, conversation: Any, caller: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(relay, "_answer", busy)
        call = await Call.open(running, "Transact")
        data = b"".join(frame(MESSAGE, call.number))
        call.calls.writer.write(data * (WINDOW_BYTES // cost(b"")))
        call.send(PING)
        assert await call.calls.next_frame() == (PONG, 0, b""), "just as much as it allows"
        call.calls.writer.write(data)
        with suppress(ConnectionError):
            assert await call.calls.reader.read() == b""
        await eventually(lambda: not relay._open)


@closing_all
async def test_who_gives_a_call_up_gives_everything_back(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        calls = await Calls.open(running)
        transact = calls.call("Transact")
        transact.put(pb.TransactRequest(begin=pb.Begin()))
        assert (await transact.message()).transaction
        assert running.manager.transactions.collection
        transact.send(CANCEL)
        await eventually(lambda: not running.manager.transactions.collection)
        early = calls.call("Transact")
        early.send(CANCEL)
        transact.send(MESSAGE, b"nobody hears it")
        transact.send(PING)
        kind, number, _ = await calls.next_frame()
        assert (kind, number) == (PONG, 0)
        assert running.door is not None
        relay, *_ = running.door._relays
        assert not relay._serving()


@closing_all
async def test_so_many_calls_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "_MOST_CALLS", 2)

    async with daemon(tmp_path) as running:
        calls = await Calls.open(running)
        first = calls.call("Transact")
        calls.call("Transact")
        kind, payload = await calls.call("Transact").get()
        assert kind == END
        assert isinstance(error_for(pb.Error.FromString(payload).code), InsufficientResourcesError)
        assert await first.end() == b""
        manager = calls.call("GetManager")
        manager.put(pb.GetManagerRequest())
        assert (await manager.message()).identifier


@closing_all
async def test_who_hangs_up_gives_everything_back(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await call("Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=b"x")]))
        receive = await Call.open(running, "Receive")
        receive.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=QUEUE)))
        receive.put(pb.ReceiveRequest(credit=pb.Credit(messages=1)))
        await receive.message()
        assert len((await receive.message()).deliveries.messages) == 1
        receive.calls.writer.transport.abort()
        queue = running.manager.core.by_path["host\\private$\\q"]
        await eventually(lambda: queue.positions.next_available(-1) is not None)
        assert not queue.open_descriptors


@closing_all
async def test_who_does_not_read_is_not_sent_more_than_fits(tmp_path: Path) -> None:
    """And one who asks for more than is answered is not listened to meanwhile."""

    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        body = bytes(200_000)
        for _ in range(20):
            await call("Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=body)]))
        receive = await Call.open(running, "Receive")
        opened = pb.OpenToReceive(queue=QUEUE, form=pb.PACKET)
        receive.put(pb.ReceiveRequest(open=opened))
        receive.send(WINDOW, (1 << 40).to_bytes(8, "little"))
        for _ in range(20):
            receive.put(pb.ReceiveRequest(credit=pb.Credit(messages=1)))
        assert (await receive.message()).HasField("opened")
        found = 0
        while found < 20:
            reply = await receive.message()
            found += len(reply)
            assert all(size > len(body) for size in reply.sizes)
        assert await receive.end() == b""


@closing_all
async def test_who_does_not_read_is_not_listened_to() -> None:
    class Transport(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[str] = []

        def pause_reading(self) -> None:
            self.log.append("pause")

        def resume_reading(self) -> None:
            self.log.append("resume")

    transport = Transport()
    made = line.Line(transport, None, None, lambda: None, lambda: None)  # type: ignore[arg-type]
    made.pause_writing()
    assert made.is_full
    made.resume_writing()
    assert not made.is_full
    assert transport.log == ["pause", "resume"]


@closing_all
async def test_a_fault_of_our_own_breaks_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon(tmp_path) as running:
        assert running.door is not None
        relay, *_ = running.door._relays

        async def broken(method: Any, conversation: Any, caller: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(relay, "_answer", broken)
        call = await Call.open(running, "Receive")
        assert await call.get() == (CANCEL, b"")
        assert "Receive failed" in caplog.text


@closing_all
async def test_the_door_closes_although_somebody_listens(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        transact = await Call.open(running, "Transact")
        transact.put(pb.TransactRequest(begin=pb.Begin()))
        await transact.message()
        assert running.manager.transactions.collection
    assert not running.manager.transactions.collection, "what was open is aborted before the end"
