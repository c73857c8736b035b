"""Output of the commands: tables and sheets for people, JSON lines for programs. Rich is imported when it is used."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from msmq.wire.times import time_text

if TYPE_CHECKING:
    from rich.console import Console

    from msmq.client import PropertyValue

UNLIMITED: Final = 0xFFFFFFFF
_LIMITS: Final = frozenset({"quota_kb", "journal_quota_kb"})
_WIDTH_OF_FILES: Final = 160
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO 8601, enumeration members by name, bytes in hexadecimal, no limit as
    null."""
    if is_dataclass(value) and not isinstance(value, type):
        given = {entry.name: getattr(value, entry.name) for entry in fields(value)}
        return {
            name: None if name in _LIMITS and member == UNLIMITED else plain(member)
            for name, member in given.items()
        }
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value


def print_json(value: Any) -> None:
    """Print one object on one line. Labels and names in messages are UTF-16 from strangers: half of a surrogate pair,
    which UTF-8 cannot hold, is written as a JSON escape."""
    text = json.dumps(plain(value), ensure_ascii=False)
    print(_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text), flush=True)


def clean(text: str) -> str:
    """Replace the control characters in a text from elsewhere, which a terminal would obey."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)


def one_line(text: str, longest: int = 60) -> str:
    """The beginning of a text in one line, for a table."""
    line = clean(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def console(*, stderr: bool = False) -> Console:
    """The terminal, or a file with room for a wide table."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_OF_FILES
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows with a title over each column; numbers are aligned right, with commas."""
    from rich.table import Table

    given = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False)
    for index, title in enumerate(columns):
        numeric = bool(given) and all(isinstance(row[index], int) for row in given)
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in given:
        table.add_row(*(cell(member) for member in row))
    console().print(table)


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return clean(str(value))


def print_sheet(rows: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line."""
    given = [(name, cell(value)) for name, value in rows]
    width = max((len(name) for name, _ in given), default=0)
    for name, text in given:
        print(f"{name:<{width}}  {text}".rstrip())


def print_properties(found: Sequence[PropertyValue], as_json: bool) -> None:
    """Print properties of MS-MQMQ 2.3, each element of a vector on its own line."""
    if as_json:
        for given in found:
            print_json(given)
        return
    print_table(
        ("property", "number", "type", "value"),
        [(given.name, str(given.id), given.type, "\n".join(given.values)) for given in found],
    )


def limit(kilobytes: int) -> str:
    return "none" if kilobytes == UNLIMITED else f"{kilobytes:,} KB"


def size(number: int) -> str:
    """A number of bytes with a unit."""
    amount = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def several(number: int, what: str) -> str:
    """A number with its noun: 1 message, 2 messages."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
