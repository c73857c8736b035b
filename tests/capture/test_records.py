"""Capture files: both formats and their variants, files that lie, and pipes that are followed."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import dpkt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msmq.capture.problems import UnreadableError
from msmq.capture.records import MAX_RECORD_BYTES, is_capture, read_frames
from tests.capture import captures
from tests.capture.captures import Capture, decode_json, kinds
from tests.wire import vectors

STREAM = b"".join(captures.REQUESTS)
REQUEST_KINDS = ["EstablishConnection", "ConnectionParameters", "UserMessage"]


def test_pcapng_says_the_same(tmp_path: Path) -> None:
    capture = Capture()
    capture.stream(STREAM, 1460)
    path = tmp_path / "test.pcapng"
    path.write_bytes(capture.pcapng())
    assert decode_json(str(path)) == capture.decode(tmp_path)


def test_several_interfaces_in_one_file(tmp_path: Path) -> None:
    """pcapng frames name their interface; each has its own link type and clock."""
    ethernet, raw = Capture(captures.ETHERNET), Capture(captures.RAW)
    ethernet.udp(vectors.PING_REQUEST.data)
    raw.udp(vectors.PING_RESPONSE.data, from_client=False)
    options = [dpkt.pcapng.PcapngOptionLE(code=9, data=b"\x09"), dpkt.pcapng.PcapngOptionLE(code=0)]
    file = io.BytesIO()
    interfaces = [
        dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=captures.ETHERNET),
        dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=captures.RAW, opts=options),
    ]
    writer = dpkt.pcapng.Writer(file, idb=interfaces)
    writer.writepkt(ethernet.frames[0], 5)
    time_ns = 7 * 10**9
    block = dpkt.pcapng.EnhancedPacketBlockLE(
        iface_id=1, ts_high=time_ns >> 32, ts_low=time_ns & 0xFFFFFFFF, pkt_data=raw.frames[0]
    )
    file.write(bytes(block))
    path = tmp_path / "two.pcapng"
    path.write_bytes(file.getvalue())
    status, objects = decode_json(str(path))
    assert (status, kinds(objects)) == (0, ["Ping", "Ping"])
    assert [found["time"] for found in objects] == [
        "1970-01-01T00:00:05.000000Z",
        "1970-01-01T00:00:07.000000Z",
    ]


def test_big_endian_and_nanosecond_files() -> None:
    capture = Capture()
    capture.udp(vectors.PING_REQUEST.data)
    (frame,) = capture.frames
    file = dpkt.pcap.FileHdr(magic=dpkt.pcap.TCPDUMP_MAGIC_NANO, linktype=1)
    record = dpkt.pcap.PktHdr(tv_sec=5, tv_usec=500_000_000, caplen=len(frame), len=len(frame))
    data = bytes(file) + bytes(record) + frame
    assert is_capture(data)
    assert list(read_frames(io.BytesIO(data), data)) == [(5.5, 1, frame)]


def test_a_capture_that_ends_inside_a_record_gives_what_it_has(tmp_path: Path) -> None:
    capture = Capture()
    capture.stream(STREAM, 1460)
    path = tmp_path / "cut.pcap"
    path.write_bytes(capture.pcap()[:-5])
    status, objects = decode_json(str(path))
    assert status == 1
    assert kinds(objects) == [*REQUEST_KINDS, "Malformed"]
    assert objects[-1]["reason"] == "the capture file ends inside a record"


@pytest.mark.parametrize("size", [MAX_RECORD_BYTES + 1, 0xFFFFFFFF])
def test_a_claimed_size_is_not_believed(size: int) -> None:
    data = bytes(dpkt.pcap.LEFileHdr()) + bytes(dpkt.pcap.LEPktHdr(caplen=size, len=size))
    with pytest.raises(UnreadableError, match=f"a record of {size} bytes"):
        list(read_frames(io.BytesIO(data), data))


def test_a_block_smaller_than_its_head_is_refused() -> None:
    data = bytes(dpkt.pcapng.SectionHeaderBlockLE()) + bytes.fromhex("01000000 04000000")
    with pytest.raises(UnreadableError):
        list(read_frames(io.BytesIO(data), data))


def test_without_dpkt_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dpkt", None)
    with pytest.raises(UnreadableError, match=r"pip install 'msmq\[capture\]'"):
        list(read_frames(io.BytesIO(), b"\xd4\xc3\xb2\xa1"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "0a0d0d0a"]),
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=10),
)
def test_hostile_captures_end_with_a_status(
    tmp_path: Path, magic: str, noise: bytes, changes: list[tuple[int, int]]
) -> None:
    """Noise behind every magic, and sound captures with bytes changed anywhere."""
    capture = Capture()
    capture.stream(STREAM, 700)
    sound = capture.pcapng() if magic == "0a0d0d0a" else capture.pcap()
    changed = bytearray(sound)
    for place, value in changes:
        changed[place % len(changed)] = value
    path = tmp_path / "hostile"
    for data in (bytes.fromhex(magic) + noise, bytes(changed), bytes(changed[: len(noise) * 20])):
        path.write_bytes(data)
        status, _ = decode_json(str(path))
        assert status in (0, 1, 2)
