"""Bodies of System.Messaging's XmlMessageFormatter: a document of XmlSerializer.

The root element of a simple value is named for its XSD type (``<int>5</int>``), that of a list ``ArrayOf...``, and that
of an object for its class. An object becomes a dict with its class name as ``$type``. XmlSerializer writes no types
beside the values of an object's members, so these are text, unless they are objects or lists themselves. A list without
a wrapper is a repeated element and becomes a list under its name. Attributes are named ``@name``.

Documents may come from anybody. One with a document type declaration is refused, so that no entity is ever expanded,
and so is one that is nested too deeply.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from msmq.errors import DecodeError, EncodeError

_MOST_DEEP: Final = 64
_XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
_PROLOGUE: Final = '<?xml version="1.0"?>\n'
_NAMESPACES: Final = (
    ' xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
)
_DURATION: Final = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?\d{0,40}(\.\d{0,40})?", re.ASCII)
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME: Final = re.compile(r"[^\W\d][\w.-]*")
_EMPTY_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")
# xml.sax.saxutils would do, but it imports a web client: a tenth of the time that every command takes to start.
_MARKUP: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_IN_TEXT: Final = str.maketrans(_MARKUP | {"\r": "&#xD;"})
_IN_ATTRIBUTE: Final = str.maketrans(_MARKUP | {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def parse_document(body: bytes) -> Element:
    """Parse a document in UTF-8 or UTF-16. Returns its root; raises DecodeError if it is not XML."""
    try:
        text = body.decode("utf-16" if body.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
        # The declaration may name an encoding that the text no longer has.
        text = _EMPTY_DECLARATION.sub("", text, count=1)
        if "<!DOCTYPE" in text:
            raise DecodeError("The document has a type declaration, which is refused.")
        return ElementTree.fromstring(text)
    except (UnicodeDecodeError, ElementTree.ParseError, ValueError) as error:
        raise DecodeError("The body is no XML document.") from error


def local_name(tag: str) -> str:
    """Return a name without its namespace."""
    return tag.rpartition("}")[2]


def read(body: bytes) -> Any:
    """Read the value of an XmlSerializer document."""
    root = parse_document(body)
    try:
        return _read_root(root)
    except (ValueError, InvalidOperation, OverflowError, binascii.Error) as error:
        raise DecodeError("A value of the document is not what its type says.") from error


def _read_root(root: Element) -> Any:
    name = local_name(root.tag)
    if name.startswith("ArrayOf") and not root.attrib.get(f"{_XSI}type"):
        return [_named(child, _item(child, 1)) for child in root]
    if name in _READERS or name == "anyType":
        return _item(root, 0)
    return _named(root, _content(root, 0) or {})


def _named(element: Element, value: Any) -> Any:
    """Add the class name to an object: the name of its element, unless it has another one already."""
    return {"$type": local_name(element.tag)} | value if isinstance(value, dict) else value


def _item(element: Element, depth: int) -> Any:
    """Read an element that is named for its type."""
    kind = local_name(element.attrib.get(f"{_XSI}type", "").rpartition(":")[2]) or local_name(element.tag)
    reader = _READERS.get(kind)
    if element.attrib.get(f"{_XSI}nil") in ("true", "1"):
        return None
    return _content(element, depth) if reader is None or len(element) else reader(element.text or "")


def _content(element: Element, depth: int) -> Any:
    """Read an element that is named for a member."""
    if depth > _MOST_DEEP:
        raise DecodeError("The document is nested too deeply.")
    if element.attrib.get(f"{_XSI}nil") in ("true", "1"):
        return None
    names = {local_name(child.tag) for child in element}
    if len(names) == 1 and names <= _ITEM_NAMES:
        return [_item(child, depth + 1) for child in element]
    found: dict[str, Any] = {
        f"@{local_name(name)}": value
        for name, value in element.attrib.items()
        if not name.startswith(_XSI) and not name.startswith("xmlns")
    }
    kind = element.attrib.get(f"{_XSI}type", "").rpartition(":")[2]
    if not len(element) and not found:
        return _READERS[kind](element.text or "") if kind in _READERS else element.text or ""
    if kind and kind not in _READERS:
        found["$type"] = kind
    repeated = set()
    for child in element:
        name, value = local_name(child.tag), _content(child, depth + 1)
        if name in repeated:
            found[name].append(value)
        elif name in found:
            found[name] = [found[name], value]
            repeated.add(name)
        else:
            found[name] = value
    if not len(element):
        found["#text"] = element.text or ""
    return found


def _boolean(text: str) -> bool:
    if text.strip() not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text.strip() in ("true", "1")


def _integer(text: str) -> int:
    if len(text) > 24:
        raise ValueError("too long")
    return int(text)


def _decimal(text: str) -> Decimal:
    if _DECIMAL.fullmatch(text.strip()) is None:
        raise ValueError("no decimal")
    return Decimal(text)


def _character(text: str) -> str:
    found = chr(_integer(text))
    if "\ud800" <= found <= "\udfff":
        raise ValueError("half a character")
    return found


def _float(text: str) -> float:
    return float(text.strip().replace("INF", "inf"))


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    sign, days, hours, minutes, seconds = match.groups(default="0")
    length = timedelta(days=int(days), hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    return -length if sign == "-" else length


_INTEGERS: Final = (
    "byte", "short", "int", "long", "unsignedByte", "unsignedShort", "unsignedInt", "unsignedLong", "integer",
)  # fmt: skip
_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "string": str,
    "boolean": _boolean,
    **dict.fromkeys(_INTEGERS, _integer),
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "dateTime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "duration": _duration,
    "TimeSpan": _duration,
    "guid": UUID,
    "char": _character,
    "base64Binary": lambda text: base64.b64decode(text, validate=True),
    "hexBinary": bytes.fromhex,
    "QName": str,
}
_ITEM_NAMES: Final = frozenset(_READERS) - {"date", "time", "TimeSpan"} | {"anyType"}
"""Names of elements whose parent is a list."""


# --- writing ------------------------------------------------------------------------------------------------------


def write(value: Any) -> bytes:
    """Write a value as XmlSerializer does. A dict is an object, whose class is its ``$type``."""
    if isinstance(value, dict):
        name = str(value.get("$type", "object")).rpartition(".")[2]
        return f"{_PROLOGUE}{_element(name, value, _NAMESPACES, 0)}".encode()
    if isinstance(value, list | tuple):
        kinds = {_kind(each) for each in value}
        kind = kinds.pop() if len(kinds) == 1 else "anyType"
        name = f"ArrayOf{kind[0].upper()}{kind[1:]}"
        return f"{_PROLOGUE}<{name}{_NAMESPACES}>{_items(value, 1)}</{name}>".encode()
    return f"{_PROLOGUE}{_element(_kind(value), value, '', 0)}".encode()


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("$type", "anyType")).rpartition(".")[2]
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return "int"
        return "long" if -(1 << 63) <= value < 1 << 63 else "unsignedLong"
    for kind, name in _WRITTEN:
        if isinstance(value, kind):
            return name
    return "anyType"


_WRITTEN: Final = (
    (str, "string"),
    (float, "double"),
    (Decimal, "decimal"),
    (datetime, "dateTime"),
    (date, "date"),
    (UUID, "guid"),
    (bytes | bytearray | memoryview, "base64Binary"),
)


def _items(values: Iterable[Any], depth: int) -> str:
    kinds = {_kind(each) for each in values}
    if len(kinds) == 1:
        return "".join(_element(_kind(each), each, "", depth) for each in values)
    return "".join(_element("anyType", each, _type_attribute(each), depth) for each in values)


def _type_attribute(value: Any) -> str:
    kind = _kind(value)
    if isinstance(value, dict) or value is None or kind == "anyType":
        return f" xsi:type={_quoted(kind)}" if isinstance(value, dict) and "$type" in value else ""
    return f' xsi:type="{"" if kind == "guid" else "xsd:"}{kind}"'


def _element(name: str, value: Any, attributes: str, depth: int) -> str:
    if depth > _MOST_DEEP:
        raise EncodeError("The value is nested too deeply.")
    if _NAME.fullmatch(name) is None:
        raise EncodeError(f"{name!r} is no name of an element.")
    if value is None:
        return f'<{name}{attributes or _NAMESPACES} xsi:nil="true" />'
    if isinstance(value, dict):
        attributes += "".join(
            f" {each[1:]}={_quoted(_text(content))}"
            for each, content in value.items()
            if each.startswith("@") and _NAME.fullmatch(each[1:])
        )
        content = "".join(
            _element(str(each), part, "", depth + 1)
            for each, member in value.items()
            if each[:1] not in ("$", "@", "#")
            for part in (member if _repeated(member) else [member])
        )
        content += escaped(_text(value.get("#text", "")))
    elif isinstance(value, list | tuple):
        content = _items(value, depth + 1)
    else:
        content = escaped(_text(value))
    return f"<{name}{attributes}>{content}</{name}>"


def _repeated(member: Any) -> bool:
    """True for a list of objects without class names, which is written as a repeated element; other lists get a
    wrapper."""
    return isinstance(member, list) and all(isinstance(each, dict) and "$type" not in each for each in member)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return repr(value).replace("inf", "INF").replace("nan", "NaN")
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return format(value, "f")
    if not isinstance(value, str | int | UUID):
        raise TypeError(f"XmlSerializer has no form for a value of type {type(value).__name__}.")
    return _checked(str(value))


def _checked(text: str) -> str:
    if _FORBIDDEN.search(text):
        raise EncodeError("The text has characters that XML cannot hold.")
    return text


def escaped(text: str) -> str:
    """Write text as the content of an element; raises EncodeError for characters that XML cannot hold. Readers of XML
    turn a bare carriage return into a line feed, so it is written as a reference."""
    return _checked(text).translate(_IN_TEXT)


def _quoted(text: str) -> str:
    """Write the value of an attribute with its quotation marks."""
    return f'"{text.translate(_IN_ATTRIBUTE)}"'
