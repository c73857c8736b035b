"""The simulated network: what arrives, in which pieces, and what does not."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, cast

import pytest

from msmq.testing.network import SimulatedNetwork, SimulatedTransport

HERE, THERE = "10.0.0.1", "10.0.0.2"


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.pieces = 0
        self.ended: list[Exception | None] = []
        self.paused: list[bool] = []
        self.transport: SimulatedTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(SimulatedTransport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


class Pair:
    """Two hosts with a connection between them."""

    def __init__(self, **options: Any) -> None:
        self.network = SimulatedNetwork(Random(7), **options)
        self.here, self.there = self.network.boot(HERE), self.network.boot(THERE)
        self.accepted: list[Recorder] = []
        self.run(self.there, self.there.create_server(self._accept, THERE, 1801))
        self.client = self.dial()

    def _accept(self) -> Recorder:
        self.accepted.append(Recorder())
        return self.accepted[-1]

    def dial(self, port: int = 1801) -> Recorder:
        _, protocol = self.run(self.here, self.here.create_connection(Recorder, THERE, port))
        return cast(Recorder, protocol)

    def run(self, loop: Any, coroutine: Any, seconds: float = 20.0) -> Any:
        with loop.running():
            task = loop.create_task(coroutine)
        self.pass_time(seconds, task)
        return task.result()

    def pass_time(self, seconds: float = 5.0, task: asyncio.Task[Any] | None = None) -> None:
        until = self.network.now + seconds
        while (task is None or not task.done()) and self.network.step(until) is not None:
            pass

    @property
    def server(self) -> Recorder:
        return self.accepted[-1]


def test_bytes_arrive_in_order_and_in_pieces() -> None:
    pair = Pair()
    pair.network.whole_pieces = 0.0
    text = bytes(range(256)) * 20
    pair.client.transport.write(text)
    pair.client.transport.writelines([b"and", b" more"])
    pair.pass_time()
    assert pair.server.data == text + b"and more"
    assert pair.server.pieces > 2
    assert pair.server.transport.get_extra_info("peername")[0] == HERE
    pair.network.close()


def test_closing_brings_everything_over_first() -> None:
    pair = Pair()
    pair.client.transport.write(b"x" * 5_000)
    pair.client.transport.close()
    assert pair.client.transport.is_closing()
    pair.client.transport.write(b"too late")
    pair.pass_time()
    assert pair.server.data == b"x" * 5_000
    assert pair.server.ended == [None]
    assert pair.client.ended == [None]
    assert not pair.network.connections
    pair.network.close()


def test_aborting_is_a_reset_for_the_other_side() -> None:
    pair = Pair()
    pair.pass_time(0.1)
    pair.client.transport.write(b"lost")
    pair.client.transport.abort()
    pair.pass_time()
    assert isinstance(pair.server.ended[0], ConnectionResetError)
    assert pair.client.ended == [None]
    assert pair.server.data == b""
    pair.network.close()


@pytest.mark.parametrize("both", [True, False], ids=["both sides", "one side first"])
def test_a_cut(both: bool) -> None:
    pair = Pair()
    pair.pass_time(0.1)
    pair.client.transport.write(b"y" * 1_000)
    pair.network.cut(pair.client.transport, both=both)
    pair.pass_time()
    assert isinstance(pair.client.ended[0], ConnectionResetError)
    assert set(pair.server.data) <= {ord("y")}
    assert len(pair.server.data) <= 1_000
    if not both:
        assert not pair.server.ended, "it does not know yet"
        pair.server.transport.write(b"anybody?")
        pair.pass_time()
    assert isinstance(pair.server.ended[0], ConnectionResetError)
    pair.network.close()


def test_bytes_wait_while_the_way_is_closed() -> None:
    pair = Pair()
    pair.network.block(HERE, THERE)
    pair.client.transport.write(b"forth")
    pair.server.transport.write(b"back")
    pair.pass_time()
    assert pair.server.data == b""
    assert pair.client.data == b"back", "the other direction is open"
    pair.network.heal()
    pair.pass_time()
    assert pair.server.data == b"forth"
    pair.network.close()


def test_connecting() -> None:
    pair = Pair()
    with pytest.raises(ConnectionRefusedError):
        pair.dial(port=99)
    pair.network.block(THERE, HERE)
    with pytest.raises(TimeoutError):
        pair.dial()
    pair.network.after(2.5, pair.network.heal)
    pair.dial()
    assert len(pair.accepted) == 2
    pair.network.close()


def test_a_call_that_is_given_up() -> None:
    pair = Pair()

    async def hurry() -> None:
        async with asyncio.timeout(0.0001):
            await pair.here.create_connection(Recorder, THERE, 1801)

    with pytest.raises(TimeoutError):
        pair.run(pair.here, hurry())
    pair.pass_time()
    assert all(isinstance(other.ended[0], ConnectionResetError) for other in pair.accepted[1:])
    pair.network.close()


@pytest.mark.parametrize("silently", [True, False], ids=["power", "process"])
def test_the_end_of_a_process(silently: bool) -> None:
    pair = Pair()
    pair.network.end(THERE, silently=silently)
    pair.client.transport.write(b"hello?")
    pair.pass_time()
    assert bool(pair.client.ended) is not silently, "a machine without power says nothing"
    pair.network.boot(THERE)
    pair.pass_time()
    assert isinstance(pair.client.ended[0], ConnectionResetError)
    with pytest.raises(ConnectionRefusedError):
        pair.dial()
    pair.network.close()


def test_a_slow_reader_slows_its_writer() -> None:
    pair = Pair(write_buffer_bytes=1_000)
    pair.pass_time(0.1)
    pair.client.transport.set_write_buffer_limits(1 << 20)
    pair.server.transport.pause_reading()
    assert not pair.server.transport.is_reading()
    pair.client.transport.write(bytes(5_000))
    assert pair.client.paused == [True]
    pair.pass_time()
    assert pair.client.transport.get_write_buffer_size() == 5_000
    pair.server.transport.resume_reading()
    pair.pass_time()
    assert len(pair.server.data) == 5_000
    assert pair.client.paused == [True, False]
    pair.network.close()


def test_one_listener_for_each_address() -> None:
    pair = Pair()
    with pytest.raises(OSError, match="in use"):
        pair.run(pair.there, pair.there.create_server(Recorder, THERE, 1801))
    pair.network.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self.received.append(data)
        if data == b"ping":
            self.transport.sendto(b"pong", addr)


def test_datagrams_get_lost_and_come_twice() -> None:
    pair = Pair()
    _, server = pair.run(pair.there, pair.there.create_datagram_endpoint(Datagrams, local_addr=(THERE, 3527)))
    transport, client = pair.run(
        pair.here, pair.here.create_datagram_endpoint(Datagrams, remote_addr=(THERE, 3527))
    )
    transport.sendto(b"ping")
    pair.pass_time()
    assert client.received == [b"pong"]
    pair.network.datagram_loss = 0.4
    for number in range(50):
        transport.sendto(b"%d" % number)
    pair.pass_time()
    copies = [server.received.count(b"%d" % number) for number in range(50)]
    assert set(copies) == {0, 1, 2}
    order = [int(data) for data in server.received[1:]]
    assert order != sorted(order)
    transport.close()
    assert transport.is_closing()
    with pytest.raises(OSError, match="in use"):
        pair.run(pair.there, pair.there.create_datagram_endpoint(Datagrams, local_addr=(THERE, 3527)))
    pair.network.close()
