"""A stream on the short line, and what becomes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api.frames import CANCEL, END, GREETING, MESSAGE, frame
from msmq.api.generated import msmq_pb2 as pb
from msmq.client.line import Line, LineStream
from msmq.client.problems import ConnectionLostError, ServerNotAvailableError
from msmq.client.target import Target
from msmq.errors import MsmqError, QueueNotFoundError
from tests.api.support import daemon
from tests.client.support import Restartable
from tests.server.support import eventually


class Ends:
    """What a stream said."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.errors: list[MsmqError] = []

    async def open(self, path: Path | str, name: str) -> LineStream:
        line = await Line.connect(Target(f"unix:{path}"), "", 30)
        return line.open(name, self.replies.append, self.errors.append)


async def test_an_orderly_end_and_an_error(tmp_path: Path) -> None:
    async with daemon(tmp_path):
        seen = Ends()
        transact = await seen.open(tmp_path / "api", "Transact")
        transact.put(pb.TransactRequest(begin=pb.Begin()))
        transact.put(pb.TransactRequest(commit=pb.Commit()))
        await transact.close()
        assert [reply.WhichOneof("reply") for reply in seen.replies] == ["transaction", "committed"]
        assert transact.over
        transact.put(pb.TransactRequest(begin=pb.Begin()))  # nobody hears it
        failing = Ends()
        receive = await failing.open(tmp_path / "api", "Receive")
        receive.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=".\\private$\\none")))
        await eventually(lambda: failing.errors)
        assert isinstance(failing.errors[0], QueueNotFoundError)
        await receive.close()
        assert len(failing.errors) == 1


async def test_nobody_there() -> None:
    with pytest.raises(FileNotFoundError):
        await Ends().open("/nonexistent/api", "Receive")


async def answering(path: Path, answer: bytes, step: int) -> asyncio.Server:
    """A server that says something and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for start in range(0, len(answer), step):
            writer.write(answer[start : start + step])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    return await asyncio.start_unix_server(serve, path)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "broke"),
        (b"\xff" * 13, "understood"),
        (b"".join(frame(MESSAGE, 1, b"\xff\xff")), "understood"),
        (b"".join(frame(END, 1)), "ended"),
        (b"".join(frame(CANCEL, 1)), "see its log"),
    ],
    ids=["nothing", "no frame", "no message", "end", "cancel"],
)
@pytest.mark.parametrize("step", [1, 1000])
async def test_what_a_server_may_say(tmp_path: Path, answer: bytes, told: str, step: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(GREETING)
        await reader.read(1)
        for start in range(0, len(answer), step):
            writer.write(answer[start : start + step])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "api")
    seen = Ends()
    stream = await seen.open(tmp_path / "api", "Receive")
    await eventually(lambda: seen.errors)
    (error,) = seen.errors
    assert isinstance(error, ConnectionLostError)
    assert told in str(error)
    assert stream.over
    server.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [(b"\0\0\x12\4\0\0\0\0\0", ServerNotAvailableError), (b"", OSError), (b"msmq-", OSError)],
    ids=["HTTP/2", "nothing", "half"],
)
@pytest.mark.parametrize("step", [1, 1000])
async def test_who_does_not_greet(tmp_path: Path, answer: bytes, error: type[Exception], step: int) -> None:
    server = await answering(tmp_path / "api", answer, step)
    with pytest.raises(error):
        await Line.connect(Target(f"unix:{tmp_path / 'api'}"), "", 30)
    server.close()


async def test_a_server_that_has_gone_is_waited_for_as_long_as_was_said(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as host, msmq.connect(host.address, timeout=2) as mq:
        await host.stop()
        with pytest.raises(ServerNotAvailableError, match="No queue manager answers"):
            await mq.stream("Transact", lambda _: None, lambda _: None)
