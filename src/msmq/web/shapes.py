"""Answers of the queue manager as JSON: names as on the command line, 64-bit numbers as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final
from xml.etree import ElementTree

from msmq.api.generated import msmq_pb2 as pb
from msmq.client import ReceivedMessage
from msmq.client.info import UNLIMITED
from msmq.client.message import id_text
from msmq.client.records import hexadecimal, to_record
from msmq.errors import DecodeError
from msmq.web.body_path import text_in
from msmq.wire.bodies import formatter_of, read_headers, read_value, text_of
from msmq.wire.classes import MessageClass
from msmq.wire.describe import Kind, Node, describe
from msmq.wire.times import time_text

_LIMITS: Final = frozenset({"quota_kb", "journal_quota_kb"})
_WIDE: Final = frozenset(
    {
        "lookup_id", "messages", "bytes", "journal_messages", "journal_bytes", "arrived_total", "removed_total",
        "express_bytes", "paused_messages", "poisoned_total", "descriptor_limit", "grown", "time_ms", "started_ms",
        "store_bytes", "store_live_bytes", "commits_total", "memory_bytes", "disk_free_bytes",
    }
)  # fmt: skip
"""Fields that may be larger than the numbers of JavaScript."""
PREVIEW: Final = 512
_LONGEST_VIEW: Final = 1 << 20
_NO_ID: Final = bytes(20)
_FAILED_QUEUE: Final = re.compile(r"^([^@\\/]+)@([A-Za-z0-9._-]+)$")


_SAME: Final = frozenset({str, bool, float, type(None)})
"""Types that JSON holds as they are."""


def plain(value: Any, name: str = "") -> Any:
    """Convert a value for JSON."""
    if type(value) in _SAME:
        return value
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, int):
        if name in _LIMITS and value == UNLIMITED:
            return None
        return str(value) if name in _WIDE else value
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(member, key) for key, member in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name), entry.name) for entry in fields(value)}
    return value


def _time(seconds: int) -> str:
    return time_text(datetime.fromtimestamp(seconds, UTC))


def class_name(number: int) -> str:
    try:
        return MessageClass(number).name
    except ValueError:
        return f"{number:#06x}"


def row(found: pb.FoundMessage) -> dict[str, Any]:
    """Make a row of a list of a message, with a shortened body."""
    given, message = found.delivered, found.delivered.message
    number = given.dead_letter_class or message.message_class
    correlation = message.correlation_id
    return {
        "lookup_id": str(given.lookup_id),
        "message_id": id_text(given.message_id),
        "label": message.label,
        "class": class_name(number),
        "priority": message.priority,
        "delivery": pb.Delivery.Name(message.delivery).lower(),
        "size": found.size,
        "body_size": found.body_size,
        "body_type": message.body_type,
        "body": preview(message.body_type, message.body, cut=found.body_size > len(message.body)),
        "sent_time": _time(given.sent_time),
        "arrived_time": _time(given.arrived_time),
        "correlation_id": id_text(correlation) if correlation not in (b"", _NO_ID) else "",
        "application_tag": message.application_tag,
        "destination": given.destination,
        "response_queue": message.response_queue,
        "dead_letter_reason": given.dead_letter_reason,
        "exception": exception_of(message.extension),
        "returned_count": given.returned_count,
        "sender": given.sender,
        "authenticated": given.authenticated,
    }


ROW: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        name: {"type": kind}
        for kind, names in {
            "string": (
                "lookup_id", "message_id", "label", "class", "delivery", "body", "sent_time", "arrived_time",
                "correlation_id", "destination", "response_queue", "dead_letter_reason", "exception", "sender",
            ),
            "integer": ("priority", "size", "body_size", "body_type", "application_tag", "returned_count"),
            "boolean": ("authenticated",),
        }.items()
        for name in names
    },
}  # fmt: skip


def preview(body_type: int, body: bytes, *, cut: bool) -> str:
    """Return the beginning of a body for a list: as text if it is text, else as bytes."""
    whole = body[: len(body) & ~1] if body_type in (8, 31) else body
    text = text_in(body_type, whole)
    if text is None and cut:  # the cut may have split a character
        text = next(
            (found for end in (1, 2, 3) if (found := text_in(body_type, whole[:-end])) is not None), None
        )
    shown = text[:PREVIEW] if text is not None else body[:64].hex(" ")
    return shown + "…" if cut or (text is not None and len(text) > PREVIEW) else shown


def exception_of(extension: bytes) -> str:
    """The exception that NServiceBus or Rebus noted when a message failed; empty if none did."""
    headers = headers_of(extension)
    for name in ("NServiceBus.ExceptionInfo.ExceptionType", "rbs2-error-details"):
        if headers.get(name):
            return headers[name].strip().splitlines()[0][:200]
    return ""


def headers_of(extension: bytes) -> dict[str, str]:
    return read_headers(extension) or {}


def home_of(message: ReceivedMessage, computer: str) -> str:
    """Return the queue to which a failed message belongs: the one that NServiceBus or Rebus noted, else its
    destination."""
    headers = headers_of(message.extension)
    noted = headers.get("NServiceBus.FailedQ") or headers.get("rbs2-source-queue") or ""
    known = _FAILED_QUEUE.match(noted.strip())
    if known is not None:
        name, host = known.groups()
        here = host.casefold() in (computer.casefold(), "localhost")
        return f".\\private$\\{name}" if here else f"DIRECT=OS:{host}\\private$\\{name}"
    return message.destination


def whole(message: ReceivedMessage) -> dict[str, Any]:
    """Return everything that is known of a message."""
    record = to_record(message)
    record["lookup_id"] = str(message.lookup_id)
    del record["lookup_id_text"]
    record |= {
        "size": len(message.packet.data),
        "body_size": len(message.body),
        "views": views(message.body_type, message.body),
        "editable": text_of(message.body_type, message.body) is not None,
        "extension_text": _extension_text(message.extension),
        "exception": exception_of(message.extension),
        "structure": [_node(node) for node in describe(message.packet.data).headers],
    }
    return record


def _extension_text(extension: bytes) -> str:
    """Return an extension in readable form: text, else bytes."""
    try:
        text = extension.decode()
        return text if text.isprintable() or "\n" in text or "<" in text else extension.hex(" ")
    except UnicodeDecodeError:
        return extension[:4096].hex(" ")


def views(body_type: int, body: bytes) -> dict[str, Any]:
    """Return a body in every form that it has: bytes always, and text, JSON, XML or the value of a .NET formatter."""
    cut = body[:_LONGEST_VIEW]
    found: dict[str, Any] = {"hex": hexadecimal(cut[:65_536])}
    text = text_in(body_type, body)
    if text is not None:
        found["text"] = text[:_LONGEST_VIEW]
        _add_structured(found, text)
    formatter = formatter_of(body_type, body)
    if formatter is not None:
        found["formatter"] = str(formatter)
        try:
            found["value"] = json.loads(json.dumps(plain(read_value(body_type, cut)), default=str))
        except (DecodeError, ValueError, RecursionError):
            found.pop("value", None)
    return found


def _add_structured(found: dict[str, Any], text: str) -> None:
    """Add the forms JSON and XML, with a line for each member. Entities are never expanded: a document with a DTD stays
    text."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped[:1] in ("{", "["):
        try:
            found["json"] = json.dumps(json.loads(stripped), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return
    elif stripped[:1] == "<" and "<!DOCTYPE" not in stripped and "<!ENTITY" not in stripped:
        try:
            tree = ElementTree.fromstring(stripped)
            ElementTree.indent(tree)
            found["xml"] = ElementTree.tostring(tree, encoding="unicode")
        except (ElementTree.ParseError, ValueError, RecursionError):
            return


def _node(node: Node) -> dict[str, Any]:
    """Describe a field of a packet by its name in the specification."""
    shown: dict[str, Any] = {"name": node.name}
    if node.kind in (Kind.LIST, Kind.STRUCTURE, Kind.FLAGS):
        shown["members"] = [_node(child) for child in node.children]
    if node.kind not in (Kind.LIST, Kind.STRUCTURE):
        value = node.value.hex() if isinstance(node.value, bytes) else node.value
        shown["value"] = str(value)[:2_000]
    if node.meaning:
        shown["meaning"] = node.meaning
    return shown


def by_name(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [plain(each) for each in rows]
