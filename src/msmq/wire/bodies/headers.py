"""Headers of .NET's service buses, which they keep in the extension of a message.

NServiceBus writes an XML list: ``ArrayOfHeaderInfo`` of ``HeaderInfo`` with ``Key`` and ``Value``, perhaps followed by
zero bytes. Rebus writes an object of JSON with text values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msmq.errors import DecodeError
from msmq.wire.bodies.xml import escaped, local_name, parse_document

_MOST_BYTES: Final = 1 << 20


class HeaderDialect(StrEnum):
    """Whose headers they are."""

    NSERVICEBUS = "nservicebus"
    REBUS = "rebus"


def write_headers(headers: Mapping[str, str], dialect: HeaderDialect | str) -> bytes:
    """The extension of a message with these headers. EncodeError for text that XML cannot hold, in that dialect."""
    if HeaderDialect(dialect) is HeaderDialect.REBUS:
        return json.dumps(dict(headers), ensure_ascii=False).encode()
    items = "".join(
        f"<HeaderInfo><Key>{escaped(key)}</Key><Value>{escaped(value)}</Value></HeaderInfo>"
        for key, value in headers.items()
    )
    return f'<?xml version="1.0"?><ArrayOfHeaderInfo>{items}</ArrayOfHeaderInfo>'.encode()


def read_headers(extension: bytes) -> dict[str, str] | None:
    """The headers in their order; None when the extension holds none."""
    text = extension.rstrip(b"\0").strip()
    if len(text) > _MOST_BYTES:
        return None
    return _rebus(text) if text.startswith(b"{") else _nservicebus(text)


def _rebus(text: bytes) -> dict[str, str] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(found, dict) and all(isinstance(value, str | None) for value in found.values())
    return {key: value or "" for key, value in found.items()} if fits else None


def _nservicebus(text: bytes) -> dict[str, str] | None:
    if not text.startswith((b"<", b"\xef\xbb\xbf<", b"\xff\xfe<")):
        return None
    try:
        root = parse_document(text)
    except DecodeError:
        return None
    if local_name(root.tag) != "ArrayOfHeaderInfo":
        return None
    found: dict[str, str] = {}
    for element in root:
        parts = {local_name(child.tag): child.text or "" for child in element}
        if local_name(element.tag) == "HeaderInfo" and "Key" in parts:
            found[parts["Key"]] = parts.get("Value", "")
    return found
