"""Packets as text for people: a title and a sentence for each, then a table for each header, then the body.

The contents of packets come from strangers. They are never read as markup, and characters that could move the cursor,
reorder the line or break the encoding are shown as escapes.
"""

from __future__ import annotations

import textwrap
import unicodedata
from typing import Final

from rich.console import Console
from rich.text import Text

from msmq.capture.cutter import Damage
from msmq.capture.inputs import Found, Origin
from msmq.cli.as_json import endpoint_text, time_text
from msmq.wire.describe import Description, Kind, Node
from msmq.wire.explain import Role, explain

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SHORT_BYTES: Final = 24
_BODY: Final = ("MessageBody", "MessageBodyText")

_HEADER_INDENT: Final = 3
_FIELD_INDENT: Final = 5
_NAME_WIDTH: Final = 29
_WIDE: Final = 110  # the width from which a whole GUID fits into the column of values
_MIN_MEANING: Final = 16


def safe(text: str) -> str:
    """``text`` with all invisible characters written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character
        if unicodedata.category(character) not in _UNSAFE
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def value_text(node: Node) -> str:
    """A value in its most readable form: integers also in hexadecimal, long bytes shortened."""
    value = node.value
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, int):
        return str(value) if value < 10 or node.kind is Kind.BITS else f"{value} ({value:#x})"
    if len(value) > 2 and len(set(value)) == 1:
        return f"{value[:1].hex()}, {len(value)} times"
    if len(value) > _SHORT_BYTES:
        return f"{value[:_SHORT_BYTES].hex()}... ({len(value)} bytes)"
    return value.hex()


class TextWriter:
    """Writes to a console, which decides on colours and width."""

    def __init__(self, console: Console, *, offsets: bool, brief: bool, max_body: int) -> None:
        self._console = console
        self._plain = not console.is_terminal
        self._offsets = offsets
        self._brief = brief
        self._max_body = max_body
        self._value_width = 37 if console.width >= _WIDE else 25

    def packet(self, number: int, found: Found, offset: int, description: Description, role: Role) -> None:
        kind = description.packet
        if role is not Role.UNKNOWN and not kind.endswith(("Message", "Ack")):
            kind += f" {role.value}"
        self._title(number, kind, "bold cyan", found.origin, offset, description.size)
        self._sentence(explain(description, role), "italic")
        if not self._brief:
            for header in description.headers:
                self._header(header)
        self._close()

    def damage(self, number: int, found: Found, damage: Damage, at: int | None) -> None:
        self._title(number, damage.packet, "bold red", found.origin, damage.offset, damage.size)
        where = "" if at is None else f", at byte {at} of the packet"
        self._sentence(damage.reason + where, "red")
        self._close()

    def end(self, words: str) -> None:
        self._print(Text(words, style="bold"))

    def _close(self) -> None:
        """End a packet with a blank line, and flush, so that captures can be followed live."""
        self._print(Text())
        self._console.file.flush()

    def _print(self, text: Text) -> None:
        if self._plain:
            self._console.file.write(text.plain + "\n")  # ten times as fast as a console without colours
        else:
            self._console.print(text, soft_wrap=True)

    def _title(
        self, number: int, kind: str, style: str, origin: Origin | None, offset: int, size: int
    ) -> None:
        title = Text(f"{number}. ", style="bold")
        title.append(kind, style)
        if origin is not None:
            title.append(f"  {endpoint_text(origin.source)} → {endpoint_text(origin.destination)}")
            title.append(f"  {time_text(origin.time).replace('T', ' ').rstrip('Z')} UTC", "dim")
        place = f", offset {offset}" if origin is None or origin.stream is not None else ""
        title.append(f"  {size:,} bytes{place}", "dim")
        self._print(title)

    def _sentence(self, sentence: str, style: str) -> None:
        indent = " " * _HEADER_INDENT
        for line in textwrap.wrap(
            safe(sentence), self._console.width, initial_indent=indent, subsequent_indent=indent
        ):
            self._print(Text(line, style=style))

    def _caption(self, name: str, rest: str) -> None:
        caption = Text(" " * _HEADER_INDENT)
        caption.append(name, "bold")
        caption.append(f"  {rest}", "dim")
        self._print(caption)

    def _header(self, header: Node) -> None:
        place = f"offset {header.offset}, " if self._offsets else ""
        self._caption(header.name, f"{place}{header.size:,} bytes, {header.section}")
        for node in header.children:
            if node.size and node.name not in _BODY:
                self._field(node, 0)
        self._body(header)

    def _field(self, node: Node, depth: int) -> None:
        """Print the row of a field, and below it the rows of its parts."""
        value, meaning = "", node.meaning
        if node.kind not in (Kind.STRUCTURE, Kind.LIST):
            value = value_text(node)
        children = node.children
        if node.kind is Kind.FLAGS:
            children = tuple(bits for bits in children if bits.value or (bits.meaning and not _unused(bits)))
            clear = " ".join(
                bits.name for bits in node.children if bits not in children and not _unused(bits)
            )
            meaning = meaning or (f"not set: {clear}" if clear else "")
        self._row(node, depth, value, safe(meaning))
        for child in children:
            self._field(child, depth + 1)

    def _row(self, node: Node, depth: int, value: str, meaning: str) -> None:
        """Print name, value and meaning in columns; a long meaning continues below in its column."""
        row = Text(" " * _FIELD_INDENT)
        if self._offsets:
            # Bits are counted inside their field.
            place = f"bit {node.offset}" if node.kind is Kind.BITS else f"{node.offset}+{node.size}"
            row.append(f"{place:<10}", "dim")
        row.append(f"{'  ' * depth}{node.name}".ljust(_NAME_WIDTH) + " ")
        column = row.cell_len + self._value_width + 1
        row.append(value.ljust(self._value_width) + " " if meaning else value, "green")
        width = max(self._console.width - column, _MIN_MEANING)
        lines = textwrap.wrap(meaning, width) if meaning else []
        if lines and row.cell_len <= column:
            row.append(lines.pop(0), "dim")
        row.rstrip()
        self._print(row)
        for line in lines:
            self._print(Text(" " * column).append(line, "dim"))

    def _body(self, header: Node) -> None:
        """Print up to ``max_body`` of the body, as text if it is text, else as bytes."""
        nodes = {node.name: node for node in header.children if node.name in _BODY}
        body = nodes.get("MessageBody")
        if body is None or not isinstance(body.value, bytes) or not body.value:
            return
        text = nodes.get("MessageBodyText")
        place = f"offset {body.offset}, " if self._offsets else ""
        self._caption("MessageBody", f"{place}{body.size:,} bytes, {(text or body).meaning or 'binary'}")
        if text is not None and isinstance(text.value, str):
            lines, left = _text_lines(text.value, self._max_body)
        else:
            lines, left = _hex_lines(body.value, self._max_body)
        indent = " " * _FIELD_INDENT
        width = max(self._console.width - _FIELD_INDENT, _MIN_MEANING)
        for line in lines:
            for start in range(0, len(line) or 1, width):
                self._print(Text(indent).append(line[start : start + width], "green"))
        if left:
            self._print(Text(f"{indent}... {left}, see --max-body", style="dim"))


def _unused(bits: Node) -> bool:
    return bits.name.startswith("X")


def _text_lines(text: str, limit: int) -> tuple[list[str], str]:
    lines = [safe(line.replace("\t", "    ")) for line in text[:limit].splitlines()]
    left = len(text) - limit
    return lines, f"{left:,} more characters" if left > 0 else ""


def _hex_lines(data: bytes, limit: int) -> tuple[list[str], str]:
    lines = []
    for start in range(0, min(len(data), limit), 16):
        row = data[start : min(start + 16, limit)]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):<47}  {characters}")
    left = len(data) - limit
    return lines, f"{left:,} more bytes" if left > 0 else ""
