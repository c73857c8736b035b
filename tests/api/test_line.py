"""The short line: the same calls on a connection of their own, in frames."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.api import line, rpc
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import END, GREETING, MESSAGE, METHODS, Frames, frame
from msmq.errors import DecodeError, QueueNotFoundError, error_for
from msmq.server.daemon import Daemon
from tests.api.support import QUEUE, address, calling, daemon
from tests.server.support import eventually, run

frames = st.lists(st.tuples(st.sampled_from([MESSAGE, END]), st.binary(max_size=60)), max_size=6)


OPEN: list[asyncio.StreamWriter] = []


async def connection(running: Daemon) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(address(running).removeprefix("unix:"))
    OPEN.append(writer)
    return reader, writer


def talk(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test, and close all that it opened."""

    async def talking() -> None:
        try:
            await test()
        finally:
            for writer in OPEN:
                writer.transport.abort()
            OPEN.clear()

    run(talking)


class Call:
    """A call as any language could make it: a socket and frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        self.reader, self.writer = reader, writer
        self.method = METHODS[name]

    @classmethod
    async def open(cls, running: Daemon, name: str) -> Call:
        reader, writer = await connection(running)
        writer.write(GREETING + b" " + name.encode() + b"\n")
        assert await reader.readline() == GREETING + b"\n"
        return cls(reader, writer, name)

    def put(self, request: Any) -> None:
        self.writer.writelines(frame(MESSAGE, self.method.serialize_request(request)))

    async def get(self) -> tuple[int, Any]:
        head = await self.reader.readexactly(5)
        payload = await self.reader.readexactly(int.from_bytes(head[:4], "little"))
        return head[4], self.method.deserialize_reply(payload) if head[4] == MESSAGE else payload

    async def message(self) -> Any:
        kind, reply = await self.get()
        assert kind == MESSAGE
        return reply

    async def end(self) -> bytes:
        self.writer.writelines(frame(END))
        kind, payload = await self.get()
        assert kind == END
        assert await self.reader.read() == b"", "the connection ends with the call"
        return bytes(payload)


# --- frames -----------------------------------------------------------------------------------------------------------


@given(frames, st.integers(1, 30))
def test_frames_are_found_however_they_come(given_frames: list[tuple[int, bytes]], step: int) -> None:
    data = b"".join(b"".join(frame(kind, payload)) for kind, payload in given_frames)
    for size in (step, len(data) or 1):
        found: list[tuple[int, bytes]] = []
        cutter = Frames()
        for start in range(0, len(data), size):
            found += cutter.feed(data[start : start + size])
        assert found == given_frames


@pytest.mark.parametrize(
    "head", [(rpc.MAX_MESSAGE_BYTES + 1).to_bytes(4, "little") + b"\0", b"\0\0\0\0\2"], ids=["size", "kind"]
)
def test_what_is_no_frame_is_refused_before_it_is_there(head: bytes) -> None:
    with pytest.raises(DecodeError):
        Frames().feed(head)


@given(st.binary(max_size=200))
def test_garbage_is_frames_or_refused(data: bytes) -> None:
    try:
        found = Frames().feed(data)
    except DecodeError:
        return
    assert sum(5 + len(payload) for _, payload in found) <= len(data)


def test_calls_with_two_streams_can_be_made_like_this() -> None:
    assert set(METHODS) == {"SendStream", "Receive", "Browse", "Transact"}


# --- calls ------------------------------------------------------------------------------------------------------------


def test_messages_go_to_and_fro(tmp_path: Path) -> None:
    async def test() -> None:
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

    talk(test)


def test_an_error_is_told_at_the_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running:
            receive = await Call.open(running, "Receive")
            receive.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=".\\private$\\none")))
            kind, payload = await receive.get()
            assert kind == END
            error = pb.Error.FromString(payload)
            assert isinstance(error_for(error.code), QueueNotFoundError)
            assert error.advice

    talk(test)


def test_the_caller_is_who_the_kernel_says(tmp_path: Path) -> None:
    """Somebody else's transaction does not exist."""

    async def test() -> None:
        sid = "S-1-5-21-7-8-9-1000"
        async with daemon(tmp_path, users={str(os.geteuid()): sid}) as running:
            assert running.door is not None
            transact = await Call.open(running, "Transact")
            transact.put(pb.TransactRequest(begin=pb.Begin()))
            assert (await transact.message()).transaction
            (relay,) = running.door._relays
            (outer,) = (outer for outer in relay._open if outer.line is not None)
            assert outer.line is not None
            assert str(outer.line._caller.user) == sid

    talk(test)


