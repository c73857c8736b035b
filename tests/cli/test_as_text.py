"""The text for people: what it shows, and that no packet can make it misbehave."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msmq.cli.as_text import safe, value_text
from msmq.wire.describe import Kind, Node
from tests.capture.captures import Capture, decode
from tests.wire import messages, vectors

HEX = vectors.USER_MESSAGE.data.hex().encode()


def lines(data: bytes, *arguments: str) -> list[str]:
    result = decode(*arguments, given=data)
    assert result.exit_code == 0
    return result.stdout.splitlines()


def row(found: list[str], name: str) -> list[str]:
    """The cells of the first row of that name."""
    (line, *_) = (line for line in found if line.strip().startswith(f"{name} "))
    return re.split(r"\s{2,}", line.strip())


def test_a_message_is_told() -> None:
    found = lines(HEX)
    assert found[0] == "1. UserMessage  2,224 bytes, offset 0"
    assert found[1].strip() == (
        "Carries an express message “mqsender label” to DIRECT=OS:a04bm02\\q: 1,000 characters of text."
    )
    assert "   UserHeader  76 bytes, MS-MQMQ 2.2.19.2" in found
    assert row(found, "PacketSize") == ["PacketSize", "2224 (0x8b0)", "bytes"]
    assert row(found, "TimeToReachQueue") == [
        "TimeToReachQueue",
        "345600 (0x54600)",
        "4 days to reach the destination",
    ]
    assert row(found, "DQ") == ["DQ", "7", "a direct name"]
    assert row(found, "DestinationQueue") == ["DestinationQueue", "DIRECT=OS:a04bm02\\q"]
    assert row(found, "Label") == ["Label", "mqsender label", "the application's title for the message"]
    assert row(found, "CorrelationID") == ["CorrelationID", "00, 20 times", "none"]
    assert found[-1] == "1 packet: 1 UserMessage."
    assert "not set: JN JP TH CQ MQ AH HH" in "\n".join(found)


def test_a_pipe_gets_plain_lines() -> None:
    found = lines(HEX)
    assert not any("\x1b" in line or line != line.rstrip() for line in found)
    assert max(map(len, found)) <= 120


def test_brief() -> None:
    assert lines(HEX, "--brief") == [
        "1. UserMessage  2,224 bytes, offset 0",
        "   Carries an express message “mqsender label” to DIRECT=OS:a04bm02\\q: 1,000 characters of text.",
        "",
        "1 packet: 1 UserMessage.",
    ]


def test_offsets() -> None:
    found = lines(HEX, "--offsets")
    assert any(re.match(r"\s+64\+2\s+Count\s+26 \(0x1a\)", line) for line in found)
    assert any(re.match(r"\s+bit 10\s+DQ\s+7", line) for line in found)
    assert "   UserHeader  offset 16, 76 bytes, MS-MQMQ 2.2.19.2" in found


@pytest.mark.parametrize(
    ("body", "limit", "expected"),
    [
        ("abcdef".encode("utf-16-le"), 3, ["abc", "... 3 more characters, see --max-body"]),
        ("a\nb\tc".encode("utf-16-le"), 99, ["a", "b    c"]),
        (
            bytes([0xDC]) * 15,
            5,
            ["000000  dc dc dc dc dc                                   .....", "... 10 more bytes"],
        ),
        ("abc".encode("utf-16-le"), 0, ["... 3 more characters, see --max-body"]),
    ],
)
def test_body_previews(body: bytes, limit: int, expected: list[str]) -> None:
    found = lines(messages.message(body=body).data, "--max-body", str(limit))
    start = next(at for at, line in enumerate(found) if line.startswith("   MessageBody "))
    shown = [line.strip() for line in found[start + 1 :]]
    for wanted, line in zip(expected, shown, strict=False):
        assert line.startswith(wanted)


def test_captures_show_time_and_ends(tmp_path: Path) -> None:
    capture = Capture()
    capture.stream(vectors.SESSION_ACK.data, 1000, from_client=False)
    path = tmp_path / "ack.pcap"
    path.write_bytes(capture.pcap())
    result = decode(str(path))
    assert result.stdout.splitlines()[0] == (
        "1. SessionAck  10.0.0.1:1801 → 10.0.0.2:49759  2023-11-14 22:13:21.000000 UTC  36 bytes, offset 0"
    )
    assert result.stdout.splitlines()[-1] == "1 packet: 1 SessionAck. 1 connection in 3 captured frames."


def test_damage_is_told() -> None:
    result = decode(given=vectors.USER_MESSAGE_DUMP.data)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "1. Malformed  1,650 bytes, offset 0",
        "   the packet says 2224 bytes and ends after 1650",
        "",
        "0 packets. Not decoded: 1 malformed, 0 gaps.",
    ]


def test_strangers_cannot_steer_the_terminal() -> None:
    label = "\x1b[31m[bold]red[/bold]\r\n\u202egnitirw\u2028\ud800"
    result = decode(given=messages.message("OS:\x07host\\q", label=label, body=b"\x1b]0;title\x07").data)
    assert result.exit_code == 0
    assert "[bold]red[/bold]" in result.stdout
    for character in "\x1b\r\x07\u202e\u2028\ud800":
        assert character not in result.stdout
    assert r"\x1b[31m" in result.stdout
    assert r"\u202e" in result.stdout


def test_safe_text_is_left_alone() -> None:
    assert safe("grün → 日本") == "grün → 日本"
    assert safe("a\0b") == r"a\x00b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (4660, "4660 (0x1234)"),
        (b"\x5a" * 512, "5a, 512 times"),
        (b"\0\0", "0000"),
        (bytes(range(40)), "000102030405060708090a0b0c0d0e0f1011121314151617... (40 bytes)"),
        ("text", "text"),
    ],
)
def test_values(value: int | bytes | str, text: str) -> None:
    assert value_text(Node(Kind.VALUE, "Name", 0, 1, value)) == text


def test_a_narrow_terminal_wraps_meanings_in_their_column() -> None:
    found = decode(given=HEX, columns=80).stdout.splitlines()
    assert max(len(line) for line in found if "S-1-5" not in line) <= 80
