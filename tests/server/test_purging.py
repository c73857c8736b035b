"""Mail that is purged or comes too late: whoever asked is told, and nothing is lost that was to be kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msmq.manager.queues.queue import Queue
from msmq.wire.classes import MessageClass
from msmq.wire.message import UserMessage
from tests.server.inbound.test_arrivals import classes
from tests.server.support import ALICE, BOB, Node, Peer, eventually, name_of, neighbourhood

NEGATIVE_ARRIVAL = 0x4
KINDS = ["express", "recoverable", "transactional"]


def send(node: Node, kind: str, name: str, body: bytes, **options: Any) -> None:
    if kind == "transactional":
        node.send_together(name, body, **options)
    else:
        node.send(name, body, recoverable=kind == "recoverable", **options)


def dead_letters(node: Node, kind: str) -> Queue:
    core = node.core
    found = core.transactional_dead_letter_queue if kind == "transactional" else core.dead_letter_queue
    assert found is not None
    return found


@pytest.mark.spec("DMPR-3.1.1.12-q", "MQMQ-2.2.18.1.6-h")
@pytest.mark.parametrize("kind", KINDS)
async def test_purging_an_outgoing_queue_loses_no_mail(tmp_path: Path, kind: str) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        admin = alice.queue("adm")
        told = {"admin": name_of(ALICE, "adm"), "acknowledge": NEGATIVE_ARRIVAL}
        send(alice, kind, name_of(BOB), b"kept", negative_journaling_requested=True)
        send(alice, kind, name_of(BOB), b"told", **told)
        send(alice, kind, name_of(BOB), b"both", negative_journaling_requested=True, **told)
        send(alice, kind, name_of(BOB), b"neither")
        queue = alice.outgoing(BOB)
        alice.manager.queues.purge(queue)
        assert alice.bodies(queue) == []
        dead = dead_letters(alice, kind)
        assert alice.bodies(dead) == [b"kept", b"both"]
        assert alice.reasons(dead) == [MessageClass.NACK_DELETED] * 2
        await eventually(lambda: classes(alice, admin) == [MessageClass.NACK_DELETED] * 2)
        assert alice.bodies(admin) == [b"told", b"both"]
        if kind != "express":
            await alice.restart()
            assert alice.bodies(dead_letters(alice, kind)) == [b"kept", b"both"]
            assert alice.bodies(alice.outgoing(BOB)) == []


@pytest.mark.parametrize("recoverable", [False, True])
async def test_what_is_on_its_way_when_its_queue_is_purged(tmp_path: Path, recoverable: bool) -> None:
    """It comes back from a session that closes without having acknowledged it."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        bob = Peer(storing=False)
        await bob.connect(ALICE, here.port, source=BOB)
        alice.send(name_of(BOB), b"x", recoverable=recoverable, negative_journaling_requested=True)
        await eventually(lambda: bob.messages)
        alice.manager.queues.purge(alice.outgoing(BOB))
        await bob.close()
        await eventually(lambda: alice.bodies(alice.core.dead_letter_queue) == [b"x"])
        assert alice.reasons(alice.core.dead_letter_queue) == [MessageClass.NACK_DELETED]


@pytest.mark.spec("MQQB-3.1.7.1.2-c")
@pytest.mark.parametrize("recoverable", [False, True])
async def test_a_message_that_arrives_late_is_kept_where_it_is_late(
    tmp_path: Path, recoverable: bool
) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        peer = Peer()
        await peer.connect(ALICE, here.port, source=BOB)
        for journaled in (0, 1):
            packet = peer.message(
                b"%d" % journaled, recoverable=recoverable, negative_journaling=journaled, sent_time=1_000
            )
            base = packet.base
            base.time_to_reach_queue_s = 5
            late = UserMessage.build(
                base=base, user=packet.user, properties=packet.properties, body=bytes(packet.body)
            )
            peer.send(late)
        peer.send(peer.message(b"behind"))
        await eventually(lambda: alice.bodies(orders) == [b"behind"])
        dead = alice.core.dead_letter_queue
        assert alice.bodies(dead) == [b"1"]
        assert alice.reasons(dead) == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]
        await peer.close()
