"""GUIDs: sixteen raw bytes inside the program, text where people see them (MS-MQMQ 2.1.3 Guid, MS-DTYP 2.3.4).

The bytes are in MS-DTYP order, the same as ``uuid.UUID.bytes_le``: the first three groups of the text are little-endian
numbers, the last two are plain bytes.
"""

from __future__ import annotations

import re

from msmq.errors import EncodeError

NULL_GUID = bytes(16)

GUID_PATTERN = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
GUID_LENGTH = 36

_GUID = re.compile(GUID_PATTERN)


def guid_from_text(text: str) -> bytes:
    """Parse a GUID such as ``557358D1-9150-9595-4997-B6E611EA26C6``, in either case and without braces."""
    if not _GUID.fullmatch(text):
        raise EncodeError("a GUID is 8-4-4-4-12 hexadecimal digits joined by hyphens, without braces")
    return _swap(bytes.fromhex(text.replace("-", "")))


def guid_text(guid: bytes) -> str:
    """Write sixteen bytes as 36 characters, in upper case as the ABNF does."""
    if len(guid) != 16:
        raise EncodeError(f"a GUID is 16 bytes long, not {len(guid)}")
    digits = _swap(guid).hex().upper()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _swap(guid: bytes) -> bytes:
    """Convert between text order and MS-DTYP order; the conversion is its own inverse."""
    return guid[3::-1] + guid[5:3:-1] + guid[7:5:-1] + guid[8:]
