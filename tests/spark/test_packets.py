"""Packets as columns: whatever messages are in a batch, the columns say what each packet says when it is read alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import serialize
from msmq.spark.packets import Packets, Stack, user_header
from msmq.spark.schema import Messages, Table, joined
from msmq.wire.headers import USER_RECOVERABLE
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from tests.manager.message_strategies import messages
from tests.spark.test_schema import HOST, NOON, full


def packets(count: int, **properties: Any) -> list[bytes]:
    """Packets that differ in what messages of one sender differ in."""
    made = []
    for number in range(count):
        message = full()
        message.body, message.label = b"%d" % number * (number % 5), "x" * (number % 7)
        message.extension, message.body_type = b"e" * (number % 3), number
        message.identifier, message.sent_time = MessageIdentifier(HOST, number), NOON + number // 4
        message.correlation_identifier = HOST[: 16 * (number % 2)].ljust(20, b"\0")
        message.first_in_transaction, message.last_in_transaction = number % 4 == 0, number % 4 == 3
        message.transaction_identifier = 1 + number // 4
        for name, value in properties.items():
            setattr(message, name, value)
        made.append(serialize(message).data)
    return made


def given_as(data: list[bytes]) -> Messages:
    count = len(data)
    levels, dead = [place % 3 % 2 for place in range(count)], [place % 5 for place in range(count)]
    return Messages.of("q", range(count), [NOON + place // 3 for place in range(count)], data, levels, dead)


def alone(packet: UserMessage) -> dict[str, Any]:
    """What a packet says, read by itself."""
    properties, transaction, security = packet.properties, packet.transaction, packet.security
    return {
        "body": packet.body,
        "extension": packet.extension,
        "label": packet.label,
        "tag": properties.application_tag,
        "type": properties.body_type,
        "class": properties.message_class,
        "correlation": properties.correlation_id,
        "privacy": properties.privacy_level,
        "number": packet.user.message_id,
        "source": packet.user.source_queue_manager,
        "sent": packet.user.sent_time,
        "reach": packet.base.time_to_reach_queue_s,
        "received": packet.user.time_to_be_received_s,
        "recoverable": packet.recoverable,
        "transactional": packet.transactional,
        "transaction": 0 if transaction is None else transaction.flags,
        "sender": b"" if security is None else security.security_id,
        "names": (packet.user.destination_queue, packet.user.admin_queue, packet.user.response_queue),
    }


def together(data: list[bytes]) -> list[dict[str, Any]]:
    """What the columns say of each."""
    found = Packets(Stack.of(data))
    heads, properties = found.heads, found.properties
    labels = found.labels.to_pylist()
    headers = [user_header(named) for named in found.names.to_pylist()]
    columns = {
        "body": found.bodies.to_pylist(),
        "extension": found.extensions.to_pylist(),
        "label": [text.decode("utf-16-le", "surrogatepass").partition("\0")[0] for text in labels],
        "tag": properties["application_tag"].tolist(),
        "type": properties["body_type"].tolist(),
        "class": properties["message_class"].tolist(),
        "correlation": [bytes(one) for one in properties["correlation_id"]],
        "privacy": properties["privacy_level"].tolist(),
        "number": heads["number"].tolist(),
        "source": [bytes(one) for one in heads["source"]],
        "sent": heads["sent"].tolist(),
        "reach": heads["reach_s"].tolist(),
        "received": heads["received_s"].tolist(),
        "recoverable": ((found.flags & USER_RECOVERABLE) != 0).tolist(),
        "transactional": found.transactional.tolist(),
        "transaction": found.transaction_flags.tolist(),
        "sender": found.senders.to_pylist(),
        "names": [(each.destination_queue, each.admin_queue, each.response_queue) for each in headers],
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@settings(max_examples=60, deadline=None)
@given(st.lists(messages(), min_size=1, max_size=9))
def test_columns_say_what_packets_say_alone(kinds: list[Message]) -> None:
    data = [serialize(message).data for message in kinds]
    assert together(data) == [alone(UserMessage.decode(packet)) for packet in data]
    Table("activex", extras=["includeHeaders"]).rows(given_as(data)).validate(full=True)


def test_many_of_one_sender() -> None:
    data = [*packets(40), *packets(3, response_queue_format_name="DIRECT=OS:a\\private$\\b"), *packets(9)]
    assert together(data) == [alone(UserMessage.decode(packet)) for packet in data]
    assert together([]) == []
    assert Table().rows(given_as([])).num_rows == 0


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=3), st.integers(0, 400), st.integers(0, 5))
def test_nothing_outside_of_a_packet_is_read(noise: bytes, place: int, cut: int) -> None:
    """Whatever bytes are wrong, and wherever it ends: it is read within its edges, or it is an error."""
    first, damaged, last = packets(1)[0], bytearray(packets(2)[1]), packets(3)[2]
    place %= len(damaged)
    damaged[place : place + len(noise)] = noise[: len(damaged) - place]
    data = bytes(damaged[: len(damaged) - cut])
    try:
        found = Packets(Stack.of([first, data, last]))
    except DecodeError:
        return
    assert [found.bodies[0].as_py(), found.bodies[2].as_py()] == [
        UserMessage.decode(one).body for one in (first, last)
    ]
    assert found.bodies[1].as_py() in data


def test_a_packet_that_is_too_short_is_an_error() -> None:
    for data in (b"", packets(1)[0][:40], packets(1)[0][:100]):
        with pytest.raises(DecodeError, match="packet 1 of a batch"):
            Packets(Stack.of([packets(1)[0], data]))


def test_halves_of_surrogate_pairs_are_no_poison() -> None:
    rows = Table().rows(given_as(packets(3, label="a\ud800b")))
    assert set(rows["label"].to_pylist()) == {"a\N{REPLACEMENT CHARACTER}b"}


def test_parts_and_choices() -> None:
    whole = given_as(packets(9))
    even = whole.chosen(np.arange(9) % 2 == 0)
    assert list(even.lookup_ids) == [0, 2, 4, 6, 8]
    assert list(even.packets) == list(whole.packets)[::2]
    both = joined([even, whole])
    assert list(both.packets) == [*even.packets, *whole.packets]
    assert [list(column) for column in both.numbers] == [
        [*one, *other] for one, other in zip(even.numbers, whole.numbers, strict=True)
    ]
    assert whole.size == sum(map(len, whole.packets))
