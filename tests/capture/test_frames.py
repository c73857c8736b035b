"""Captured frames: every link type, connections put together from them, and the short way beside dpkt's."""

from __future__ import annotations

from pathlib import Path

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.capture import frames
from msmq.capture.frames import read_packet
from msmq.capture.problems import UnreadableError
from msmq.capture.streams import Segment
from tests.capture import captures
from tests.capture.captures import Capture, kinds
from tests.wire import vectors

STREAM = b"".join(captures.REQUESTS)
REQUEST_KINDS = ["EstablishConnection", "ConnectionParameters", "UserMessage"]
ALL_KINDS = ["EstablishConnection"] * 2 + ["ConnectionParameters"] * 2 + ["UserMessage", "SessionAck"]


@pytest.mark.parametrize(
    "link", [captures.ETHERNET, captures.NULL, captures.RAW, captures.SLL, captures.SLL2]
)
@pytest.mark.parametrize(("client", "server"), [("10.0.0.2", "10.0.0.1"), ("fe80::2", "fe80::1")])
def test_every_link_type_and_both_protocols(tmp_path: Path, link: int, client: str, server: str) -> None:
    capture = Capture(link, client, server)
    capture.udp(vectors.PING_REQUEST.data)
    capture.udp(vectors.PING_RESPONSE.data, from_client=False)
    capture.stream(STREAM, 1460)
    status, objects = capture.decode(tmp_path)
    assert status == 0
    assert kinds(objects) == ["Ping", "Ping", *REQUEST_KINDS]
    host = f"[{client}]" if ":" in client else client
    assert objects[0]["source"] == f"{host}:4057"
    assert objects[2]["source"] == f"{host}:49759"
    assert objects[2]["stream"] == 1
    assert "stream" not in objects[0]
    assert objects[1]["time"] == "2023-11-14T22:13:21.000000Z"


def test_byte_by_byte_and_both_directions_interleaved(tmp_path: Path) -> None:
    capture = Capture()
    answers = b"".join(captures.ANSWERS)
    capture.tcp(100, flags=captures.SYN)
    capture.tcp(500, flags=captures.SYN | captures.ACK, from_client=False)
    for at in range(max(len(STREAM), len(answers))):
        if at < len(STREAM):
            capture.tcp(101 + at, STREAM[at : at + 1])
        if at < len(answers):
            capture.tcp(501 + at, answers[at : at + 1], from_client=False)
    status, objects = capture.decode(tmp_path)
    assert status == 0
    assert sorted(kinds(objects)) == sorted(ALL_KINDS)
    assert {found["stream"] for found in objects} == {1}
    assert [found["role"] for found in objects if found["packet"] == "ConnectionParameters"] == [
        "request",
        "response",
    ]


def test_retransmitted_and_reordered(tmp_path: Path) -> None:
    capture = Capture()
    capture.tcp(100, flags=captures.SYN)
    starts = list(range(0, len(STREAM), 300))
    for start in [*starts[::2], *starts[::-1], *starts[:3]]:
        capture.tcp(101 + start, STREAM[start : start + 300])
    status, objects = capture.decode(tmp_path)
    assert (status, kinds(objects)) == (0, REQUEST_KINDS)


def test_a_gap_is_reported_and_reading_goes_on(tmp_path: Path) -> None:
    capture = Capture()
    capture.tcp(100, flags=captures.SYN)
    capture.tcp(101, STREAM[:572])
    capture.tcp(101 + 604, STREAM[604:])
    status, objects = capture.decode(tmp_path)
    assert status == 1
    assert kinds(objects) == ["EstablishConnection", "Gap", "UserMessage"]
    assert objects[1]["offset"] == 572
    assert objects[1]["size"] == 32
    assert objects[1]["stream"] == 1


