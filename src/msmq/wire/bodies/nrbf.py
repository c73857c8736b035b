"""MS-NRBF, the stream of .NET's BinaryFormatter, read into a graph of plain records.

Nothing is ever instantiated: whatever its name, a class is only a name with values. The stream may come from anybody,
so each length is checked against the bytes that are left before anything is read, and the total of array elements and
records and the depth of nesting are limited. `msmq.wire.bodies.binary` turns the graph into Python values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from math import prod
from typing import Any, Final

from msmq.errors import DecodeError
from msmq.wire.bodies.activex import from_ticks

MOST_DEEP: Final = 100
_ELEMENTS_ALWAYS: Final = 8192
_ELEMENTS_PER_BYTE: Final = 16
"""A run of nulls takes five bytes whatever its length. The limit still allows a list for which .NET reserved twice its
size."""
_MOST_MEMBERS: Final = 10_000
_TICKS: Final = (1 << 62) - 1


class RecordType(IntEnum):
    """RecordTypeEnumeration (MS-NRBF 2.1.2.1)."""

    SERIALIZED_STREAM_HEADER = 0
    CLASS_WITH_ID = 1
    SYSTEM_CLASS_WITH_MEMBERS = 2
    CLASS_WITH_MEMBERS = 3
    SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES = 4
    CLASS_WITH_MEMBERS_AND_TYPES = 5
    BINARY_OBJECT_STRING = 6
    BINARY_ARRAY = 7
    MEMBER_PRIMITIVE_TYPED = 8
    MEMBER_REFERENCE = 9
    OBJECT_NULL = 10
    MESSAGE_END = 11
    BINARY_LIBRARY = 12
    OBJECT_NULL_MULTIPLE_256 = 13
    OBJECT_NULL_MULTIPLE = 14
    ARRAY_SINGLE_PRIMITIVE = 15
    ARRAY_SINGLE_OBJECT = 16
    ARRAY_SINGLE_STRING = 17


class BinaryType(IntEnum):
    """BinaryTypeEnumeration (MS-NRBF 2.1.2.2)."""

    PRIMITIVE = 0
    STRING = 1
    OBJECT = 2
    SYSTEM_CLASS = 3
    CLASS = 4
    OBJECT_ARRAY = 5
    STRING_ARRAY = 6
    PRIMITIVE_ARRAY = 7


class Primitive(IntEnum):
    """PrimitiveTypeEnumeration (MS-NRBF 2.1.2.3)."""

    BOOLEAN = 1
    BYTE = 2
    CHAR = 3
    DECIMAL = 5
    DOUBLE = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    SBYTE = 10
    SINGLE = 11
    TIME_SPAN = 12
    DATE_TIME = 13
    UINT16 = 14
    UINT32 = 15
    UINT64 = 16
    NULL = 17
    STRING = 18


LAYOUTS: Final = {
    Primitive.BOOLEAN: "<?", Primitive.BYTE: "<B", Primitive.DOUBLE: "<d", Primitive.INT16: "<h", Primitive.INT32: "<i",
    Primitive.INT64: "<q", Primitive.SBYTE: "<b", Primitive.SINGLE: "<f", Primitive.UINT16: "<H",
    Primitive.UINT32: "<I", Primitive.UINT64: "<Q",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reference:
    """A MemberReference to the object with this number, which may come later in the stream."""

    number: int


@dataclass(slots=True)
class Instance:
    """An object of a class: its full name and its members."""

    name: str
    members: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Array:
    """An array of any rank, its elements in the order of the stream."""

    lengths: tuple[int, ...]
    elements: list[Any]


@dataclass(frozen=True, slots=True)
class _Shape:
    """The description of a class. The type of a member is None where the record does not give it."""

    name: str
    members: tuple[str, ...]
    types: tuple[Primitive | None, ...]


@dataclass(frozen=True, slots=True)
class _Nulls:
    """Several null references in a row."""

    count: int


class Graph:
    """The objects of a stream, by their numbers, and the root."""

    def __init__(self, body: bytes) -> None:
        self.objects: dict[int, Any] = {}
        self._body = body
        self._at = 0
        self._elements = 0
        self._shapes: dict[int, _Shape] = {}
        self.root = self._stream()

    # --- the stream ---------------------------------------------------------------------------------------------

    def _stream(self) -> Any:
        if self._record_type() is not RecordType.SERIALIZED_STREAM_HEADER:
            raise DecodeError("The stream does not begin with its header.", 0)
        root, _, major, minor = struct.unpack("<iiii", self._take(16))
        if (major, minor) != (1, 0):
            raise DecodeError("The stream has another version than 1.0.", 9)
        while True:
            kind = self._record_type()
            if kind is RecordType.MESSAGE_END:
                break
            if kind is not RecordType.BINARY_LIBRARY:
                self._record(kind, 0)
            else:
                self._library()
        if root not in self.objects:
            raise DecodeError("The stream has no root.")
        return self.objects[root]

    def _record_type(self) -> RecordType:
        number = self._take(1)[0]
        try:
            return RecordType(number)
        except ValueError as error:
            raise DecodeError(f"There is no record of type {number}.", self._at - 1) from error

    def _library(self) -> None:
        self._number()
        self._text()

    def _record(self, kind: RecordType, depth: int) -> Any:
        """Read a record's value, and keep it by its number if it has one."""
        if depth > MOST_DEEP:
            raise DecodeError("The stream is nested too deeply.", self._at)
        self._count(1)
        reader = _RECORDS.get(kind)
        if reader is None:
            raise DecodeError(f"A record of type {kind.name} stands where it may not.", self._at - 1)
        return reader(self, depth)

    def _next(self, depth: int) -> Any:
        """Read the next value, skipping libraries before it."""
        while (kind := self._record_type()) is RecordType.BINARY_LIBRARY:
            self._library()
        return self._record(kind, depth)

    # --- classes ------------------------------------------------------------------------------------------------

    def _class(self, depth: int, *, typed: bool, library: bool) -> Instance:
        number = self._number()
        name = self._text()
        count = self._number()
        if not 0 <= count <= _MOST_MEMBERS:
            raise DecodeError("A class has more members than any has.", self._at)
        members = tuple(self._text() for _ in range(count))
        types: tuple[Primitive | None, ...] = self._member_types(count) if typed else (None,) * count
        if library:
            self._number()
        self._shapes[number] = shape = _Shape(name, members, types)
        return self._instance(number, shape, depth)

    def _class_with_id(self, depth: int) -> Instance:
        number, other = self._number(), self._number()
        shape = self._shapes.get(other)
        if shape is None:
            raise DecodeError("An object is of a class that was not described.", self._at)
        return self._instance(number, shape, depth)

    def _member_types(self, count: int) -> tuple[Primitive | None, ...]:
        kinds = [self._binary_type() for _ in range(count)]
        return tuple(self._type_information(kind) for kind in kinds)

    def _instance(self, number: int, shape: _Shape, depth: int) -> Instance:
        made = Instance(shape.name)
        self._keep(number, made)
        for name, kind in zip(shape.members, shape.types, strict=True):
            value = self._next(depth + 1) if kind is None else self._primitive(kind)
            if isinstance(value, _Nulls):
                raise DecodeError("A member is several nulls.", self._at)
            made.members[name] = value
        return made

    def _binary_type(self) -> BinaryType:
        number = self._take(1)[0]
        try:
            return BinaryType(number)
        except ValueError as error:
            raise DecodeError(f"There is no binary type {number}.", self._at - 1) from error

    def _type_information(self, kind: BinaryType) -> Primitive | None:
        """Read what follows a binary type. Only a primitive type affects how values are read; it is returned."""
        if kind in (BinaryType.PRIMITIVE, BinaryType.PRIMITIVE_ARRAY):
            primitive = self._primitive_type()
            return primitive if kind is BinaryType.PRIMITIVE else None
        if kind in (BinaryType.SYSTEM_CLASS, BinaryType.CLASS):
            self._text()
        if kind is BinaryType.CLASS:
            self._number()
        return None

    # --- arrays -------------------------------------------------------------------------------------------------

    def _binary_array(self, depth: int) -> Array:
        number, form, rank = self._number(), self._take(1)[0], self._number()
        if form > 5 or not 1 <= rank <= 32:
            raise DecodeError("An array has a form or rank that none has.", self._at)
        lengths = tuple(self._number() for _ in range(rank))
        if form >= 3:
            self._take(4 * rank)  # the lower bounds
        kind = self._type_information(self._binary_type())
        return self._array(number, lengths, kind, depth)

    def _primitives(self, depth: int) -> Array:
        number, length = self._number(), self._number()
        return self._array(number, (length,), self._primitive_type(), depth)

    def _objects(self, depth: int) -> Array:
        number, length = self._number(), self._number()
        return self._array(number, (length,), None, depth)

    def _array(self, number: int, lengths: tuple[int, ...], kind: Primitive | None, depth: int) -> Array:
        if any(length < 0 for length in lengths):
            raise DecodeError("An array has a negative length.", self._at)
        total = prod(lengths)
        made = Array(lengths, [])
        self._keep(number, made)
        if kind in LAYOUTS:
            layout = LAYOUTS[kind]
            content = self._take(total * struct.calcsize(layout))
            if kind is Primitive.BYTE:
                made.elements = content  # type: ignore[assignment]  # bytes serve as a list of numbers
                return made
            self._count(total)
            made.elements = [each for (each,) in struct.iter_unpack(layout, content)]
            return made
        self._count(total)
        while len(made.elements) < total:
            value = self._next(depth + 1) if kind is None else self._primitive(kind)
            if not isinstance(value, _Nulls):
                made.elements.append(value)
            elif value.count <= total - len(made.elements):
                made.elements += [None] * value.count
            else:
                raise DecodeError("An array has more elements than it says.", self._at)
        return made

    # --- values -------------------------------------------------------------------------------------------------

    def _string(self, _: int) -> str:
        number = self._number()
        text = self._text()
        self._keep(number, text)
        return text

    def _typed(self, _: int) -> Any:
        return self._primitive(self._primitive_type())

    def _reference(self, _: int) -> Reference:
        return Reference(self._number())

    def _null(self, _: int) -> None:
        return None

    def _few_nulls(self, _: int) -> _Nulls:
        return self._nulls(self._take(1)[0])

    def _many_nulls(self, _: int) -> _Nulls:
        return self._nulls(self._number())

    def _nulls(self, count: int) -> _Nulls:
        if count <= 0:
            raise DecodeError("A run of nulls is empty.", self._at)
        return _Nulls(count)

    def _primitive_type(self) -> Primitive:
        number = self._take(1)[0]
        try:
            return Primitive(number)
        except ValueError as error:
            raise DecodeError(f"There is no primitive type {number}.", self._at - 1) from error

    def _primitive(self, kind: Primitive) -> Any:
        layout = LAYOUTS.get(kind)
        if layout is not None:
            return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        if kind is Primitive.CHAR:
            return self._character()
        if kind is Primitive.DECIMAL:
            return self._decimal()
        if kind is Primitive.TIME_SPAN:
            return timedelta(microseconds=struct.unpack("<q", self._take(8))[0] // 10)
        if kind is Primitive.DATE_TIME:
            return date_time(struct.unpack("<Q", self._take(8))[0])
        if kind is Primitive.STRING:
            return self._text()
        return None

    def _character(self) -> str:
        first = self._take(1)
        size = 1 if first[0] < 0x80 else 2 if first[0] < 0xE0 else 3 if first[0] < 0xF0 else 4
        return _utf8(first + self._take(size - 1))

    def _decimal(self) -> Decimal:
        text = self._text()
        try:
            found = Decimal(text) if len(text) <= 40 else None
        except InvalidOperation:
            found = None
        if found is None or not found.is_finite():
            raise DecodeError("A decimal is no number.", self._at)
        return found

    # --- the bytes ----------------------------------------------------------------------------------------------

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._body):
            raise DecodeError("The stream ends in the middle.", self._at)
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "little", signed=True)

    def _text(self) -> str:
        """Read a LengthPrefixedString (MS-NRBF 2.1.1.6), whose length takes seven bits of each of up to five bytes."""
        length = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                return _utf8(self._take(length))
        raise DecodeError("The length of a text is too long.", self._at)

    def _keep(self, number: int, value: Any) -> None:
        if number in self.objects:
            raise DecodeError("Two objects have the same number.", self._at)
        self.objects[number] = value

    def _count(self, elements: int) -> None:
        self._elements += elements
        if self._elements > _ELEMENTS_ALWAYS + _ELEMENTS_PER_BYTE * len(self._body):
            raise DecodeError("The stream has more elements than are read.", self._at)


