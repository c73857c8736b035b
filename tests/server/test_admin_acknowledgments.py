"""Administration acknowledgments as their sender finds them (MS-MQQB 3.1.7.2.1, 3.1.7.15), and what stops a message
on its way into a queue (3.1.1.1.1.4)."""

from __future__ import annotations

from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import pytest

from msmq.errors import EncodeError
from msmq.manager.messages.message import AcknowledgementsRequested, DeliveryGuarantee
from msmq.manager.messages.serialize import deserialize, serialize
from msmq.manager.queues.queue import Queue
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.headers import INFINITE, PrivateQueueFormatName, QueueReference
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import MQFElement, MultiQueueFormatHeader
from msmq.wire.optional_headers import SecurityHeader
from msmq.wire.packets import FinalAckBody, OrderAckBody, build_order_message
from tests.server.inbound.test_arrivals import classes, place
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    Neighbourhood,
    Node,
    Peer,
    eventually,
    name_of,
    neighbourhood,
)
from tests.wire.builders import acknowledgment

POSITIVE_ARRIVAL, POSITIVE_RECEIVE, NEGATIVE_ARRIVAL, NEGATIVE_RECEIVE = 0x1, 0x2, 0x4, 0x8
ADMIN = f"TCP:{ALICE}\\private$\\adm"
ALL = 0xF


async def strangers(here: Neighbourhood) -> tuple[Node, Queue, Queue, Peer]:
    """A host with a queue and an administration queue, and somebody who sends to it."""
    alice = await here.node(ALICE)
    orders, admin = alice.queue(), alice.queue("adm")
    peer = Peer()
    await peer.connect(ALICE, here.port)
    return alice, orders, admin, peer


# --- messages that leave their queue -----------------------------------------------------------------------

LEAVING = {
    "read": MessageClass.ACK_RECEIVE,
    "deleted": MessageClass.NACK_Q_DELETED,
    "purged": MessageClass.NACK_Q_PURGED,
    "expired": MessageClass.NACK_RECEIVE_TIMEOUT,
}


@pytest.mark.spec(
    "MQQB-3.1.7.2-a", "MQQB-3.1.7.2.1-a", "MQQB-3.1.7.2.1-b", "MQQB-3.1.7.2.1-c", "MQQB-3.1.7.15-a"
)
@pytest.mark.parametrize("recoverable", [False, True])
@pytest.mark.parametrize("how", LEAVING)
async def test_each_way_out_is_told_to_those_who_asked(tmp_path: Path, how: str, recoverable: bool) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, admin, peer = await strangers(here)
        limit_s = 1 if how == "expired" else INFINITE
        for asked in range(16):
            peer.send(
                peer.message(
                    b"%d" % asked,
                    admin=ADMIN,
                    acknowledge=asked,
                    recoverable=recoverable,
                    time_to_be_received_s=limit_s,
                )
            )
        await eventually(lambda: len(admin.positions) >= 8)
        arrived = sum(bool(asked & POSITIVE_ARRIVAL) for asked in range(16))
        if how == "read":
            for _ in range(16):
                alice.receive(orders)
        elif how == "deleted":
            alice.manager.queues.delete(orders)
        elif how == "purged":
            alice.manager.queues.purge(orders)
        bit = POSITIVE_RECEIVE if how == "read" else NEGATIVE_RECEIVE
        asking = [asked for asked in range(16) if asked & bit]
        await eventually(lambda: len(admin.positions) == arrived + len(asking))
        # The first may expire before the last has arrived.
        told_of = alice.packets(admin)
        packets = [each for each in told_of if each.message_class != MessageClass.ACK_REACH_QUEUE]
        assert len(told_of) == arrived + len(packets)
        assert {packet.properties.message_class for packet in packets} == {LEAVING[how]}
        told = [int.from_bytes(packet.properties.correlation_id[16:], "little") - 1 for packet in packets]
        assert sorted(told) == asking
        assert {packet.recoverable for packet in packets} == {recoverable}
        await peer.close()


