"""Bodies as text for people: where the type says so or the bytes clearly are text; numbers are printed."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from msmq.errors import DecodeError
from msmq.wire.bodies import activex
from msmq.wire.bodies.activex import SCALARS, VT_VECTOR, BodyType

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")


class BodyText(NamedTuple):
    """A body read as text: how it was encoded, what kind of text it looks like, and the text."""

    encoding: str
    kind: str
    text: str


def type_name(body_type: int) -> str | None:
    """Return the name of a type, such as ``VT_BSTR`` or ``VT_VECTOR | VT_UI1``; None for an unknown number."""
    try:
        name = f"VT_{BodyType(body_type & ~VT_VECTOR).name}"
    except ValueError:
        return None
    return f"VT_VECTOR | {name}" if body_type & VT_VECTOR else name


def read_text(body_type: int, body: bytes) -> BodyText | None:
    """Read a body as text; None if it is empty or not text."""
    if not body:
        return None
    if body_type in (BodyType.BSTR, BodyType.LPWSTR):
        return _text(body, "utf-16-le", "UTF-16")
    if body_type in SCALARS:
        return None
    if body.startswith(b"\xff\xfe"):
        return _text(body[2:], "utf-16-le", "UTF-16")
    if body.startswith(b"\xef\xbb\xbf"):
        return _text(body[3:], "utf-8", "UTF-8")
    found = _text(body, "utf-8", "UTF-8")
    if found is None and _looks_wide(body):
        found = _text(body, "utf-16-le", "UTF-16")
    if found is None and body_type == BodyType.LPSTR:
        found = _text(body, "cp1252", "Windows-1252")
    return found


def read_number(body_type: int, body: bytes) -> str | None:
    """Read a body as the number, date, truth value or GUID that its type names; None if it is none."""
    if body_type not in SCALARS:
        return None
    try:
        value = activex.read(body_type, body)
    except DecodeError:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def _looks_wide(body: bytes) -> bool:
    """True if every second byte is nearly always zero, as in UTF-16 text of European languages."""
    high = body[1:512:2]
    return len(body) % 2 == 0 and high.count(0) * 10 >= len(high) * 9


def _text(body: bytes, codec: str, encoding: str) -> BodyText | None:
    try:
        text = body.decode(codec)
    except UnicodeDecodeError:
        return None
    text = text.removesuffix("\0")
    if not text or _CONTROL.search(text):
        return None
    return BodyText(encoding, _kind(text), text)


def _kind(text: str) -> str:
    """Guess the kind of text by its first and last characters only: enough for the caption of a preview."""
    bare = text.strip()
    if bare.startswith("<") and bare.endswith(">"):
        return "XML"
    if (bare[:1], bare[-1:]) in (("{", "}"), ("[", "]")):
        return "JSON"
    return "text"
