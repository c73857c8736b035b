"""Capture files: both formats and their variants, files that lie, and pipes that are followed."""

from __future__ import annotations

import io
import struct
import sys
from contextlib import nullcontext
from pathlib import Path

import dpkt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msmq.capture.problems import UnreadableError
from msmq.capture.records import MAX_RECORD_BYTES, TruncatedCaptureError, is_capture, read_frames
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


@pytest.mark.slow
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


@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
@pytest.mark.parametrize(
    ("magic", "fraction", "more"),
    [(0xA1B2C3D4, 500_000, b""), (0xA1B23C4D, 500_000_000, b""), (0xA1B2CD34, 500_000, bytes(8))],
    ids=["microseconds", "nanoseconds", "modified"],
)
def test_every_kind_of_pcap(order: str, magic: int, fraction: int, more: bytes) -> None:
    data = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 1500, 1 | 0xF000_0000)
    for frame in (b"one", b"", b"three"):
        data += struct.pack(order + "IIII", 5, fraction, len(frame), 60) + more + frame
    assert list(read_frames(io.BytesIO(data), data)) == [(5.5, 1, frame) for frame in (b"one", b"", b"three")]
    for cut in range(24 + 1, len(data)):
        with pytest.raises(TruncatedCaptureError) if cut not in _ends(data, more) else nullcontext():
            list(read_frames(io.BytesIO(data[:cut]), data))


def _ends(data: bytes, more: bytes) -> set[int]:
    """Where records of three and of no bytes end."""
    head = 16 + len(more)
    return {24, 24 + head + 3, 24 + 2 * head + 3}


def test_records_larger_than_a_piece() -> None:
    """A record that is read in several pieces, between small ones."""
    frames = [b"small", bytes(range(256)) * 4_000, b"small again"]
    capture = io.BytesIO()
    writer = dpkt.pcap.Writer(capture)
    for frame in frames:
        writer.writepkt(frame, 1.0)
    data = capture.getvalue()
    assert [frame for _, _, frame in read_frames(io.BytesIO(data), data)] == frames


def test_a_frame_larger_than_its_block_is_refused() -> None:
    good = bytes(dpkt.pcapng.SectionHeaderBlockLE()) + bytes(dpkt.pcapng.InterfaceDescriptionBlockLE())
    block = struct.pack("<8I", 6, 32, 0, 0, 0, 5, 5, 32)
    with pytest.raises(UnreadableError, match="a frame of 5 bytes in a record of 32"):
        list(read_frames(io.BytesIO(good + block), good))


class Pipe:
    """Bytes that come in parts; asking for more than is there would wait for ever."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    def read(self, size: int) -> bytes:
        raise AssertionError(f"it would wait for {size} bytes")

    def read1(self, size: int) -> bytes:
        return self._parts.pop(0)


def test_a_live_capture_is_followed() -> None:
    """Each frame is given when it is there, before more is asked for."""
    head = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 1500, 1)
    records = [struct.pack("<IIII", 5, 0, 3, 3) + frame for frame in (b"one", b"two", b"six")]
    frames = read_frames(Pipe(head[:10], head[10:] + records[0], records[1][:17], records[1][17:]), head)
    assert [next(frames)[2], next(frames)[2]] == [b"one", b"two"]
    with pytest.raises(UnreadableError, match="IndexError"):
        next(frames)
