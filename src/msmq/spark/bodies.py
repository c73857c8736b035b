"""Bodies as text: the ways the option ``body`` may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msmq.wire.bodies import read_number, read_text

BodyReader = Callable[[int, bytes], str | None]


def _utf8(_: int, body: bytes) -> str | None:
    return _strict(body, "utf-8-sig")


def _utf16(_: int, body: bytes) -> str | None:
    return _strict(body.removeprefix(b"\xff\xfe"), "utf-16-le")


def _activex(body_type: int, body: bytes) -> str | None:
    """What the type of the body says it is: text or a number. Null when it is neither."""
    number = read_number(body_type, body)
    if number is not None:
        return number
    found = read_text(body_type, body)
    return None if found is None else found.text


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
}
"""A body that cannot be read the way it is asked for is null; no row is lost for it."""
