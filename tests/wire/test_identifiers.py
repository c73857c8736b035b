"""Identifiers of messages, sequences and units of work (MS-MQMQ 2.2.5, 2.2.18.1)."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.wire.guid import guid_text
from msmq.wire.headers import UserHeader
from msmq.wire.identifiers import MessageIdentifier, SequenceInfo, TxSequenceID
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import EstablishConnection
from tests.wire.builders import SOURCE, build, frame, guids, u32s, u64s, user_header


@pytest.mark.spec("MQMQ-2.2.5-a", "MQMQ-2.2.5.1-a")
def test_sequence_info_layout() -> None:
    assert SequenceInfo.SIZE == 16
    assert SequenceInfo(seq_id=0x0000000100000002, seq_no=5, prev_no=4).encode() == bytes.fromhex(
        "0200000001000000"  # SeqID
        "05000000"  # SeqNo
        "04000000"  # PrevNo
    )
    # SeqID is signed
    assert SequenceInfo.decode(b"\xff" * 8 + bytes(8)).seq_id == -1


@pytest.mark.spec("MQMQ-2.2.5.1-b")
def test_the_first_message_of_a_sequence_has_none_before_it() -> None:
    """What a TransactionHeader says of its message is what SEQUENCE_INFO repeats of it."""
    first = TransactionHeader(tx_sequence_id=7)
    info = SequenceInfo(first.tx_sequence_id, first.tx_sequence_number, first.previous_tx_sequence_number)
    assert SequenceInfo.decode(info.encode()) == SequenceInfo(7, 1, 0)


@given(st.integers(-(1 << 63), (1 << 63) - 1), u32s, u32s)
def test_sequence_info_round_trip(seq_id: int, seq_no: int, prev_no: int) -> None:
    info = SequenceInfo(seq_id, seq_no, prev_no)
    assert SequenceInfo.decode(info.encode()) == info


@pytest.mark.spec("MQMQ-2.2.18.1.1-a")
def test_guids_are_in_ms_dtyp_order() -> None:
    packet = EstablishConnection.decode(frame("frame04_establish_connection_response"))
    client_guid = packet.header.client_guid
    assert client_guid == bytes.fromhex("05 23 74 1F 5E BE 77 41 BC 77 C4 DD 77 19 E4 74")
    assert guid_text(client_guid) == "1F742305-BE5E-4177-BC77-C4DD7719E474"
    assert uuid.UUID(bytes_le=client_guid).version == 4


@pytest.mark.spec("MQMQ-2.2.18.1.2-a")
def test_tx_sequence_id_layout() -> None:
    assert TransactionHeader.decode(
        bytes(4) + bytes.fromhex("01000000 02000000") + bytes(8)
    ).tx_sequence_id == (TxSequenceID(ordinal=1, time_stamp=2).number)
    identifier = TxSequenceID.from_number(int.from_bytes(bytes.fromhex("01000000 02000000"), "little"))
    assert (identifier.ordinal, identifier.time_stamp) == (1, 2)
    assert TransactionHeader(tx_sequence_id=identifier.number).encode()[4:12] == bytes.fromhex(
        "01000000"  # Ordinal
        "02000000"  # TimeStamp
    )


@pytest.mark.spec("MQMQ-2.2.18.1.2-b")
def test_tx_sequence_ids_compare_as_numbers() -> None:
    later, earlier = TxSequenceID(time_stamp=2, ordinal=0), TxSequenceID(time_stamp=1, ordinal=0xFFFFFFFF)
    assert later > earlier
    assert later.number > earlier.number


@given(u64s, u64s)
def test_tx_sequence_ids_order_like_their_numbers(first: int, second: int) -> None:
    one, two = TxSequenceID.from_number(first), TxSequenceID.from_number(second)
    assert one.number == first
    assert (one < two) == (first < second)


def test_message_identifier_layout() -> None:
    assert MessageIdentifier(SOURCE, 0x8EE).encode() == bytes.fromhex(
        "101112131415161718191a1b1c1d1e1f"  # QueueManagerGuid
        "ee080000"  # Ordinal
    )


@given(guids, u32s)
def test_message_identifier_round_trip(queue_manager: bytes, ordinal: int) -> None:
    identifier = MessageIdentifier(queue_manager, ordinal)
    assert MessageIdentifier.decode(identifier.encode()) == identifier


@pytest.mark.spec("MQMQ-2.2.18.1.3-b")
def test_messages_of_one_queue_manager_share_its_guid() -> None:
    def identifier(ordinal: int) -> bytes:
        user: UserHeader = user_header()
        user.message_id = ordinal
        return build(user=user).identifier.encode()

    one, two = identifier(1), identifier(2)
    assert one[:16] == two[:16] == SOURCE
    assert (one[16:], two[16:]) == (b"\1\0\0\0", b"\2\0\0\0")
