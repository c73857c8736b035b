"""What becomes of messages at their sender: journals, dead letters, final acknowledgments (MS-MQQB 1.3.4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msmq.store.disk import RealFile
from msmq.wire.classes import MessageClass
from msmq.wire.packets import FinalAckBody, build_order_message
from tests.server.inbound.test_arrivals import NEGATIVE, classes, place
from tests.server.support import ALICE, BOB, CAROL, QUICK, Peer, eventually, name_of, neighbourhood

# --- source journaling -------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.2-n", "MQMQ-6-d", "MQQB-1.3.4.1-a", "MQQB-3.1.5.5.4-a", "MQQB-3.1.1.1.1.3-c")
async def test_what_was_delivered_is_journaled(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, window_size=2) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        for body, recoverable in ((b"express", False), (b"recoverable", True)):
            options: dict[str, Any] = {"recoverable": recoverable}
            alice.send(name_of(BOB), body, positive_journaling_requested=True, **options)
            alice.send(name_of(BOB), b"not journaled", **options)
        await eventually(lambda: len(orders.positions) == 4)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        assert sorted(alice.bodies(alice.core.journal_queue)) == [b"express", b"recoverable"]
        assert not len(alice.core.dead_letter_queue.positions)  # type: ignore[union-attr]
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()
        assert alice.bodies(alice.core.journal_queue) == [b"recoverable"]


@pytest.mark.spec(
    "MQQB-3.1.5.5.4-b", "MQQB-3.1.5.7-c", "MQQB-3.1.1.1.1.7-c", "MQQB-1.3.4.2-b", "MQQB-3.1.5.7-d", "MQMQ-6-c"
)
async def test_a_transactional_message_waits_for_its_final_ack(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue(transactional=True)
        own = alice.queue("mine", transactional=True)
        transaction = alice.manager.transactions.create()
        alice.send(name_of(BOB), b"read", transaction, positive_journaling_requested=True)
        alice.send(name_of(BOB), b"purged", transaction, negative_journaling_requested=True)
        alice.send(
            name_of(BOB),
            b"purged too",
            transaction,
            negative_journaling_requested=True,
            deadletter=own.pathname,
        )
        alice.send(name_of(BOB), b"purged plainly", transaction, positive_journaling_requested=True)
        alice.manager.transactions.commit(transaction.identifier)
        drain = alice.daemon.outgoing.drains[alice.outgoing(BOB).number]
        await eventually(lambda: len(drain.parked) == 4)
        assert alice.bodies(alice.core.journal_queue) == []
        assert len(alice.outgoing(BOB).positions) == 4
        bob.receive(orders)
        bob.manager.queues.purge(orders)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        assert alice.bodies(alice.core.journal_queue) == [b"read"]
        assert alice.bodies(alice.core.transactional_dead_letter_queue) == [b"purged"]
        assert alice.bodies(own) == [b"purged too"]
        assert not drain.parked
        assert not len(alice.daemon.outgoing.final_acks)
        await alice.daemon.commit.drain()
        assert not drain._places._groups


@pytest.mark.spec("MQQB-3.1.1.3.1-ag", "MQQB-3.1.5.6-h")
async def test_a_parked_message_survives_a_crash(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue(transactional=True)
        alice.send_together(name_of(BOB), b"parked", positive_journaling_requested=True)
        drain = alice.daemon.outgoing.drains[alice.outgoing(BOB).number]
        await eventually(lambda: drain.parked)
        alice.send_together(name_of(BOB), b"plain")  # the next sequence
        await eventually(lambda: len(alice.outgoing(BOB).positions) == 1)
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()
        assert alice.bodies(alice.outgoing(BOB)) == [b"parked"]
        bob.receive(orders)
        await eventually(lambda: alice.bodies(alice.core.journal_queue) == [b"parked"])
        assert not len(alice.outgoing(BOB).positions)
        assert bob.bodies(orders) == [b"plain"]


@pytest.mark.spec("MQQB-1.3.5.1-a", "MQQB-3.1.7.17-g")
async def test_a_final_ack_opens_a_session_of_its_own(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        bob = await here.node(BOB, timers=replace(QUICK, session_cleanup_ms=700))
        orders = bob.queue(transactional=True)
        alice.send_together(name_of(BOB), b"1", positive_journaling_requested=True)
        drain = alice.daemon.outgoing.drains[alice.outgoing(BOB).number]
        await eventually(lambda: drain.parked)
        await eventually(lambda: not bob.daemon.listener.connections and not alice.own_connections)
        bob.receive(orders)
        await eventually(lambda: alice.bodies(alice.core.journal_queue) == [b"1"])
        assert [connection.peer for connection in alice.daemon.listener.connections] == [BOB]
        assert not bob.daemon.listener.connections


@pytest.mark.spec("MQQB-3.1.1.3.1-ac", "MQQB-3.1.7.17-j")
async def test_a_final_ack_finds_its_way_without_the_session(tmp_path: Path) -> None:
    timers = replace(QUICK, session_cleanup_ms=700)
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB, timers=timers)
        orders = bob.queue(transactional=True)
        alice.send_together(name_of(BOB), b"1", positive_journaling_requested=True)
        drain = alice.daemon.outgoing.drains[alice.outgoing(BOB).number]
        await eventually(lambda: drain.parked)
        await eventually(lambda: not bob.daemon.listener.connections)
        await alice.stop()
        bob.receive(orders)
        queue = bob.core.outgoing[f"direct=tcp:{ALICE}\\private$\\order_queue$"]
        await eventually(lambda: queue.connection_history)
        assert len(queue.positions) == 1, "it waits"
        await alice.start()
        await eventually(lambda: alice.bodies(alice.core.journal_queue) == [b"1"])
        await eventually(lambda: not len(queue.positions))


@pytest.mark.spec("MQQB-3.1.1.3.1-ah", "MQQB-3.1.7.17-g", "MQQB-3.1.7.17-h", "MQQB-3.1.5.8.2-c")
async def test_where_a_sender_hears_of_its_orders(tmp_path: Path) -> None:
    """By the name of its queue manager while it names ours; at its address once it has opened a session without a name
    or sent a message to a direct one, which holds for the whole session and for no other."""
    by_address = f"TCP:{CAROL}\\PRIVATE$\\order_queue$"
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        own = alice.core.record.identifier
        by_number = {"destination": orders.private_queue_number, "queue_manager_address": own}
        sessions: list[tuple[bytes | None, list[tuple[dict[str, Any], object]]]] = [
            (own, [(by_number, 4), ({}, by_address), (by_number, by_address)]),
            (own, [(by_number, 4)]),
            (None, [({}, by_address)]),
        ]
        for number, (remote, messages) in enumerate(sessions, 1):
            peer = Peer(bytes([number]) * 16)
            await peer.connect(ALICE, here.port, remote=remote)
            places: Counter[object] = Counter()
            for fields, expected in messages:
                places[bool(fields)] += 1  # each name of the queue has a sequence of its own
                header = place(places[bool(fields)])
                peer.send(peer.message(b"1", transaction=header, positive_journaling=1, **fields))
                await eventually(lambda peer=peer: peer.order_acks)
                alice.receive(orders)
                await eventually(lambda peer=peer: peer.final_acks)
                assert {packet.user.destination_queue for packet in peer.messages} == {expected}
                peer.messages.clear()
            await peer.close()


@pytest.mark.spec("MQQB-2.2.5-i")
async def test_a_final_ack_of_an_unlisted_class(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue(transactional=True)
        alice.send_together(name_of(BOB), b"1", negative_journaling_requested=True)
        queue = alice.outgoing(BOB)
        drain = alice.daemon.outgoing.drains[queue.number]
        await eventually(lambda: drain.parked)
        (packet,) = alice.packets(queue)
        body = FinalAckBody(1, 1, 0, alice.core.record.identifier, packet.user.message_id)
        peer = Peer(bob.core.record.identifier)
        await peer.connect(ALICE, here.port, remote=alice.core.record.identifier)
        peer.send(
            build_order_message(
                body,
                0x8005,
                source=peer.guid,
                destination=alice.core.record.identifier,
                message_id=9,
                sent_time=0,
            )
        )
        await eventually(lambda: not len(queue.positions))
        assert alice.bodies(alice.core.transactional_dead_letter_queue) == [b"1"]
        assert alice.reasons(alice.core.transactional_dead_letter_queue) == [0x8005]
        await peer.close()


@pytest.mark.spec("MQQB-3.1.7.2.2-a", "MQQB-3.1.7.2.2-b", "MQMQ-2.2.20.5-d")
async def test_who_asks_for_a_final_ack(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders, plain = alice.queue(transactional=True), alice.queue("plain")
        peer = Peer()
        await peer.connect(ALICE, here.port)
        wanting = place(4)
        wanting.final_ack_required = 1
        peer.send(peer.message(b"nothing", transaction=place(1)))
        peer.send(peer.message(b"JP", transaction=place(2), positive_journaling=1))
        peer.send(peer.message(b"JN", transaction=place(3), negative_journaling=1))
        peer.send(peer.message(b"FA", transaction=wanting))
        peer.send(peer.message(b"express", "OS:a\\private$\\plain", positive_journaling=1))
        await eventually(lambda: len(orders.positions) == 4 and len(plain.positions) == 1)
        assert alice.receive(plain) == b"express"
        assert alice.receive(orders) == b"nothing"
        await asyncio.sleep(0.1)
        assert peer.final_acks == []
        for count in (1, 2, 3):
            alice.receive(orders)
            await eventually(lambda count=count: len(peer.final_acks) == count)
        assert peer.final_acks == [0x4000] * 3
        await peer.close()


# --- expiry at the sender ----------------------------------------------------------------------------------


@pytest.mark.spec(
    "DMPR-3.1.1.12-q", "MQMQ-2.2.18.1.6-i", "MQMQ-2.2.19.2-m",
    "MQQB-1.3.4.2-a", "MQQB-3.1.1.1.1.3-d", "MQQB-3.1.1.1.1.3-e",
    "MQQB-3.1.1.1.1.7-d", "MQQB-3.1.7.1.2-a", "MQQB-3.1.7.1.2-b", "MQQB-3.1.7.1.2-c", "MQQB-3.1.7.1.2-d",
)  # fmt: skip
async def test_a_message_that_does_not_make_it_in_time(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        admin = alice.queue("adm")
        options: dict[str, Any] = {"ttrq_s": 1, "admin": name_of(ALICE, "adm"), "acknowledge": NEGATIVE}
        alice.send(name_of(BOB), b"dead", recoverable=True, negative_journaling_requested=True, **options)
        alice.send(name_of(BOB), b"gone", positive_journaling_requested=True, **options)
        alice.send_together(name_of(BOB), b"dead together", negative_journaling_requested=True, **options)
        tomorrow = alice.core.now_s + 86_400
        alice.send(name_of(BOB), b"in time", ttrq_s=3, sent_time=tomorrow)
        await eventually(lambda: len(alice.outgoing(BOB).positions) == 1)
        assert sorted(classes(alice, admin)) == [0x8002] * 3
        assert alice.bodies(alice.core.dead_letter_queue) == [b"dead"]
        assert alice.bodies(alice.core.transactional_dead_letter_queue) == [b"dead together"]
        for dead in (alice.core.dead_letter_queue, alice.core.transactional_dead_letter_queue):
            assert alice.reasons(dead) == [0x8002]
        assert alice.bodies(alice.core.journal_queue) == []
        bob = await here.node(BOB)
        orders = bob.queue()
        await eventually(lambda: bob.bodies(orders) == [b"in time"])


async def test_to_know_when_large_messages_expire_their_bodies_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    pread = RealFile.pread

    def counted(file: RealFile, length: int, offset: int) -> bytes:
        read.append(length)
        return pread(file, length, offset)

    monkeypatch.setattr(RealFile, "pread", counted)
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        alice.send(name_of(BOB), b"opens the queue", recoverable=True)
        drain = alice.daemon.outgoing.drains[alice.outgoing(BOB).number]
        for _ in range(20):  # more than the store keeps in memory
            alice.send(name_of(BOB), bytes(3_000_000), recoverable=True, ttrq_s=3_600)
            await alice.daemon.commit.drain()
        await eventually(lambda: len(drain._expiries) == 20)
        assert sum(read) < 1_000_000


@pytest.mark.spec("MQMQ-6-b", "MQQB-1.3.4-a")
async def test_acknowledgments_are_not_journaled(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, window_size=2) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        admin = bob.queue("adm")
        journaling = {"positive_journaling_requested": True, "negative_journaling_requested": True}
        for name in (name_of(BOB, "adm"), name_of(CAROL, "adm")):
            alice.send(name, b"ack", message_class=MessageClass.ACK_RECEIVE, ttrq_s=1, **journaling)
        await eventually(lambda: len(admin.positions) == 1)
        await eventually(lambda: not len(alice.outgoing(CAROL, "adm").positions))
        await eventually(lambda: not len(alice.outgoing(BOB, "adm").positions))
        assert alice.bodies(alice.core.journal_queue) == []
        assert alice.bodies(alice.core.dead_letter_queue) == []
