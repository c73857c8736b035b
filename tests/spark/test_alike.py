"""Messages that look alike: read in columns, they say what they say one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import serialize
from msmq.spark import alike
from msmq.spark.alike import Shape, look_alike
from msmq.spark.schema import Messages, Table, joined
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from tests.manager.message_strategies import messages
from tests.spark.test_schema import HOST, NOON, full

TABLE = Table("activex", include_headers=True)


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
    return Messages("q", range(count), [NOON + place // 3 for place in range(count)], data, levels, dead)


def agrees(given: Messages, table: Table = TABLE) -> pa.RecordBatch:
    """Whether many look alike or few: the rows are those made one by one."""
    made = table.batch(list(given.each()))
    for few in (1, 2, alike.FEW):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(alike, "FEW", few)
            rows = table.rows(given)
        rows.validate(full=True)
        assert rows.equals(made)
    return made


def test_columns_say_what_messages_say_one_by_one() -> None:
    shape = Shape.of(packets(1)[0])
    assert shape is not None
    assert len(shape.alike(packets(40))) == 40
    assert len(shape.alike([])) == 0
    for table in (TABLE, Table(), Table("text", only=("label", "body"))):
        assert agrees(given_as(packets(40)), table).num_rows == 40
    outside = {
        "transaction_identifier": None,
        "transactional_message_sequence_identifier": TxSequenceID(0, 0),
    }
    assert agrees(given_as(packets(40, **outside))).num_rows == 40


def test_several_kinds_stay_in_their_order() -> None:
    many, others = packets(30), packets(20, response_queue_format_name="DIRECT=OS:a\\private$\\b")
    for data in ([*many, *others], [*many, *others[:3], *many], [*others[:3], *many, *others[:1]]):
        agrees(given_as(data))
    turns = [data for pair in zip(many, others, strict=False) for data in pair]
    agrees(given_as(turns))
    found, odd = look_alike(turns * 3)
    assert sorted(len(each) for each in found) == [60, 60]
    assert odd == []


def test_only_what_looks_alike_is_taken_together() -> None:
    many, other = packets(50), packets(1, response_queue_format_name="DIRECT=OS:a\\private$\\b")
    data = [*many[:20], *other, b"", *many[20:], many[0][:70], many[0][:-1]]
    (found,), odd = look_alike(data)
    assert found.places.tolist() == [*range(20), *range(22, 52)]
    assert odd == [20, 21, 52, 53]


def test_packets_without_a_shape_are_no_obstacle() -> None:
    many = packets(50)
    damaged = [data[:-8] for data in many[:2]]  # whose first headers are as those of the others
    (found,), odd = look_alike([*damaged, *many])
    assert (len(found), odd) == (50, [0, 1])


@settings(max_examples=40, deadline=None)
@given(st.lists(messages(), min_size=1, max_size=3), st.integers(1, 20), st.randoms(use_true_random=False))
def test_any_messages_in_any_order(kinds: list[Message], times: int, chance: Any) -> None:
    data = [serialize(message).data for message in kinds for _ in range(times)]
    if chance.random() < 0.5:
        chance.shuffle(data)
    agrees(given_as(data))


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=3), st.integers(0, 400))
def test_a_packet_that_cannot_be_read_looks_like_no_other(noise: bytes, place: int) -> None:
    """Whatever bytes are wrong: what the shape takes is what decoding takes, and it reads the same."""
    shape = Shape.of(packets(1)[0])
    assert shape is not None
    damaged = bytearray(packets(2)[1])
    place %= len(damaged)
    damaged[place : place + len(noise)] = noise[: len(damaged) - place]
    data = bytes(damaged)
    found = shape.alike([data])
    if found:
        one = Messages("q", [1], [NOON], [data], [0], [0])
        assert TABLE.alike(one, found).equals(TABLE.batch(list(one.each())))


def test_halves_of_surrogate_pairs_are_no_poison() -> None:
    for count in (1, 40):
        (text,) = set(agrees(given_as(packets(count, label="a\ud800b"))).column("label").to_pylist())
        assert text == "a\N{REPLACEMENT CHARACTER}b"


def test_parts_and_choices() -> None:
    whole = given_as(packets(9))
    assert joined([whole.part(0, 4), whole.part(4, 9)]).packets == whole.packets
    assert list(whole.chosen([place % 2 == 0 for place in range(9)]).lookup_ids) == [0, 2, 4, 6, 8]
    assert whole.size == sum(map(len, whole.packets))
