"""Outgoing queues that strangers cause are bounded and do not stay."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from msmq.manager.model import QueueAccessType
from msmq.wire.classes import MessageClass
from tests.server.support import ALICE, BOB, CAROL, DORA, Node, Peer, eventually, name_of, neighbourhood

PA, AR = 0x1, 0x2


def incidental(node: Node) -> list[str]:
    return [queue.label for queue in node.manager.queues.outgoing.incidental]


async def stranger(here_port: int, source: str = DORA, guid: bytes = Peer.GUID) -> Peer:
    peer = Peer(guid)
    await peer.connect(ALICE, here_port, source=source)
    return peer


@pytest.mark.parametrize("asked", [PA, AR], ids=["when it arrives", "when it is read"])
async def test_one_source_does_not_use_up_what_all_share(tmp_path: Path, asked: int) -> None:
    """However many administration queues on dead hosts it names, others get their acknowledgments, also after a
    restart."""
    async with neighbourhood(tmp_path, max_incidental_queues=8) as here:
        alice, carol = await here.node(ALICE), await here.node(CAROL)
        orders, admin = alice.queue(), carol.queue("admin")
        hostile = await stranger(here.port)
        for number in range(30):
            name = f"TCP:127.0.1.{number}\\private$\\admin"
            hostile.send(hostile.message(b"x", admin=name, acknowledge=asked, recoverable=True))
        await eventually(lambda: len(orders.positions) == 30)
        for _ in range(30):
            alice.receive(orders)
        assert len(incidental(alice)) == 4
        await hostile.close()
        for round_ in range(2):
            honest = await stranger(here.port, BOB, bytes((round_ + 1,)) * 16)
            name = f"TCP:{CAROL}\\private$\\admin"
            honest.send(honest.message(b"x", admin=name, acknowledge=asked, recoverable=True))
            await eventually(lambda: len(alice.find().positions) == 1)
            alice.receive(alice.find())
            await eventually(lambda round_=round_: len(admin.positions) == round_ + 1)  # type: ignore[misc]
            await honest.close()
            await alice.restart()


async def test_no_more_than_so_many(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "msmq.server.outbound.incidental"):
        async with neighbourhood(tmp_path, max_incidental_queues=6) as here:
            alice = await here.node(ALICE)
            orders = alice.queue()
            peer = await stranger(here.port)
            for number in range(10):
                admin = f"TCP:127.0.1.{number}\\private$\\admin"
                peer.send(peer.message(b"x", admin=admin, acknowledge=PA, recoverable=True))
            await eventually(lambda: len(orders.positions) == 10)
            assert len(incidental(alice)) == 3
            assert len(alice.core.outgoing) == 3
            await eventually(lambda: "max_incidental_queues" in caplog.text)
            assert caplog.text.count("max_incidental_queues") <= 3, "not a line for each"
            descriptor = alice.manager.queues.open(name_of(CAROL), QueueAccessType.SEND)
            assert descriptor.queue is not None, "applications are not concerned"
            alice.manager.queues.open("DIRECT=TCP:127.0.1.0\\private$\\admin", QueueAccessType.SEND)
            assert len(incidental(alice)) == 2, "what an application opens is its own from then on"
            await alice.restart()
            assert len(incidental(alice)) == 2
            assert len(alice.core.outgoing) == 4
            waiting = [len(queue.positions) for queue in alice.core.outgoing.values()]
            assert sorted(waiting) == [0, 1, 1, 1], "acknowledgments that were taken are kept"
            await peer.close()


async def test_empty_ones_go(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, incidental_queue_idle_s=0) as here:
        alice, carol = await here.node(ALICE), await here.node(CAROL)
        alice.queue()
        admin = carol.queue("admin")
        peer = await stranger(here.port)
        for _ in range(2):
            before = len(admin.positions)
            name = f"TCP:{CAROL}\\private$\\admin"
            peer.send(peer.message(b"x", admin=name, acknowledge=PA, recoverable=True))
            await eventually(lambda before=before: len(admin.positions) == before + 1)  # type: ignore[misc]
            await eventually(lambda: alice.core.outgoing == {})
            assert alice.daemon.outgoing.drains == {}
        classes = [packet.properties.message_class for packet in carol.packets(admin)]
        assert classes == [MessageClass.ACK_REACH_QUEUE] * 2, "each got its acknowledgment all the same"
        await alice.restart()
        assert alice.core.outgoing == {}
        await peer.close()


async def test_room_is_made_when_it_is_needed(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, max_incidental_queues=1) as here:
        alice, carol = await here.node(ALICE), await here.node(CAROL)
        alice.queue()
        first, second = carol.queue("first"), carol.queue("second")
        peer = await stranger(here.port)
        for name, queue in (("first", first), ("second", second)):
            admin = f"TCP:{CAROL}\\private$\\{name}"
            peer.send(peer.message(b"x", admin=admin, acknowledge=PA, recoverable=True))
            await eventually(lambda queue=queue: len(queue.positions) == 1)  # type: ignore[misc]
            await eventually(lambda: not any(len(queue.positions) for queue in alice.core.outgoing.values()))
        assert incidental(alice) == [name_of(CAROL, "second").replace("private", "PRIVATE")]
        assert alice.manager.queues.outgoing.refused == 0
        await peer.close()


async def test_what_an_application_opened_stays(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, incidental_queue_idle_s=0) as here:
        alice, carol = await here.node(ALICE), await here.node(CAROL)
        orders = carol.queue()
        alice.send(name_of(CAROL), b"x")
        await eventually(lambda: len(orders.positions) == 1)
        alice.daemon.incidental.make_room()
        alice.daemon.incidental.keep_house(alice.core.now_s + 1_000)
        assert len(alice.core.outgoing) == 1
