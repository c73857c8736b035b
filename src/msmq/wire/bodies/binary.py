"""Read and write bodies of System.Messaging's BinaryMessageFormatter as Python values.

.NET's own types become their Python counterparts: numbers, text, dates, GUIDs, lists, dictionaries, sets, streams.
Every other object becomes a dict of its members with its class name as ``$type``. Values that can be written are
numbers, text, truth values, dates, durations, GUIDs, bytes, lists (as ArrayList) and dicts (as Hashtable).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Final
from uuid import UUID

from msmq.errors import DecodeError, EncodeError
from msmq.wire.bodies.activex import from_decimal_parts, to_decimal_parts, to_ticks
from msmq.wire.bodies.nrbf import (
    LAYOUTS,
    MOST_DEEP,
    Array,
    BinaryType,
    Graph,
    Instance,
    Primitive,
    RecordType,
    Reference,
    date_time,
)

VT_BINARY_OBJECT: Final = 0x300
_MOST_VALUES: Final = 1 << 20
_MASK_32: Final = 0xFFFFFFFF


def read(body: bytes) -> Any:
    """Read the value of a BinaryFormatter stream. Raises DecodeError if it is none, or its value is circular or too
    large."""
    graph = Graph(body)
    return _Reading(graph.objects).value(graph.root, 0)


class _Reading:
    """Turns the records of a graph into values.

    An object is counted once for each reference to it: otherwise a few bytes could make a value that is small in memory
    and endless in print.
    """

    def __init__(self, objects: dict[int, Any]) -> None:
        self._objects = objects
        self._made: dict[int, tuple[Any, int]] = {}
        self._under_way: set[int] = set()
        self._size = 0

    def value(self, given: Any, depth: int) -> Any:
        if isinstance(given, Reference):
            given = self._objects.get(given.number)
            if given is None:
                raise DecodeError("The stream refers to an object that it does not have.")
        self._grow(1)
        if not isinstance(given, Instance | Array):
            return given
        key = id(given)
        if key in self._made:
            made, size = self._made[key]
            self._grow(size)
            return made
        if key in self._under_way or depth > MOST_DEEP:
            raise DecodeError("The objects of the stream go in circles, or are nested too deeply.")
        self._under_way.add(key)
        before = self._size
        made = self._array(given, depth) if isinstance(given, Array) else self._instance(given, depth)
        self._under_way.discard(key)
        self._made[key] = made, self._size - before
        return made

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > _MOST_VALUES:
            raise DecodeError("The value of the stream is too large.")

    def _array(self, array: Array, depth: int) -> Any:
        if isinstance(array.elements, bytes):
            return array.elements
        values = [self.value(each, depth + 1) for each in array.elements]
        for length in reversed(array.lengths[1:]):
            values = [values[at : at + length] for at in range(0, len(values), length)] if length else []
        return values

    def _instance(self, given: Instance, depth: int) -> Any:
        members = {_member(name): self.value(part, depth + 1) for name, part in given.members.items()}
        name = given.name.partition("[")[0]
        if members.keys() in ({"m_value"}, {"value__"}):  # a boxed number or an enumeration
            return next(iter(members.values()))
        reader = _CLASSES.get(name)
        if reader is None:
            return {"$type": name} | members
        try:
            return reader(members)
        except (KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
            raise DecodeError(f"An object of the class {name} has not the members of one.") from error


def _member(name: str) -> str:
    """Return the bare name of a member: a property has the field ``<Name>k__BackingField``, an inherited one
    ``Base+name``."""
    own = name.rpartition("+")[2]
    return own[1:].partition(">")[0] if own.startswith("<") else own


def _decimal(members: dict[str, Any]) -> Decimal:
    low, middle, high = (members[part] & _MASK_32 for part in ("lo", "mid", "hi"))
    flags = members["flags"]
    return from_decimal_parts(high << 64 | middle << 32 | low, flags >> 16 & 0xFF, flags < 0)


def _guid(members: dict[str, Any]) -> UUID:
    return UUID(bytes_le=struct.pack("<ihh8B", *(members[f"_{letter}"] for letter in "abcdefghijk")))


def _date_time(members: dict[str, Any]) -> datetime:
    data = members.get("dateData", members["ticks"])
    return date_time(data)


def _list(members: dict[str, Any]) -> list[Any]:
    items: list[Any] = list(members["_items"])
    return items[: members["_size"]]


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> Any:
    """Make a dict, or a list of pairs if the keys are not hashable in Python."""
    kept = list(pairs)
    try:
        return dict(kept)
    except TypeError:
        return [list(pair) for pair in kept]


def _hashtable(members: dict[str, Any]) -> Any:
    return _pairs(zip(members["Keys"], members["Values"], strict=True))


def _dictionary(members: dict[str, Any]) -> Any:
    return _pairs((pair["key"], pair["value"]) for pair in members.get("KeyValuePairs") or ())


def _sorted(members: dict[str, Any]) -> Any:
    size = members["_size"]
    return _pairs(zip(members["keys"][:size], members["values"][:size], strict=True))


def _stream(members: dict[str, Any]) -> bytes:
    return bytes(members["_buffer"][members["_origin"] : members["_length"]])


def _text_builder(members: dict[str, Any]) -> str:
    return str(members["m_StringValue"])


_CLASSES: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "System.Decimal": _decimal,
    "System.Guid": _guid,
    "System.DateTime": _date_time,
    "System.TimeSpan": lambda members: timedelta(microseconds=members["_ticks"] // 10),
    "System.Collections.ArrayList": _list,
    "System.Collections.Generic.List`1": _list,
    "System.Collections.Hashtable": _hashtable,
    "System.Collections.Generic.Dictionary`2": _dictionary,
    "System.Collections.Generic.KeyValuePair`2": dict,
    "System.Collections.Generic.HashSet`1": lambda members: list(members.get("Elements") or ()),
    "System.Collections.SortedList": _sorted,
    "System.Collections.Generic.SortedList`2": _sorted,
    "System.IO.MemoryStream": _stream,
    "System.Text.StringBuilder": _text_builder,
}


# --- writing ------------------------------------------------------------------------------------------------------


def write(value: Any) -> bytes:
    """Write the BinaryFormatter stream of a value."""
    if value is None:
        raise EncodeError("BinaryFormatter has no form for a message that is null.")
    writing = _Writing()
    number = writing.root(value)
    header = struct.pack("<Biiii", RecordType.SERIALIZED_STREAM_HEADER, number, -1, 1, 0)
    return header + bytes(writing.out) + bytes([RecordType.MESSAGE_END])


class _Writing:
    """Writes the records of a value, one after another. A record that needs a later one refers to its number."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._numbers = count(1)

    def root(self, value: Any) -> int:
        number = next(self._numbers)
        self._object(number, value, 0)
        return number

    def _object(self, number: int, value: Any, depth: int) -> None:
        """Write an object that has a number of its own."""
        if depth > MOST_DEEP:
            raise EncodeError("The value is nested too deeply.")
        if isinstance(value, str):
            self.out += struct.pack("<Bi", RecordType.BINARY_OBJECT_STRING, number) + _text(value)
        elif isinstance(value, bytes | bytearray | memoryview):
            content = bytes(value)
            self.out += struct.pack("<Bii", RecordType.ARRAY_SINGLE_PRIMITIVE, number, len(content))
            self.out += bytes([Primitive.BYTE]) + content
        elif isinstance(value, list | tuple):
            self._list(number, list(value), depth)
        elif isinstance(value, dict):
            self._hashtable(number, value, depth)
        else:
            self._boxed(number, value)

    def _list(self, number: int, values: list[Any], depth: int) -> None:
        items = next(self._numbers)
        self._class(
            number,
            "System.Collections.ArrayList",
            ("_items", BinaryType.OBJECT_ARRAY, _reference(items)),
            ("_size", Primitive.INT32, struct.pack("<i", len(values))),
            ("_version", Primitive.INT32, struct.pack("<i", 0)),
        )
        self._elements(items, values, depth)

    def _hashtable(self, number: int, value: dict[Any, Any], depth: int) -> None:
        keys, values = next(self._numbers), next(self._numbers)
        null = bytes([RecordType.OBJECT_NULL])
        self._class(
            number,
            "System.Collections.Hashtable",
            ("LoadFactor", Primitive.SINGLE, struct.pack("<f", 0.72)),
            ("Version", Primitive.INT32, struct.pack("<i", 0)),
            ("Comparer", "System.Collections.IComparer", null),
            ("HashCodeProvider", "System.Collections.IHashCodeProvider", null),
            ("HashSize", Primitive.INT32, struct.pack("<i", len(value) * 2 + 3)),
            ("Keys", BinaryType.OBJECT_ARRAY, _reference(keys)),
            ("Values", BinaryType.OBJECT_ARRAY, _reference(values)),
        )
        self._elements(keys, list(value), depth)
        self._elements(values, list(value.values()), depth)

    def _elements(self, number: int, values: list[Any], depth: int) -> None:
        """Write an array of objects. Elements that are not simple values follow it."""
        self.out += struct.pack("<Bii", RecordType.ARRAY_SINGLE_OBJECT, number, len(values))
        later: list[tuple[int, Any]] = []
        for value in values:
            if value is None:
                self.out.append(RecordType.OBJECT_NULL)
            elif isinstance(value, str):
                self._object(next(self._numbers), value, depth)
            elif (primitive := _primitive(value)) is not None:
                self.out += bytes([RecordType.MEMBER_PRIMITIVE_TYPED, primitive[0]]) + primitive[1]
            else:
                later.append((next(self._numbers), value))
                self.out += _reference(later[-1][0])
        for one, value in later:
            self._object(one, value, depth + 1)

    def _boxed(self, number: int, value: Any) -> None:
        """Write a simple value as an object of its class."""
        if isinstance(value, Decimal):
            digits, scale, negative = to_decimal_parts(value)
            parts = (negative << 31 | scale << 16, digits >> 64, digits & _MASK_32, digits >> 32 & _MASK_32)
            names = ("flags", "hi", "lo", "mid")
            ints = (
                (name, Primitive.INT32, struct.pack("<I", part))
                for name, part in zip(names, parts, strict=True)
            )
            self._class(number, "System.Decimal", *ints)
        elif isinstance(value, UUID):
            kinds = [Primitive.INT32, *[Primitive.INT16] * 2, *[Primitive.BYTE] * 8]
            parts = struct.unpack("<ihh8B", value.bytes_le)
            self._class(
                number,
                "System.Guid",
                *(
                    (f"_{letter}", kind, struct.pack(LAYOUTS[kind], part))
                    for letter, kind, part in zip("abcdefghijk", kinds, parts, strict=True)
                ),
            )
        elif (primitive := _primitive(value)) is None:
            raise TypeError(f"No .NET type is known for a value of type {type(value).__name__}.")
        elif isinstance(value, datetime):
            ticks = struct.pack("<q", to_ticks(value if value.tzinfo is None else value.astimezone(UTC)))
            self._class(
                number,
                "System.DateTime",
                ("ticks", Primitive.INT64, ticks),
                ("dateData", Primitive.UINT64, primitive[1]),
            )
        elif isinstance(value, timedelta):
            self._class(number, "System.TimeSpan", ("_ticks", Primitive.INT64, primitive[1]))
        else:
            kind, content = primitive
            self._class(number, f"System.{_BOXES[kind]}", ("m_value", kind, content))

    def _class(
        self, number: int, name: str, *members: tuple[str, Primitive | BinaryType | str, bytes]
    ) -> None:
        """Write an object of a system class. A member type given as text is the name of another system class."""
        self.out += struct.pack("<Bi", RecordType.SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES, number) + _text(name)
        self.out += struct.pack("<i", len(members))
        for member, _, _ in members:
            self.out += _text(member)
        for _, kind, _ in members:
            self.out.append(
                BinaryType.SYSTEM_CLASS
                if isinstance(kind, str)
                else BinaryType.PRIMITIVE
                if isinstance(kind, Primitive)
                else kind
            )
        for _, kind, _ in members:
            if isinstance(kind, str):
                self.out += _text(kind)
            elif isinstance(kind, Primitive):
                self.out.append(kind)
        for _, _, content in members:
            self.out += content


