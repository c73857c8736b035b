"""Headers of .NET's service buses, kept in the extension of a message.

NServiceBus writes an XML list: ``ArrayOfHeaderInfo`` of ``HeaderInfo`` with ``Key`` and ``Value``, perhaps followed by
zero bytes. Rebus writes a JSON object with text values.
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
    """The service bus whose headers they are."""

    NSERVICEBUS = "nservicebus"
    REBUS = "rebus"


def write_headers(headers: Mapping[str, str | None], dialect: HeaderDialect | str) -> bytes:
    """Write the extension of a message with these headers. Raises EncodeError for text that the XML of NServiceBus
    cannot hold."""
    if HeaderDialect(dialect) is HeaderDialect.REBUS:
        return json.dumps(dict(headers), ensure_ascii=False, separators=(",", ":")).encode()
    items = "".join(
        f"<HeaderInfo><Key>{escaped(key)}</Key>{_value(headers[key])}</HeaderInfo>" for key in headers
    )
    return f'<?xml version="1.0"?><ArrayOfHeaderInfo>{items}</ArrayOfHeaderInfo>'.encode()


def _value(value: str | None) -> str:
    """Write a header's value; no element for None, as .NET reads it."""
    return "" if value is None else f"<Value>{escaped(value)}</Value>"


def read_headers(extension: bytes) -> dict[str, str] | None:
    """Return the headers in their order; None if the extension holds none."""
    found = _read(extension)
    return None if found is None else {key: value or "" for key, value in found[1].items()}


def with_headers(extension: bytes, more: Mapping[str, str]) -> bytes | None:
    """Add headers to an extension that has some, in its own dialect. Returns None if it holds none: foreign data stays
    as it is. An existing header gets the new value, because NServiceBus refuses a list with one name twice."""
    found = _read(extension)
    return None if found is None else write_headers({**found[1], **more}, found[0])


def _read(extension: bytes) -> tuple[HeaderDialect, dict[str, str | None]] | None:
    text = extension.rstrip(b"\0").strip()
    if len(text) > _MOST_BYTES:
        return None
    if text.startswith(b"{"):
        dialect, headers = HeaderDialect.REBUS, _rebus(text)
    else:
        dialect, headers = HeaderDialect.NSERVICEBUS, _nservicebus(text)
    return None if headers is None else (dialect, headers)


def _rebus(text: bytes) -> dict[str, str | None] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(found, dict) and all(isinstance(value, str | None) for value in found.values())
    return found if fits else None


def _nservicebus(text: bytes) -> dict[str, str | None] | None:
    if not text.startswith((b"<", b"\xef\xbb\xbf<", b"\xff\xfe<")):
        return None
    try:
        root = parse_document(text)
    except DecodeError:
        return None
    if local_name(root.tag) != "ArrayOfHeaderInfo":
        return None
    found: dict[str, str | None] = {}
    for element in root:
        parts = {local_name(child.tag): child.text or "" for child in element}
        if local_name(element.tag) == "HeaderInfo" and "Key" in parts:
            found[parts["Key"]] = parts.get("Value")
    return found
