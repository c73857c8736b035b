"""The formatters together: detect which one wrote a body, and turn values into bodies and back."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, TypeAlias
from uuid import UUID

from msmq.errors import DecodeError
from msmq.wire.bodies import activex, binary, xml
from msmq.wire.bodies.text import read_text

Body: TypeAlias = (
    "bytes | bytearray | memoryview | str | int | float | bool | UUID | Decimal | datetime | timedelta"
    " | dict[Any, Any] | list[Any] | tuple[Any, ...] | None"
)
"""The values that formatters write; not every formatter can write all of them."""


class Formatter(StrEnum):
    """The rules by which a value becomes a body."""

    NATIVE = "native"
    ACTIVEX = "activex"
    XML = "xml"
    BINARY = "binary"
    JSON = "json"


_NATIVE, _ACTIVEX, _XML, _BINARY, _JSON = Formatter
"""For `write_body`, which every message goes through: looking a member up in the class takes longer than the
comparison."""
_DOCUMENTS: Final = (dict, list)
"""The values that the native formatter writes as JSON."""


def read_value(body_type: int, body: bytes) -> Any:
    """Read a body as its type says, or as an XmlSerializer document if it looks like one; else return the bytes."""
    try:
        return read_as(found, body_type, body) if (found := formatter_of(body_type, body)) else body
    except DecodeError:
        return body


def formatter_of(body_type: int, body: bytes) -> Formatter | None:
    """Return the formatter that wrote a body, if the body shows it."""
    if body_type == binary.VT_BINARY_OBJECT:
        return Formatter.BINARY
    if activex.known(body_type):
        return Formatter.ACTIVEX
    if body_type == activex.BodyType.EMPTY and body.startswith(
        (b"<?xml", b"\xef\xbb\xbf<?xml", b"\xff\xfe<\0?\0x\0")
    ):
        return Formatter.XML
    return None


def read_as(formatter: Formatter | str, body_type: int, body: bytes) -> Any:
    """Read a body as ``formatter`` writes it. Raises DecodeError if it is not in that format."""
    how = Formatter(formatter)
    if how is Formatter.XML:
        return xml.read(body)
    if how is Formatter.BINARY:
        return binary.read(body)
    if how is Formatter.JSON:
        return _read_json(body_type, body)
    if how is Formatter.NATIVE:
        return read_value(body_type, body)
    return activex.read(body_type, body)


def text_of(body_type: int, body: bytes) -> str | None:
    """Return the text that a body is or holds; None if it is not text."""
    value = (
        read_value(body_type, body)
        if body_type == binary.VT_BINARY_OBJECT or activex.known(body_type)
        else body
    )
    if isinstance(value, str):
        return value
    if not body:
        return ""
    found = read_text(body_type, body) if isinstance(value, bytes) else None
    return None if found is None else found.text


def write_body(
    value: Body, formatter: Formatter | str = Formatter.NATIVE, body_type: int | None = None
) -> tuple[bytes, int]:
    """Write a value. Returns the body and its BodyType; ``body_type`` asks for a type other than the usual one.

    Raises TypeError for a type that the formatter cannot write, EncodeError for a value that does not fit.
    """
    how = formatter if formatter.__class__ is Formatter else Formatter(formatter)
    if how is _XML:
        return xml.write(value), body_type or activex.BodyType.EMPTY
    if how is _BINARY:
        return binary.write(value), body_type or binary.VT_BINARY_OBJECT
    if how is _JSON or (how is _NATIVE and isinstance(value, _DOCUMENTS)):
        content = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
        return content.encode(), body_type or activex.BodyType.EMPTY
    return activex.write(value, body_type, as_net=how is _ACTIVEX)


def to_json(value: Any) -> Any:
    """Convert a value of `read_value` to the types that JSON has."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_plain(key)): to_json(each) for key, each in value.items()
        }
    if isinstance(value, list):
        return [to_json(each) for each in value]
    return value if value is None or isinstance(value, str | bool | int | float) else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"A value of type {type(value).__name__} has no form in JSON.")


def _read_json(body_type: int, body: bytes) -> Any:
    text = text_of(body_type, body)
    try:
        return json.loads(text if text is not None else body)
    except (ValueError, RecursionError) as error:
        raise DecodeError("The body is no JSON.") from error