_BOXES: Final = {
    Primitive.BOOLEAN: "Boolean", Primitive.INT32: "Int32", Primitive.INT64: "Int64", Primitive.UINT64: "UInt64",
    Primitive.DOUBLE: "Double",
}  # fmt: skip


def _primitive(value: Any) -> tuple[Primitive, bytes] | None:
    """Return the primitive type of a value and its bytes; None if it is no primitive."""
    if isinstance(value, bool):
        return Primitive.BOOLEAN, struct.pack("<?", value)
    if isinstance(value, int):
        for kind in (Primitive.INT32, Primitive.INT64, Primitive.UINT64):
            try:
                return kind, struct.pack(LAYOUTS[kind], value)
            except struct.error:
                continue
        raise EncodeError(f"{value} is too large for every number of .NET.")
    if isinstance(value, float):
        return Primitive.DOUBLE, struct.pack("<d", value)
    if isinstance(value, Decimal):
        to_decimal_parts(value)
        return Primitive.DECIMAL, _text(format(value, "f"))
    if isinstance(value, datetime):
        aware = value.tzinfo is not None
        moment = value.astimezone(UTC) if aware else value
        return Primitive.DATE_TIME, struct.pack("<Q", to_ticks(moment) | aware << 62)
    if isinstance(value, timedelta):
        return Primitive.TIME_SPAN, struct.pack("<q", value // timedelta(microseconds=1) * 10)
    return None


def _reference(number: int) -> bytes:
    return struct.pack("<Bi", RecordType.MEMBER_REFERENCE, number)


def _text(text: str) -> bytes:
    content = text.encode()
    length, prefix = len(content), bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + content
