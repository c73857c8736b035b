"""Positions of streams: their JSON, what lies between two of them, and why there is one for each priority."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.client.queue import QueueIdentity
from msmq.spark.offsets import LANES, FleetOffset, Offset, OffsetError, Span, lane_of, number_of

HERE = QueueIdentity("a", "b", "now")
numbers = st.integers(0, (1 << 56) - 1)
lookup_ids = st.builds(lambda lane, number: lane << 56 | number, st.integers(0, LANES - 1), numbers)
offsets = st.dictionaries(
    st.text(max_size=20), st.dictionaries(st.integers(0, LANES - 1), numbers, max_size=LANES), max_size=4
).map(Offset)


@given(offsets)
def test_json_round_trip(offset: Offset) -> None:
    assert Offset.parse(offset.json()) == Offset.parse(offset.value()) == offset
    assert Offset.parse(json.loads(offset.json())) == offset, "Spark may parse it on the way"
    assert hash(Offset.parse(offset.json())) == hash(offset)


@given(offsets, st.lists(lookup_ids, max_size=30), st.lists(lookup_ids, max_size=30))
def test_a_message_lies_in_exactly_one_batch(start: Offset, first: list[int], second: list[int]) -> None:
    """Whatever its priority and whenever it was seen: between two positions, or before both."""
    queue = "orders"
    middle = start.reading(queue, HERE, first, ())
    end = middle.reading(queue, HERE, second, ())
    for lookup_id in {*first, *second}:
        inside = [
            [
                span
                for span in before.spans(after)
                if span.queue == queue
                and span.lane == lane_of(lookup_id)
                and span.start < number_of(lookup_id) <= span.end
            ]
            for before, after in ((start, middle), (middle, end))
        ]
        found = len(inside[0]) + len(inside[1])
        assert found == (0 if start.covers(queue, lookup_id) else 1)
        assert end.covers(queue, lookup_id)


def test_an_offset_knows_which_of_its_ends_may_expire() -> None:
    read = Offset().reading("q", HERE, [3 << 56 | 7, 4 << 56 | 9], [3 << 56 | 7, 4 << 56 | 9])
    assert Offset.parse(read.json()) == read
    assert (read.may_expire("q", 3), read.may_expire("q", 5), read.may_expire("gone", 1)) == (
        True,
        False,
        False,
    )
    later = HERE._replace(incarnation="later")
    assert read.reading("q", later, [], ()) == read, "where nothing was read it stays the same"
    further = read.reading("q", later, [4 << 56 | 10], ())
    assert (further.may_expire("q", 3), further.may_expire("q", 4)) == (True, False)
    assert further.identity("q") == later
    another = read.anew("q", QueueIdentity("a", "c"))
    assert another.lanes("q") == {}
    assert not another.may_expire("q", 3)


def test_a_position_after_the_data_were_put_back_begins_anew() -> None:
    """The queue is the same, and so are the numbers; only the position knows that they mean others now."""
    read = Offset().reading("q", HERE, [7], ())
    back = read.anew("q", HERE._replace(incarnation="after")).reading("q", HERE, [5], ())
    assert Offset.parse(back.json()) == back
    assert list(read.spans(back)) == [Span("q", 0, 0, 5)]
    assert list(back.spans(back.reading("q", HERE, [9], ()))) == [Span("q", 0, 5, 9)]
    assert (read.highest("q"), back.highest("q"), back.highest("other")) == (7, 5, 0)


def test_a_fleet_has_a_position_for_each_server() -> None:
    here, there = (
        Offset().reading("q", HERE, [7], ()),
        Offset().reading("q", HERE._replace(queue_manager="b"), [9], ()),
    )
    fleet = FleetOffset({"x": here}).at({"y": there})
    assert FleetOffset.parse(fleet.json()) == FleetOffset.parse(fleet.value()) == fleet
    assert hash(FleetOffset.parse(fleet.json())) == hash(fleet)
    assert (fleet.of("x", "a"), fleet.of("y", "b"), fleet.of("z", "c")) == (here, there, Offset())
    assert fleet.name_of("new name", "b") == "y"
    assert fleet.of("new name", "b") == there, "the same queue manager by another name"
    assert fleet.at({"new name": there}, {"y"}) == FleetOffset({"x": here, "new name": there})


def test_one_server_has_the_position_it_always_had() -> None:
    one = Offset().reading("q", HERE, [7], ())
    assert FleetOffset({"": one}).json() == one.json()
    assert FleetOffset.parse(one.json()).of("", "whoever") == one
    assert FleetOffset.parse(one.json()).of("x", "a") == one, "which is now one of several"
    assert FleetOffset.parse(one.json()).of("y", "b") == Offset()
    written = FleetOffset.parse(Offset({"q": {0: 7}}).json())
    assert written.of("x", "a") == written.of("y", "b") == Offset({"q": {0: 7}}), "by people, for all of them"


def test_a_late_message_of_a_higher_priority_is_not_stepped_over() -> None:
    low, high = 4 << 56 | 10, 1 << 56 | 11
    assert high < low, "it sorts before the one that was read"
    read = Offset().reading("q", HERE, [low], ())
    assert not read.covers("q", high)
    (span,) = read.spans(read.reading("q", HERE, [high], ()))
    assert (span.lane, span.start, span.end) == (1, 0, 11)
    assert span.first_lookup_id < high == span.last_lookup_id


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(1, 50))
def test_a_split_span_is_the_same_messages(start: int, width: int, parts: int) -> None:
    span = Span("q", 3, start, start + width)
    pieces = span.split(parts)
    assert 1 <= len(pieces) <= parts
    assert [number for piece in pieces for number in range(piece.start + 1, piece.end + 1)] == list(
        range(start + 1, start + width + 1)
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "queues": {}}',
        '{"version": 1, "queues": {"q": {"8": 1}}}',
        '{"version": 1, "queues": {"q": {"0": -1}}}',
        '{"version": 1, "queues": {"q": 5}}',
        '{"version": 1, "queues": {"q": {"x": 1}}}',
    ],
)
def test_what_is_no_offset(text: str) -> None:
    with pytest.raises(OffsetError):
        Offset.parse(text)


def test_a_newer_version_says_so() -> None:
    with pytest.raises(OffsetError, match="newer release"):
        Offset.parse('{"version": 7, "queues": {}}')
