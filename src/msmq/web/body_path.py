"""Conditions on the content of a body: a path through JSON or XML, and optionally the value there.

``order.lines[0].sku=A1`` goes through JSON, ``/order/line/@sku=A1`` through XML (the first step is the root). Without
``=`` any value will do; ``*`` stands for any member, element or index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree

from msmq.wire.bodies import text_of
from msmq.wire.bodies.activex import VT_BYTES, BodyType
from msmq.wire.bodies.xml import local_name

_STEP: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+|\*)\]")
_MOST_STEPS: Final = 32
_ANY: Final = "*"
_BYTES: Final = (BodyType.UI1, VT_BYTES)


class PathError(ValueError):
    """A path with a syntax error."""


def text_in(body_type: int, body: bytes) -> str | None:
    """Return the text of a body, also if its sender only says that it is bytes and it looks like text."""
    text = text_of(body_type, body)
    return text_of(0, body) if text is None and body_type in _BYTES else text


class BodyPath:
    """One condition."""

    def __init__(self, text: str) -> None:
        path, equals, wanted = text.partition("=")
        self._wanted = wanted if equals else None
        self._xml = path.startswith("/")
        self._steps: list[str] = path[1:].split("/") if self._xml else _json_steps(path)
        if not self._steps or not all(self._steps) or len(self._steps) > _MOST_STEPS:
            raise PathError(
                f"{text[:80]} is no path, which looks like order.lines[0].sku=A1 or /order/line/@sku=A1."
            )

    def holds(self, body_type: int, body: bytes) -> bool:
        """True if the condition holds for a body."""
        text = text_in(body_type, body)
        if text is None:
            return False
        text = text.lstrip("\ufeff \t\r\n")
        found = self._in_xml(text) if self._xml else self._in_json(text)
        return any(self._wanted is None or each == self._wanted for each in found)

    def _in_json(self, text: str) -> Iterator[str]:
        if text[:1] not in ("{", "["):
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        for each in _members(value, self._steps):
            yield each if isinstance(each, str) else json.dumps(each)

    def _in_xml(self, text: str) -> Iterator[str]:
        if text[:1] != "<" or "<!DOCTYPE" in text or "<!ENTITY" in text:
            return
        try:
            root = ElementTree.fromstring(text)
        except (ElementTree.ParseError, ValueError):
            return
        if self._steps[0] in (_ANY, local_name(root.tag)):
            yield from _elements(root, self._steps[1:])


def _json_steps(path: str) -> list[str]:
    steps = [name or f"[{index}]" for name, index in _STEP.findall(path)]
    return steps if "".join(re.findall(r"[^.]", path)) == "".join(re.findall(r"[^.]", "".join(steps))) else []


def _members(value: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and not step.startswith("["):
        for name, member in value.items():
            if step in (_ANY, name):
                yield from _members(member, rest)
    elif isinstance(value, list) and step.startswith("["):
        index = step[1:-1]
        chosen = value if index == _ANY else value[int(index) : int(index) + 1]
        for member in chosen:
            yield from _members(member, rest)


def _elements(element: ElementTree.Element, steps: list[str]) -> Iterator[str]:
    if not steps:
        yield "".join(element.itertext()).strip()
        return
    step, rest = steps[0], steps[1:]
    if step.startswith("@"):
        for name, value in element.attrib.items():
            if not rest and step[1:] in (_ANY, local_name(name)):
                yield value
        return
    for child in element:
        if step in (_ANY, local_name(child.tag)):
            yield from _elements(child, rest)
