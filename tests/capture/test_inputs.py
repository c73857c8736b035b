"""Which kind an input is, and the packets of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.capture.format import Format
from msmq.capture.inputs import Source
from tests.capture import captures
from tests.capture.captures import Capture, decode_json, kinds
from tests.wire import vectors

PACKETS = [vectors.PING_REQUEST, vectors.ESTABLISH_REQUEST, vectors.USER_MESSAGE, vectors.SESSION_ACK]
NAMES = ["Ping", "EstablishConnection", "UserMessage", "SessionAck"]
RAW = b"".join(vector.data for vector in PACKETS)
DUMP = vectors.USER_MESSAGE_DUMP.data


def a_capture() -> bytes:
    capture = Capture()
    capture.udp(vectors.PING_REQUEST.data)
    return capture.pcap()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (RAW, Format.RAW),
        (vectors.PING_REQUEST.data, Format.RAW),
        (RAW.hex().encode(), Format.HEX),
        (b"hello", Format.HEX),
        (b"1", Format.HEX),
        (a_capture(), Format.PCAP),
    ],
)
def test_the_kind_is_seen(tmp_path: Path, data: bytes, expected: Format) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    with Source.open(str(path)) as source:
        assert source.detect() is expected
        assert source.read(1 << 20) == data
        assert source.consumed == source.size == len(data)


@pytest.mark.parametrize(
    ("data", "arguments"),
    [
        (RAW, []),
        (RAW, ["--format", "raw"]),
        (RAW.hex().encode(), ["--format", "hex", "-"]),
        ("\n\n".join(vector.data.hex(" ", 4) for vector in PACKETS).encode(), []),
    ],
)
def test_packets_come_from_standard_input(data: bytes, arguments: list[str]) -> None:
    status, objects = decode_json(*arguments, given=data)
    assert (status, kinds(objects)) == (0, NAMES)
    assert [found["offset"] for found in objects] == [0, 24, 24 + 572, 24 + 572 + 2224]
    assert [found["size"] for found in objects] == [24, 572, 2224, 36]
    assert [found["number"] for found in objects] == [1, 2, 3, 4]


def test_captures_come_from_standard_input() -> None:
    status, objects = decode_json(given=a_capture())
    assert (status, kinds(objects)) == (0, ["Ping"])


def test_a_blank_line_saves_the_packet_after_a_cut_one() -> None:
    text = f"{DUMP.hex()}\n\n{vectors.SESSION_ACK.data.hex()}\n\n{vectors.PING_REQUEST.data.hex()}\n"
    status, objects = decode_json(given=text.encode())
    assert (status, kinds(objects)) == (1, ["Malformed", "SessionAck", "Ping"])
    assert [found["offset"] for found in objects] == [0, 1650, 1686]


def test_a_blank_line_may_stand_inside_a_packet() -> None:
    whole = vectors.USER_MESSAGE.data.hex()
    text = "\n\n".join(whole[at : at + 6] for at in range(0, len(whole), 6))
    status, objects = decode_json(given=text.encode())
    assert (status, kinds(objects)) == (0, ["UserMessage"])


def test_raw_bytes_forced_to_be_hexadecimal_are_refused() -> None:
    assert decode_json("--format", "hex", given=RAW) == (2, [])


def test_a_capture_can_be_read_as_raw_bytes() -> None:
    capture = Capture()
    capture.stream(b"".join(captures.ANSWERS), 100_000)
    status, objects = decode_json("--format", "raw", given=capture.pcap())
    assert status == 1
    assert [kind for kind in kinds(objects) if kind != "Malformed"] == [
        "EstablishConnection",
        "ConnectionParameters",
        "SessionAck",
    ]
