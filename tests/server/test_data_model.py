"""What a running daemon makes of the data model (MS-MQDMPR 3.1.1): states, histories, streams, fates of messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msmq.manager.ledger.attributes import change
from msmq.manager.messages.coordinator import ResourceManager
from msmq.manager.messages.message import Message
from msmq.manager.model import ConnectionStatus, OutgoingState
from msmq.manager.queues.queue import OutgoingQueue
from msmq.server.outbound.next_hop import resolve
from msmq.wire.classes import MessageClass
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import OrderAckBody
from tests.server.inbound.test_arrivals import classes, place
from tests.server.outbound.test_settlement import final_ack, heard, order_ack
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    QUICK,
    Peer,
    eventually,
    name_of,
    neighbourhood,
    stream_from,
)

DEFAULT_TIME_TO_REACH_QUEUE_S = 345_600
TRIED = {status.value for status in ConnectionStatus}


def statuses(queue: OutgoingQueue) -> list[ConnectionStatus]:
    return [entry.status for entry in queue.connection_history]


# --- outgoing queues ---------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.3-f", "MQQB-3.1.5.9-a")
async def test_the_states_of_a_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace: list[OutgoingState] = []
    plain = OutgoingQueue.__setattr__

    def watched(queue: OutgoingQueue, name: str, value: Any) -> None:
        if name == "state" and trace[-1:] != [value]:
            trace.append(value)
        plain(queue, name, value)

    monkeypatch.setattr(OutgoingQueue, "__setattr__", watched)

    async with neighbourhood(tmp_path, timers=replace(QUICK, session_cleanup_ms=700)) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue()
        alice.send(name_of(BOB), b"1", recoverable=True)
        await eventually(lambda: trace[-1] is OutgoingState.DISCONNECTED)
        assert trace == [
            OutgoingState.INACTIVE,
            OutgoingState.WAITING,
            OutgoingState.CONNECTED,
            OutgoingState.DISCONNECTING,
            OutgoingState.DISCONNECTED,
        ]
        assert {state.value for state in OutgoingState} - {state.value for state in trace} == {
            "Locked",
            "NeedValidation",
            "OnHold",
        }


@pytest.mark.spec("DMPR-3.1.1.1-z", "DMPR-3.1.1.3-g", "DMPR-3.1.3-s")
async def test_a_hardened_queue_manager(tmp_path: Path) -> None:
    """It neither answers on its port nor sends; with the mode off, the next start sends what waited."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        assert not alice.core.hardened_security
        change(alice.core, hardened_security=True)
        assert not alice.core.hardened_security, "only from the next start on"
        await alice.restart()
        alice.send(name_of(BOB), b"1", recoverable=True)
        queue = alice.outgoing(BOB)
        assert queue.state is OutgoingState.LOCKED
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(ALICE, here.port)
        await asyncio.sleep(0.3)  # three times the wait between attempts
        assert not queue.connection_history
        assert not bob.daemon.listener.connections
        assert alice.bodies(queue) == [b"1"]
        change(alice.core, hardened_security=False)
        await alice.restart()
        assert alice.outgoing(BOB).state is not OutgoingState.LOCKED
        await eventually(lambda: bob.bodies(orders) == [b"1"])


@pytest.mark.spec("DMPR-3.1.1.1-y")
async def test_offline_nobody_is_let_in(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"1")
        await eventually(lambda: len(orders.positions) == 1)
        bob.manager.take_offline()
        await eventually(lambda: not alice.own_connections)
        alice.send(name_of(BOB), b"2")
        await eventually(lambda: ConnectionStatus.SOCKET_CONNECT_FAILURE in statuses(alice.outgoing(BOB)))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(BOB, here.port)
        bob.manager.bring_online()
        await eventually(lambda: bob.bodies(orders) == [b"1", b"2"])


