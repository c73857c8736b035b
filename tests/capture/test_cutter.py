"""Packets out of whole, broken and incomplete bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.capture.cutter import Cut, Cutter, Damage, Whole, begins_packet, begins_ping
from tests.wire import vectors

PACKETS = [vector.data for vector in vectors.SESSION_PACKETS]
STREAM = b"".join(PACKETS)
PING = vectors.PING_REQUEST.data
ACK = vectors.SESSION_ACK.data
MESSAGE = vectors.USER_MESSAGE.data


def cut(*chunks: bytes, pings: bool = False, midway: bool = False) -> list[Cut]:
    cutter = Cutter(pings=pings, midway=midway)
    cuts: list[Cut] = []
    for chunk in chunks:
        cuts += cutter.feed(chunk)
    return cuts + cutter.finish()


def assert_tiled(cuts: list[Cut], size: int) -> None:
    """Packets and damage follow each other and cover everything once."""
    position = 0
    for found in cuts:
        assert found.offset == position
        position += len(found.data) if isinstance(found, Whole) else found.size
    assert position == size


def datas(cuts: list[Cut]) -> list[bytes]:
    return [found.data for found in cuts if isinstance(found, Whole)]


def test_a_whole_stream() -> None:
    cuts = cut(STREAM)
    assert datas(cuts) == PACKETS
    assert_tiled(cuts, len(STREAM))


def test_byte_by_byte() -> None:
    assert cut(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == cut(STREAM)


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_in_any_pieces(places: list[int]) -> None:
    ends = [0, *sorted(places), len(STREAM)]
    assert cut(*(STREAM[start:end] for start, end in pairwise(ends))) == cut(STREAM)


def test_a_packet_is_told_with_its_last_byte() -> None:
    """Whoever watches a line does not see it only when the next one begins."""
    cutter = Cutter()
    assert [cut for byte in MESSAGE[:-1] for cut in cutter.feed(bytes([byte]))] == []
    assert cutter.feed(MESSAGE[-1:]) == [Whole(0, MESSAGE)]
    assert cutter.pending == 0


def test_pings_stand_between_packets_only_where_they_are_allowed() -> None:
    assert datas(cut(PING, ACK, PING, pings=True)) == [PING, ACK, PING]
    assert datas(cut(PING, ACK)) == [ACK]
    assert begins_ping(PING)
    assert not begins_ping(ACK)
    assert begins_packet(ACK)
    assert not begins_packet(ACK[:7])


def test_noise_between_packets_is_one_damage() -> None:
    noise = b"not a packet at all, and longer than the head of one"
    cuts = cut(ACK + noise + ACK)
    assert datas(cuts) == [ACK, ACK]
    assert cuts[1] == Damage("Malformed", len(ACK), len(noise), "VersionNumber is 0x6e, not 0x10")
    assert_tiled(cuts, 2 * len(ACK) + len(noise))


def test_only_noise() -> None:
    (damage,) = cut(bytes(range(200)))
    assert isinstance(damage, Damage)
    assert (damage.offset, damage.size) == (0, 200)


@pytest.mark.parametrize("kept", [1, 7, 19, 20, 1000, len(MESSAGE) - 1])
def test_a_cut_packet_at_the_end_is_reported(kept: int) -> None:
    cuts = cut(ACK + MESSAGE[:kept])
    assert datas(cuts) == [ACK]
    damage = cuts[-1]
    assert isinstance(damage, Damage)
    assert (damage.offset, damage.size) == (len(ACK), kept)


def test_packets_swallowed_by_a_cut_one_are_found() -> None:
    cuts = cut(MESSAGE[:1650] + ACK + ACK)
    assert datas(cuts) == [ACK, ACK]
    assert cuts[0] == Damage("Malformed", 0, 1650, "the packet says 2224 bytes and ends after 1722")
    assert_tiled(cuts, 1650 + 2 * len(ACK))


def test_a_stream_joined_midway_is_searched_for_its_first_packet() -> None:
    cuts = cut(MESSAGE[500:] + ACK, midway=True)
    assert datas(cuts) == [ACK]
    assert cuts[0] == Damage("Malformed", 0, len(MESSAGE) - 500, "the capture begins inside a packet")
    assert cut(ACK, midway=True) == [Whole(0, ACK)]


class TestGaps:
    def gap(self, before: bytes, size: int, after: bytes) -> list[Cut]:
        cutter = Cutter()
        return [*cutter.feed(before), *cutter.gap(size), *cutter.feed(after), *cutter.finish()]

    def test_inside_a_packet_the_next_one_is_known(self) -> None:
        cuts = self.gap(MESSAGE[:500], 700, MESSAGE[1200:] + ACK)
        assert cuts == [
            Damage("Gap", 500, 700, "the capture lacks 700 bytes, inside the packet at offset 0"),
            Whole(len(MESSAGE), ACK),
        ]

    def test_up_to_the_end_of_a_packet(self) -> None:
        cuts = self.gap(MESSAGE[:500], len(MESSAGE) - 500, ACK)
        assert cuts[1:] == [Whole(len(MESSAGE), ACK)]

    def test_twice_inside_one_packet(self) -> None:
        cutter = Cutter()
        cuts = [*cutter.feed(MESSAGE[:500]), *cutter.gap(100), *cutter.feed(MESSAGE[600:700])]
        cuts += [*cutter.gap(300), *cutter.feed(MESSAGE[1000:] + ACK), *cutter.finish()]
        assert [found.offset for found in cuts] == [500, 700, len(MESSAGE)]
        assert cuts[-1] == Whole(len(MESSAGE), ACK)

    def test_past_the_end_of_a_packet_the_next_is_searched(self) -> None:
        cuts = self.gap(MESSAGE[:500], len(MESSAGE), ACK[30:] + ACK)
        lost = 500 + len(MESSAGE)
        assert cuts[1:] == [
            Damage("Malformed", lost, 6, "no packet begins after the gap"),
            Whole(lost + 6, ACK),
        ]

    def test_between_packets(self) -> None:
        assert self.gap(ACK, 36, ACK) == [
            Whole(0, ACK),
            Damage("Gap", 36, 36, "the capture lacks 36 bytes"),
            Whole(72, ACK),
        ]

    def test_while_lost(self) -> None:
        cuts = self.gap(b"noise" * 10, 10, ACK)
        assert [(found.offset, type(found)) for found in cuts] == [(0, Damage), (50, Damage), (60, Whole)]

    def test_nothing_follows(self) -> None:
        assert len(self.gap(MESSAGE[:500], 10, b"")) == 1


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([*PACKETS, PING, ACK[:25]]), max_size=8), st.booleans()
)
def test_any_bytes_are_covered_once(chunks: list[bytes], pings: bool) -> None:
    assert_tiled(cut(*chunks, pings=pings), sum(map(len, chunks)))


def test_memory_stays_within_one_packet() -> None:
    cutter = Cutter()
    for _ in range(2000):
        cutter.feed(b"\x10" * 4096)
        assert cutter.pending < 4096 + 20
