"""Only who was sent to may say what became of transactional messages (docs/rulings.md, B23)."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from pathlib import Path

import pytest

from msmq.wire.classes import MessageClass
from msmq.wire.packets import FinalAckBody, OrderAckBody, build_order_message
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    DORA,
    Neighbourhood,
    Node,
    Peer,
    eventually,
    name_of,
    neighbourhood,
)

MESSAGES = 10
BODIES = [b"%d" % number for number in range(MESSAGES)]


def final_ack(peer: Peer, alice: Node, message_id: int, sequence: tuple[int, int] = (0, 0)) -> None:
    """Say that an application has received a message of Alice."""
    body = FinalAckBody(sequence[0], sequence[1], 0, alice.core.record.identifier, message_id)
    peer.send(
        build_order_message(
            body,
            MessageClass.NACK_Q_PURGED,
            source=peer.guid,
            destination=ip_address(ALICE),
            message_id=next(peer._numbers),
            sent_time=0,
        )
    )


def order_ack(peer: Peer, sequence_id: int, number: int) -> None:
    peer.send(
        build_order_message(
            OrderAckBody.of(sequence_id, number),
            MessageClass.ORDER_ACK,
            source=peer.guid,
            destination=ip_address(ALICE),
            message_id=next(peer._numbers),
            sent_time=0,
        )
    )


async def heard(peer: Peer, alice: Node) -> None:
    """Everything that a peer has said so far was dealt with: an ordinary message behind it has arrived."""
    queue = alice.core.by_path.get("alice\\private$\\behind") or alice.queue("behind")
    before = len(queue.positions)
    peer.send(peer.message(b"", f"OS:{ALICE}\\private$\\behind", recoverable=True))
    await eventually(lambda: len(queue.positions) == before + 1)


async def forge(peer: Peer, alice: Node) -> None:
    """Everything a stranger can guess: small numbers, and a sequence that is one of the last."""
    last = alice.daemon.outgoing.sequences.last_id
    for sequence_id in range(last - 2, last + 1):
        for number in range(MESSAGES, 0, -1):
            order_ack(peer, sequence_id, number)
    for message_id in range(1, 50):
        final_ack(peer, alice, message_id)
        final_ack(peer, alice, 1_000 + message_id, (last, message_id))
        await asyncio.sleep(0)
    await heard(peer, alice)


async def receiver(here: Neighbourhood, source: str = BOB, guid: bytes = Peer.GUID) -> Peer:
    """A queue manager that takes messages over the session it has opened, and says nothing by itself."""
    peer = Peer(guid)
    await peer.connect(ALICE, here.port, source=source)
    return peer


async def sent(alice: Node, bob: Peer, *, journaled: bool) -> None:
    """Alice has sent all messages and Bob has them, but has not said that they are in order."""
    alice.send_together(
        name_of(BOB),
        *BODIES,
        negative_journaling_requested=journaled,
        positive_journaling_requested=journaled,
    )
    await eventually(lambda: len(bob.messages) == MESSAGES)


@pytest.mark.parametrize("journaled", [False, True])
async def test_a_stranger_settles_nothing(tmp_path: Path, journaled: bool) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        bob = await receiver(here)
        await sent(alice, bob, journaled=journaled)
        stranger = await receiver(here, CAROL, bytes(range(0x70, 0x80)))
        await forge(stranger, alice)
        queue = alice.outgoing(BOB)
        assert alice.bodies(queue) == BODIES
        assert alice.bodies(alice.core.transactional_dead_letter_queue) == []
        order_ack(bob, alice.daemon.outgoing.sequences.last_id, MESSAGES)
        await heard(bob, alice)
        if journaled:
            for packet in bob.messages[:MESSAGES]:
                final_ack(bob, alice, packet.user.message_id)
        await bob.close()  # what has its OrderAck does not wait for that of a session any more
        await eventually(lambda: not len(queue.positions))
        dead = alice.bodies(alice.core.transactional_dead_letter_queue)
        assert dead == (BODIES if journaled else [])
        await stranger.close()


async def test_a_stranger_who_sends_and_receives_too(tmp_path: Path) -> None:
    """Being sent to gives a say in one's own messages and in nobody else's."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        bob, carol = await receiver(here), await receiver(here, CAROL, bytes(range(0x70, 0x80)))
        await sent(alice, bob, journaled=True)
        alice.send_together(name_of(CAROL), b"for Carol")
        await eventually(lambda: carol.messages)
        await forge(carol, alice)
        await eventually(lambda: not len(alice.outgoing(CAROL).positions))
        assert alice.bodies(alice.outgoing(BOB)) == BODIES
        await bob.close()
        await carol.close()


async def test_another_session_of_the_receiver_counts(tmp_path: Path) -> None:
    """From the same address, or from another one of a host that has several or got a new one."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        bob = await receiver(here)
        await sent(alice, bob, journaled=True)
        queue = alice.outgoing(BOB)
        order_ack(bob, alice.daemon.outgoing.sequences.last_id, MESSAGES)
        await heard(bob, alice)
        await bob.close()
        first, second = bob.messages[0].user.message_id, bob.messages[1].user.message_id
        again = await receiver(here)
        final_ack(again, alice, first)
        await eventually(lambda: alice.bodies(queue) == BODIES[1:])
        await again.close()
        elsewhere = await receiver(here, DORA)
        final_ack(elsewhere, alice, second)
        await eventually(lambda: alice.bodies(queue) == BODIES[2:])
        await elsewhere.close()


@pytest.mark.parametrize("source", [BOB, DORA])
async def test_who_was_sent_to_is_remembered_over_a_restart(tmp_path: Path, source: str) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        bob = await receiver(here)
        await sent(alice, bob, journaled=True)
        order_ack(bob, alice.daemon.outgoing.sequences.last_id, MESSAGES)
        await heard(bob, alice)
        await alice.restart()
        stranger = await receiver(here, CAROL, bytes(range(0x70, 0x80)))
        await forge(stranger, alice)
        assert alice.bodies(alice.outgoing(BOB)) == BODIES
        again = await receiver(here, source)
        for packet in bob.messages[:MESSAGES]:
            final_ack(again, alice, packet.user.message_id)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        await bob.close()
        await stranger.close()
        await again.close()


async def test_a_queue_manager_that_a_private_name_says(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        bob = Peer()
        await bob.connect(ALICE, here.port, source=BOB, remote=alice.core.record.identifier)
        name = "PRIVATE=A3A2A1A0-A5A4-A7A6-A8A9-AAABACADAEAF\\00000007"
        alice.send_together(name, *BODIES, negative_journaling_requested=True)
        await eventually(lambda: len(bob.messages) == MESSAGES)
        stranger = await receiver(here, BOB, bytes(range(0x70, 0x80)))
        await forge(stranger, alice)
        (queue,) = alice.core.outgoing.values()
        assert alice.bodies(queue) == BODIES, "the address is that of the receiver, the identifier is not"
        elsewhere = await receiver(here, DORA)
        for packet in bob.messages[:MESSAGES]:
            final_ack(elsewhere, alice, packet.user.message_id)
        await eventually(lambda: not len(queue.positions))
        assert alice.bodies(alice.core.transactional_dead_letter_queue) == BODIES
        for peer in (bob, stranger, elsewhere):
            await peer.close()
