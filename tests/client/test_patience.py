"""A server that does not answer, in every way there is: no call waits longer than its client was told to."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api.callers import token_digest
from msmq.client.problems import ClientError, ServerNotAvailableError
from tests import ready
from tests.ready import Fork
from tests.server.support import ALICE, free_port

QUEUE = ".\\private$\\q"
TIMEOUT_S = 1.0
TOKEN = "sesame"
TOO_LONG_S = 60.0
"""Calls that honour no time-out would wait for ever; this is only to end the test."""


@contextmanager
def process(directory: Path) -> Iterator[tuple[Fork, str]]:
    address = f"unix:{directory / 's'}"
    command = ["serve", "--data", str(directory / "data"), "--name", "HOST"]
    command += ["--listen", ALICE, "--port", str(free_port()), "--ping-port", "0", "--rpc-port", "0"]
    command += ["--config", str(directory / "msmq.toml")]
    by_tcp = f"127.0.0.1:{free_port()}"
    (directory / "tcp").write_text(by_tcp)
    (directory / "msmq.toml").write_text(
        f'[api]\nlisten = ["{address}", "{by_tcp}"]\ntokens = {{"{token_digest(TOKEN)}" = "S-1-5-32-544"}}\n'
    )
    with ready.start("msmq", *command) as running:
        assert running.stdout.readline().startswith(b"ready")
        try:
            yield running, address
        finally:
            running.send_signal(signal.SIGCONT)
            running.kill()
            running.wait(120)


async def receive(mq: msmq.Connection) -> None:
    await mq.queue(QUEUE).receive()


async def receive_for_a_while(mq: msmq.Connection) -> None:
    await mq.queue(QUEUE).receive(0.5)


async def send(mq: msmq.Connection) -> None:
    await mq.queue(QUEUE).send(b"x")


async def send_much(mq: msmq.Connection) -> None:
    await mq.queue(QUEUE).send_many([bytes(100_000)] * 200)


async def look(mq: msmq.Connection) -> None:
    await mq.queues()


async def purge(mq: msmq.Connection) -> None:
    await mq.queue(QUEUE).purge()


async def browse(mq: msmq.Connection) -> None:
    async for _ in mq.queue(QUEUE).browse():
        pass


async def watch_statistics(mq: msmq.Connection) -> None:
    async for _ in mq.statistics(0.1):
        pass


async def transact(mq: msmq.Connection) -> None:
    async with mq.transaction():
        pass


async def connect_anew(mq: msmq.Connection) -> None:
    async with msmq.connect(mq.address, token=TOKEN, timeout=TIMEOUT_S):
        pass


CALLS = [
    receive, receive_for_a_while, send, send_much, look, purge, browse, watch_statistics, transact, connect_anew,
]  # fmt: skip


@pytest.fixture(scope="module", params=["unix", "tcp"])
def frozen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Fork, str]]:
    """A process that tests freeze, and its address. Both ways to it have the same patience."""
    directory = tmp_path_factory.mktemp("frozen")
    with process(directory) as (running, address):
        with msmq.connect_sync(address) as mq:
            mq.create_queue(QUEUE)
        yield running, address if request.param == "unix" else (directory / "tcp").read_text()


@asynccontextmanager
async def patient(address: str, timeout_s: float) -> AsyncIterator[msmq.Connection]:
    """A client that waits so long for each answer, and has had one, however busy the computer is."""
    while True:
        mq = msmq.connect(address, token=TOKEN, timeout=timeout_s)
        try:
            await mq.open()
        except ServerNotAvailableError:
            continue
        break
    async with mq:
        await goes_on(mq)
        yield mq


async def goes_on(mq: msmq.Connection) -> None:
    """The client goes on when the server does, however long that takes on a busy computer."""
    while True:
        try:
            assert await mq.queue_exists(QUEUE)
        except ServerNotAvailableError:
            continue
        return


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
async def test_a_server_that_is_frozen(
    frozen: tuple[Fork, str], call: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    running, address = frozen

    async with patient(address, TIMEOUT_S) as mq:
        running.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(ClientError):
                await asyncio.wait_for(call(mq), TOO_LONG_S)
        finally:
            running.send_signal(signal.SIGCONT)
        await goes_on(mq)


@pytest.mark.parametrize("call", [receive, watch_statistics], ids=lambda call: call.__name__)
async def test_a_server_that_freezes_while_a_call_waits(
    frozen: tuple[Fork, str], call: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    running, address = frozen
    timeout_s = 3 * TIMEOUT_S  # which a server that only lacks a processor keeps

    async with patient(address, timeout_s) as mq:
        await mq.queue(QUEUE).purge()
        task = asyncio.ensure_future(call(mq))
        done, _ = await asyncio.wait({task}, timeout=1.5 * timeout_s)
        assert not done, "a server that lives is waited for"
        running.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(ServerNotAvailableError, match="has not answered"):
                await asyncio.wait_for(task, TOO_LONG_S)
        finally:
            running.send_signal(signal.SIGCONT)


@asynccontextmanager
async def mute(directory: Path, greeting: bytes) -> AsyncIterator[str]:
    """A server that accepts, perhaps greets, and reads nothing more."""
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await done.wait()
        writer.close()

    server = await asyncio.start_unix_server(serve, directory / "mute")
    try:
        yield f"unix:{directory / 'mute'}"
    finally:
        done.set()
        server.close()


@pytest.mark.parametrize("call", [receive, send_much, look, transact], ids=lambda call: call.__name__)
async def test_a_server_that_reads_nothing(
    tmp_path: Path, call: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    async with mute(tmp_path, b"msmq-line/2\n") as address, msmq.connect(address, timeout=TIMEOUT_S) as mq:
        with pytest.raises(ClientError):
            await asyncio.wait_for(call(mq), TOO_LONG_S)


async def test_a_server_that_greets_nobody(tmp_path: Path) -> None:
    async with mute(tmp_path, b"") as address:
        with pytest.raises(ServerNotAvailableError):
            await asyncio.wait_for(msmq.connect(address, timeout=TIMEOUT_S).open(), TOO_LONG_S)


async def test_a_socket_that_nobody_accepts_on(tmp_path: Path) -> None:
    """As it is when the server has no descriptors left: first its backlog fills, then nobody can connect."""

    path = str(tmp_path / "full")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(0)
        waiting = []
        for _ in range(3):
            queued = socket.socket(socket.AF_UNIX)
            queued.setblocking(False)
            waiting.append(queued)
            try:
                queued.connect(path)
            except BlockingIOError:
                break
        with pytest.raises(ServerNotAvailableError):
            await asyncio.wait_for(msmq.connect(f"unix:{path}", timeout=TIMEOUT_S).open(), TOO_LONG_S)
        for queued in waiting:
            queued.close()


def sockets(process: int) -> int:
    """How many sockets a process has."""
    found = 0
    for name in os.listdir(f"/proc/{process}/fd"):
        with suppress(FileNotFoundError):
            found += os.readlink(f"/proc/{process}/fd/{name}").startswith("socket:")
    return found


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fork, str]]:
    """A process that nobody freezes, and its address; each test has queues of its own."""
    with process(tmp_path_factory.mktemp("living")) as found:
        yield found


async def test_any_number_of_queues_has_one_socket(living: tuple[Fork, str]) -> None:
    """Counted at the queue manager's end: this process has sockets of other tests, which come and go."""
    running, address = living
    before = sockets(running.pid)
    async with msmq.connect(address) as mq:
        for number in range(50):
            queue = await mq.create_queue(f"{QUEUE}{number}")
            await queue.send(b"x")
            await queue.receive(60)
            if number % 2:
                await mq.delete_queue(queue)
        assert sockets(running.pid) == before + 1
    while sockets(running.pid) != before:
        await asyncio.sleep(0.01)