@pytest.mark.spec("MQQB-3.1.7.2.1-b")
async def test_a_rejected_message_is_told(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, admin, peer = await strangers(here)
        orders.transactional = True
        peer.send(peer.message(b"x", admin=ADMIN, acknowledge=NEGATIVE_RECEIVE, transaction=place(1)))
        await eventually(lambda: len(orders.positions))
        (entry,) = orders.positions
        alice.manager.mailbox.remove(orders, (entry.lookup_id,), MessageClass.NACK_RECEIVE_REJECTED)
        await eventually(lambda: classes(alice, admin) == [0xC004])
        await peer.close()


# --- what an acknowledgment looks like ---------------------------------------------------------------------


@pytest.mark.spec("MQQB-3.1.7.15-b")
async def test_without_an_admin_queue_nobody_is_told(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, admin, peer = await strangers(here)
        peer.send(peer.message(b"silent", acknowledge=ALL))
        peer.send(peer.message(b"told", admin=ADMIN, acknowledge=ALL))
        await eventually(lambda: len(admin.positions) == 1)
        assert len(orders.positions) == 2
        assert alice.core.outgoing == {}
        (packet,) = alice.packets(admin)
        assert packet.properties.correlation_id[16:] == b"\x02\0\0\0"
        await peer.close()


@pytest.mark.spec("MQQB-3.1.7.15-f", "MQQB-3.1.7.15-g", "MQQB-3.1.7.15-h", "MQQB-3.1.7.15-i")
@pytest.mark.parametrize("recoverable", [False, True])
@pytest.mark.parametrize("refused", [False, True])
async def test_the_fields_of_an_acknowledgment(tmp_path: Path, recoverable: bool, refused: bool) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, admin, peer = await strangers(here)
        orders.quota_kb = 0 if refused else orders.quota_kb
        number = orders.private_queue_number
        own = alice.core.record.identifier
        destinations = [
            ("OS:anything\\private$\\orders", "DIRECT=OS:anything\\private$\\orders"),
            (number, f"PRIVATE={guid_text(own)}\\{number:08X}"),
        ]
        sent = []
        for destination, _ in destinations:
            fields: dict[str, Any] = {}
            if isinstance(destination, int):
                fields = {"queue_manager_address": own}
            packet = peer.message(
                b"the body",
                destination,
                admin=ADMIN,
                acknowledge=ALL,
                recoverable=recoverable,
                positive_journaling=1,
                **fields,
            )
            sent.append(packet)
            peer.send(packet)
        await eventually(lambda: len(admin.positions) == 2)
        for packet, original, (_, response) in zip(alice.packets(admin), sent, destinations, strict=True):
            message = deserialize(packet)
            assert message.correlation_identifier == peer.guid + original.user.message_id.to_bytes(
                4, "little"
            )
            assert message.response_queue_format_name.lower() == response.lower()
            assert message.delivery_guarantee is DeliveryGuarantee(recoverable)
            assert message.acknowledgements_requested is AcknowledgementsRequested(0)
            assert message.time_to_reach_queue_s == message.time_to_be_received_s == INFINITE
            assert not message.positive_journaling_requested
            assert not message.negative_journaling_requested
            assert message.privacy_level == 0
            assert packet.security is None
            assert message.body == (b"the body" if refused else b"")
            assert message.message_class == (0x8003 if refused else 0x0002)
        await peer.close()


@pytest.mark.spec("MQQB-3.1.7.15-i")
async def test_an_encrypted_body_is_not_sent_back(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice, orders, admin, peer = await strangers(here)
        orders.quota_kb = 0
        header = SecurityHeader(encryption_key=bytes(16))
        header.body_encrypted = 1
        peer.send(peer.message(b"secret", admin=ADMIN, acknowledge=ALL, security=header))
        await eventually(lambda: len(admin.positions) == 1)
        assert alice.bodies(admin) == [b""]
        assert classes(alice, admin)[0] >= 0x8000
        await peer.close()


@pytest.mark.spec("MQQB-3.1.7.15-d")
async def test_every_class_comes_through(tmp_path: Path) -> None:
    """Each of the seventeen is written by one host and read by another as the class it was."""
    expected = [
        0x0002, 0x4000, 0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007, 0x8009, 0x800A,
        0x800B, 0xC000, 0xC001, 0xC002, 0xC004,
    ]  # fmt: skip

    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        admin = alice.queue("adm")
        original = Peer().message(b"x", admin=ADMIN, acknowledge=ALL)
        for number in expected:
            bob.manager.acknowledging.acknowledge((original,), MessageClass(number))
        await eventually(lambda: len(admin.positions) == len(expected))
        found = [deserialize(packet).message_class for packet in alice.packets(admin)]
        assert found == expected


@pytest.mark.spec("MQQB-3.1.7.15-e")
async def test_where_each_kind_of_admin_name_leads(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, admin, peer = await strangers(here)
        own = alice.core.record.identifier
        other = bytes(range(0x50, 0x60))
        public = bytes(range(0x70, 0x80))

        def names() -> set[str]:
            return {queue.destination_format_name for queue in alice.core.outgoing.values()}

        cases: list[tuple[QueueReference, Any, str]] = [
            (QueueReference.PRIVATE_ON_SOURCE, 9, f"PRIVATE={guid_text(peer.guid)}\\00000009"),
            (
                QueueReference.PRIVATE_ELSEWHERE,
                PrivateQueueFormatName(other, 7),
                f"PRIVATE={guid_text(other)}\\00000007",
            ),
            (QueueReference.DIRECT, f"TCP:{CAROL}\\private$\\adm", f"DIRECT=TCP:{CAROL}\\private$\\adm"),
        ]
        for reference, name, expected in cases:
            packet = peer.message(b"x", admin=name, acknowledge=POSITIVE_ARRIVAL, admin_reference=reference)
            peer.send(packet)
            await eventually(lambda expected=expected: expected.lower() in {text.lower() for text in names()})
        # Private on the destination's host: that is here.
        number = admin.private_queue_number
        peer.send(
            peer.message(
                b"x",
                orders.private_queue_number,
                queue_manager_address=own,
                admin=number,
                admin_reference=QueueReference.PRIVATE_ON_DESTINATION,
                acknowledge=POSITIVE_ARRIVAL,
            )
        )
        await eventually(lambda: len(admin.positions) == 1)
        # A public name is one that the directory has to know; here there is none to ask.
        packet = peer.message(b"x", admin=public, acknowledge=POSITIVE_ARRIVAL)
        assert packet.user.admin_reference == QueueReference.PUBLIC
        due = acknowledgment(packet, MessageClass.ACK_REACH_QUEUE)
        assert due is not None
        assert due.destinations == (f"PUBLIC={guid_text(public)}",)
        await peer.close()


@pytest.mark.spec("MQQB-3.1.7.15-j")
async def test_an_admin_queue_that_cannot_be_opened(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, admin, peer = await strangers(here)
        peer.send(peer.message(b"1", admin=f"TCP:{ALICE}\\private$\\none", acknowledge=ALL, recoverable=True))
        peer.send(peer.message(b"2", admin="HTTP://a/msmq/private$/q", acknowledge=ALL, recoverable=True))
        peer.send(peer.message(b"3", admin=ADMIN, acknowledge=ALL, recoverable=True))
        await eventually(lambda: len(peer.acknowledged) == 3)
        assert alice.bodies(orders) == [b"1", b"2", b"3"]
        assert classes(alice, admin) == [0x0002]
        assert not peer.closed.is_set()
        await peer.close()


# --- what stops an express message -------------------------------------------------------------------------


@pytest.mark.spec("MQQB-3.1.1.1.1.4-a", "MQQB-3.1.1.1.1.4-b")
async def test_each_check_stops_an_express_message_with_its_own_outcome(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice, orders, admin, peer = await strangers(here)
        alice.queue("together", transactional=True)
        closed = alice.queue("closed")
        closed.authentication = True
        options: dict[str, Any] = {"admin": ADMIN, "acknowledge": NEGATIVE_ARRIVAL}
        peer.send(peer.message(b"unsigned", "OS:a\\private$\\closed", **options))
        late = bytearray(peer.message(b"late", sent_time=1_000, **options).data)
        late[12:16] = (60).to_bytes(4, "little")  # TimeToReachQueue
        peer.send(UserMessage.decode(bytes(late)))
        peer.send(peer.message(b"nowhere", "OS:a\\private$\\none", **options))
        peer.send(peer.message(b"wrong kind", "OS:a\\private$\\together", **options))
        good = peer.message(b"good", **options)
        peer.send(good)
        await eventually(lambda: len(orders.positions) == 1)
        peer.send(good)  # the duplicate of one that arrived: no second copy, and nobody is told
        peer.send(peer.message(b"last", **options))
        await eventually(lambda: len(orders.positions) == 2)
        assert alice.bodies(orders) == [b"good", b"last"]
        assert classes(alice, admin) == [0x8006, 0x8002, 0x8000, 0x800A]
        await peer.close()


# --- all properties, and what tells of transactional messages ----------------------------------------------


@pytest.mark.spec("MQQB-3.1.5.8.8-a", "MQQB-3.1.7.10-a", "MQQB-3.1.7.1.1-b", "MQQB-3.1.7.11-a")
async def test_a_message_arrives_with_all_its_properties(tmp_path: Path) -> None:
    """What the codec writes is what travels; what is read from the queue is what was sent."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        sent = alice.send(
            name_of(BOB),
            b"body",
            recoverable=True,
            admin=name_of(ALICE, "adm"),
            acknowledge=ALL,
            ttrq_s=1_000,
            time_to_be_received_s=2_000,
            label="a label",
            extension=b"extension",
            application_tag=77,
            body_type=8,
            priority=5,
            correlation_identifier=bytes(range(20)),
            response_queue_format_name=name_of(CAROL, "response"),
            positive_journaling_requested=True,
            negative_journaling_requested=True,
        )
        await eventually(lambda: len(orders.positions) == 1)
        (arrived,) = bob.packets(orders)
        assert arrived.data == sent.data == serialize(deserialize(sent)).data
        message = deserialize(arrived)
        assert message == deserialize(sent)
        assert (message.label, message.extension, message.application_tag) == (
            "a label",
            b"extension",
            77,
        )
        assert (message.body, message.body_type, message.priority) == (b"body", 8, 5)


@pytest.mark.spec("MQQB-3.1.7.17-a", "MQQB-3.1.7.17-e")
async def test_the_body_of_a_final_ack(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, _, peer = await strangers(here)
        orders.transactional = True
        sent = peer.message(b"x", transaction=place(1), positive_journaling=1)
        peer.send(sent)
        await eventually(lambda: len(orders.positions) == 1 and peer.order_acks)
        alice.receive(orders)
        await eventually(lambda: peer.final_acks)
        body = FinalAckBody.decode(peer.messages[-1].data, peer.messages[-1].body_offset)
        header = place(1)
        assert (body.tx_sequence_id, body.tx_sequence_number) == (header.tx_sequence_id, 1)
        assert body.tx_previous_sequence_number == 0
        assert (body.source_guid, body.message_id) == (peer.guid, sent.user.message_id)
        await peer.close()
    # Anything but an OrderAck is about a message, and cannot be made without one.
    order = OrderAckBody.of(1, 1)
    with pytest.raises(EncodeError, match="does not fit"):
        build_order_message(
            order,
            MessageClass.ACK_RECEIVE,
            source=bytes(16),
            destination=bytes(16),
            message_id=1,
            sent_time=0,
        )


@pytest.mark.parametrize("alike", [True, False], ids=["one queue again and again", "many names of one queue"])
async def test_a_list_of_admin_queues_does_not_multiply_a_message(tmp_path: Path, alike: bool) -> None:
    """A stranger's megabyte that is refused, and ten thousand admin queues that are all one: gigabytes otherwise."""
    async with neighbourhood(tmp_path) as here:
        alice, _, admin, peer = await strangers(here)
        number = PrivateQueueFormatName(alice.core.record.identifier, admin.private_queue_number)
        spellings = map("".join, product(*zip("private", "PRIVATE", strict=True)))
        elements: list[MQFElement] = [
            number if alike else f"TCP:{ALICE}\\{spelled}$\\adm"
            for spelled in islice(cycle(spellings), 10_000)
        ]
        alice.queue("together", transactional=True)
        peer.send(
            peer.message(
                bytes(1_000_000),
                "OS:a\\private$\\together",
                admin=ADMIN,
                acknowledge=ALL,
                recoverable=True,
                multi_queue=MultiQueueFormatHeader.of(["OS:a\\private$\\together"], elements),
            )
        )
        await eventually(lambda: peer.acknowledged)
        assert classes(alice, admin) == [MessageClass.NACK_NOT_TRANSACTIONAL_MSG] * (1 if alike else 8)
        assert alice.manager.acknowledging.unsent == (0 if alike else 2**7 - 8)
        await peer.close()
