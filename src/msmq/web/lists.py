"""Lists for all operations: filtered, sorted, a page at a time, with the requested columns."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msmq.web.operations import BOOLEAN, MisuseError, Parameter, Schema

MOST_ROWS: Final = 1_000
_USUAL_ROWS: Final = 100

PAGING: Final = (
    Parameter("page", {"type": "integer", "minimum": 1, "maximum": 1_000_000}, "Which page, from 1."),
    Parameter("page_size", {"type": "integer", "minimum": 1, "maximum": MOST_ROWS}, "Rows on a page."),
    Parameter(
        "sort",
        {"type": "string", "pattern": "^-?[a-z_]{1,40}$"},
        "Column to sort by; with a minus in front from the last to the first.",
    ),
    Parameter(
        "columns",
        {"type": "array", "items": {"type": "string", "pattern": "^[a-z_]{1,40}$"}, "maxItems": 50},
        "Columns that are wanted, separated by commas; all when not given.",
    ),
    Parameter(
        "search",
        {"type": "string", "maxLength": 256},
        "Rows in which a text stands anywhere, whatever its case; * and ? stand for letters.",
    ),
    Parameter(
        "where",
        {
            "type": "array",
            "items": {"type": "string", "pattern": "^[a-z_]{1,40}(!=|>=|<=|=|>|<|~)", "maxLength": 256},
            "maxItems": 20,
        },
        "Conditions on columns, separated by commas, which all hold: messages>=100,kind=private,label~urgent. A tilde "
        "looks for a text as `search` does.",
    ),
)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?", re.ASCII)
_CONDITION: Final = re.compile(r"([a-z_]{1,40})(!=|>=|<=|=|>|<|~)(.*)", re.DOTALL)
HIDE_EMPTY: Final = Parameter("hide_empty", BOOLEAN, "Whether rows without messages are left out.")


def page_of(row: Schema) -> Schema:
    """Return the schema of a page."""
    return {
        "type": "object",
        "required": ["items", "total", "page", "page_size"],
        "properties": {
            "items": {"type": "array", "items": row},
            "total": {"type": "integer", "description": "Rows on all pages."},
            "page": {"type": "integer"},
            "page_size": {"type": "integer"},
        },
    }


def page(
    rows: Iterable[Mapping[str, Any]], given: Mapping[str, Any], searched: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the requested page of a list. ``searched`` are the columns in which texts are looked for."""
    found = list(rows)
    if given.get("search"):
        suits = _searching(given["search"])
        found = [row for row in found if any(suits(_words(row.get(name, ""))) for name in searched)]
    for condition in given.get("where", ()):
        found = _chosen(found, condition)
    if given.get("hide_empty"):
        found = [row for row in found if row.get("messages") not in ("0", 0)]
    if given.get("sort"):
        found = in_order(found, given["sort"])
    size, number = given.get("page_size", _USUAL_ROWS), given.get("page", 1)
    shown = found[(number - 1) * size : number * size]
    columns = given.get("columns")
    if columns:
        shown = [{name: row[name] for name in columns if name in row} for row in shown]
    return {"items": shown, "total": len(found), "page": number, "page_size": size}


def _words(value: Any) -> str:
    """Return the text of a column in which is searched; for named values, their names and values."""
    if isinstance(value, dict):
        return "\n".join((*value, *map(_words, value.values())))
    return str(value)


def _searching(text: str) -> Callable[[str], bool]:
    wanted = text.casefold()
    if "*" in wanted or "?" in wanted:
        pattern = wanted.replace("[", "[[]")
        return lambda value: fnmatch.fnmatchcase(value.casefold(), f"*{pattern}*")
    return lambda value: wanted in value.casefold()


def _chosen(rows: list[Mapping[str, Any]], condition: str) -> list[Mapping[str, Any]]:
    """Return the rows for which a condition holds. Numbers are compared as numbers, and texts in any case."""
    parts = _CONDITION.fullmatch(condition)
    if parts is None:
        raise MisuseError(f"{condition[:80]} is no condition.")
    name, sign, wanted = parts.groups()
    if rows and name not in rows[0]:
        raise MisuseError(f"There is no column {name} to choose by.")
    if sign == "~":
        suits = _searching(wanted)
        return [row for row in rows if suits(_text(row[name]))]
    compare, rank = _COMPARISONS[sign], _rank(wanted)
    return [row for row in rows if _alike(row[name], rank) and compare(_rank(_text(row[name])), rank)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _alike(value: Any, rank: tuple[int, float, str]) -> bool:
    """True if a value can be compared: "no limit" is neither more nor less than a number."""
    return value is not None or rank[0] == 1


def in_order(rows: list[Mapping[str, Any]], by: str) -> list[Mapping[str, Any]]:
    """Sort rows by a column; a minus before its name reverses the order."""
    name = by.removeprefix("-")
    if rows and name not in rows[0]:
        raise MisuseError(f"There is no column {name} to sort by.")
    return sorted(rows, key=lambda row: _rank(row[name]), reverse=by.startswith("-"))


def _rank(value: Any) -> tuple[int, float, str]:
    """Return the sort key: numbers before texts; a 64-bit number is written as text."""
    if isinstance(value, bool | int | float):
        return 0, float(value), ""
    text = "" if value is None else str(value)
    return (0, float(text), "") if _NUMBER.fullmatch(text) else (1, 0.0, text.casefold())
