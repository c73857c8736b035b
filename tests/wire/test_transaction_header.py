"""TransactionHeader (MS-MQMQ 2.2.20.5)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.headers import UserHeader
from msmq.wire.identifiers import TxSequenceID
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader, TransactionHeader
from tests.wire.builders import OTHER, accept_message, build, patched_u32, refuse, transaction_headers


def header_at(message: UserMessage) -> int:
    return UserHeader.read(message.data, 16)[1]


@pytest.mark.spec("MQMQ-2.2.20.5-a", "MQMQ-2.2.20.5-l")
def test_layout() -> None:
    header = TransactionHeader(
        flags=0x1D,
        tx_sequence_id=TxSequenceID(time_stamp=0x0A0B0C0D, ordinal=0x01020304).number,
        tx_sequence_number=42,
        previous_tx_sequence_number=41,
        connector_qm_guid=OTHER,
    )
    fixed = bytes.fromhex(
        "1d000000"  # Flags
        "04030201 0d0c0b0a"  # TxSequenceID
        "2a000000"  # TxSequenceNumber
        "29000000"  # PreviousTxSequenceNumber
    )
    assert header.write() == fixed + OTHER
    assert TransactionHeader.read(fixed + OTHER) == (header, 36)
    header.has_connector_qm_guid = 0
    header.connector_qm_guid = None
    assert header.write() == b"\x1c" + fixed[1:]
    assert TransactionHeader.read(b"\x1c" + fixed[1:]) == (header, 20)


@given(transaction_headers())
def test_round_trip(header: TransactionHeader) -> None:
    encoded = header.write()
    assert TransactionHeader.read(encoded) == (header, len(encoded))
    assert TransactionHeader.read(b"0123" + encoded + b"after", 4) == (header, 4 + len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            TransactionHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            TransactionHeader.read(encoded, 0, size)


@pytest.mark.spec("MQMQ-2.2.20.5-b")
def test_flags() -> None:
    def named(flags: int) -> dict[str, int]:
        header = TransactionHeader(flags=flags)
        return {bits.spec_name: getattr(header, name) for name, bits in TransactionHeader.BITS}

    assert named(0x0000001D) == {"CG": 1, "FA": 0, "FM": 1, "LM": 1, "ID": 1}
    assert named(0x00FFFFF0) == {"CG": 0, "FA": 0, "FM": 0, "LM": 0, "ID": 0xFFFFF}
    assert named(0xFF000002) == {"CG": 0, "FA": 1, "FM": 0, "LM": 0, "ID": 0}


@pytest.mark.spec("MQMQ-2.2.20.5-c")
def test_cg_is_the_presence_of_the_connector_guid() -> None:
    with_it = build(transaction=TransactionHeader(flags=1, connector_qm_guid=OTHER))
    without = build(transaction=TransactionHeader())
    assert len(with_it.data) == len(without.data) + 16
    decoded = accept_message(with_it.data).transaction
    assert decoded is not None
    assert decoded.connector_qm_guid == OTHER
    refuse(patched_u32(with_it.data, header_at(with_it), 0))
    refuse(patched_u32(without.data, header_at(without), 1))
    for flags, guid in ((0, OTHER), (1, None), (1, OTHER[:15]), (1, OTHER + b"x")):
        with pytest.raises(EncodeError, match="CG"):
            TransactionHeader(flags=flags, connector_qm_guid=guid).write()


@pytest.mark.spec("MQMQ-2.2.20.5-h")
@given(transaction_headers(), st.integers(0, 0xFF))
def test_unused_bits_are_ignored(header: TransactionHeader, noise: int) -> None:
    message = build(transaction=header)
    received = accept_message(patched_u32(message.data, header_at(message), header.flags | noise << 24))
    assert received.transaction is not None
    received.transaction.flags &= 0xFFFFFF
    assert received.transaction == header


@pytest.mark.spec("MQMQ-6-k")
@pytest.mark.parametrize("flags", [0x00, 0x04, 0x08, 0x0C])
def test_first_and_last_marks_are_not_required(flags: int) -> None:
    message = build(transaction=TransactionHeader(flags=flags))
    assert accept_message(message.data).transaction == TransactionHeader(flags=flags)


@pytest.mark.spec("MQMQ-2.2.20.5-i")
def test_a_resend_keeps_the_sequence() -> None:
    message = build(
        transaction=TransactionHeader(tx_sequence_id=0x0102030405060708), session=SessionHeader(1)
    )
    resent = message.with_session(SessionHeader(9))
    assert accept_message(resent.data).transaction == message.transaction
    assert resent.data[:-16] == message.data[:-16]
    assert resent.session == SessionHeader(9)


@pytest.mark.spec("MQMQ-2.2.20.5-j")
@pytest.mark.parametrize("number", [0, 1, 0xFFFFFFFF])
def test_sequence_numbers_count_from_one(number: int) -> None:
    message = build(transaction=TransactionHeader())
    assert struct.unpack_from("<I", message.data, header_at(message) + 12) == (1,)
    changed = patched_u32(message.data, header_at(message) + 12, number)
    if number:
        received = accept_message(changed).transaction
        assert received is not None
        assert received.tx_sequence_number == number
        assert TransactionHeader(tx_sequence_number=number).write()
    else:
        refuse(changed, "TxSequenceNumber is zero")
        with pytest.raises(EncodeError):
            TransactionHeader(tx_sequence_number=number).write()


@pytest.mark.parametrize("number", [0, 0xFFFFFFFE, 0xFFFFFFFF])
def test_the_number_before_has_room_for_this_one(number: int) -> None:
    message = build(transaction=TransactionHeader())
    changed = patched_u32(message.data, header_at(message) + 16, number)
    if number != 0xFFFFFFFF:
        received = accept_message(changed).transaction
        assert received is not None
        assert received.previous_tx_sequence_number == number
    else:
        refuse(changed, "PreviousTxSequenceNumber")
        with pytest.raises(EncodeError):
            TransactionHeader(previous_tx_sequence_number=number).write()


@pytest.mark.spec("MQMQ-2.2.20.5-n")
def test_the_header_must_fit() -> None:
    header = TransactionHeader(flags=1, connector_qm_guid=OTHER).write()
    with pytest.raises(DecodeError):
        TransactionHeader.read(header[:20])
    with pytest.raises(DecodeError):
        TransactionHeader.read(header, 0, 20)
    with pytest.raises(DecodeError):
        TransactionHeader.read(header, 0, 35)
    assert TransactionHeader.read(header, 0, 36)[1] == 36