def test_frames_cut_short_by_the_capture_are_gaps(tmp_path: Path) -> None:
    """A snap length leaves the headers and loses the rest of each body."""
    capture = Capture()
    capture.stream(STREAM, 1460)
    capture.frames = [frame[:800] for frame in capture.frames]
    status, objects = capture.decode(tmp_path)
    assert status == 1
    assert kinds(objects)[:2] == ["EstablishConnection", "ConnectionParameters"]
    assert "Gap" in kinds(objects)


def test_a_packet_begins_a_stream_joined_late(tmp_path: Path) -> None:
    capture = Capture()
    capture.tcp(7777, STREAM[300:])
    status, objects = capture.decode(tmp_path)
    assert (status, kinds(objects)) == (1, ["Malformed", *REQUEST_KINDS[1:]])


def test_other_ports_are_passed_over_unless_asked_for(tmp_path: Path) -> None:
    capture = Capture()
    capture.tcp(100, flags=captures.SYN, port=11801)
    capture.tcp(101, STREAM, port=11801)
    capture.udp(vectors.PING_REQUEST.data, port=13527)
    capture.tcp(5, b"GET / HTTP/1.1", port=80)
    assert capture.decode(tmp_path) == (0, [])
    status, objects = capture.decode(tmp_path, "--port", "11801", "--ping-port", "13527")
    assert (status, kinds(objects)) == (0, [*REQUEST_KINDS, "Ping"])


def test_a_datagram_that_is_no_ping_is_malformed(tmp_path: Path) -> None:
    capture = Capture()
    capture.udp(b"hello")
    status, objects = capture.decode(tmp_path)
    assert status == 1
    assert objects[0]["reason"] == "a Ping is 24 bytes, this datagram has 5"


def test_vlan_tags_are_passed() -> None:
    capture = Capture()
    capture.tcp(5, b"data")
    (frame,) = capture.frames
    tagged = frame[:12] + bytes.fromhex("8100 0064") + frame[12:]
    packet = read_packet(captures.ETHERNET, tagged)
    assert isinstance(packet, Segment)
    assert packet.data == b"data"


def test_fragments_and_other_protocols_are_passed_over() -> None:
    later = dpkt.ip.IP(p=6, data=b"rest of a segment")
    later.offset = 100
    assert read_packet(captures.RAW, bytes(later)) is None
    assert read_packet(captures.RAW, bytes(dpkt.ip.IP(p=1, data=dpkt.icmp.ICMP()))) is None
    assert read_packet(captures.ETHERNET, bytes(60)) is None
    assert read_packet(captures.RAW, b"") is None


def test_unknown_link_types_are_named() -> None:
    with pytest.raises(UnreadableError, match="link type 147"):
        read_packet(147, b"")


FIELDS = st.sampled_from([*range(12, 24), 46, 47])
"""Bytes of EtherType, IPv4 and TCP headers that decide how a frame is read."""


@settings(max_examples=300)
@given(
    st.binary(max_size=20),
    st.integers(0, 0xFF),
    st.dictionaries(FIELDS, st.integers(0, 0xFF), max_size=2),
    st.integers(-30, 6),
)
def test_the_short_way_says_what_dpkt_says(
    data: bytes, flags: int, changes: dict[int, int], padding: int
) -> None:
    """Frames that are read without dpkt, and frames that nearly are."""
    capture = Capture()
    capture.tcp(7, data, flags=flags)
    frame = bytearray(capture.frames[0])
    for place, value in changes.items():
        frame[place] = value
    frame = frame + bytes(padding) if padding >= 0 else frame[:padding]
    short = frames._usual(bytes(frame))
    if short is not None:
        packet = dpkt.ethernet.Ethernet(bytes(frame)).data
        assert short == frames._transport(dpkt, packet)


def test_the_short_way_is_taken() -> None:
    capture = Capture()
    capture.tcp(7, b"data", flags=captures.SYN)
    found = frames._usual(capture.frames[0] + bytes(6))
    assert found == Segment((captures.CLIENT, 49759), (captures.SERVER, 1801), 7, b"data", syn=True)
