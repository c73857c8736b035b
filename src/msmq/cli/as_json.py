"""Packets as JSON lines; docs/decode-json.md describes the shape."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, TextIO

from msmq.capture.cutter import Damage
from msmq.capture.inputs import Found, Origin
from msmq.capture.streams import Endpoint
from msmq.wire.describe import Description, Kind, Node
from msmq.wire.explain import Role, explain


def endpoint_text(endpoint: Endpoint) -> str:
    host, port = endpoint
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def time_text(time: float) -> str:
    """A time in UTC with microseconds; one outside the calendar (a hostile capture) becomes the epoch."""
    try:
        moment = datetime.fromtimestamp(time, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def node_value(node: Node, *, offsets: bool) -> Any:
    """A node as JSON: structures by name, lists in order, bytes in hexadecimal."""
    if node.kind is Kind.LIST:
        return [node_value(child, offsets=offsets) for child in node.children]
    if node.kind is Kind.STRUCTURE:
        place = {"offset": node.offset, "size": node.size} if offsets else {}
        return place | {child.name: node_value(child, offsets=offsets) for child in node.children}
    value = node.value.hex() if isinstance(node.value, bytes) else node.value
    if node.kind is Kind.FLAGS:
        place = {"offset": node.offset, "size": node.size} if offsets else {}
        bits = {child.name: node_value(child, offsets=offsets) for child in node.children}
        return {"value": value} | place | bits
    if not offsets or node.derived:
        return value
    names = ("bit", "bits") if node.kind is Kind.BITS else ("offset", "size")
    return {"value": value, names[0]: node.offset, names[1]: node.size}


class JsonWriter:
    """One object per packet per line, each flushed at once so that a live capture can be followed."""

    def __init__(self, out: TextIO, *, offsets: bool) -> None:
        self._out = out
        self._offsets = offsets

    def packet(self, number: int, found: Found, offset: int, description: Description, role: Role) -> None:
        head: dict[str, Any] = {"packet": description.packet, "number": number}
        if role is not Role.UNKNOWN and not description.packet.endswith(("Message", "Ack")):
            head["role"] = role.value
        head |= {"offset": offset, "size": description.size} | _origin(found.origin)
        head["explanation"] = explain(description, role)
        headers = {node.name: node_value(node, offsets=self._offsets) for node in description.headers}
        self._write(head | headers)

    def damage(self, number: int, found: Found, damage: Damage, at: int | None) -> None:
        place = {} if at is None else {"at": at}
        head = {"packet": damage.packet, "number": number, "offset": damage.offset, "size": damage.size}
        self._write(head | _origin(found.origin) | {"reason": damage.reason} | place)

    def end(self, words: str) -> None:
        """Write nothing: JSON lines have no end."""

    def _write(self, value: dict[str, Any]) -> None:
        self._out.write(json.dumps(value, separators=(", ", ": ")) + "\n")
        self._out.flush()


def _origin(origin: Origin | None) -> dict[str, Any]:
    if origin is None:
        return {}
    place = {
        "time": time_text(origin.time),
        "source": endpoint_text(origin.source),
        "destination": endpoint_text(origin.destination),
    }
    return place if origin.stream is None else place | {"stream": origin.stream}
