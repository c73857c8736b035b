"""Bodies: from Python values to bytes and a VARTYPE, and back.

``str`` travels as UTF-16 text (VT_LPWSTR), numbers, truth values and GUIDs as what they are, ``dict`` and ``list`` as
JSON, ``bytes`` as they are. Every MSMQ client reads these.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final, TypeAlias
from uuid import UUID

from msmq.wire.bodies import read_text

Body: TypeAlias = (
    "bytes | bytearray | memoryview | str | int | float | bool | UUID | dict[str, Any] | list[Any] | None"
)

VT_EMPTY: Final = 0
VT_I2: Final = 2
VT_I4: Final = 3
VT_R4: Final = 4
VT_R8: Final = 5
VT_BSTR: Final = 8
VT_BOOL: Final = 11
VT_I1: Final = 16
VT_UI1: Final = 17
VT_UI2: Final = 18
VT_UI4: Final = 19
VT_I8: Final = 20
VT_UI8: Final = 21
VT_LPSTR: Final = 30
VT_LPWSTR: Final = 31
VT_CLSID: Final = 72
VT_BYTES: Final = 0x1011

_NUMBERS: Final = {
    VT_I2: "<h", VT_I4: "<i", VT_R4: "<f", VT_R8: "<d", VT_I1: "<b", VT_UI1: "<B",
    VT_UI2: "<H", VT_UI4: "<I", VT_I8: "<q", VT_UI8: "<Q",
}  # fmt: skip


def encode_body(body: Body, body_type: int | None = None) -> tuple[bytes, int]:
    """The bytes of a value and its VARTYPE; ``body_type`` asks for another one than the usual."""
    if isinstance(body, bytes):
        return body, body_type or VT_EMPTY
    if body is None:
        return b"", body_type or VT_EMPTY
    if isinstance(body, bytearray | memoryview):
        return bytes(body), body_type or VT_EMPTY
    if isinstance(body, str):
        return _encode_text(body, VT_LPWSTR if body_type is None else body_type)
    if isinstance(body, bool):
        return struct.pack("<h", -1 if body else 0), VT_BOOL
    if isinstance(body, int | float):
        usual = VT_R8 if isinstance(body, float) else VT_I4 if -(1 << 31) <= body < 1 << 31 else VT_I8
        kind = body_type or usual
        return struct.pack(_NUMBERS[kind], body), kind
    if isinstance(body, UUID):
        return body.bytes_le, VT_CLSID
    if isinstance(body, dict | list):
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), body_type or VT_EMPTY
    raise TypeError(
        f"A body is bytes, text, a number, a UUID, or something for JSON, not {type(body).__name__}."
    )


def _encode_text(text: str, body_type: int) -> tuple[bytes, int]:
    if body_type in (VT_BSTR, VT_LPWSTR):
        return text.encode("utf-16-le"), body_type
    return text.encode(), body_type


def decode_body(body: bytes, body_type: int) -> Any:
    """The value of a body as its type says; bytes when it does not say."""
    layout = _NUMBERS.get(body_type)
    if layout is not None and len(body) == struct.calcsize(layout):
        return struct.unpack(layout, body)[0]
    if body_type == VT_BOOL and len(body) == 2:
        return body != b"\0\0"
    if body_type == VT_CLSID and len(body) == 16:
        return UUID(bytes_le=body)
    if body_type in (VT_BSTR, VT_LPWSTR, VT_LPSTR):
        return decode_text(body, body_type)
    return body


def decode_text(body: bytes, body_type: int) -> str:
    """A body as text: by its type, else UTF-16 or UTF-8 as its bytes show. ValueError when it is none."""
    if not body:
        return ""
    if body_type in (VT_BSTR, VT_LPWSTR):
        return body.decode("utf-16-le").removesuffix("\0")
    found = read_text(body_type, body)
    if found is None:
        raise ValueError("The body is not text.")
    return found.text