def date_time(data: int) -> datetime:
    """Read a DateTime: ticks in 62 bits, and above them whether the time is UTC."""
    moment = from_ticks(data & _TICKS)
    return moment.replace(tzinfo=UTC) if data >> 62 == 1 else moment


def _utf8(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("A text of the stream is no UTF-8.") from error


_RECORDS: Final[dict[RecordType, Callable[[Graph, int], Any]]] = {
    RecordType.CLASS_WITH_ID: Graph._class_with_id,
    RecordType.SYSTEM_CLASS_WITH_MEMBERS: lambda g, depth: g._class(depth, typed=False, library=False),
    RecordType.CLASS_WITH_MEMBERS: lambda g, depth: g._class(depth, typed=False, library=True),
    RecordType.SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES: lambda g, depth: g._class(depth, typed=True, library=False),
    RecordType.CLASS_WITH_MEMBERS_AND_TYPES: lambda g, depth: g._class(depth, typed=True, library=True),
    RecordType.BINARY_OBJECT_STRING: Graph._string,
    RecordType.BINARY_ARRAY: Graph._binary_array,
    RecordType.MEMBER_PRIMITIVE_TYPED: Graph._typed,
    RecordType.MEMBER_REFERENCE: Graph._reference,
    RecordType.OBJECT_NULL: Graph._null,
    RecordType.OBJECT_NULL_MULTIPLE_256: Graph._few_nulls,
    RecordType.OBJECT_NULL_MULTIPLE: Graph._many_nulls,
    RecordType.ARRAY_SINGLE_PRIMITIVE: Graph._primitives,
    RecordType.ARRAY_SINGLE_OBJECT: Graph._objects,
    RecordType.ARRAY_SINGLE_STRING: Graph._objects,
}  # fmt: skip
