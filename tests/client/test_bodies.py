"""Bodies: Python values to bytes and back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.client.bodies import VT_BSTR, VT_LPSTR, VT_LPWSTR, VT_R4, decode_body, decode_text, encode_body

values = st.one_of(
    st.binary(),
    st.text(st.characters(min_codepoint=1, exclude_categories=("Cs",))),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.uuids(),
)


@given(values)
def test_values_come_back(value: Any) -> None:
    found = decode_body(*encode_body(value))
    assert found == (value.removesuffix("\0") if isinstance(value, str) else value)
    assert isinstance(found, type(value))


def test_what_each_is_on_the_wire() -> None:
    assert encode_body("hé") == ("hé".encode("utf-16-le"), VT_LPWSTR)
    assert encode_body("x", VT_BSTR) == (b"x\0", VT_BSTR)
    assert encode_body("x", VT_LPSTR) == (b"x", VT_LPSTR)
    assert encode_body("é", 0) == ("é".encode(), 0)
    assert encode_body({"a": ["é"]}) == ('{"a":["é"]}'.encode(), 0)
    assert encode_body(1) == (b"\1\0\0\0", 3)
    assert encode_body(1 << 40)[1] == 20
    assert encode_body(0.5, VT_R4) == (b"\0\0\0\x3f", VT_R4)
    assert encode_body(True) == (b"\xff\xff", 11)
    assert encode_body(None) == (b"", 0)
    assert encode_body(bytearray(b"x"), 17) == (b"x", 17)
    assert encode_body(UUID(int=1))[1] == 72
    with pytest.raises(TypeError, match="set"):
        encode_body({1})  # type: ignore[arg-type]  # on purpose


def test_text_of_any_kind() -> None:
    assert decode_text(b"", 0) == ""
    assert decode_text(b"plain", 0) == "plain"
    assert decode_text("wide".encode("utf-16-le"), 0) == "wide"
    assert decode_text(b"old \xe9", VT_LPSTR) == "old é"
    with pytest.raises(ValueError, match="not text"):
        decode_text(b"\0\1\2\xff", 0)