async def test_senders_that_rest_are_closed(
    living: tuple[Fork, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msmq.client.connection._IDLE_S", 0.05)
    async with msmq.connect(living[1]) as mq:
        for number in range(3):
            await (await mq.create_queue(f"{QUEUE}-resting{number}")).send(b"x")
        while mq._senders or any(info.open_handles for info in await mq.queues()):
            await asyncio.sleep(0.01)
        await mq.queue(f"{QUEUE}-resting1").send(b"y")
        assert (await mq.queue_info(f"{QUEUE}-resting1")).messages == 2


async def test_a_queue_that_was_deleted_and_made_again(living: tuple[Fork, str]) -> None:
    async with msmq.connect(living[1]) as mq:
        for number in range(3):
            queue = await mq.create_queue(QUEUE)
            sent = [queue.send(b"%d" % each) for each in range(300)]
            await asyncio.gather(*sent, queue.send_many([b"x"] * 500))
            assert (await mq.queue_info(queue)).messages == 800, number
            await mq.delete_queue(queue)
        for _ in range(2):
            with pytest.raises(msmq.errors.QueueNotFoundError):
                await queue.send(b"nowhere")
        await mq.create_queue(QUEUE)
        await queue.send(b"here")
        assert (await queue.receive(60)).body == b"here"
