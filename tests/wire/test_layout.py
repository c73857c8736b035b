"""Offsets from the declarations, against packets that were written field by field."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given

import msmq
from msmq.wire.declare import Wire
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, QueueName, UserHeader
from msmq.wire.layout import (
    BASE,
    FIXED_SIZE,
    PROPERTIES,
    TRANSACTION,
    USER,
    asks_of,
    body_of,
    class_of,
    offsets,
    packet_struct,
    properties_start,
    reader,
    user_end,
    user_flags,
    with_edges,
)
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from tests.wire import builders
from tests.wire.builders import OTHER, QUEUE


def field(data: bytes, header: type[Wire], name: str, start: int) -> bytes | int:
    """One field as it lies in a packet."""
    (spec,) = (spec for spec in header.FIELDS if spec.name == name)
    (value,) = struct.unpack_from("<" + spec.code, data, start)
    assert isinstance(value, bytes | int)
    return value


def test_where_the_specification_has_them() -> None:
    """MS-MQMQ 2.2.19 and 2.2.20.5, counted by hand."""
    assert (BASE["flags"], BASE["signature"], BASE["packet_size"], BASE["time_to_reach_queue_s"]) == (
        2,
        4,
        8,
        12,
    )
    assert (USER["source_queue_manager"], USER["queue_manager_address"]) == (16, 32)
    assert (USER["time_to_be_received_s"], USER["sent_time"], USER["message_id"], USER["flags"]) == (
        48,
        52,
        56,
        60,
    )
    assert FIXED_SIZE == 64
    assert TRANSACTION == {
        "flags": 0,
        "tx_sequence_id": 4,
        "tx_sequence_number": 12,
        "previous_tx_sequence_number": 16,
    }
    assert (PROPERTIES["label_length"], PROPERTIES["message_class"], PROPERTIES["extension_size"]) == (
        1,
        2,
        52,
    )
    assert (PROPERTIES["message_size"], PROPERTIES["allocation_body_size"]) == (32, 36)
    assert packet_struct().size == 16 + 48 + 56
    assert packet_struct(3, 4, 5).size == packet_struct().size + 12


@given(builders.messages)
def test_every_field_lies_where_it_is_said_to(message: UserMessage) -> None:
    data, transaction = message.data, message.transaction
    for name, offset in BASE.items():
        assert field(data, BaseHeader, name, offset) == getattr(message.base, name)
    for name, offset in USER.items():
        assert field(data, UserHeader, name, offset) == getattr(message.user, name)
    for name, offset in PROPERTIES.items():
        start = message.properties_offset + offset
        assert field(data, MessagePropertiesHeader, name, start) == getattr(message.properties, name)
    if transaction is not None:
        for name, offset in TRANSACTION.items():
            start = user_end(data) + offset
            assert field(data, TransactionHeader, name, start) == getattr(transaction, name)


@given(builders.messages)
def test_the_end_of_a_user_header(message: UserMessage) -> None:
    assert user_end(message.data) == message.user_end
    assert user_flags(message.data) == (message.user.flags,)


@pytest.mark.parametrize("connector", [None, OTHER], ids=["", "connector"])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 126, 127, 128, 3_000])
@pytest.mark.parametrize("answers", [None, 7, QUEUE, "OS:host\\private$\\answers"], ids=repr)
def test_the_end_behind_names_of_any_length(answers: QueueName, length: int, connector: bytes | None) -> None:
    user = builders.user_header("OS:" + "q" * length, answers, answers, connector_type=connector)
    message = builders.build(user=user, body=b"body")
    assert user_end(message.data) == message.user_end


@given(builders.messages)
def test_where_the_properties_begin(message: UserMessage) -> None:
    """Behind transactions, signatures and certificates of any size."""
    assert properties_start(message.data) == message.properties_offset
    assert asks_of(message.data) == message.properties.flags
    assert class_of(message.data) == message.properties.message_class
    assert UserMessage.kept(message.data).message_class == message.message_class == class_of(message.data)


@given(builders.messages)
def test_the_body_behind_a_label_and_an_extension_of_any_size(message: UserMessage) -> None:
    assert body_of(message.data) == UserMessage.decode(message.data).body


def test_fields_are_read_in_their_order() -> None:
    data = builders.all_headers().data
    message = UserMessage.decode(data)
    read = reader(
        (BaseHeader, {"packet_size", "flags"}), (UserHeader, ["message_id", "source_queue_manager"])
    )
    assert read(data) == (
        message.base.flags,
        message.base.packet_size,
        message.user.source_queue_manager,
        message.user.message_id,
    )
    assert read(b"before" + data, 6) == read(data)
    nothing = reader((BaseHeader, ()), (UserHeader, ()))
    assert nothing(data) == ()


def test_a_field_that_is_not_declared() -> None:
    with pytest.raises(AssertionError, match="BaseHeader lacks"):
        reader((BaseHeader, {"sent_time"}))


def test_offsets_from_where_a_header_begins() -> None:
    assert offsets(MessagePropertiesHeader) == PROPERTIES
    assert offsets(TransactionHeader, 100)["tx_sequence_number"] == 112


@given(builders.messages, builders.bits, builders.bits)
def test_the_edges_of_a_transaction(message: UserMessage, first: int, last: int) -> None:
    changed = UserMessage.decode(with_edges(message.data, first=bool(first), last=bool(last)))
    transaction, before = changed.transaction, message.transaction
    if transaction is None or before is None:
        assert changed.data == message.data
        return
    assert (transaction.first_message, transaction.last_message) == (first, last)
    transaction.first_message, transaction.last_message = before.first_message, before.last_message
    assert transaction == before
    again = with_edges(changed.data, first=bool(before.first_message), last=bool(before.last_message))
    assert again == message.data


def test_no_module_has_numbers_of_its_own_for_places_in_a_header() -> None:
    """They come from the declarations. Numbers of one digit are lengths in front of texts, and a GUID has 16 bytes."""
    number = re.compile(r"\b(offset|cursor|user_end) \+ \d\d|\b(data|packet)\[:?\d\d")
    rooms = ("api", "manager", "remote_read", "server", "spark", "store", "testing", "transfer", "wire")
    found = [
        f"{file}:{line}: {text.strip()}"
        for room in rooms
        for file in sorted((Path(msmq.__file__).parent / room).rglob("*.py"))
        for line, text in enumerate(file.read_text().splitlines(), 1)
        if number.search(text) and "+ 16" not in text
    ]
    assert found == []
