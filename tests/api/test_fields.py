"""Fields that are written by hand, against what the messages write themselves."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from msmq.api.fields import LARGE_BYTES, apart, lead, repeated, within
from msmq.api.generated import msmq_pb2 as pb

BODIES = pb.Columns.BODIES_FIELD_NUMBER


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 16_383, 16_384, (1 << 21) - 1, 1 << 21, 4_300_000])
def test_sizes_are_written_as_messages_write_them(size: int) -> None:
    data = bytes(size)
    assert lead(BODIES, size) + data == pb.Columns(bodies=[data]).SerializeToString()


@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(0, 0xFFFFFFFF), max_size=5))
def test_a_message_within_a_message(values: list[bytes], tags: list[int]) -> None:
    rest = pb.Columns(application_tags=tags).SerializeToString()
    (written,) = within(pb.SendBatch.COLUMNS_FIELD_NUMBER, (*repeated(BODIES, values), rest))
    expected = pb.SendBatch(columns=pb.Columns(bodies=values, application_tags=tags))
    assert written == expected.SerializeToString()


def test_large_values_stay_what_they_are() -> None:
    values = [b"small", bytes(LARGE_BYTES), b"", b"x" * 300_000, bytes(LARGE_BYTES - 1)]
    parts = within(pb.SendBatch.COLUMNS_FIELD_NUMBER, repeated(BODIES, values))
    assert len(parts) == 5, "two large ones, and what stands around them"
    assert (parts[1] is values[1], parts[3] is values[3]) == (True, True)
    assert b"".join(parts) == pb.SendBatch(columns=pb.Columns(bodies=values)).SerializeToString()


WAY = (
    pb.SendStreamRequest.BATCH_FIELD_NUMBER,
    pb.SendBatch.COLUMNS_FIELD_NUMBER,
    pb.Columns.BODIES_FIELD_NUMBER,
)


def sending(bodies: list[bytes]) -> pb.SendStreamRequest:
    kinds = [pb.Message(admin_queue="x" * 300)]
    columns = pb.Columns(bodies=bodies, labels=["one"], priorities=[3], kinds=kinds)
    return pb.SendStreamRequest(batch=pb.SendBatch(number=300, transaction=b"t", columns=columns))


@given(st.lists(st.sampled_from([b"", b"small", bytes(LARGE_BYTES), b"x" * 300_000]), max_size=5))
def test_large_values_are_taken_out_of_a_message_as_they_are(rest: list[bytes]) -> None:
    bodies = [b"y" * LARGE_BYTES, *rest]
    whole = sending(bodies)
    left, values = apart(whole.SerializeToString(), *WAY)
    assert list(map(bytes, values)) == bodies
    assert pb.SendStreamRequest.FromString(left) == sending([])


def test_a_message_whose_first_value_is_small_is_left_alone() -> None:
    for bodies in ([], [b"small", bytes(300_000)], [bytes(1_000)] * 300):
        data = sending(bodies).SerializeToString()
        assert apart(data, *WAY) == (data, [])


def test_very_many_fields_are_left_to_the_parser() -> None:
    """Looking at each would take seconds, and a view of each a gigabyte."""
    values = sending([bytes(LARGE_BYTES), *[b""] * 20_000]).SerializeToString()
    batches = sending([]).SerializeToString() * 20_000
    for data in (values, batches):
        assert apart(data, *WAY) == (data, [])


@given(st.data())
def test_bytes_that_are_no_message_are_left_alone_or_to_the_parser(data: st.DataObject) -> None:
    """Whatever is cut or damaged: what is left is refused or read by the parser as what it was without values."""
    good = sending([bytes(LARGE_BYTES), b"more"]).SerializeToString()
    at = data.draw(st.one_of(st.integers(0, 400), st.integers(len(good) - 20, len(good) - 1)))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(bad[: data.draw(st.one_of(st.just(len(bad)), st.integers(0, len(bad))))])
    left, values = apart(cut, *WAY)
    assert len(left) + sum(map(len, values)) <= len(cut)
    if not values:
        assert left == cut
    try:
        expected = pb.SendStreamRequest.FromString(cut)
    except DecodeError:
        with pytest.raises(DecodeError):
            pb.SendStreamRequest.FromString(left)
        return
    found = pb.SendStreamRequest.FromString(left)
    if values:
        found.batch.columns.bodies.extend(map(bytes, values))
    assert found == expected
