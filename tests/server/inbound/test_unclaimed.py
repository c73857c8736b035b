"""Messages for a public queue that nobody can be asked about; a real controller is in test_membership_lifecycle.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from msmq.errors import UnsupportedFormatnameOperationError
from msmq.manager.model import OutgoingState, QueueType
from msmq.manager.queues.queue import OutgoingQueue
from msmq.manager.queues.queues import QueueRequest
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.message import UserMessage
from tests.server.enterprise import post
from tests.server.inbound.test_arrivals import place
from tests.server.support import BOB, Node, Peer, eventually, neighbourhood

THEIRS = bytes(range(16))
NAME = f"public={guid_text(THEIRS)}".lower()


@asynccontextmanager
async def uncertain(directory: Path) -> AsyncIterator[tuple[Node, Peer]]:
    """A host whose directory could have the queue and does not answer, and somebody who sends to it."""
    async with neighbourhood(directory) as here:
        bob, peer = await here.node(BOB), Peer()
        bob.daemon.arrivals.unclaimed.undecided = lambda identifier: identifier == THEIRS
        await peer.connect(BOB, here.port)
        try:
            yield bob, peer
        finally:
            await peer.close()


def for_theirs(peer: Peer, node: Node, body: bytes, **options: Any) -> UserMessage:
    own = node.core.record.identifier
    return peer.message(body, THEIRS, queue_manager_address=own, **options)


def waiting(node: Node) -> OutgoingQueue:
    return node.core.outgoing[NAME]


def make(node: Node) -> None:
    """Have the queue, as the directory says."""
    queue = node.manager.queues.create(QueueRequest(".\\theirs"), skip_directory=True)
    node.core.unregister(queue)
    queue.made_again(THEIRS)
    node.core.register(queue)
    assert queue.queue_type is QueueType.PUBLIC


async def test_they_wait_over_a_restart_and_arrive_in_order(tmp_path: Path) -> None:
    async with uncertain(tmp_path) as (bob, peer):
        packets = [for_theirs(peer, bob, b"%d" % number, recoverable=True) for number in range(3)]
        for packet in [*packets, packets[0]]:  # the last one has come before
            peer.send(packet)
        await eventually(lambda: len(peer.acknowledged) == 4)
        assert bob.bodies(waiting(bob)) == [b"0", b"1", b"2"]
        assert waiting(bob).state is OutgoingState.NEED_VALIDATION
        await bob.restart()
        unclaimed = bob.daemon.arrivals.unclaimed
        assert unclaimed.identifiers == [THEIRS]
        with pytest.raises(UnsupportedFormatnameOperationError):
            post(bob, NAME, b"an application is told at once")
        make(bob)
        unclaimed.settle(THEIRS)
        assert bob.bodies(bob.core.by_identifier[THEIRS]) == [b"0", b"1", b"2"]
        assert unclaimed.identifiers == []
        unclaimed.settle(THEIRS)
        post(bob, NAME, b"3")
        assert bob.bodies(bob.core.by_identifier[THEIRS])[-1] == b"3"


async def test_a_transactional_message_stays_with_its_sender(tmp_path: Path) -> None:
    """It is not acknowledged, neither taken nor refused, and comes again."""
    async with uncertain(tmp_path) as (bob, peer):
        peer.send(for_theirs(peer, bob, b"first", transaction=place(1)))
        await eventually(lambda: len(peer.acknowledged) == 1)
        assert NAME not in bob.core.outgoing
        bob.daemon.arrivals.unclaimed.undecided = lambda identifier: False
        peer.send(for_theirs(peer, bob, b"again", transaction=place(1)))
        await eventually(lambda: bool(peer.final_acks))
        assert peer.final_acks == [MessageClass.NACK_BAD_DST_Q]


async def test_what_the_directory_does_not_have_is_refused(tmp_path: Path) -> None:
    async with uncertain(tmp_path) as (bob, peer):
        for body, kept in ((b"wanted", 1), (b"forgotten", 0)):
            peer.send(for_theirs(peer, bob, body, recoverable=True, negative_journaling=kept))
        await eventually(lambda: len(peer.acknowledged) == 2)
        bob.daemon.arrivals.unclaimed.settle(THEIRS)
        assert not len(waiting(bob).positions)
        graves = bob.core.dead_letter_queue
        assert bob.bodies(graves) == [b"wanted"]
        assert bob.reasons(graves) == [MessageClass.NACK_BAD_DST_Q]


async def test_there_is_a_limit_to_the_queues_they_wait_in(tmp_path: Path) -> None:
    """Above it the session ends and nothing is acknowledged: the sender keeps its messages."""
    async with neighbourhood(tmp_path, max_incidental_queues=2) as here:
        bob = await here.node(BOB)
        bob.daemon.arrivals.unclaimed.undecided = lambda identifier: True
        peer = Peer()
        await peer.connect(BOB, here.port)
        own = bob.core.record.identifier
        for number in range(3):
            peer.send(peer.message(b"", bytes([number] * 16), queue_manager_address=own, recoverable=True))
        await peer.closed.wait()
        await peer.close()
        assert 0 < len(bob.daemon.arrivals.unclaimed.identifiers) < 3
