"""Messages that look alike: whatever a shape recognizes, the decoder would have read the same way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from msmq.errors import DecodeError
from msmq.wire.framing import StreamReader, Stretch
from msmq.wire.headers import BASE_DH, BaseHeader, MessagePropertiesHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import DebugHeader, SessionHeader, TransactionHeader
from msmq.wire.runs import Run, Shape, Shapes, first_of, skip
from tests.wire import builders
from tests.wire.messages import message

PUBLIC = bytes(range(16))
KINDS: dict[str, Callable[[], UserMessage]] = {
    "label and extension": message,
    "bare": lambda: message(label="", extension=b"", body=b""),
    "public": lambda: message(PUBLIC),
    "odd body": lambda: message(label="", extension=b"x", body=b"yz"),
    "transactional": lambda: message(transaction=TransactionHeader(0x10, 7, 4, 3)),
}


def like(sample: UserMessage, **changes: Any) -> bytes:
    """The same message with another number, time and body, and whatever else a test wants."""
    user = UserMessage.decode(sample.data).user
    user.message_id = changes.get("message_id", 77)
    user.sent_time = changes.get("sent_time", 88)
    transaction = sample.transaction
    if transaction is not None:
        number = changes.get("number", transaction.tx_sequence_number)
        transaction = TransactionHeader(
            changes.get("flags", 0), transaction.tx_sequence_id, number, changes.get("previous", number - 1)
        )
    return UserMessage.build(
        base=BaseHeader(time_to_reach_queue_s=sample.base.time_to_reach_queue_s),
        user=user,
        properties=MessagePropertiesHeader(body_type=changes.get("body_type", 3), application_tag=5),
        label="x" * (sample.properties.label_length - 1) if sample.properties.label_length else "",
        extension=bytes(sample.properties.extension_size),
        body=changes.get("body", b"another body"),
        transaction=transaction,
    ).data


def shape_of(sample: UserMessage) -> Shape:
    shape = Shape.of(UserMessage.decode(sample.data))
    assert shape is not None
    return shape


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_differ(kind: str) -> None:
    sample = KINDS[kind]()
    first = sample.transaction.tx_sequence_number + 6 if sample.transaction is not None else 0
    packets = [
        like(sample, message_id=10 + index, sent_time=20 + index, body=bytes(index), number=first + index)
        for index in range(9)
    ]
    run = shape_of(sample).run([b"something else", *packets], 1)
    assert run is not None
    assert run.alike
    assert list(run.packets) == packets
    assert list(run.message_ids) == list(range(10, 19))
    assert list(run.sent_times) == list(range(20, 29))
    assert run.first_number == first
    assert run.size == sum(map(len, packets))
    assert [each.data for each in run.messages] == packets
    ahead, behind = run.split(4)
    assert (list(ahead.packets), list(behind.packets)) == (packets[:4], packets[4:])
    assert list(behind.message_ids) == [14, 15, 16, 17, 18]
    assert (ahead.first_number, behind.first_number) == (first, first + 4 if first else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_any_other_byte_ends_the_run_or_makes_no_difference(kind: str) -> None:
    """Each byte of the headers is changed in turn, and lengths at random: what is still recognized decodes without
    fault, and all that a receiver goes by is what the sample says."""
    sample = UserMessage.decode(KINDS[kind]().data)
    shape = shape_of(sample)
    rng = Random(kind)
    recognized = 0
    headers = sample.body_offset
    for offset in list(range(headers)) * 4:
        data = bytearray(sample.data)
        data[offset] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            data = (
                data[: rng.randrange(len(data))] if rng.random() < 0.5 else data + bytes(rng.choice((1, 4)))
            )
        run = shape.run([bytes(data)])
        if run is None:
            continue
        recognized += 1
        found = UserMessage.decode(bytes(data))  # which would raise
        assert (found.base, found.user.flags, found.user_end) == (
            sample.base,
            sample.user.flags,
            sample.user_end,
        )
        assert found.user.destination_queue == sample.user.destination_queue
        assert found.user.source_queue_manager == sample.user.source_queue_manager
        assert found.user.time_to_be_received_s == sample.user.time_to_be_received_s
        assert found.properties.flags == sample.properties.flags
        assert found.properties.message_class == sample.properties.message_class
        assert found.security is None
        assert (run.message_ids[0], run.sent_times[0]) == (found.user.message_id, found.user.sent_time)
        if found.transaction is not None:
            assert run.first_number == found.transaction.tx_sequence_number
            assert found.transaction.previous_tx_sequence_number == run.first_number - 1
    assert recognized > headers // 5, "number, time and properties may be anything"


def test_bad_lengths_are_not_recognized() -> None:
    sample = message(label="", extension=b"", body=b"12345678")
    sizes = sample.properties_offset + 32
    data = bytearray(sample.data)
    data[sizes : sizes + 4] = (9).to_bytes(4, "little")  # MessageSize above AllocationBodySize
    with pytest.raises(DecodeError):
        UserMessage.decode(bytes(data))
    assert shape_of(sample).run([bytes(data)]) is None
    assert shape_of(sample).run([sample.data[:40]]) is None
    assert shape_of(sample).run([]) is None


def test_transactional_messages_follow_each_other() -> None:
    sample = KINDS["transactional"]()
    numbers = (5, 6, 7, 9, 10)
    packets = [like(sample, number=number) for number in numbers]
    shape = shape_of(sample)
    run = shape.run(packets)
    assert run is not None
    assert (run.first_number, len(run)) == (5, 3), "8 is missing"
    assert shape.run([like(sample, number=9, previous=7)]) is None, "it bridges a gap: a closer look is due"
    assert shape.run([like(sample, flags=0x2)]) is None, "it asks for a FinalAck"
    again = shape.run([packets[0], packets[0]])
    assert again is not None
    assert len(again) == 1


@pytest.mark.parametrize(
    "special",
    [
        lambda: message(session=SessionHeader()),
        lambda: message(debug=DebugHeader()),
        lambda: message(transaction=TransactionHeader(0x2, 7, 1, 0)),
        lambda: message(transaction=TransactionHeader(0x1, 7, 1, 0, connector_qm_guid=builders.OTHER)),
    ],
    ids=["session", "debug", "final ack", "connector"],
)
def test_some_headers_make_a_message_one_of_its_own(special: Callable[[], UserMessage]) -> None:
    found = UserMessage.decode(special().data)
    assert Shape.of(found) is None
    run = Run.of(found)
    assert not run.alike
    assert (len(run), run.size, run.messages) == (1, found.size, [found])
    if not found.base.flags & BASE_DH and found.transaction is None:
        plain = shape_of(message())
        assert plain.run([found.data]) is None


def row(sample: UserMessage, count: int) -> list[bytes]:
    """Messages as long as the sample that follow each other."""
    first = sample.transaction.tx_sequence_number + 6 if sample.transaction is not None else 0
    return [
        like(
            sample,
            message_id=100 + index,
            sent_time=20 + index % 3,
            number=first + index,
            body=bytes([index]) * len(sample.body),
        )
        for index in range(count)
    ]


def same(one: Run | None, other: Run | None) -> bool:
    if one is None or other is None:
        return one is other
    return (
        list(one.packets) == list(other.packets)
        and list(one.message_ids) == list(other.message_ids)
        and list(one.sent_times) == list(other.sent_times)
        and list(one.sizes) == list(other.sizes)
        and (one.first_number, one.size, len(one)) == (other.first_number, other.size, len(other))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_stretch_is_recognized_as_its_packets_are(kind: str) -> None:
    """Columns say the same as one packet after another, whatever byte of whichever packet is changed."""
    sample = UserMessage.decode(KINDS[kind]().data)
    shape = shape_of(sample)
    packets = row(sample, 12)
    length = len(packets[0])
    assert length == len(sample.data)
    rng = Random(kind)
    counts = set()
    for offset in list(range(min(sample.body_offset + 4, length))) * 2:
        data = bytearray(b"".join(packets))
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(12) * length + offset] ^= 1 << rng.randrange(8)
        stretch = Stretch(b"before" + bytes(data), 6, length, 12)
        found = shape.stretch(stretch)
        assert same(found, shape.run(stretch.packets())), offset
        counts.add(0 if found is None else len(found))
        if found is not None and len(found) > 2:
            assert found.stretch is not None
            for one, other in zip(found.split(2), shape.run(stretch.packets()).split(2), strict=True):  # type: ignore[union-attr]
                assert same(one, other)
    assert {0, 12} < counts


def test_bodies_of_other_sizes_in_packets_of_one_size() -> None:
    """The end of a packet is rounded up, so that messages of several sizes can be equally long."""
    sample = UserMessage.decode(message(label="", extension=b"", body=b"12345678").data)
    packets = [message(label="", extension=b"", body=bytes(5 + number % 4)).data for number in range(12)]
    stretch = Stretch(b"".join(packets), 0, len(packets[0]), 12)
    found = shape_of(sample).stretch(stretch)
    assert found is not None
    assert same(found, shape_of(sample).run(packets))
    assert len(found) == 12
    too_large = bytearray(stretch.data)
    sizes = 7 * stretch.length + sample.properties_offset + 32
    too_large[sizes : sizes + 4] = (9).to_bytes(4, "little")
    cut = shape_of(sample).stretch(Stretch(bytes(too_large), 0, stretch.length, 12))
    assert cut is not None
    assert len(cut) == 7
    assert shape_of(message(body=b"")).stretch(stretch) is None, "another length"


def taken(packets: list[bytes], shapes: Shapes) -> list[tuple[bool, list[bytes]]]:
    """What a receiver makes of a read: whether each run was recognized, and what is in it."""
    given = StreamReader().cut(b"".join(packets))
    index, found = 0, []
    while index < len(given):
        run = shapes.run(given, index)
        if run is None:
            first = first_of(given[index])
            shapes.remember(UserMessage.decode(first))
            found.append((False, [first]))
            index = skip(given, index, 1)
        else:
            found.append((True, list(run.packets)))
            index = skip(given, index, len(run))
    return found


def test_a_few_shapes_are_remembered() -> None:
    kinds = [KINDS[kind]() for kind in ("label and extension", "bare", "public", "odd body")]
    shapes = Shapes()
    mixed = [packet for _ in range(3) for kind in kinds for packet in row(kind, 20)]
    found = taken(mixed, shapes)
    assert [packet for _, packets in found for packet in packets] == mixed
    assert [len(packets) for known, packets in found if not known] == [1, 1, 1, 1]
    assert [len(packets) for known, packets in found if known] == [19] * 4 + [20] * 8
    others = [row(message(label="x" * number), 1)[0] for number in range(2, 6)]
    taken(others, shapes)
    assert not taken(row(kinds[0], 1), shapes)[0][0], "four others came since"


def test_packets_of_one_length_that_differ() -> None:
    """They are taken in their order, and none is looked at again and again."""
    one, other = KINDS["label and extension"](), message(PUBLIC)
    destination = "OS:bob\\private$\\q"
    first = message(destination)
    second = message(destination[:-1] + "r")
    assert len(first.data) == len(second.data)
    shapes = Shapes()
    alternating = [packet for pair in zip(row(first, 40), row(second, 40), strict=True) for packet in pair]
    mixed = alternating + row(first, 3) + row(second, 60) + row(one, 2) + row(other, 30)
    found = taken(mixed, shapes)
    assert [packet for _, packets in found for packet in packets] == mixed
    assert sum(not known for known, _ in found) == 4
    assert max(len(packets) for _, packets in found) > 20
