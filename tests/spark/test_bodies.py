"""The ways to read a body, and bodies that cannot be read that way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.spark.bodies import BODY_READERS


@pytest.mark.parametrize(
    ("how", "body_type", "body", "expected"),
    [
        ("text", 0, b"\xef\xbb\xbfplain", "plain"),
        ("text", 0, b"\xff", None),
        ("utf-16", 0, "größer".encode("utf-16-le"), "größer"),
        ("utf-16", 0, b"\xff\xfea\0", "a"),
        ("utf-16", 0, b"odd", None),
        ("activex", 8, "bstr".encode("utf-16-le"), "bstr"),
        ("activex", 3, b"\x05\0\0\0", "5"),
        ("activex", 13, b"\x00\xff\x80", None),
        ("value", 0, b"<?xml version='1.0'?><ArrayOfInt><int>5</int></ArrayOfInt>", "[5]"),
        ("value", 0, b'{"a": 1}', '{"a": 1}'),
        ("value", 3, b"\x05\0\0\0", "5"),
        ("value", 768, b"\x05\0\0\0", None),
    ],
)
def test_reading(how: str, body_type: int, body: bytes, expected: str | None) -> None:
    read = BODY_READERS[how]
    assert read is not None
    assert read(body_type, body) == expected


@given(
    st.sampled_from(["text", "utf-16", "activex", "value"]),
    st.integers(0, 70) | st.just(768),
    st.binary(max_size=200),
)
def test_no_body_costs_a_row(how: str, body_type: int, body: bytes) -> None:
    read = BODY_READERS[how]
    assert read is not None
    found = read(body_type, body)
    assert found is None or isinstance(found, str)
