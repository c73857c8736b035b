"""Bodies as text: the forms that the option ``body`` may ask for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from msmq.errors import DecodeError
from msmq.wire.bodies import Formatter, formatter_of, read_as, text_of, to_json
from msmq.wire.bodies.text import read_number

BodyReader = Callable[[int, bytes], str | None]


def _utf8(_: int, body: bytes) -> str | None:
    return _strict(body, "utf-8-sig")


def _utf16(_: int, body: bytes) -> str | None:
    return _strict(body.removeprefix(b"\xff\xfe"), "utf-16-le")


def _activex(body_type: int, body: bytes) -> str | None:
    """Read a body as its type says: text or a number. Null if it is neither."""
    number = read_number(body_type, body)
    if number is not None:
        return number
    return text_of(body_type, body)


def value(body_type: int, body: bytes) -> str | None:
    """Read the value that the sender's formatter wrote, as JSON for ``from_json`` of Spark. Null if it is only
    bytes.
    """
    formatter = formatter_of(body_type, body) or Formatter.JSON
    try:
        return json.dumps(to_json(read_as(formatter, body_type, body)), ensure_ascii=False)
    except DecodeError:
        return None


def text(body_type: int, body: bytes) -> str | None:
    """Read a body as text: as its type says, else as UTF-8 if it is valid."""
    found = _activex(body_type, body)
    return _utf8(body_type, body) if found is None else found


def _strict(body: bytes, codec: str) -> str | None:
    try:
        return body.decode(codec)
    except UnicodeDecodeError:
        return None


BODY_READERS: Final[dict[str, BodyReader | None]] = {
    "bytes": None,
    "text": _utf8,
    "utf-16": _utf16,
    "activex": _activex,
    "value": value,
}
"""A body that cannot be read in the requested form is null; its row is kept."""
