"""Bodies as text and numbers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.wire.bodies.text import BodyText, read_number, read_text, type_name

EMPTY, I4, R8, BSTR, BOOL, LPSTR, LPWSTR, CLSID, BYTES = 0, 3, 5, 8, 11, 30, 31, 72, 0x1011


@pytest.mark.parametrize(
    ("body_type", "body", "expected"),
    [
        (BSTR, "höher".encode("utf-16-le"), BodyText("UTF-16", "text", "höher")),
        (LPWSTR, "end\0".encode("utf-16-le"), BodyText("UTF-16", "text", "end")),
        (LPSTR, "höher".encode("cp1252"), BodyText("Windows-1252", "text", "höher")),
        (EMPTY, b'<?xml version="1.0"?><a/>\r\n', BodyText("UTF-8", "XML", '<?xml version="1.0"?><a/>\r\n')),
        (EMPTY, b"\xef\xbb\xbf<a/>", BodyText("UTF-8", "XML", "<a/>")),
        (EMPTY, b"\xff\xfe<\0a\0/\0>\0", BodyText("UTF-16", "XML", "<a/>")),
        (EMPTY, "plain wide text".encode("utf-16-le"), BodyText("UTF-16", "text", "plain wide text")),
        (BYTES, b'{"order": 66}', BodyText("UTF-8", "JSON", '{"order": 66}')),
        (BYTES, b"[1, 2]", BodyText("UTF-8", "JSON", "[1, 2]")),
    ],
)  # fmt: skip
def test_text_is_read(body_type: int, body: bytes, expected: BodyText) -> None:
    assert read_text(body_type, body) == expected


@pytest.mark.parametrize(
    ("body_type", "body"),
    [
        (EMPTY, b""),
        (EMPTY, b"\0"),
        (BYTES, b"\x01\x02\xff"),
        (BSTR, b"odd"),
        (I4, b"text"),
        (EMPTY, b"bell\x07"),
    ],
)
def test_what_is_no_text_is_left_alone(body_type: int, body: bytes) -> None:
    assert read_text(body_type, body) is None


@pytest.mark.parametrize(
    ("body_type", "body", "expected"),
    [
        (I4, struct.pack("<i", -5), "-5"),
        (R8, struct.pack("<d", 2.5), "2.5"),
        (BOOL, b"\xff\xff", "true"),
        (BOOL, b"\0\0", "false"),
        (CLSID, bytes(range(16)), "03020100-0504-0706-0809-0a0b0c0d0e0f"),
        (I4, b"five!", None),
        (BSTR, b"1234", None),
    ],
)
def test_numbers_are_read_when_their_size_fits(body_type: int, body: bytes, expected: str | None) -> None:
    assert read_number(body_type, body) == expected


@pytest.mark.parametrize(
    ("body_type", "name"),
    [(0, "VT_EMPTY"), (8, "VT_BSTR"), (31, "VT_LPWSTR"), (0x1011, "VT_VECTOR | VT_UI1"), (768, None)],
)
def test_types_have_names(body_type: int, name: str | None) -> None:
    assert type_name(body_type) == name


@given(st.integers(0, 0xFFFFFFFF) | st.sampled_from([0, 3, 8, 11, 30, 31, 72]), st.binary(max_size=40))
def test_no_body_upsets_the_reader(body_type: int, body: bytes) -> None:
    text = read_text(body_type, body)
    assert text is None or text.text
    read_number(body_type, body)
    type_name(body_type)