@pytest.mark.spec("DMPR-3.1.1.3-h", "DMPR-3.1.1.3-i")
async def test_the_history_of_connections(tmp_path: Path) -> None:
    async def no_such_host(host: str) -> list[str]:
        return await resolve("no-such-host.invalid")

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE, no_such_host)
        alice.send("DIRECT=OS:nowhere\\private$\\orders", b"x")
        (unresolved,) = alice.core.outgoing.values()
        assert unresolved.connection_history == [], "nothing was tried yet"
        await eventually(lambda: ConnectionStatus.DNS_FAILURE in statuses(unresolved))
        before = alice.core.now_s
        alice.send(name_of(BOB), b"x")  # nobody is there
        unreachable = alice.outgoing(BOB)
        await eventually(lambda: len(unreachable.connection_history) == 1)
        (entry,) = unreachable.connection_history
        assert entry.status is ConnectionStatus.SOCKET_CONNECT_FAILURE
        assert before <= entry.connection_history_time <= before + 5
        assert entry.error == 0xC00E0069
        assert entry.address_list == (BOB,)
        await here.node(BOB, max_in_sessions=0)
        await eventually(lambda: ConnectionStatus.CONNECTION_REFUSED in statuses(unreachable))
    assert {
        "InProcess", "EstablishPacketReceived", "Established", "UnknownFailure", "PingFailure",
        "SocketCreateFailure", "SocketBindFailure", "SocketConnectFailure", "TcpNotEnabled",
        "SocketSendFailure", "ConnectionNotReady", "DnsFailure", "CertificateValidationFailure",
        "ConnectionLimitReached", "ConnectionRefused", "RoutingDataNotAvailable", "LowResource",
    } == TRIED  # fmt: skip


