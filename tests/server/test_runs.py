"""Messages that look alike, taken together: the same as taken one by one, whatever comes between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from msmq.manager.core import Subscriber
from msmq.manager.model import QueueAccessType
from msmq.manager.queue import Queue
from msmq.manager.stored import StoredMessage
from msmq.server.connection import Connection
from msmq.server.runs import RunTaking
from msmq.testing.network_host import ACKS, MAIL, ORDERS, NetworkHost
from msmq.testing.network_sim import NetworkSimulation
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role, State
from msmq.wire.headers import INFINITE, BaseHeader, MessagePropertiesHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.runs import Run, Shape
from tests.wire import builders

SEED = 2
PEER = bytes(range(0xA0, 0xB0))
OTHER = bytes(range(0xB0, 0xC0))
PEER_ADDRESS = "10.0.0.9"
READS = 6


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Line(asyncio.Transport):
    """A connection of which the test is the other end."""

    def __init__(self) -> None:
        super().__init__({"peername": (PEER_ADDRESS, 1801)})
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Listener(Subscriber):
    """Hears of every arrival."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, bytes, int]] = []

    def message_arrived(self, queue: Queue, message: StoredMessage, fate: int) -> None:
        self.heard.append((queue.pathname, message.lookup_id, message.packet.data, fate))


class Receiver:
    """A whole queue manager and a peer's connection to it, all simulated."""

    def __init__(self, rng: Random, *, apart: bool) -> None:
        """``apart``: no message is said to look like another."""
        self.simulation = NetworkSimulation(SEED)
        self.host: NetworkHost = self.simulation.hosts[1]
        self._way = patch.object(Shape, "of", lambda message: None) if apart else nullcontext()
        core = self.host.daemon.manager.core
        for subscriber in [each for each in core.subscribers if type(each).__name__ == "_Observer"]:
            core.unsubscribe(subscriber)
        self.listener = Listener()
        if rng.random() < 0.3:
            core.subscribe(self.listener)
        if rng.random() < 0.3:
            self.host.queue(MAIL).quota_kb = rng.randint(1, 30)
        self.answers: list[Any] = []
        self.line = Line()
        self._connect()

    def _connect(self) -> None:
        assert self.host.loop is not None
        with self.host.loop.running():
            connection = self.host.daemon.listener._accept()
            assert isinstance(connection, Connection)
            self.connection = connection
            connection.connection_made(self.line)
            self.peer: Session[None] = Session(Role.INITIATOR, SessionConfig(PEER, window_size=512), 0)
            self.peer.connected(0)
            for _ in range(2):
                for data in self.peer.data_to_send():
                    connection.data_received(data)
                self.peer.receive_data(bytes(self.line.written), 0)
                self.line.written.clear()
        assert connection.session.state is State.OPEN

    def read(self, data: bytes) -> None:
        """Bytes arrive, and time passes until all that follows from them has happened."""
        assert self.host.loop is not None
        with self.host.loop.running(), self._way:
            self.connection.data_received(data)
        self.simulation.run_for(0.3)

    def wait_for_message(self, name: str) -> None:
        """An application waits for what comes next."""
        assert self.host.loop is not None
        with self.host.loop.running():
            manager = self.host.daemon.manager
            descriptor = manager.queues.open(f"DIRECT=OS:.\\private$\\{name}", QueueAccessType.RECEIVE)
            manager.reading.dequeue(descriptor, self._answered, timeout_s=INFINITE)

    def _answered(self, result: Any) -> None:
        self.answers.append((result.status, result.message and result.message.packet.data))

    def state(self) -> dict[str, Any]:
        """Everything that is left of what came."""
        core, arrivals = self.host.daemon.manager.core, self.host.daemon.arrivals
        queues: dict[int, list[Any]] = {}
        for queue in core.queues.values():
            held = [(entry, core.load(queue, entry)) for entry in queue.positions]
            queues[queue.number] = [
                (*entry._replace(address=0), bool(entry.address), message.packet.data, message.arrival_time)
                for entry, message in held
            ]
            queues[-queue.number] = [
                queue.positions.total_bytes,
                sorted(queue.volatile),
                [(key, repr(info)) for key, info in sorted(queue.incoming.items())],
            ]
        return {
            "queues": queues,
            "bytes": (core.total_bytes, core.express_bytes),
            "history": list(arrivals._history._history),
            "written": [(count, time_s) for _, time_s, count in arrivals._history._groups],
            "streams": {stream: known.progress for stream, known in arrivals._receiver._streams.items()},
            "due": list(arrivals._receiver._due),
            "answers": self.answers,
            "heard": self.listener.heard,
            "line": (bytes(self.line.written), self.line.closed),
            "counted": (
                self.connection.session.receipts.received,
                self.connection.session.receipts.recoverable_received,
                self.connection.session.receipts.recoverable_flags,
            ),
        }

    def restart(self) -> None:
        self.host.kill()
        self.host.book.restarted = lambda *_: None  # type: ignore[method-assign]
        with patch("msmq.testing.network_host.number_in", lambda packet: 0):
            self.host.start()

    def close(self) -> None:
        self.simulation.network.close()


