"""Headers of NServiceBus: an XML list in the extension of a message.

The element ``HeaderInfo`` has a ``Key`` and a ``Value``; the list may be followed by zero bytes. The text comes from
strangers: documents with a type declaration are refused, so that no entity is ever expanded.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

_LARGEST_BYTES: Final = 1 << 20


def nservicebus_headers(extension: bytes) -> list[tuple[str, str]] | None:
    """The headers in their order, None when the extension holds none."""
    text = extension.rstrip(b"\0").strip()
    if not text.startswith((b"<", b"\xef\xbb\xbf<")) or len(text) > _LARGEST_BYTES or b"<!" in text:
        return None
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None
    if _local(root.tag) != "ArrayOfHeaderInfo":
        return None
    found: dict[str, str] = {}
    for element in root:
        parts = {_local(child.tag): child.text or "" for child in element}
        if _local(element.tag) == "HeaderInfo" and "Key" in parts:
            found[parts["Key"]] = parts.get("Value", "")
    return list(found.items())


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
