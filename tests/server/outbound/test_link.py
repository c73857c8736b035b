"""Connecting: names, addresses, failures, and what management shows of it (MS-MQQB 3.1.5.2)."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from msmq.errors import MQError
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.model import ConnectionStatus as Status
from msmq.manager.model import OutgoingState, QueueAccessType, QueueType
from msmq.manager.queues.queue import OutgoingQueue
from msmq.server.alarm import now_ms
from msmq.server.outbound.link import Link
from msmq.wire.packets import EstablishConnection, Ping
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    QUICK,
    Peer,
    eventually,
    free_port,
    name_of,
    neighbourhood,
)

HISTORY, NEXT_HOPS, STATE = 25, 12, 11
_SEND = QueueAccessType.SEND


def statuses(queue: OutgoingQueue) -> list[Status]:
    return [entry.status for entry in queue.connection_history]


@pytest.mark.spec("MQMQ-2.3.12.25-c", "MQQB-3.1.5.2-b")
async def test_failures_are_remembered(tmp_path: Path) -> None:
    async def nowhere(host: str) -> list[str]:
        raise socket.gaierror(host)

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE, resolve=nowhere)
        alice.send(name_of(BOB), b"x")
        alice.send("DIRECT=OS:nobody\\private$\\orders", b"x")
        closed, unknown = alice.outgoing(BOB), alice.core.outgoing["direct=os:nobody\\private$\\orders"]
        await eventually(lambda: closed.connection_history and unknown.connection_history)
        for queue, status, number in (
            (closed, Status.SOCKET_CONNECT_FAILURE, 0x80000004),
            (unknown, Status.DNS_FAILURE, 0x80000008),
        ):
            entry = queue.connection_history[0]
            assert entry.status is status
            assert entry.error
            assert abs(entry.connection_history_time - alice.core.now_s) <= 2
            shown = alice.management(queue, HISTORY)
            assert shown[0].value[0] == number
            assert shown[2].value[0] != 0
        assert closed.connection_history[0].address_list == (BOB,)


@pytest.mark.spec("MQQB-2.1.1-c")
async def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        core = alice.core
        packet = Peer().message(b"x", recoverable=True)
        for name, status in (
            # No application can open such names; they may be left over from elsewhere.
            ("DIRECT=SPX:00000012:00a0234f7500\\PRIVATE$\\q", Status.TCP_NOT_ENABLED),
            ("DIRECT=IPX:00000012:00a0234f7500\\private$\\q", Status.TCP_NOT_ENABLED),
        ):
            queue = OutgoingQueue(alice.manager.queues.take_number(), name, QueueType.SYSTEM)
            queue.destination_format_name = name
            core.register(queue)
            alice.manager.mailbox.put(queue, Batch.of((StoredMessage(packet, LocalAttributes()),), b""))
            assert statuses(queue) == [status]
            assert queue.state is OutgoingState.NEED_VALIDATION


@pytest.mark.spec("MQMQ-2.1.7-d")
async def test_elements_of_a_list_that_need_the_directory_lead_nowhere_without_one(tmp_path: Path) -> None:
    guid = "557358D1-9150-9595-4997-B6E611EA26C6"

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        refusals = {f"PUBLIC={guid}": "does not tell where", f"DL={guid}": "cannot be resolved"}
        for name, words in refusals.items():
            with pytest.raises(MQError, match=words):
                alice.manager.queues.open(f"{name_of(BOB)},{name}", _SEND)
        private = f"PRIVATE={guid}\\00000009"
        elements = alice.manager.queues.open(f"{name_of(BOB)},{private}", _SEND)
        assert elements.queue is None, "there is one for each element"
        alice.send(private, b"x")
        waiting = alice.core.outgoing[private.lower()]
        await eventually(lambda: waiting.connection_history)
        assert len(waiting.positions) == 1
        assert waiting.state is OutgoingState.NEED_VALIDATION
        assert {entry.error & 0xFFFFFFFF for entry in waiting.connection_history} == {0xC00E0013}


@pytest.mark.spec("MQQB-3.1.5.2.1-f", "MQQB-3.1.5.2.1-a", "MQQB-3.1.7.12-b", "MQQB-3.1.7.4-a")
async def test_by_name_and_by_address(tmp_path: Path) -> None:
    asked: list[str] = []

    async def resolve(host: str) -> list[str]:
        asked.append(host)
        return [BOB]

    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE, resolve=resolve), await here.node(BOB)
        orders = bob.queue()
        alice.send("DIRECT=OS:Bob\\private$\\orders", b"by name")
        alice.send(name_of(BOB), b"by address")
        await eventually(lambda: len(orders.positions) == 2)
        assert asked == ["bob"]
        assert set(alice.core.outgoing) == {
            "direct=os:bob\\private$\\orders",
            f"direct=tcp:{BOB}\\private$\\orders",
        }


@pytest.mark.spec(
    "MQQB-3.1.1.3.1-c", "MQQB-3.1.5.2.1-g", "MQQB-3.1.6.1-a", "MQQB-3.1.6.1-b", "MQQB-3.1.5.2.1-d",
    "MQQB-3.1.5.4.2-a", "MQQB-3.1.5.4.2-b",
)  # fmt: skip
async def test_every_address_is_tried(tmp_path: Path) -> None:
    asked: list[str] = []

    async def resolve(host: str) -> list[str]:
        asked.append(host)
        return [CAROL, BOB]

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE, resolve=resolve)
        alice.send("DIRECT=OS:bob\\private$\\orders", b"x")
        (queue,) = alice.core.outgoing.values()
        await eventually(lambda: len(queue.connection_history) >= 3)
        tried = [entry.address_list for entry in queue.connection_history[:3]]
        assert tried == [(CAROL,), (BOB,), (CAROL,)]
        assert len(asked) == 2, "resolved again when both were tried"
        assert queue.state is OutgoingState.WAITING
        assert list(alice.management(queue, NEXT_HOPS)) == [f"IP={CAROL}", f"IP={BOB}"]
        bob = await here.node(BOB)
        orders = bob.queue()
        await eventually(lambda: len(orders.positions))
        assert queue.state is OutgoingState.CONNECTED
        assert alice.management(queue, STATE) == "CONNECTED"
        assert list(alice.management(queue, NEXT_HOPS)) == [f"IP={BOB}"]


@pytest.mark.spec("MQQB-3.1.5.2.1-h")
async def test_names_are_resolved_once_per_session(tmp_path: Path) -> None:
    answers = [[BOB], [CAROL]]

    async def resolve(host: str) -> list[str]:
        return answers.pop(0)

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE, resolve=resolve)
        bob, carol = await here.node(BOB), await here.node(CAROL)
        at_bob, at_carol = bob.queue(), carol.queue()
        for _ in range(10):
            alice.send("DIRECT=OS:bob\\private$\\orders", b"x", recoverable=True)
        await eventually(lambda: len(at_bob.positions) == 10)
        assert len(answers) == 1
        (queue,) = alice.core.outgoing.values()
        await eventually(lambda: not len(queue.positions))
        await bob.stop()
        alice.send("DIRECT=OS:bob\\private$\\orders", b"moved", recoverable=True)
        await eventually(lambda: carol.bodies(at_carol) == [b"moved"])


@pytest.mark.spec("MQQB-3.1.5.2.3-c", "MQQB-3.1.5.3.2-e", "MQQB-3.1.5.2-a")
async def test_the_steps_of_an_opening(tmp_path: Path) -> None:
    """A peer that answers nothing, then one packet, then everything."""
    trace: list[str] = []

    async def resolve(host: str) -> list[str]:
        trace.append("resolve")
        return [BOB]

    class Door(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            trace.append("ping")
            self.transport.sendto(Ping.parse(data).answer(bytes(16)).encode(), addr)  # type: ignore[attr-defined]

    gate = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        trace.append("connect")
        request = EstablishConnection.decode(await reader.readexactly(EstablishConnection.SIZE))
        trace.append("establish")
        await gate.wait()
        writer.write(request.response(b"b" * 16).encode())
        await reader.read()
        writer.close()

    async with neighbourhood(tmp_path, ping_before_connecting=True, ping_port=free_port()) as here:
        loop = asyncio.get_running_loop()
        door, _ = await loop.create_datagram_endpoint(Door, local_addr=(BOB, here.options["ping_port"]))
        server = await asyncio.start_server(accept, BOB, here.port)
        alice = await here.node(ALICE, resolve=resolve)
        alice.send("DIRECT=OS:bob\\private$\\orders", b"x")
        (queue,) = alice.core.outgoing.values()
        await eventually(lambda: trace[-1:] == ["establish"])
        assert trace == ["resolve", "ping", "connect", "establish"]
        assert queue.state is OutgoingState.WAITING
        assert alice.management(queue, STATE) == "WAITING"
        assert [(entry.status, entry.error) for entry in queue.connection_history] == [(Status.IN_PROCESS, 0)]
        gate.set()
        await eventually(lambda: len(queue.connection_history) == 2)
        assert statuses(queue) == [Status.IN_PROCESS, Status.ESTABLISH_PACKET_RECEIVED]
        server.close()
        door.close()


async def test_a_peer_that_refuses(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, _ = await here.node(ALICE), await here.node(BOB, max_in_sessions=0)
        alice.send(name_of(BOB), b"x")
        queue = alice.outgoing(BOB)
        await eventually(lambda: Status.CONNECTION_REFUSED in statuses(queue))


@pytest.mark.spec("MQQB-3.1.7.12-c")
async def test_after_an_idle_close_the_next_message_connects_again(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, timers=replace(QUICK, session_cleanup_ms=700)) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"1", recoverable=True)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        await eventually(lambda: not bob.daemon.listener.connections)
        await eventually(lambda: alice.outgoing(BOB).state is OutgoingState.DISCONNECTED)
        alice.send(name_of(BOB), b"2", recoverable=True)
        await eventually(lambda: bob.bodies(orders) == [b"1", b"2"])


@pytest.mark.spec(
    "MQQB-3.1.7.13-b",
    "MQQB-3.1.7.14-a",
    "MQQB-3.1.7.14-b",
    "DMPR-3.1.7.2.3-a",
    "DMPR-3.1.7.2.4-a",
    "DMPR-3.1.4.14-a",
    "DMPR-3.1.4.15-a",
    "DMPR-3.1.3-s",
)
async def test_a_paused_queue(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"1", recoverable=True)
        queue = alice.outgoing(BOB)
        await eventually(lambda: not len(queue.positions))
        alice.manager.pause_queue(queue)
        alice.send(name_of(BOB), b"2", recoverable=True)
        await asyncio.sleep(0.2)
        assert bob.bodies(orders) == [b"1"]
        alice.cut()
        await eventually(lambda: not alice.own_connections)
        await asyncio.sleep(0.2)
        assert queue.state is OutgoingState.ON_HOLD
        await alice.restart()
        await asyncio.sleep(0.2)
        queue = alice.outgoing(BOB)
        assert queue.state is OutgoingState.ON_HOLD
        assert bob.bodies(orders) == [b"1"]
        alice.manager.resume_queue(queue)
        assert queue.state is OutgoingState.INACTIVE
        await eventually(lambda: bob.bodies(orders) == [b"1", b"2"])


async def test_offline_nothing_leaves(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.manager.take_offline()
        alice.send(name_of(BOB), b"1")
        await asyncio.sleep(0.2)
        assert not len(orders.positions)
        alice.manager.bring_online()
        await eventually(lambda: len(orders.positions))


async def test_the_old_connection_cannot_close_the_new_session(tmp_path: Path) -> None:
    """An initiator's session goes on with the next connection; what still comes of the last one is not its own."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"1", recoverable=True)
        await eventually(lambda: len(orders.positions))
        (old,) = alice.own_connections
        old.dispatch(old.session.close(now_ms()))
        await eventually(lambda: alice.own_connections and alice.own_connections[0].is_open)
        (new,) = alice.own_connections
        old.connection_lost(None)
        old.data_received(b"junk that nobody reads any more")
        assert new.is_open
        alice.send(name_of(BOB), b"2", recoverable=True)
        await eventually(lambda: bob.bodies(orders) == [b"1", b"2"])


