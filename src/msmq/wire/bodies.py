"""What a message body holds, as far as its bytes show (MessagePropertiesHeader.BodyType, MS-MQMQ 2.2.19.3).

The protocol never looks into a body and BodyType is only the sender's word. So a body is read as text where
the type says so or the bytes plainly are text, as a number where the type is a number of that size, and
otherwise it stays bytes.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from msmq.wire.guid import guid_text
from msmq.wire.variant import VT

VT_VECTOR: Final = 0x1000

# The automation types beyond MS-MQMQ 2.2.12 (MS-OAUT 2.2.7): senders put any VARTYPE into BodyType.
_AUTOMATION_NAMES: Final = {4: "R4", 5: "R8", 6: "CY", 7: "DATE", 8: "BSTR", 14: "DECIMAL", 30: "LPSTR"}
_UTF16_TYPES: Final = frozenset({8, 31})
_BYTE_TEXT: Final = 30

_NUMBERS: Final = {
    2: "<h", 3: "<i", 4: "<f", 5: "<d", 11: "<h", 16: "<b", 17: "<B", 18: "<H", 19: "<I", 20: "<q", 21: "<Q",
}  # fmt: skip
_CLSID: Final = 72

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")


class BodyText(NamedTuple):
    """A body read as text: how it was encoded, what kind of text it looks like, and the text."""

    encoding: str
    kind: str
    text: str


def type_name(body_type: int) -> str | None:
    """``VT_BSTR``, ``VT_VECTOR | VT_UI1``; None for a number that is no VARTYPE known here."""
    base = body_type & ~VT_VECTOR
    try:
        name = _AUTOMATION_NAMES.get(base) or VT(base).name
    except ValueError:
        return None
    return f"VT_VECTOR | VT_{name}" if body_type & VT_VECTOR else f"VT_{name}"


def read_text(body_type: int, body: bytes) -> BodyText | None:
    """The body as text, or None when it is empty or something else."""
    if not body:
        return None
    if body_type in _UTF16_TYPES:
        return _text(body, "utf-16-le", "UTF-16")
    if body_type in _NUMBERS or body_type == _CLSID:
        return None
    if body.startswith(b"\xff\xfe"):
        return _text(body[2:], "utf-16-le", "UTF-16")
    if body.startswith(b"\xef\xbb\xbf"):
        return _text(body[3:], "utf-8", "UTF-8")
    found = _text(body, "utf-8", "UTF-8")
    if found is None and _looks_wide(body):
        found = _text(body, "utf-16-le", "UTF-16")
    if found is None and body_type == _BYTE_TEXT:
        found = _text(body, "cp1252", "Windows-1252")
    return found


def read_number(body_type: int, body: bytes) -> str | None:
    """The body as the number, truth value or GUID its type says, when its size fits."""
    if body_type == _CLSID and len(body) == 16:
        return guid_text(body).lower()
    layout = _NUMBERS.get(body_type)
    if layout is None or len(body) != struct.calcsize(layout):
        return None
    (value,) = struct.unpack(layout, body)
    return ("true" if value else "false") if body_type == VT.BOOL else repr(value)


def _looks_wide(body: bytes) -> bool:
    """Text of European languages in UTF-16: every second byte is zero, nearly always."""
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
    """By its first and last characters only: a preview's caption, not a verdict."""
    bare = text.strip()
    if bare.startswith("<") and bare.endswith(">"):
        return "XML"
    if (bare[:1], bare[-1:]) in (("{", "}"), ("[", "]")):
        return "JSON"
    return "text"
