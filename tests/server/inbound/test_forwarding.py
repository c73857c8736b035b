"""Alice reaches Carol only by way of Bob, a routing server (MS-MQQB 3.1.5.8.2, 3.1.5.8.5, 3.1.7.1.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.errors import MessageStorageFailedError
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.headers import MAX_HOP_COUNT, QueueReference
from msmq.wire.message import UserMessage
from tests.server.enterprise import (
    BY_WAY_OF_BOB,
    enterprise,
    identifier_of,
    outgoing,
    peers,
    private_name,
)
from tests.server.inbound.test_arrivals import place
from tests.server.support import ALICE, BOB, CAROL, DORA, Peer, eventually, neighbourhood, stream_from
from tests.server.test_daemon_processes import Process

FULL_REACH, FULL_RECEIVE, NACKS = 0x5, 0xE, 0xC


def classes(packets: list[UserMessage]) -> list[int]:
    return [packet.properties.message_class for packet in packets]


def transit(peer: Peer, body: bytes, destination: bytes, number: int = 5, **options: object) -> UserMessage:
    """A message for a private queue of another host."""
    return peer.message(body, number, queue_manager_address=destination, **options)  # type: ignore[arg-type]


@pytest.mark.spec("MQQB-3.1.1.1.1.4-c", "MQQB-3.1.5.8.5-b", "MQQB-3.1.5.8.2-j", "MQMQ-2.3.2.7-a")
async def test_express_recoverable_and_transactional(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        plain, stream = carol.queue("plain"), carol.queue("stream", transactional=True)
        name, stream_name = private_name(carol, plain), private_name(carol, stream)
        alice.send(name, b"express")
        alice.send(name, b"recoverable", recoverable=True)
        alice.send_together(stream_name, b"1", b"2", b"3")
        await eventually(lambda: len(plain.positions) == 2 and len(stream.positions) == 3)
        assert carol.bodies(stream) == [b"1", b"2", b"3"]
        assert sorted(carol.bodies(plain)) == [b"express", b"recoverable"]
        hops = {packet.user.hop_count for packet in carol.packets(plain) + carol.packets(stream)}
        assert hops == {1}
        assert peers(alice) == {bob.core.record.identifier}, "never to Carol herself"
        assert name.lower() in bob.core.outgoing, "Bob made an outgoing queue"
        for node in (alice, bob):
            queue = outgoing(node, stream_name)
            await eventually(lambda queue=queue: not len(queue.positions))  # type: ignore[misc]
        info = stream_from(stream, alice.core.record.identifier)
        assert info.sequence_number == 3, "the stream is Alice's, not Bob's"


@pytest.mark.spec(
    "MQQB-3.1.7.1.1-c", "MQQB-3.1.1.5-e", "MQQB-3.1.1.3.1-al", "MQQB-3.1.5.8.6-a", "MQQB-3.1.5.8.8-f",
    "MQQB-3.1.7.17-i", "MQQB-3.1.5.8.8-g",
)  # fmt: skip
async def test_the_bytes_are_those_that_came(tmp_path: Path) -> None:
    """A peer sends through Bob; Carol is not there yet, so what Bob keeps can be compared."""
    hosts = {**BY_WAY_OF_BOB, "DORA": 'guid = "A3A2A1A0-A5A4-A7A6-A8A9-AAABACADAEAF"'}
    async with neighbourhood(tmp_path, **enterprise(tmp_path, hosts)) as here:
        carol = await here.node(CAROL)
        stream = carol.queue("stream", transactional=True)
        there, name = carol.core.record.identifier, private_name(carol, stream)
        await carol.stop()
        bob = await here.node(BOB)
        peer = Peer()
        assert peer.guid.hex() == "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"
        await peer.connect(BOB, here.port, source=DORA, remote=bob.core.record.identifier)
        number = stream.private_queue_number
        sent = [transit(peer, b"x", there, number, transaction=place(n)) for n in (1, 2)]
        before = bob.daemon.outgoing.sequences.last_id
        peer.send(sent[1])  # out of order, which is none of Bob's business
        peer.send(sent[0])
        await eventually(lambda: name.lower() in bob.core.outgoing)
        queue = outgoing(bob, name)
        await eventually(lambda: len(peer.acknowledged) == 2)
        kept = bob.packets(queue)
        for packet, original in zip(kept, (sent[1], sent[0]), strict=True):
            differing = [at for at, byte in enumerate(original.data) if packet.data[at] != byte]
            assert len(packet.data) == len(original.data)
            assert differing == [60], "the byte of Flags with the hop count"
            assert packet.user.hop_count == original.user.hop_count + 1
            assert packet.transaction == original.transaction
        assert bob.daemon.outgoing.sequences.last_id == before
        (drain,) = [drain for drain in bob.daemon.outgoing.drains.values() if drain.queue is queue]
        shown = drain._sender.statistics(bob.daemon.outgoing.epoch_ms)
        await eventually(lambda: queue.transfer_info.eod_next_seq == shown.eod_next_seq)
        for attribute, value in shown._asdict().items():
            assert getattr(queue.transfer_info, attribute) == value
        assert len(drain._sender) == queue.transfer_info.eod_no_ack_count == 0, "no place was given"
        assert bob.core.by_path.keys().isdisjoint({"bob\\private$\\stream"})
        assert peer.order_acks == [], "Bob acknowledges for the session only"
        peer.send(sent[0])
        peer.send(sent[1])
        await eventually(lambda: len(peer.acknowledged) == 4)
        assert [packet.transaction for packet in bob.packets(queue)] == [
            sent[0].transaction,
            sent[1].transaction,
        ], "sent again, they take the place of those that waited"
        await carol.start()
        stream = carol.find("stream")
        await eventually(lambda: len(stream.positions) == 2)
        assert len(stream.incoming) == 1
        assert stream_from(stream, peer.guid).sequence_number == 2
        await eventually(lambda: peer.order_acks)
        acknowledgment = next(packet for packet in peer.messages if packet.user.destination_queue == 4)
        assert acknowledgment.user.queue_manager_address == peer.guid
        assert acknowledgment.user.source_queue_manager == there
        assert peer.order_acks[-1].tx_sequence_number == 2
        await peer.close()


async def test_bob_dies_and_comes_back(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        plain, stream = carol.queue("plain"), carol.queue("stream", transactional=True)
        name, stream_name = private_name(carol, plain), private_name(carol, stream)
        await carol.stop()
        for number in range(20):
            alice.send(name, b"%d" % number, recoverable=True)
            alice.send_together(stream_name, b"%d" % number)
        await eventually(
            lambda: name.lower() in bob.core.outgoing and stream_name.lower() in bob.core.outgoing
        )
        await eventually(lambda: len(outgoing(bob, name).positions) == 20)
        await eventually(lambda: not len(outgoing(alice, name).positions))
        await bob.crash()
        assert len(outgoing(alice, stream_name).positions) == 20, "the sender keeps them until the end"
        for number in range(20, 30):
            alice.send_together(stream_name, b"%d" % number)
        await carol.start()
        await bob.start()
        plain, stream = carol.find("plain"), carol.find("stream")
        await eventually(lambda: len(stream.positions) == 30)
        assert carol.bodies(stream) == [b"%d" % number for number in range(30)]
        await eventually(lambda: len(plain.positions) == 20)
        assert set(carol.bodies(plain)) == {b"%d" % number for number in range(20)}
        await eventually(lambda: not len(outgoing(alice, stream_name).positions))


@pytest.mark.spec("MQQB-3.1.5.8.2-k")
async def test_too_many_hops(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        told = alice.queue("told")
        carol = identifier_of(bob, "CAROL")
        admin = f"TCP:{ALICE}\\private$\\told"
        peer = Peer()
        await peer.connect(BOB, here.port, source=DORA, remote=bob.core.record.identifier)
        options = {"admin": admin, "acknowledge": NACKS, "recoverable": True}
        for hops in (MAX_HOP_COUNT - 1, MAX_HOP_COUNT):
            message = transit(peer, b"%d" % hops, carol, **options)  # type: ignore[arg-type]
            data = bytearray(message.data)
            data[60] |= hops
            peer.send(UserMessage.decode(bytes(data)))
        await eventually(lambda: len(told.positions) == 1)
        (answer,) = alice.packets(told)
        assert answer.properties.message_class == MessageClass.NACK_HOP_COUNT_EXCEEDED
        assert answer.body == b"%d" % MAX_HOP_COUNT
        (waiting,) = [queue for queue in bob.core.outgoing.values() if queue.label.startswith("PRIVATE=")]
        assert [packet.user.hop_count for packet in bob.packets(waiting)] == [MAX_HOP_COUNT]
        transactional = transit(peer, b"t", carol, transaction=place(1))
        data = bytearray(transactional.data)
        data[60] |= MAX_HOP_COUNT
        peer.send(UserMessage.decode(bytes(data)))
        await eventually(lambda: peer.final_acks == [MessageClass.NACK_HOP_COUNT_EXCEEDED])
        assert peer.order_acks == []
        await peer.close()


async def test_acknowledgments_find_their_way_back(tmp_path: Path) -> None:
    options = enterprise(tmp_path, BY_WAY_OF_BOB)
    async with neighbourhood(tmp_path, send_insecure_nacks=True, **options) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        told, orders, stream = (
            alice.queue("told"),
            carol.queue(),
            carol.queue("stream", transactional=True),
        )
        admin = private_name(alice, told)
        name, stream_name = private_name(carol, orders), private_name(carol, stream)
        alice.send(name, b"x", recoverable=True, admin=admin, acknowledge=FULL_REACH | FULL_RECEIVE)
        await eventually(lambda: classes(alice.packets(told)) == [MessageClass.ACK_REACH_QUEUE])
        carol.receive(orders)
        await eventually(lambda: MessageClass.ACK_RECEIVE in classes(alice.packets(told)))
        wishes = {"positive_journaling_requested": True, "negative_journaling_requested": True}
        alice.send_together(stream_name, b"read", b"purged", **wishes)
        await eventually(lambda: len(stream.positions) == 2)
        assert carol.receive(stream) == b"read"
        journal, dead = alice.core.journal_queue, alice.core.transactional_dead_letter_queue
        await eventually(lambda: alice.bodies(journal) == [b"read"])
        carol.manager.queues.purge(stream)
        await eventually(lambda: alice.bodies(dead) == [b"purged"])
        nowhere = stream_name[:-8] + "00000FFF"
        alice.send_together(nowhere, b"lost", **wishes)
        await eventually(lambda: alice.bodies(dead) == [b"purged", b"lost"])
        assert bob.bodies(bob.core.journal_queue) == [], "journals are the sender's"
        assert bob.bodies(bob.core.transactional_dead_letter_queue) == []
        assert peers(alice) == {bob.core.record.identifier}


async def test_too_late_on_the_way(tmp_path: Path) -> None:
    """A plain message dies where it is; a transactional one is refused where it arrives, and its sender buries it."""
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        told, orders, stream = (
            alice.queue("told"),
            carol.queue(),
            carol.queue("stream", transactional=True),
        )
        admin, name = private_name(alice, told), private_name(carol, orders)
        stream_name = private_name(carol, stream)
        await carol.stop()
        options = {
            "admin": admin,
            "acknowledge": NACKS,
            "negative_journaling_requested": True,
            "ttrq_s": 2,
        }
        alice.send_together(stream_name, b"one", **options)
        alice.send_together(stream_name, b"two")
        await eventually(lambda: stream_name.lower() in bob.core.outgoing)
        await eventually(lambda: len(outgoing(bob, stream_name).positions) == 2)
        alice.send(name, b"plain", recoverable=True, **options)
        await eventually(lambda: len(told.positions) == 1)
        late = MessageClass.NACK_REACH_QUEUE_TIMEOUT
        assert classes(alice.packets(told)) == [late]
        assert alice.bodies(told) == bob.bodies(bob.core.dead_letter_queue) == [b"plain"]
        assert len(outgoing(bob, stream_name).positions) == 2, "who knows whether they have arrived"
        assert alice.bodies(alice.core.transactional_dead_letter_queue) == []
        await carol.start()
        stream = carol.find("stream")
        await eventually(lambda: carol.bodies(stream) == [b"two"])
        await eventually(lambda: alice.bodies(alice.core.transactional_dead_letter_queue) == [b"one"])
        await eventually(lambda: alice.bodies(told) == [b"plain", b"one"])
        assert classes(alice.packets(told)) == [late, late]
        assert bob.bodies(bob.core.transactional_dead_letter_queue) == []
        await eventually(lambda: not len(outgoing(alice, stream_name).positions))


async def test_who_is_no_routing_server_refuses(tmp_path: Path) -> None:
    hosts = {**BY_WAY_OF_BOB, "BOB": ""}
    options = enterprise(tmp_path, hosts)
    async with neighbourhood(tmp_path, send_insecure_nacks=True, **options) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        told = alice.queue("told")
        alice.send("PRIVATE=" + "11" * 4 + "-1111-1111-1111-" + "11" * 6 + "\\00000005", b"unknown host")
        carol = f"PRIVATE={guid_text(identifier_of(bob, 'CAROL'))}\\00000005"
        alice.send(carol, b"x", recoverable=True, admin=private_name(alice, told), acknowledge=NACKS)
        await eventually(lambda: classes(alice.packets(told)) == [MessageClass.NACK_BAD_DST_Q])
        assert carol.lower() not in bob.core.outgoing
        alice.send_together(carol, b"asks for nothing")
        await eventually(lambda: not len(outgoing(alice, carol).positions))
        (lost,) = [queue for queue in alice.core.outgoing.values() if "11111111" in queue.label]
        assert len(lost.positions) == 1


async def test_destinations_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    """Otherwise whoever reaches a routing server could have it keep messages for ever."""
    options = enterprise(tmp_path, BY_WAY_OF_BOB)
    async with neighbourhood(tmp_path, send_insecure_nacks=True, **options) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        told = alice.queue("told")
        peer = Peer()
        await peer.connect(BOB, here.port, source=DORA, remote=bob.core.record.identifier)
        admin = f"TCP:{ALICE}\\private$\\told"
        peer.send(transit(peer, b"a", b"\x33" * 16, admin=admin, acknowledge=NACKS, recoverable=True))
        await eventually(lambda: len(told.positions) == 1)
        assert classes(alice.packets(told)) == [MessageClass.NACK_BAD_DST_Q]
        assert all(str(ALICE) in name for name in bob.core.outgoing)
        await peer.close()


@pytest.mark.spec("MQQB-3.1.5.8.2-a")
async def test_a_full_disk_takes_nothing_in_transit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        alice, bob, carol = await here.node(ALICE), await here.node(BOB), await here.node(CAROL)
        orders = carol.queue()
        name = private_name(carol, orders)
        store = bob.daemon.store
        real = store.reserve
        tried = []

        def full(size: int, records: int = 1, *, freeing: bool = False) -> None:
            if not freeing:
                tried.append(size)
                raise MessageStorageFailedError("the disk is full")
            real(size, records, freeing=freeing)

        monkeypatch.setattr(store, "reserve", full)
        alice.send(name, b"x", recoverable=True)
        await eventually(lambda: len(tried) >= 2)
        assert len(outgoing(alice, name).positions) == 1, "not acknowledged, so it comes again"
        monkeypatch.setattr(store, "reserve", real)
        await eventually(lambda: carol.bodies(orders) == [b"x"])
        await eventually(lambda: not len(outgoing(alice, name).positions))


async def test_a_message_that_came_twice_goes_on_once(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        bob, carol = await here.node(BOB), await here.node(CAROL)
        orders = carol.queue()
        peer = Peer()
        await peer.connect(BOB, here.port, source=DORA, remote=bob.core.record.identifier)
        message = transit(
            peer, b"x", carol.core.record.identifier, orders.private_queue_number, recoverable=True
        )
        assert message.user.destination_reference == QueueReference.PRIVATE_ON_DESTINATION
        peer.send(message)
        peer.send(message)
        await eventually(lambda: len(peer.acknowledged) == 2)
        await eventually(lambda: len(orders.positions) == 1)
        await eventually(lambda: not any(len(queue.positions) for queue in bob.core.outgoing.values()))
        assert carol.bodies(orders) == [b"x"]
        await peer.close()


async def test_a_message_that_comes_back_to_its_sender(tmp_path: Path) -> None:
    """Somebody's routes go in a circle: Bob does not number his own message a second time."""
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        bob = await here.node(BOB)
        own, carol = bob.core.record.identifier, identifier_of(bob, "CAROL")
        peer = Peer()
        await peer.connect(BOB, here.port, source=DORA, remote=own)
        peer.send(transit(peer, b"x", carol, transaction=place(1), source_queue_manager=own))
        await eventually(lambda: len(peer.acknowledged) == 1)
        assert bob.core.outgoing == {}
        await peer.close()


