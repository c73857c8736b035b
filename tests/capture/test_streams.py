"""TCP streams put together from segments in any order."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.capture import streams
from msmq.capture.cutter import Damage, Whole
from msmq.capture.streams import Segment, StreamCut, Streams
from tests.wire import vectors

A, B, C = ("a", 49759), ("b", 1801), ("c", 50000)
STREAM = b"".join(vector.data for vector in vectors.SESSION_PACKETS)
WANTED = [vector.data for vector in vectors.SESSION_PACKETS]
ACK = vectors.SESSION_ACK.data


def run(segments: Iterable[Segment]) -> list[StreamCut]:
    found = Streams()
    cuts = [cut for segment in segments for cut in found.take(segment)]
    return cuts + list(found.close())


def packets(cuts: list[StreamCut]) -> list[bytes]:
    return [found.cut.data for found in cuts if isinstance(found.cut, Whole)]


def damages(cuts: list[StreamCut]) -> list[Damage]:
    return [found.cut for found in cuts if isinstance(found.cut, Damage)]


def pieces(step: int, sequence: int = 100) -> list[Segment]:
    return [
        Segment(A, B, (sequence + 1 + start) % (1 << 32), STREAM[start : start + step])
        for start in range(0, len(STREAM), step)
    ]


def syn(sequence: int = 100) -> Segment:
    return Segment(A, B, sequence, b"", syn=True)


@pytest.mark.parametrize("step", [1, 7, 1460, 100_000])
@pytest.mark.parametrize("sequence", [100, 0xFFFFFFF0, 0x7FFFFFFF])
def test_in_order(step: int, sequence: int) -> None:
    cuts = run([syn(sequence), *pieces(step, sequence)])
    assert packets(cuts) == WANTED
    assert not damages(cuts)
    assert {(found.source, found.destination, found.stream) for found in cuts} == {(A, B, 1)}


@given(st.randoms(use_true_random=False), st.integers(40, 400))
def test_reordered_repeated_and_overlapping(order: random.Random, step: int) -> None:
    """Within the bound of what may wait, order does not matter."""
    segments = pieces(step)
    for _ in range(len(segments)):
        start = order.randrange(len(STREAM))
        segments.append(Segment(A, B, 101 + start, STREAM[start : start + order.randrange(1, 300)]))
    order.shuffle(segments)
    cuts = run([syn(), *segments])
    assert packets(cuts) == WANTED
    assert not damages(cuts)


def test_without_its_beginning_a_stream_is_searched() -> None:
    cuts = run(pieces(10)[3:])
    assert packets(cuts) == WANTED[1:]
    assert damages(cuts) == [Damage("Malformed", 0, 542, "the capture begins inside a packet")]


def test_a_lost_segment_is_a_gap_and_costs_one_packet() -> None:
    segments = pieces(572)
    cuts = run([syn(), segments[0], *segments[2:]])
    assert packets(cuts) == [WANTED[0], *WANTED[2:]]
    assert damages(cuts) == [Damage("Gap", 572, 572, "the capture lacks 572 bytes")]


def test_a_gap_is_declared_when_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING_SEGMENTS", 3)
    found = Streams()
    segments = pieces(572)
    for segment in [syn(), *segments[:1], *segments[2:5]]:
        list(found.take(segment))
    cuts = list(found.take(segments[5]))
    assert [type(cut.cut) for cut in cuts[:1]] == [Damage]
    assert len(packets(cuts)) >= 1


def test_a_gap_is_declared_when_too_many_bytes_wait() -> None:
    found = Streams()
    list(found.take(syn()))
    train = ACK * 1000
    count = streams.MAX_WAITING_BYTES // len(train)
    for number in range(count):
        assert not list(found.take(Segment(A, B, 137 + len(train) * number, train)))
    cuts = list(found.take(Segment(A, B, 137 + len(train) * count, train)))
    assert damages(cuts) == [Damage("Gap", 0, 36, "the capture lacks 36 bytes")]
    assert len(packets(cuts)) == 1000 * (count + 1)


def test_the_directions_are_apart() -> None:
    there = [Segment(A, B, 101 + 36 * number, ACK) for number in range(3)]
    back = [Segment(B, A, 501 + 36 * number, ACK) for number in range(3)]
    opening = [syn(), Segment(B, A, 500, b"", syn=True)]
    mixed = [segment for pair in zip(there, back, strict=True) for segment in pair]
    cuts = run([*opening, *mixed])
    assert [found.source for found in cuts] == [A, B] * 3
    assert {found.stream for found in cuts} == {1}


def test_a_finished_stream_reports_its_torn_end_at_once() -> None:
    found = Streams()
    list(found.take(syn()))
    list(found.take(Segment(A, B, 101, ACK[:30])))
    (cut,) = found.take(Segment(A, B, 131, b"", fin=True))
    assert isinstance(cut.cut, Damage)
    assert not list(found.take(Segment(A, B, 101, ACK)))
    assert not list(found.close())


def test_a_reset_ends_a_stream() -> None:
    found = Streams()
    list(found.take(syn()))
    list(found.take(Segment(A, B, 105, ACK)))
    cuts = list(found.take(Segment(A, B, 101, b"text", reset=True)))
    assert [type(cut.cut) for cut in cuts] == [Damage, Whole]


def test_the_same_ports_again_are_another_connection() -> None:
    cuts = run([syn(), Segment(A, B, 101, ACK), syn(9000), Segment(A, B, 9001, ACK)])
    assert [(found.stream, found.cut.offset) for found in cuts] == [(1, 0), (2, 0)]
    far = run([Segment(A, B, 0x7000_0000, ACK), Segment(A, B, 1000, ACK)])
    assert [found.stream for found in far] == [1, 2]


def test_a_repeated_opening_changes_nothing() -> None:
    cuts = run([syn(), syn(), Segment(A, B, 101, ACK), syn(), Segment(A, B, 137, ACK)])
    assert packets(cuts) == [ACK, ACK]
    assert {found.stream for found in cuts} == {1}


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_CONNECTIONS", 1)
    cuts = run([syn(), Segment(A, B, 101, ACK[:30]), Segment(C, B, 5, ACK)])
    assert [(found.stream, type(found.cut)) for found in cuts] == [(1, Damage), (2, Whole)]


@given(
    st.lists(
        st.builds(
            Segment,
            st.sampled_from([A, C]),
            st.just(B),
            st.integers(0, 0xFFFFFFFF) | st.integers(0, 300),
            st.binary(max_size=50) | st.just(ACK),
            st.booleans(),
            st.booleans(),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_hostile_segments_do_no_harm(segments: list[Segment]) -> None:
    run(segments)