@pytest.mark.parametrize(
    "opening",
    [b"msmq-line/2 Receive\n", b"msmq-line/1 Send\n", b"msmq-line/1 Nonsense\n", b"m" * 100, b"mist\n"],
    ids=["version", "method", "nonsense", "endless", "greeting"],
)
def test_who_begins_otherwise_is_cut_off(tmp_path: Path, opening: bytes) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running:
            reader, writer = await connection(running)
            writer.write(opening)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""

    talk(test)


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff\0", b"".join(frame(END)) + b"".join(frame(MESSAGE, b"x"))],
    ids=["no frame", "behind the end"],
)
def test_a_line_that_breaks_the_rules_is_cut(tmp_path: Path, data: bytes) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running:
            call = await Call.open(running, "Receive")
            call.writer.write(data)
            with suppress(ConnectionResetError):
                assert len(await call.reader.read()) <= 5
            assert running.door is not None
            (relay,) = running.door._relays
            await eventually(lambda: not relay._open)

    talk(test)


def test_a_request_that_cannot_be_read_ends_the_call(tmp_path: Path) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running:
            call = await Call.open(running, "Receive")
            call.writer.writelines(frame(MESSAGE, b"\xff\xff\xff"))
            kind, payload = await call.get()
            assert kind == END
            assert "could not be read" in pb.Error.FromString(payload).detail

    talk(test)


def test_who_hangs_up_gives_everything_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running, calling(address(running)) as call:
            await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
            await call("Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=b"x")]))
            receive = await Call.open(running, "Receive")
            receive.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=QUEUE)))
            receive.put(pb.ReceiveRequest(credit=pb.Credit(messages=1)))
            await receive.message()
            assert len((await receive.message()).deliveries.messages) == 1
            receive.writer.transport.abort()
            queue = running.manager.core.by_path["host\\private$\\q"]
            await eventually(lambda: queue.positions.next_available(-1) is not None)
            assert not queue.open_descriptors

    talk(test)


def test_who_does_not_read_is_not_sent_more_than_fits(tmp_path: Path) -> None:
    """And one who asks for more than is answered is not listened to meanwhile."""

    async def test() -> None:
        async with daemon(tmp_path) as running, calling(address(running)) as call:
            await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
            body = bytes(200_000)
            for _ in range(20):
                await call("Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=body)]))
            receive = await Call.open(running, "Receive")
            opened = pb.OpenToReceive(queue=QUEUE, form=pb.PACKET, packets=True)
            receive.put(pb.ReceiveRequest(open=opened))
            for _ in range(20):
                receive.put(pb.ReceiveRequest(credit=pb.Credit(messages=1)))
            assert (await receive.message()).HasField("opened")
            found = 0
            while found < 20:
                reply = await receive.message()
                found += len(reply.packets.packets)
                assert all(len(packet) > len(body) for packet in reply.packets.packets)
            assert await receive.end() == b""

    talk(test)


def test_reading_stops_while_too_much_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Transport(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[str] = []

        def write(self, data: bytes | bytearray | memoryview) -> None:
            self.log.append("write")

        def pause_reading(self) -> None:
            self.log.append("pause")

        def resume_reading(self) -> None:
            self.log.append("resume")

    monkeypatch.setattr(line, "_MOST_UNREAD", 2)

    async def test() -> None:
        transport = Transport()
        done = asyncio.Event()

        async def answer(name: str, conversation: line.Conversation, caller: Any) -> None:
            await done.wait()

        made = line.Line(transport, None, answer, lambda: None)  # type: ignore[arg-type]
        made.data_received(GREETING + b" Transact\n")
        begin = pb.TransactRequest(begin=pb.Begin()).SerializeToString()
        for _ in range(4):
            made.data_received(b"".join(frame(MESSAGE, begin)))
        assert transport.log == ["write", "pause"]
        await made.read()
        assert transport.log == ["write", "pause"], "still too much"
        await made.read()
        assert transport.log == ["write", "pause", "resume"]
        made.connection_lost(None)
        assert made.task is not None
        await asyncio.wait({made.task})
        assert made.task.cancelled()

    talk(test)


def test_a_fault_of_our_own_breaks_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running:
            assert running.door is not None
            (relay,) = running.door._relays

            async def broken(name: str, conversation: Any, caller: Any) -> None:
                raise ZeroDivisionError

            monkeypatch.setattr(relay, "_answer", broken)
            call = await Call.open(running, "Receive")
            with suppress(ConnectionResetError):
                assert await call.reader.read() == b""
            assert "Receive failed" in caplog.text

    talk(test)


def test_the_door_closes_although_somebody_listens(tmp_path: Path) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running:
            transact = await Call.open(running, "Transact")
            transact.put(pb.TransactRequest(begin=pb.Begin()))
            await transact.message()
            assert running.manager.transactions.collection
        assert not running.manager.transactions.collection, "what was open is aborted before the end"

    talk(test)