async def test_a_host_that_is_no_longer_in_the_directory_routes_no_more(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, **enterprise(tmp_path, BY_WAY_OF_BOB)) as here:
        bob = await here.node(BOB)
        assert bob.core.record.routing_server
        assert bob.core.record.site_identifier_list
        enterprise(tmp_path, {"ALICE": ""})
        await bob.restart()
        assert not bob.core.record.routing_server
        assert bob.core.record.site_identifier_list == ()


async def test_a_routing_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """Bob is a process of his own; its directory file stands beside its configuration."""
    options = enterprise(tmp_path, BY_WAY_OF_BOB)
    async with neighbourhood(tmp_path, **options) as here:
        alice, carol = await here.node(ALICE), await here.node(CAROL)
        plain, stream = carol.queue("plain"), carol.queue("stream", transactional=True)
        name, stream_name = private_name(carol, plain), private_name(carol, stream)
        timers = "[timers]\nsession_retry_connect_ms = 100\norder_ack_timeout_ms = 50\n"
        directory = '[directory]\nfile = "enterprise.toml"\n'
        bob = Process(tmp_path, "BOB", BOB, here.port, config=directory + timers)
        await bob.start()
        for number in range(90):
            alice.send_together(stream_name, b"%d" % number)
            alice.send(name, b"%d" % number, recoverable=True)
        for seen in (1, 45):
            await eventually(lambda seen=seen: len(stream.positions) >= seen)  # type: ignore[misc]
            await bob.kill()
            await bob.start()
        await eventually(lambda: len(stream.positions) >= 90 and len(plain.positions) >= 90)
        await bob.stop()
        assert carol.bodies(stream) == [b"%d" % number for number in range(90)]
        assert set(carol.bodies(plain)) == {b"%d" % number for number in range(90)}
