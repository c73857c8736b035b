"""The generator of messages: everything it makes is legal, it reaches every choice, and its seed decides alone."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest

from msmq.manager.access.keys import generate_key
from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import deserialize
from msmq.security.outbound import Signer
from msmq.testing.traffic import (
    MENUS,
    Delivery,
    Door,
    Draft,
    Surroundings,
    Traffic,
    WireSender,
    client_message,
    properties_of,
)
from msmq.wire.algorithms import HashAlgorithm
from msmq.wire.framing import decode_packet
from msmq.wire.guid import guid_text
from msmq.wire.headers import MAX_HOP_COUNT, MAX_PACKET_SIZE, NULL_GUID
from msmq.wire.identifiers import TxSequenceID
from msmq.wire.message import UserMessage

HOST, SOURCE = bytes(range(16)), bytes(range(16, 32))
NOON = 1_700_000_000
DRAWS = 1_500
"""Enough for each choice, also for those that the world seldom makes."""


@cache
def signer() -> Signer:
    return Signer(b"a certificate", generate_key(1024, Random(1).randbytes), HashAlgorithm.SHA1)


def surroundings(largest_body: int = 6_000) -> Surroundings:
    return Surroundings(
        host=HOST,
        source=SOURCE,
        destinations=("DIRECT=OS:host\\private$\\q", f"PRIVATE={guid_text(HOST)}\\00000009"),
        listeners=("DIRECT=OS:host\\private$\\acks", f"PRIVATE={guid_text(HOST)}\\0000000A"),
        dead_letter_queues=("host\\private$\\grave",),
        largest_body=largest_body,
        signer=signer(),
    )


def traffic(seed: int, door: Door, *, everything: bool = True, largest_body: int = 6_000) -> Traffic:
    return Traffic(Random(seed), surroundings(largest_body), door, everything=everything)


def sender() -> WireSender:
    return WireSender(surroundings(), lambda: NOON, TxSequenceID(1, 2))


# --- choices ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", Door)
def test_every_choice_is_reached(door: Door) -> None:
    drawn = traffic(1, door)
    seen = {pair for _ in range(DRAWS) for pair in drawn.draft().chosen.items()}
    assert seen == {(name, option) for name in MENUS for option in drawn.options(name)}


def test_every_option_belongs_to_a_door() -> None:
    offered = {
        (name, option)
        for door in Door
        for name in MENUS
        for option in traffic(1, door, largest_body=4_190_000).options(name)
    }
    assert offered == {(name, option) for name, menu in MENUS.items() for option in menu}


@pytest.mark.parametrize("door", Door)
def test_the_world_is_mostly_ordinary_and_always_a_little_odd(door: Door) -> None:
    drawn = traffic(2, door, everything=False)
    drafts = [drawn.draft() for _ in range(DRAWS)]
    priorities = Counter(draft.priority for draft in drafts)
    assert priorities[3] > DRAWS / 2
    assert set(priorities) == set(range(8))
    plain = [draft for draft in drafts if not draft.acknowledgements and not draft.admin_queue]
    assert DRAWS / 2 < len(plain) < 0.9 * DRAWS
    assert {draft.delivery for draft in drafts} == set(Delivery)


def test_a_seed_decides_alone() -> None:
    def drafts(seed: int) -> list[Draft]:
        drawn = traffic(seed, Door.WIRE)
        return [drawn.draft() for _ in range(50)]

    assert drafts(3) == drafts(3)
    assert drafts(3) != drafts(4)


def test_what_is_given_is_not_drawn() -> None:
    drawn = traffic(5, Door.MANAGER)
    for _ in range(50):
        draft = drawn.draft(destination="DIRECT=OS:host\\q", priority=6)
        assert (draft.destination, draft.priority) == ("DIRECT=OS:host\\q", 6)
        assert "priority" not in draft.chosen


def test_options_can_be_left_out() -> None:
    drawn = Traffic(Random(6), surroundings(), everything=True, without=[("label", "none")])
    assert all(drawn.draft().label for _ in range(50))


def test_transactions_have_one_message_or_many() -> None:
    drawn = traffic(7, Door.WIRE)
    sizes = Counter(len(drawn.transaction()) for _ in range(200))
    assert min(sizes) == 1
    assert max(sizes) > 4
    assert all(draft.transactional for draft in drawn.transaction())


# --- the queue manager's door ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("everything", [False, True])
def test_the_manager_takes_every_draft(everything: bool) -> None:
    drawn = traffic(8, Door.MANAGER, everything=everything)
    for _ in range(DRAWS):
        draft = drawn.draft()
        message = properties_of(draft)
        message.destination_queue_format_name = draft.destination
        message.destination_queue_manager_identifier = HOST
        message.check()


# --- the client's door -----------------------------------------------------------------------------------------------


def test_the_client_can_say_every_draft() -> None:
    drawn = traffic(9, Door.CLIENT)
    for _ in range(DRAWS):
        draft = drawn.draft()
        written = client_message(draft).to_proto()
        assert written.body == draft.body
        assert written.label == draft.label
        assert written.admin_queue == draft.admin_queue
        assert written.acknowledgements == draft.acknowledgements
        assert written.connector_type == (draft.connector_type if any(draft.connector_type) else b"")


# --- the wire --------------------------------------------------------------------------------------------------------


def said(draft: Draft, message: Message) -> dict[str, tuple[object, object]]:
    """What a packet must say, beside what it says."""
    return {
        "body": (draft.body, message.body),
        "body_type": (draft.body_type, message.body_type),
        "label": (draft.label, message.label),
        "extension": (draft.extension, message.extension),
        "tag": (draft.application_tag, message.application_tag),
        "correlation": (draft.correlation_id, message.correlation_identifier),
        "class": (draft.message_class, message.message_class),
        "priority": (0 if draft.transactional else draft.priority, message.priority),
        "asked": (draft.acknowledgements, message.acknowledgements_requested),
        "admin": (draft.admin_queue, message.administration_queue_format_name),
        "response": (draft.response_queue, message.response_queue_format_name),
        "destination": (draft.destination, message.destination_queue_format_name),
        "journal": (draft.journal, message.positive_journaling_requested),
        "dead letter": (draft.dead_letter, message.negative_journaling_requested),
        "trace": (draft.trace, message.tracing_requested),
        "tracing queue": (draft.tracing_queue, message.tracing_queue_identifier),
        "connector": (draft.connector_type, message.connector_type_identifier),
        "sender": (draft.security.sender, message.sender_identifier),
        "soap": (draft.soap, (message.soap_header, message.soap_body)),
        "destinations": (draft.destination_list, message.destination_multi_queue_format_name),
        "admins": (draft.admin_list, message.administration_multi_queue_format_name),
        "responses": (draft.response_list, message.response_multi_queue_format_name),
        "transactional": (draft.transactional, message.transaction_identifier is not None),
    }


@pytest.mark.parametrize("door", [Door.WIRE, Door.FORWARDED])
def test_every_packet_is_legal_and_says_what_was_drawn(door: Door) -> None:
    drawn, host = traffic(10, door), sender()
    for _ in range(DRAWS):
        draft = drawn.draft()
        packet = decode_packet(host.packet(draft).data)
        assert isinstance(packet, UserMessage)
        for what, (meant, found) in said(draft, deserialize(packet)).items():
            assert meant == found, what
        assert packet.user.hop_count == draft.hops <= MAX_HOP_COUNT
        assert (packet.user.hop_count > 0) == (door is Door.FORWARDED)
        if draft.security.signed:
            assert packet.security is not None
            lists = packet.multi_queue
            assert packet.security.signature or (lists is not None and lists.signature.signature)


def test_packets_have_names_of_every_form() -> None:
    drawn, host = traffic(11, Door.WIRE), sender()
    packets = [host.packet(drawn.draft()) for _ in range(DRAWS)]
    assert {packet.user.destination_reference for packet in packets} == {3, 5, 7}
    assert {packet.user.admin_reference for packet in packets} == {0, 2, 3, 5, 6, 7}
    assert {packet.user.response_reference for packet in packets} == set(range(8))
    directs = [packet for packet in packets if packet.user.destination_reference == 7]
    hosts = [name[0] for packet in directs if isinstance(name := packet.user.admin_queue, tuple)]
    assert NULL_GUID in hosts, "a private queue of a host nobody names"
    for references in (
        {each.user.admin_reference for each in directs},
        {each.user.response_reference for each in directs},
    ):
        assert 3 in references, "the number of a queue on a host whose GUID the packet does not say"


def test_numbers_rise_and_transactions_have_edges() -> None:
    drawn, host = traffic(12, Door.WIRE), sender()
    one, other = host.packets(drawn.transaction()), host.packets([*drawn.transaction(), *drawn.transaction()])
    numbers = [packet.transaction.tx_sequence_number for packet in one + other if packet.transaction]
    assert numbers == list(range(1, len(one + other) + 1))
    before = [packet.transaction.previous_tx_sequence_number for packet in one + other if packet.transaction]
    assert before == list(range(len(one + other)))
    for packets in (one, other):
        first = [packet.transaction.first_message for packet in packets if packet.transaction]
        last = [packet.transaction.last_message for packet in packets if packet.transaction]
        assert first == [1, *[0] * (len(packets) - 1)]
        assert last == [*[0] * (len(packets) - 1), 1]
    assert [packet.user.message_id for packet in one + other] == numbers
    assert {packet.user.source_queue_manager for packet in one} == {SOURCE}


def test_the_largest_message_fits_a_packet() -> None:
    world = surroundings(4_190_000)
    drawn = Traffic(Random(13), world, Door.FORWARDED, everything=True)
    odd = drawn.draft(
        body=bytes(world.largest_body),
        label="L" * 249,
        extension=bytes(3_000),
        delivery=Delivery.TRANSACTIONAL,
    )
    packet = WireSender(world, lambda: NOON, TxSequenceID(1, 1)).packet(odd)
    assert world.largest_body < packet.size <= MAX_PACKET_SIZE
    sizes = {len(drawn.draft().body) for _ in range(60)}
    assert world.largest_body in sizes


def test_an_unsigned_world_has_no_signatures() -> None:
    world = Surroundings(HOST, SOURCE, destinations=("DIRECT=OS:host\\q",))
    drawn = Traffic(Random(14), world, Door.WIRE, everything=True)
    assert "signed" not in drawn.options("security")
    assert "known" not in drawn.options("admin_queue")
