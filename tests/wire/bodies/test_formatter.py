"""Bodies: Python values to bytes and back."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.bodies import Formatter, formatter_of, read_as, read_value, text_of, to_json, write_body
from msmq.wire.bodies.activex import BodyType

values = st.one_of(
    st.binary(),
    st.text(st.characters(min_codepoint=1, exclude_categories=("Cs",))),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.uuids(),
    st.datetimes(datetime(100, 1, 1)),
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**14), max_value=10**14),
)


@given(values)
def test_values_come_back(value: Any) -> None:
    for formatter in (Formatter.NATIVE, Formatter.ACTIVEX):
        body, body_type = write_body(value, formatter)
        found = read_value(body_type, body)
        if isinstance(value, datetime) and formatter is Formatter.NATIVE:  # a double has no microseconds
            assert abs(found - value) < timedelta(milliseconds=1)
            continue
        assert found == (value.removesuffix("\0") if isinstance(value, str) else value)
        assert isinstance(found, type(value))


tree = st.recursive(
    values | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(tree.filter(lambda value: value is not None))
def test_trees_come_back_from_the_binary_formatter(value: Any) -> None:
    assert read_as("binary", *reversed(write_body(value, "binary"))) == value


words = st.text(st.characters(min_codepoint=32, max_codepoint=0xD7FF), max_size=8)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,6}", fullmatch=True).filter(
    lambda name: name not in ("string", "boolean", "guid")
)
simple = words | st.integers(-(1 << 31), 1 << 31) | st.booleans() | st.uuids() | st.binary(max_size=8)


@given(simple | st.lists(simple, max_size=4))
def test_values_and_lists_come_back_from_the_xml_formatter(value: Any) -> None:
    assert read_as("xml", *reversed(write_body(value, "xml"))) == value


@given(st.dictionaries(names, words | st.dictionaries(names, words, min_size=2, max_size=3), min_size=1))
def test_objects_come_back_from_the_xml_formatter(members: dict[str, Any]) -> None:
    value = {"$type": "Thing", **members}
    assert read_as("xml", *reversed(write_body(value, "xml"))) == value


def test_what_is_not_what_it_says_stays_bytes() -> None:
    for body_type, body in (
        (3, b"five!"),
        (0x300, b"\0\1"),
        (0, b"<?xml version='1.0'?><open>"),
        (8, b"odd"),
        (99, b"x"),
    ):
        assert read_value(body_type, body) == body
    assert formatter_of(0, b"plain") is None
    with pytest.raises(DecodeError):
        read_as(Formatter.BINARY, 0x300, b"\0\1")
    with pytest.raises(ValueError, match="soap"):
        write_body(1, "soap")


def test_the_text_of_a_body() -> None:
    assert text_of(0x300, write_body("hé", "binary")[0]) == "hé"
    assert text_of(0x300, write_body(5, "binary")[0]) is None
    assert text_of(0, b"<?xml version='1.0'?><int>5</int>") == "<?xml version='1.0'?><int>5</int>"


def test_json_has_a_form_for_everything() -> None:
    value = {
        "when": datetime(2020, 1, 2),
        "how long": timedelta(seconds=1.5),
        7: [Decimal("1.50"), b"\xff", UUID(int=1)],
    }
    assert to_json(value) == {
        "when": "2020-01-02T00:00:00",
        "how long": 1.5,
        "7": ["1.50", "ff", "00000000-0000-0000-0000-000000000001"],
    }
    assert write_body({"when": datetime(2020, 1, 2)})[0] == b'{"when":"2020-01-02T00:00:00"}'


def test_what_each_is_on_the_wire() -> None:
    assert write_body("hé") == ("hé".encode("utf-16-le"), BodyType.LPWSTR)
    assert write_body("x", body_type=BodyType.BSTR) == (b"x\0", BodyType.BSTR)
    assert write_body("x", body_type=BodyType.LPSTR) == (b"x", BodyType.LPSTR)
    assert write_body("é", body_type=0) == ("é".encode(), 0)
    assert write_body({"a": ["é"]}) == ('{"a":["é"]}'.encode(), 0)
    assert write_body(1) == (b"\1\0\0\0", 3)
    assert write_body(1 << 40)[1] == 20
    assert write_body(0.5, body_type=BodyType.R4) == (b"\0\0\0\x3f", BodyType.R4)
    assert write_body(True) == (b"\xff\xff", 11)
    assert write_body(None) == (b"", 0)
    assert write_body(bytearray(b"x"), body_type=17) == (b"x", 17)
    assert write_body(UUID(int=1))[1] == 72
    with pytest.raises(TypeError, match="set"):
        write_body({1})  # type: ignore[arg-type]  # on purpose


def test_text_of_any_kind() -> None:
    assert text_of(0, b"") == ""
    assert text_of(0, b"plain") == "plain"
    assert text_of(0, "wide".encode("utf-16-le")) == "wide"
    assert text_of(BodyType.LPSTR, b"old \xe9") == "old é"
    assert text_of(0, b"\0\1\2\xff") is None