# --- transactional streams ---------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.3-e", "DMPR-3.1.1.4-a", "DMPR-3.1.1.12-as")
async def test_the_numbers_of_a_stream(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders, plain = bob.queue(transactional=True), bob.queue("plain")
        alice.send_together(name_of(BOB), b"1", b"2", b"3")
        alice.send(name_of(BOB, "plain"), b"alone")
        await eventually(lambda: len(orders.positions) == 3 and len(plain.positions) == 1)
        headers = [packet.transaction for packet in bob.packets(orders)]
        found = [
            (header.tx_sequence_number, header.previous_tx_sequence_number) for header in headers if header
        ]
        assert found == [(1, 0), (2, 1), (3, 2)]
        (first,) = {header.tx_sequence_id for header in headers if header}
        assert bob.packets(plain)[0].transaction is None
        info = alice.outgoing(BOB).transfer_info
        assert info is not None
        assert info.outgoing_queue is alice.outgoing(BOB)
        assert info.outgoing_queue.transfer_info is info
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        alice.send_together(name_of(BOB), b"4")  # all was acknowledged: the next sequence
        await eventually(lambda: len(orders.positions) == 4)
        header = bob.packets(orders)[3].transaction
        assert header is not None
        assert (header.tx_sequence_number, header.previous_tx_sequence_number) == (1, 0)
        assert header.tx_sequence_id & 0xFFFFFFFF > first & 0xFFFFFFFF, "the Ordinal rises"
        assert header.tx_sequence_id >> 32 >= first >> 32, "the TimeStamp never falls"


@pytest.mark.spec("MQQB-3.1.1.3.2-a")
async def test_what_has_to_survive_survives_a_kill(tmp_path: Path) -> None:
    """Numbers, sequences and tables of both directions, as they were when the process was killed."""
    own = b"1", b"2", b"3"

    def orders_at(peer: Peer) -> list[TransactionHeader | None]:
        return [packet.transaction for packet in peer.messages if packet.body in own]

    # Nobody acknowledges the session here, and it stays open all the same.
    async with neighbourhood(tmp_path, timers=replace(QUICK, ack_wait_timeout_ms=100_000)) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        alice.queue("plain")
        alice.send(name_of(CAROL), b"kept", recoverable=True)
        bob = Peer(bytes([2]) * 16)
        await bob.connect(ALICE, here.port, source=BOB)
        remembered = bob.message(b"once", "OS:anything\\private$\\plain", recoverable=True)
        bob.send(remembered)
        for number in (1, 2):
            bob.send(bob.message(b"x", transaction=place(number)))
        await eventually(lambda: OrderAckBody.of(place(2).tx_sequence_id, 2) in bob.order_acks)
        for number in (2, 1):
            bob.send(bob.message(b"x", transaction=place(number)))
        await eventually(lambda: stream_from(orders, bob.guid).reject_count == 2)
        arrivals = alice.daemon.arrivals
        await eventually(lambda: arrivals._receiver.next_deadline_ms is None)  # their OrderAck has left
        alice.send_together(name_of(BOB), *own, positive_journaling_requested=True)
        await eventually(lambda: len(orders_at(bob)) == 3)
        sent = orders_at(bob)
        assert sent[0] is not None
        order_ack(bob, sent[0].tx_sequence_id, 1)
        await heard(bob, alice)
        await bob.close()
        drain = alice.daemon.outgoing.drains[alice.outgoing(BOB).number]
        await eventually(lambda: len(drain.parked) == 1)
        before = alice.core.next_message_ordinal()
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()

        assert alice.core.next_message_ordinal() > before  # MessageIdOrdinal
        stream = stream_from(alice.find(), bob.guid)
        found = stream.sequence_identifier, stream.sequence_number, stream.reject_count
        assert found == (place(2).tx_sequence_id, 2, 2)
        assert alice.bodies(alice.outgoing(CAROL)) == [b"kept"]
        assert alice.bodies(alice.outgoing(BOB)) == [*own]
        again = Peer(bob.guid)
        await again.connect(ALICE, here.port, source=BOB)
        await eventually(lambda: len(orders_at(again)) == 3)
        assert orders_at(again) == sent, "with the numbers they had; an OrderAck is asked for again"
        final_ack(again, alice, next(each for each in bob.messages if each.body == b"1").user.message_id)
        await eventually(lambda: alice.bodies(alice.outgoing(BOB)) == [b"2", b"3"])  # AwaitingFinalACKTable
        again.send(remembered)  # MessageIDHistoryTable
        again.send(again.message(b"behind", "OS:anything\\private$\\plain", message_id=99))
        await eventually(lambda: alice.bodies(alice.find("plain")) == [b"once", b"behind"])
        await again.close()


@pytest.mark.spec("DMPR-3.1.1.2-y", "DMPR-3.1.1.5-a", "DMPR-3.1.1.5-b")
async def test_two_senders_are_two_streams(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        assert orders.incoming == {}
        peers = [Peer(bytes([number]) * 16) for number in (1, 2)]
        for peer in peers:
            await peer.connect(ALICE, here.port)
            peer.send(peer.message(b"x", transaction=place(1)))
        await eventually(lambda: len(orders.positions) == 2)
        assert len(orders.incoming) == 2
        for peer in peers:
            info = stream_from(orders, peer.guid)
            assert info.sender_identifier == peer.guid
            assert info.format_name == "DIRECT=OS:anything\\private$\\orders", "as the sender has it"
            assert (info.sequence_identifier, info.sequence_number) == (place(1).tx_sequence_id, 1)
            assert abs(info.last_access_time - alice.core.now_s) <= 5
            assert info.reject_count == 0
        for peer in peers:
            await eventually(lambda peer=peer: peer.acknowledged)
            await peer.close()
        await alice.crash()
        await alice.start()
        again = Peer(peers[0].guid)
        await again.connect(ALICE, here.port)
        again.send(again.message(b"x", transaction=place(1)))
        await eventually(lambda: stream_from(alice.find(), again.guid).reject_count == 1)
        again.send(again.message(b"y", transaction=place(2)))
        await eventually(lambda: len(alice.find().positions) == 3)
        assert alice.bodies(alice.find()) == [b"x", b"x", b"y"]
        await again.close()


# --- the fates of messages ---------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.12-d", "DMPR-6-b")
async def test_an_expired_message_goes_to_the_queue_its_application_named(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        own = alice.queue("mine", transactional=True)
        transaction = alice.manager.transactions.create()
        options: dict[str, Any] = {"ttrq_s": 1, "negative_journaling_requested": True}
        alice.send(name_of(BOB), b"named", transaction, deadletter=own.pathname, **options)
        alice.send(name_of(BOB), b"not named", transaction, **options)
        alice.send(name_of(BOB), b"not asked", transaction, ttrq_s=1, deadletter=own.pathname)
        alice.manager.transactions.commit(transaction.identifier)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        assert alice.bodies(own) == [b"named"]
        assert alice.bodies(alice.core.transactional_dead_letter_queue) == [b"not named"]
        assert alice.bodies(alice.core.dead_letter_queue) == []


@pytest.mark.spec("DMPR-3.1.1.12-z")
@pytest.mark.parametrize("acknowledge", [0x4, 0x5, 0x8 | 0x4, 0xC, 0xE])
async def test_a_missing_queue_is_told(tmp_path: Path, acknowledge: int) -> None:
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice, _ = await here.node(ALICE), await here.node(BOB)
        admin = alice.queue("adm")
        alice.send(name_of(BOB, "none"), b"x", admin=name_of(ALICE, "adm"), acknowledge=acknowledge)
        await eventually(lambda: classes(alice, admin) == [MessageClass.NACK_BAD_DST_Q])


@pytest.mark.spec("DMPR-3.1.1.12-ae")
async def test_time_to_reach_the_queue(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        assert Message().time_to_reach_queue_s == DEFAULT_TIME_TO_REACH_QUEUE_S
        admin = alice.queue("adm")
        options: dict[str, Any] = {"admin": name_of(ALICE, "adm"), "acknowledge": 0x4}
        alice.send(name_of(BOB), b"late", ttrq_s=1, **options)
        alice.send(name_of(BOB), b"in time", ttrq_s=DEFAULT_TIME_TO_REACH_QUEUE_S, **options)
        await eventually(lambda: classes(alice, admin) == [MessageClass.NACK_REACH_QUEUE_TIMEOUT])
        assert alice.bodies(alice.outgoing(BOB)) == [b"in time"]


@pytest.mark.spec("DMPR-3.1.1.12-au")
async def test_the_final_acknowledgment_goes_to_the_order_queue(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        wanting = place(2)
        wanting.final_ack_required = 1
        peer.send(peer.message(b"not wanted", transaction=place(1)))
        peer.send(peer.message(b"wanted", transaction=wanting))
        await eventually(lambda: len(orders.positions) == 2 and peer.order_acks)
        alice.receive(orders)
        alice.receive(orders)
        await eventually(lambda: peer.final_acks)
        assert peer.final_acks == [MessageClass.ACK_RECEIVE]
        assert str(peer.messages[-1].user.destination_queue).lower().endswith("private$\\order_queue$")
        await peer.close()


# --- transactions that were promised -----------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.3-u")
@pytest.mark.parametrize("decided", [False, True])
async def test_a_promised_transaction_learns_its_end(tmp_path: Path, decided: bool) -> None:
    """The coordinator decided, or did not, before everything went down: the start asks and obeys."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        alice.queue(transactional=True)
        resource = ResourceManager(alice.manager.transactions)
        transaction = resource.enlist(b"T" * 16)
        alice.send(f"DIRECT=OS:{alice.find().pathname}", b"promised", transaction)
        if decided:
            await alice.daemon.commit.drain()
            alice.daemon.coordinator.decide(transaction.identifier, [resource, resource])
        else:
            resource.prepare(transaction.identifier)
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()
        assert alice.daemon.resource_manager.in_doubt == []
        assert alice.bodies(alice.find()) == ([b"promised"] if decided else [])


# --- what drives the protocol ------------------------------------------------------------------------------


@pytest.mark.spec("MQQB-3.1.4-a", "MQQB-3.1.7-a")
async def test_the_events_that_drive_the_protocol(tmp_path: Path) -> None:
    """Started and stopped; a message that becomes available, one that is taken, a pause and its end."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        peer = Peer()
        await peer.connect(ALICE, here.port)  # started: the door is open
        orders = alice.queue(transactional=True)
        arrivals = bob.queue()
        peer.send(peer.message(b"x", transaction=place(1), positive_journaling=1))
        await eventually(lambda: len(orders.positions) == 1 and peer.order_acks)
        alice.receive(orders)  # taken: its sender is told
        await eventually(lambda: peer.final_acks)
        alice.send(name_of(BOB), b"1")  # available: it is sent
        await eventually(lambda: bob.bodies(arrivals) == [b"1"])
        queue = alice.outgoing(BOB)
        alice.manager.pause_queue(queue)
        alice.send(name_of(BOB), b"2")
        await asyncio.sleep(0.1)
        assert bob.bodies(arrivals) == [b"1"]
        alice.manager.resume_queue(queue)
        await eventually(lambda: bob.bodies(arrivals) == [b"1", b"2"])
        await alice.stop()  # stopped: the session is closed, the door shut
        await eventually(peer.closed.is_set)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(ALICE, here.port)
        await peer.close()