class Traffic:
    """Packets that mostly look like the one before."""

    def __init__(self, rng: Random, now_s: int) -> None:
        self.rng = rng
        self.now_s = now_s
        self.message_id = 0
        self.number = 0
        self.noise = rng.choice((0.0, 0.02, 0.1))
        self._kind()

    def _kind(self) -> None:
        rng = self.rng
        self.transactional = rng.random() < 0.4
        self.destination = f"OS:bob\\private$\\{ORDERS if self.transactional else MAIL}"
        if rng.random() < 0.1:
            self.destination = rng.choice(
                (f"OS:bob\\private$\\{ORDERS}", f"OS:bob\\private$\\{MAIL}", "OS:b\\none")
            )
        self.recoverable = self.transactional or rng.random() < 0.5
        self.priority = rng.choice((3, 3, 7))
        self.time_to_reach_queue_s = rng.choice((INFINITE, 100, 100))
        self.time_to_be_received_s = rng.choice((INFINITE, INFINITE, INFINITE, 1_000))
        self.label = rng.choice(("", "", "a label"))
        self.flags = rng.choice((0, 0, 0, 0, 0, 0x5, 0xF))
        self.admin = f"TCP:{PEER_ADDRESS}\\private$\\{ACKS}" if self.flags or rng.random() < 0.1 else None
        self.journaled = rng.random() < 0.1
        self.size = rng.choice((10, 10, 700, None))
        self.source = rng.choice((PEER, PEER, PEER, OTHER))

    def next(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.05:
            self._kind()
        if rng.random() >= self.noise:
            self.message_id += 1  # or the same again
        user = builders.user_header(self.destination, admin=self.admin, recoverable=self.recoverable)
        user.source_queue_manager = self.source
        user.message_id = self.message_id
        user.sent_time = self.now_s - (rng.choice((0, 1, 500)) if rng.random() < self.noise else 0)
        user.time_to_be_received_s = self.time_to_be_received_s
        user.negative_journaling = int(self.journaled)
        transaction = None
        if self.transactional:
            self.number += 1 if rng.random() >= self.noise else rng.choice((-1, 0, 2))
            self.number = max(self.number, 1)
            edges = rng.choice((0, 0x4, 0x8, 0xC, 0x10, 0x2 if rng.random() < self.noise else 0))
            transaction = TransactionHeader(edges, 7, self.number, self.number - 1)
        size = rng.randrange(900) if self.size is None else self.size
        return UserMessage.build(
            base=BaseHeader(flags=self.priority, time_to_reach_queue_s=self.time_to_reach_queue_s),
            user=user,
            properties=MessagePropertiesHeader(
                flags=self.flags, application_tag=self.message_id, correlation_id=rng.randbytes(20)
            ),
            label=self.label,
            body=rng.randbytes(size),
            transaction=transaction,
        ).data


@pytest.mark.parametrize("seed", range(40))
def test_runs_change_nothing_but_the_time_it_takes(seed: int) -> None:
    """The same places, bytes, answers and acknowledgments, and the same again after a restart."""
    found: list[list[dict[str, Any]]] = []
    for apart in (True, False):
        rng = Random(seed)
        receiver = Receiver(rng, apart=apart)
        try:
            traffic = Traffic(rng, int(receiver.host.now()))
            states, left = [], b""
            for _ in range(READS):
                if rng.random() < 0.3:
                    for _ in range(rng.randint(1, 3)):
                        receiver.wait_for_message(rng.choice((MAIL, ORDERS)))
                data = left + b"".join(traffic.next() for _ in range(rng.choice((1, 5, 40))))
                cut = rng.choice((len(data), rng.randrange(len(data))))
                receiver.read(data[:cut])
                left = data[cut:]
                states.append(receiver.state())
            receiver.restart()
            states.append({name: receiver.state()[name] for name in ("queues", "history", "streams")})
            found.append(states)
        finally:
            receiver.close()
    for one, other in zip(*found, strict=True):
        for name in one:
            assert one[name] == other[name], name


def test_the_mixes_have_runs_in_them() -> None:
    """Or the test above would say nothing."""
    taken: list[int] = []
    stretches: list[tuple[bool, bool]] = []
    take = RunTaking.take

    def counting(self: RunTaking, batch: Any, run: Run, way: Any) -> bool:
        done = take(self, batch, run, way)
        if done:
            taken.append(len(run))
        if done and run.stretch is not None:
            stretches.append((run.sample.recoverable, run.sample.transactional))
        return done

    with patch.object(RunTaking, "take", counting):
        for seed in range(10):
            rng = Random(seed)
            receiver = Receiver(rng, apart=False)
            traffic = Traffic(rng, int(receiver.host.now()))
            for _ in range(READS):
                receiver.read(b"".join(traffic.next() for _ in range(40)))
            receiver.close()
    assert sum(taken) > 200
    assert max(taken) > 10
    assert set(stretches) == {(False, False), (True, False), (True, True)}, (
        "messages of one size, of all kinds"
    )
