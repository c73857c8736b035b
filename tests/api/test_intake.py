"""Bytes of a connection: handed on as they come, or read to the place of the large packet under way."""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvloop

from msmq.api.frames import MESSAGE, Frames, frame
from msmq.api.intake import Intake
from msmq.wire.landing import LARGE, Landing


class Reading(Intake):
    """Reads frames, and counts the bytes that were handed on."""

    def __init__(self) -> None:
        self.frames = Frames()
        self.found: list[tuple[int, int, bytes]] = []
        self.handed_on = 0
        self.times_heard = 0
        self.closed = asyncio.get_running_loop().create_future()

    @property
    def landing(self) -> Landing | None:
        return self.frames.landing

    def heard(self) -> None:
        self.times_heard += 1

    def data_received(self, data: bytes) -> None:
        self.handed_on += len(data)
        self.found += self.frames.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set_result(error)


@pytest.mark.parametrize(
    "loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"]
)
def test_large_frames_are_read_to_their_place(loop_factory: type[asyncio.AbstractEventLoop]) -> None:
    payloads = [
        b"small",
        os.urandom(3_000_000),
        b"",
        os.urandom(LARGE),
        os.urandom(LARGE - 1),
        os.urandom(900_000),
    ]
    sent = [(MESSAGE, number, payload) for number, payload in enumerate(payloads)]

    async def run() -> list[Reading]:
        made: list[Reading] = []

        def accept() -> Reading:
            made.append(Reading())
            return made[-1]

        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()

        async def send() -> None:
            _, writer = await asyncio.open_connection(*address)
            for each in sent:
                writer.writelines(frame(*each))
                await writer.drain()
            writer.close()
            await writer.wait_closed()

        await asyncio.gather(send(), send())
        await asyncio.gather(*(each.closed for each in made))
        server.close()
        return made

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        readers = runner.run(run())
    for reader in readers:
        assert reader.found == sent
        assert reader.times_heard
        assert reader.handed_on < sum(map(len, payloads)) // 2


def test_event_loops_of_several_threads_read_at_the_same_time() -> None:
    """Each reads what was sent to it, and nothing of what another one reads at that moment."""
    count = 2_000

    def send(writing: socket.socket, data: bytes) -> None:
        with writing:
            writing.sendall(data)

    async def read(number: int) -> bool:
        payload = bytes((number,)) * 3_000
        reading, writing = socket.socketpair()
        _, reader = await asyncio.get_running_loop().create_connection(Reading, sock=reading)
        data = b"".join(frame(MESSAGE, number, payload)) * count
        await asyncio.gather(asyncio.to_thread(send, writing, data), reader.closed)
        return reader.found == [(MESSAGE, number, payload)] * count

    def run(number: int) -> bool:
        return asyncio.run(read(number))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(run, range(4)))