async def test_a_lost_session_shows_only_where_it_was_the_last_one(tmp_path: Path) -> None:
    """Messages may go over a session that somebody else opened. When it is gone, a queue that waits for a connection of
    its own goes on waiting, and one whose own connection is there is still connected."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"1", recoverable=True)
        alice.send(name_of(CAROL), b"2", recoverable=True)
        connected, waiting = alice.outgoing(BOB), alice.outgoing(CAROL)
        await eventually(lambda: len(orders.positions) and waiting.state is OutgoingState.WAITING)
        (connection,) = alice.own_connections
        drains = alice.daemon.outgoing.drains
        for queue, state in ((connected, OutgoingState.CONNECTED), (waiting, OutgoingState.WAITING)):
            drain = drains[queue.number]
            assert drain.link is not None
            drain.link.carrier_lost(drain, connection)
            assert queue.state is state


async def test_two_queues_of_one_host_share_a_session(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, window_size=64) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        first, second = bob.queue("one"), bob.queue("two")
        for number in range(200):
            alice.send(name_of(BOB, "one"), b"%d" % number)
        alice.send(name_of(BOB, "two"), b"not last")
        await eventually(lambda: len(first.positions) == 200 and len(second.positions))
        (early,) = second.positions
        assert early.lookup_id < list(first.positions)[-1].lookup_id, "each queue has its turn"
        assert len(bob.daemon.listener.connections) == 1


def test_what_a_queue_sends_next_does_not_overtake_what_left_with_another() -> None:
    """Two queues are chosen from together, and have to wait for the one that was written last; then one by itself."""
    marks: list[int] = []

    def when_durable(action: object, mark: int) -> None:
        marks.append(mark)

    connection: Any = SimpleNamespace(room=10, promised=0)

    def drain(durable_at: int) -> Any:
        return SimpleNamespace(
            may_send=True, connection=None, durable_at=durable_at,
            receivers=SimpleNamespace(meet=lambda connection: None), take=lambda room: ["message"],
        )  # fmt: skip

    early, late = drain(3), drain(9)
    link = Link.__new__(Link)
    link.drains = [early, late]
    link._connection = connection
    link._outgoing = cast(
        Any,
        SimpleNamespace(
            carries=lambda *_: None, deletions=0, commit=SimpleNamespace(when_durable=when_durable)
        ),
    )
    link._pump(connection)
    late.may_send = False
    early.durable_at = max(early.durable_at, 5)  # as Drain.take does
    link._pump(connection)
    assert marks == [9, 9]
