"""Hexadecimal text in the layouts people have it in."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.capture.hextext import looks_like_text, read_blocks
from msmq.capture.problems import UnreadableError

DATA = bytes.fromhex("10000300 4c494f52 b0080000 00460500 d1587355 beef")


def read(text: str | bytes) -> list[bytes]:
    """The blocks of a text."""
    raw = text.encode() if isinstance(text, str) else text
    blocks = [b""]
    for piece in read_blocks(io.BytesIO(raw), raw[:16]):
        if piece is None:
            blocks.append(b"")
        else:
            blocks[-1] += piece
    return blocks


@pytest.mark.parametrize(
    "text",
    [
        "100003004c494f52b008000000460500d1587355beef",
        "10 00 03 00 4C 49 4F 52 B0 08 00 00 00 46 05 00\nD1 58 73 55 BE EF\n",
        "1000 0300 4c49 4f52\r\nb008 0000 0046 0500\r\nd158 7355 beef",
        "# a packet\n10000300 4c494f52 # signature\nb0080000 00460500 d1587355 beef",
        ", ".join(f"0x{byte:02x}" for byte in DATA),
        r'"\x10\x00\x03\x00\x4c\x49\x4f\x52\xb0\x08\x00\x00\x00\x46\x05\x00\xd1\x58\x73\x55\xbe\xef"',
        "10:00:03:00:4c:49:4f:52:b0:08:00:00:00:46:05:00:d1:58:73:55:be:ef",
        "10 0\n0 03004c494f52b008000000460500d1587355beef",
        # xxd
        "00000000: 1000 0300 4c49 4f52 b008 0000 0046 0500  ....LIOR.....F..\n"
        "00000010: d158 7355 beef                           .XsU..\n",
        # hexdump -C
        "00000000  10 00 03 00 4c 49 4f 52  b0 08 00 00 00 46 05 00  |....LIOR.....F..|\n"
        "00000010  d1 58 73 55 be ef                                 |.XsU..|\n"
        "00000016\n",
        # od -t x1
        "0000000 10 00 03 00 4c 49 4f 52 b0 08 00 00 00 46 05 00\n0000020 d1 58 73 55 be ef\n0000026\n",
        # Wireshark, with text beside it that could be read as digits
        "0000   10 00 03 00 4c 49 4f 52  b0 08 00 00 00 46 05 00   ....LIOR.....F..\n"
        "0010   d1 58 73 55 be ef                                  beefed\n",
        # tcpdump -X
        "\t0x0000:  1000 0300 4c49 4f52 b008 0000 0046 0500  ....LIOR.....F..\n"
        "\t0x0010:  d158 7355 beef                           .XsU..\n",
    ],
)  # fmt: skip
def test_layouts(text: str) -> None:
    assert b"".join(read(text)) == DATA


def test_blank_lines_end_blocks() -> None:
    assert read("\n\n0102\n  \n\n03\n# comment\n04\n\n") == [b"\1\2", b"\3\4", b""]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_of_windows_tools(encoding: str) -> None:
    assert read("# größer\r\n10 00\r\n".encode(encoding)) == [b"\x10\0"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0102\nhello world\n", "line 2 is not hexadecimal: 'hello world'"),
        ("0102\n3\n", "line 2: an odd number"),
        ("00000000  10 00\n*\n00000020  01 02\n", "line 2: the dump leaves out repeated lines"),
        ("\x1b[31mred", r"'\\x1b\[31mred'"),
        (b"10 00 \xff\xfe", "neither hexadecimal"),
    ],
)
def test_what_is_not_hexadecimal_is_named(text: str | bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read(text)


def test_a_line_longer_than_memory_allows_is_read_in_pieces() -> None:
    assert read("1000" * 100_000 + " # " + "comment " * 50_000 + "\n03") == [b"\x10\0" * 100_000 + b"\3"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"1000 0300\n", True),
        ("# é".encode(), True),
        ("# é".encode()[:-1], True),
        (b"\xff\xfe1\0", True),
        (b"\x10\0\x03\0LIOR", False),
        (b"\x80\x81", False),
    ],
)
def test_text_is_told_from_bytes(head: bytes, expected: bool) -> None:
    assert looks_like_text(head) is expected


@given(st.binary(max_size=100), st.sampled_from(["", " ", "\n", ", ", ":"]), st.booleans())
def test_any_bytes_come_back(data: bytes, separator: str, upper: bool) -> None:
    text = separator.join(f"{byte:02X}" if upper else f"{byte:02x}" for byte in data)
    assert b"".join(read(text)) == data


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read(text.encode("utf-8", "surrogatepass"))
    except UnreadableError:
        return
