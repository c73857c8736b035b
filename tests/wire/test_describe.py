"""The description of a packet: complete, faithful to the declarations, and safe on any bytes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.classes import MessageClass
from msmq.wire.describe import Description, Kind, Node, describe, describe_ping, sid_text
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import DistributionListName, MultiQueueFormatHeader
from msmq.wire.optional_headers import (
    ProviderInfo,
    SecurityHeader,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
)
from msmq.wire.packets import (
    EstablishConnection,
    FinalAckBody,
    OrderAckBody,
    Ping,
    SessionAck,
    build_order_message,
)
from tests.wire import builders, messages, vectors


def leaves(node: Node) -> Iterator[Node]:
    if node.kind in (Kind.STRUCTURE, Kind.LIST):
        for child in node.children:
            yield from leaves(child)
    else:
        yield node


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def assert_complete(description: Description, data: bytes) -> None:
    """Every byte is in one leaf, every bit of flags in one run, and no name is there twice."""
    found = [
        leaf for top in description.headers if not top.derived for leaf in leaves(top) if not leaf.derived
    ]
    assert found[0].offset == 0
    assert all(left.end == right.offset for left, right in pairwise(found))
    assert found[-1].end == description.size == len(data)
    for top in description.headers:
        for node in nodes(top):
            names = [child.name for child in node.children]
            if node.kind is not Kind.LIST:
                assert len(names) == len(set(names)), node.name
            if node.kind is Kind.FLAGS:
                assert sum(bits.size for bits in node.children) == 8 * node.size, node.name
                assert all(left.end == right.offset for left, right in pairwise(node.children))
            if isinstance(node.value, bytes) and node.kind is Kind.VALUE:
                assert node.value == data[node.offset : node.end]
            if isinstance(node.value, int) and node.kind is Kind.VALUE:
                assert node.value == int.from_bytes(data[node.offset : node.end], "little"), node.name


def header(description: Description, name: str) -> dict[str, Node]:
    (found,) = (top for top in description.headers if top.name == name)
    return {child.name: child for child in found.children}


@pytest.mark.parametrize("vector", vectors.SESSION_PACKETS, ids=lambda vector: vector.name)
def test_every_byte_of_a_published_packet_is_described(vector: vectors.Vector) -> None:
    assert_complete(describe(vector.data), vector.data)


@pytest.mark.parametrize("vector", vectors.PINGS, ids=lambda vector: vector.name)
def test_every_byte_of_a_published_ping_is_described(vector: vectors.Vector) -> None:
    assert_complete(describe_ping(vector.data), vector.data)


@given(st.booleans().flatmap(lambda http: builders.message_parts(http=http)))
def test_every_byte_of_any_message_is_described(parts: dict[str, object]) -> None:
    message = UserMessage.build(**parts)  # type: ignore[arg-type]
    description = describe(message.data)
    assert_complete(description, message.data)
    present = [
        name for name in ("transaction", "security", "debug", "soap", "multi_queue", "session") if parts[name]
    ]
    assert len([top for top in description.headers if not top.derived]) >= 3 + len(present)


@given(st.binary(max_size=120), st.integers(0, 2223), st.sampled_from(vectors.SESSION_PACKETS))
def test_hostile_bytes_raise_only_decode_errors(noise: bytes, place: int, vector: vectors.Vector) -> None:
    for data in (noise, vector.data[:place] + noise + vector.data[place + len(noise) :]):
        for read in (describe, describe_ping):
            try:
                description = read(data)
            except DecodeError:
                continue
            assert_complete(description, data)


def test_values_are_in_the_form_people_use() -> None:
    description = describe(vectors.USER_MESSAGE.data)
    assert description.packet == "UserMessage"
    assert [top.name for top in description.headers] == [
        "BaseHeader",
        "UserHeader",
        "SecurityHeader",
        "MessagePropertiesHeader",
    ]
    assert [top.section for top in description.headers] == [
        "MS-MQMQ 2.2.19.1",
        "MS-MQMQ 2.2.19.2",
        "MS-MQMQ 2.2.20.6",
        "MS-MQMQ 2.2.19.3",
    ]
    user = header(description, "UserHeader")
    assert user["QueueManagerAddress"].value == "00000000-0000-0000-0000-000000000000"
    assert user["DestinationQueue"].meaning == "DIRECT=OS:a04bm02\\q"
    security = header(description, "SecurityHeader")["SecurityData"].children
    assert security[0].value == "S-1-5-21-3181267629-1039849782-3663111779-1000"
    properties = header(description, "MessagePropertiesHeader")
    assert properties["Label"].value == "mqsender label"
    assert properties["MessageBodyText"].value == "a" * 1000
    assert properties["BodyType"].meaning == "VT_BSTR"
    assert properties["HashAlgorithm"].meaning == "SHA1"


def test_queue_names_of_every_kind_have_their_parts_and_their_format_name() -> None:
    private = builders.PrivateQueueFormatName(builders.OTHER, 0x2A)
    user = builders.user_header(builders.QUEUE, private, 7)
    message = UserMessage.build(base=BaseHeader(), user=user, properties=MessagePropertiesHeader())
    description = describe(message.data)
    found = header(description, "UserHeader")
    assert [child.name for child in found["DestinationQueue"].children] == ["PublicQueueIdentifier"]
    assert [child.name for child in found["AdminQueue"].children] == [
        "SourceQueueManager",
        "PrivateQueueIdentifier",
    ]
    assert [child.name for child in found["ResponseQueue"].children] == ["PrivateQueueIdentifier"]
    assert found["DestinationQueue"].meaning.startswith("PUBLIC=43424140-")
    assert found["AdminQueue"].meaning.endswith("\\0000002A")
    assert found["ResponseQueue"].meaning.endswith("\\00000007")


def test_lists_of_queues_name_their_elements() -> None:
    lists = MultiQueueFormatHeader.of(
        ["OS:a\\q", builders.QUEUE, DistributionListName(builders.OTHER)], signature=b"signed"
    )
    description = describe(messages.message(multi_queue=lists).data)
    found = header(description, "MultiQueueFormatHeader")
    assert list(found) == ["Destination", "Administration", "Response", "Signature"]
    (elements,) = (child for child in found["Destination"].children if child.name == "FormatNameList")
    assert [element.meaning.partition("=")[0] for element in elements.children] == ["DIRECT", "PUBLIC", "DL"]
    assert {child.name: child.value for child in found["Signature"].children}["Signature"] == b"signed"


def test_soap_and_provider_texts_are_text() -> None:
    provider = ProviderInfo(1, "Some provider").encode()
    security = SecurityHeader(signature=b"12345", provider_info=provider)
    description = describe(messages.message(soap=SoapHeader("<head/>", "body"), security=security).data)
    soap = header(description, "SoapHeader")
    assert (soap["Header"].value, soap["Body"].value) == ("<head/>", "body")
    assert (soap["HeaderSectionID"].value, soap["BodySectionID"].value) == (0x320, 0x384)
    items = {child.name: child for child in header(description, "SecurityHeader")["SecurityData"].children}
    assert items["SignaturePadding"].size == 3
    assert [child.value for child in items["ProviderInfo"].children] == [1, "Some provider"]


def test_http_messages_are_described_although_a_session_refuses_them() -> None:
    description = describe(messages.message(**messages.srmp_headers()).data)
    assert header(description, "SRMPEnvelopeHeader")["Data"].value == messages.ENVELOPE
    assert header(description, "CompoundMessageHeader")["Data"].value == messages.POST


def test_transactions_show_both_halves_of_their_sequence() -> None:
    transaction = TransactionHeader(
        tx_sequence_id=(5 << 32) | 9, tx_sequence_number=3, previous_tx_sequence_number=2
    )
    sequence = header(describe(messages.message(transaction=transaction).data), "TransactionHeader")[
        "TxSequenceID"
    ]
    assert {child.name: child.value for child in sequence.children} == {"Ordinal": 9, "TimeStamp": 5}


@pytest.mark.parametrize(
    ("body", "message_class", "name"),
    [
        (OrderAckBody.of((5 << 32) | 9, 3), MessageClass.ORDER_ACK, "OrderAck"),
        (FinalAckBody((5 << 32) | 9, 3, 2, builders.SOURCE, 77), MessageClass.ACK_RECEIVE, "FinalAck"),
    ],
)
def test_order_acknowledgments_are_recognised(
    body: OrderAckBody | FinalAckBody, message_class: MessageClass, name: str
) -> None:
    message = build_order_message(
        body,
        message_class,
        source=builders.SOURCE,
        destination=IPv4Address("10.0.0.5"),
        message_id=1,
        sent_time=2,
    )
    description = describe(message.data)
    assert description.packet == name
    assert_complete(description, message.data)
    found = header(description, f"{name}Body")
    assert found["TxSequenceNumber"].value == 3
    assert description.headers[-1].derived


def test_a_message_for_the_order_queue_that_acknowledges_nothing_stays_a_message() -> None:
    message = messages.message("TCP:10.0.0.5\\PRIVATE$\\order_queue$", body=b"hello")
    assert describe(message.data).packet == "UserMessage"


def test_encrypted_bodies_are_not_read() -> None:
    security = SecurityHeader(encryption_key=b"key.")
    security.body_encrypted = 1
    properties = header(
        describe(messages.message(body=b"plain text", security=security).data), "MessagePropertiesHeader"
    )
    assert properties["MessageBody"].meaning == "encrypted"
    assert "MessageBodyText" not in properties


def test_a_correlation_is_explained_in_acknowledgments_only() -> None:
    plain = messages.message()
    assert (
        header(describe(plain.data), "MessagePropertiesHeader")["CorrelationID"].meaning
        == "the application's own"
    )
    offset = plain.properties_offset + 2
    answer = builders.patched_u16(plain.data, offset, MessageClass.NACK_BAD_DST_Q)
    meaning = header(describe(answer), "MessagePropertiesHeader")["CorrelationID"].meaning
    assert meaning == "answers message 1 of 33323130-3534-3736-3839-3a3b3c3d3e3f"


def test_the_map_of_stored_messages_is_spelled_out() -> None:
    session = SessionHeader(9, recoverable_msg_ack_seq_number=4, recoverable_msg_ack_flags=0b10011)
    found = header(describe(SessionAck.of(session).encode()), "SessionHeader")
    assert found["RecoverableMsgAckFlags"].meaning == "on disk: recoverable 4, 5, 8"


def test_a_swapped_operating_system_keeps_its_value_and_shows_what_it_means() -> None:
    packet = EstablishConnection.request(builders.SOURCE, builders.OTHER, 5)
    packet.header.operating_system = 0x1003
    node = header(describe(packet.encode()), "EstablishConnectionHeader")["OperatingSystem"]
    assert node.value == 0x1003
    assert {bits.name: bits.value for bits in node.children if bits.value} == {"RE": 0x10, "SE": 1, "OS": 1}
    assert "swapped" in node.meaning


def test_a_ping_of_another_length_is_refused() -> None:
    with pytest.raises(DecodeError, match="24 bytes"):
        describe_ping(Ping().encode() + b"\0")


@pytest.mark.parametrize(
    ("sid", "text"),
    [
        (bytes.fromhex("0101000000000005 20000000"), "S-1-5-32"),
        (bytes.fromhex("0100 000000000001"), "S-1-1"),
        (bytes.fromhex("0101 010000000000 01000000"), "S-1-0x010000000000-1"),
    ],
)
def test_sids_are_printed(sid: bytes, text: str) -> None:
    assert sid_text(sid) == text
