"""OrderAcks find their way to the senders of transactional messages (MS-MQQB 3.1.7.17)."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msmq.server.inbound.order_answers import OrderAnswers
from msmq.transfer.order_receiver import OrderAckDue
from msmq.wire.classes import MessageClass
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import OrderAckBody
from tests.peers.mqqb import Acceptor
from tests.server.support import (
    BOB,
    CAROL,
    QUICK,
    Peer,
    eventually,
    neighbourhood,
    stream_from,
)

SEQUENCE = 1 << 32 | 7


def place(number: int, previous: int | None = None) -> TransactionHeader:
    return TransactionHeader(
        tx_sequence_id=SEQUENCE,
        tx_sequence_number=number,
        previous_tx_sequence_number=number - 1 if previous is None else previous,
    )


@pytest.mark.spec("MQQB-3.1.7.17-g", "MQQB-3.1.7.17-j", "MQQB-2.2.4-d")
async def test_an_order_ack_reaches_a_sender_whose_session_has_closed(tmp_path: Path) -> None:
    """It waits in the outgoing queue to the order queue of its sender, which is not there at first."""
    timers = replace(QUICK, order_ack_timeout_ms=300)

    async with neighbourhood(tmp_path, timers=timers) as here:
        bob = await here.node(BOB)
        orders = bob.queue(transactional=True)
        peer = Peer()
        await peer.connect(BOB, here.port, source=CAROL)
        for number in (1, 2):
            peer.send(peer.message(b"%d" % number, transaction=place(number)))
        await eventually(lambda: len(orders.positions) == 2)
        await peer.close()
        assert peer.order_acks == []
        waiting = f"direct=tcp:{CAROL}\\private$\\order_queue$"
        await eventually(lambda: waiting in bob.core.outgoing)
        queue, day_s = bob.core.outgoing[waiting], 86_400
        (first,) = [entry.lookup_id for entry in queue.positions]
        peer = Peer()
        await peer.connect(BOB, here.port, source=CAROL)
        peer.send(peer.message(b"2", transaction=place(2)))
        await peer.close()
        await eventually(lambda: first not in [entry.lookup_id for entry in queue.positions])
        assert len(queue.positions) == 1, "the newer one takes the place of the one that waits"
        bob.daemon.arrivals.answers.keep_house(bob.core.now_s + day_s)
        assert len(queue.positions) == 0, "its sender has asked again by now"
        peer = Peer()
        await peer.connect(BOB, here.port, source=CAROL)
        peer.send(peer.message(b"2", transaction=place(2)))
        await peer.close()
        with closing(Acceptor(CAROL, here.port, Peer.GUID)) as acceptor:

            def heard() -> dict[str, Any]:
                with closing(acceptor.accept()) as session:
                    session.handle()
                    return session.messages[0]

            said = await asyncio.to_thread(heard)
        assert said["destination"] == ("direct", f"TCP:{CAROL}\\PRIVATE$\\order_queue$")
        assert (said["message_class"], said["label"]) == (MessageClass.ORDER_ACK, "QM Ordering Ack")
        assert not said["recoverable"], "what is lost with us is asked for again"
        assert said["body"][:16] == SEQUENCE.to_bytes(8, "little") + bytes([2, 0, 0, 0, 1, 0, 0, 0])


@pytest.mark.spec("MQQB-3.1.5.8.6-b")
async def test_a_sequence_without_its_beginning_is_answered_and_not_remembered(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        bob = await here.node(BOB)
        orders = bob.queue(transactional=True)
        peer = Peer()
        await peer.connect(BOB, here.port, source=CAROL)
        peer.send(peer.message(b"third", transaction=place(3)))
        await eventually(lambda: peer.order_acks)
        assert peer.order_acks == [OrderAckBody(SEQUENCE, 0, 0)]
        assert stream_from(orders, Peer.GUID).reject_count == 1
        peer.send(peer.message(b"first", transaction=place(1)))
        await eventually(lambda: peer.order_acks[1:] == [OrderAckBody.of(SEQUENCE, 1)])
        assert bob.bodies(orders) == [b"first"]
        await peer.close()


def test_what_waits_for_the_window_is_the_order_ack_that_says_most() -> None:
    """One that waited for the disk may find a later one waiting for the window already."""

    class Closed:
        is_open = True

        class session:  # noqa: N801 - an attribute
            @staticmethod
            def send(*_: object) -> bool:
                return False

    link: Any = Closed()
    answers = OrderAnswers.__new__(OrderAnswers)
    answers._unsent = {}
    stream: Any = (bytes(16), "queue")
    dues = [OrderAckDue(stream, link, OrderAckBody.of(7, number)) for number in (3, 5, 4, 5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msmq.server.inbound.order_answers.now_ms", lambda: 0)
        for due in dues:
            answers._ship_order_ack(due, b"")
    assert answers._unsent[stream].body == OrderAckBody.of(7, 5)
