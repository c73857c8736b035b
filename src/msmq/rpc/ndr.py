"""Declarations that read like IDL, marshalled in NDR and in NDR64 (C706 14, MS-RPCE 2.2.4, 2.2.5).

How it looks. A structure and the parameters of an operation are classes whose fields carry their type::

    @declare
    class SectionBuffer(Struct):
        section_buffer_type: enum16
        section_size_alloc: u32
        section_size: u32
        p_section_buffer: Annotated[bytes | None, Unique(Octets(size_is="section_size"))]

    @declare
    class EndReceive(Parameters):
        ph_context: context_handle
        dw_ack: Annotated[int, Range(u32, 1, 2)]
        dw_request_id: u32

`Parameters` are what one direction of a call carries: the [in] parameters, or the [out] ones with the return value
last. Their ``decode(stub, ndr64)`` gives the value and where it ended, ``encode(ndr64)`` the stub. A top-level
reference pointer has no bytes of its own, so ``[in] GUID *p`` is declared as ``guid`` and ``[out] X **pp`` as
``Unique(X)``.

What is checked. Every count against the bytes that remain before anything is read for it, all counts together and
the depth of pointers against the limits of `NdrReader`, ``size_is``, ``length_is`` and ``switch_is`` against the
field they name once everything is read, ranges, null in reference pointers. The error is DecodeError, always.

Shortcuts. Parameters of a known size are read and written by one ``struct`` (`Fixed`). Others may be declared with a
`Shortcut` for the one form that nearly all of them have. A shortcut knows that form alone and leaves everything else,
whatever is wrong included, to the declaration; so it changes how fast something is read, and never what it means.

How it works. A type reads by calling ``assign`` with its value: at once, or, behind a pointer, when the pointee's
turn comes. ``scope`` is the structure the field stands in, which is where ``size_is`` looks.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Protocol, Self, TypeVar, dataclass_transform, get_type_hints

from msmq.errors import DecodeError, EncodeError
from msmq.rpc.ndr_scalars import (
    NULL_HANDLE,
    U8,
    Assign,
    Decoder,
    NdrType,
    Referent,
    Silent,
    Text,
    context_handle,
    cstring,
    enum16,
    fixed_octets,
    guid,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    wstring,
)
from msmq.wire.ndr import NdrReader, NdrWriter

__all__ = [
    "NULL_HANDLE", "Array", "Custom", "Full", "NdrType", "Octets", "Parameters", "Range", "Ref", "Shortcut", "Silent",
    "Struct", "Text", "Union", "Unique", "context_handle", "cstring", "declare", "enum16", "fixed_octets", "guid", "i8",
    "i16", "i32", "i64", "type_of", "u8", "u16", "u32", "u64", "wstring",
]  # fmt: skip


class Range(NdrType):
    """``[range(low, high)]`` of an integer."""

    def __init__(self, of: Any, low: int, high: int) -> None:
        self.of, self.low, self.high = type_of(of), low, high

    def alignment(self, ndr64: bool) -> int:
        return self.of.alignment(ndr64)

    def minimum(self, ndr64: bool) -> int:
        return self.of.minimum(ndr64)

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        def check(value: int) -> None:
            if not self.low <= value <= self.high:
                raise DecodeError(f"{value} is not within {self.low} to {self.high}", reader.offset)
            assign(value)

        self.of.read(reader, scope, check)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if not isinstance(value, int) or not self.low <= value <= self.high:
            raise EncodeError(f"{value!r} is not within {self.low} to {self.high}")
        self.of.write(writer, value, scope)


class Unique(NdrType):
    """``[unique]``: null, or a pointee of its own."""

    def __init__(self, to: Any) -> None:
        self.to = type_of(to)

    def alignment(self, ndr64: bool) -> int:
        return 8 if ndr64 else 4

    def minimum(self, ndr64: bool) -> int:
        return self.alignment(ndr64)

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        if not reader.count():
            assign(None)
            return
        reader.defer(partial(self.to.read, reader, scope, assign))

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        writer.pointer(None if value is None else partial(self.to.write, writer, value, scope))


class Ref(Unique):
    """``[ref]`` inside a structure: a pointer that may not be null."""

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        if not reader.count():
            raise DecodeError("null where a pointer is required", reader.offset)
        reader.defer(partial(self.to.read, reader, scope, assign))

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if value is None:
            raise EncodeError("null where a pointer is required")
        super().write(writer, value, scope)


class Full(Unique):
    """``[ptr]``: as unique, but two pointers with one referent id share their pointee. We never write such a pair."""

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        referent_id = reader.count()
        if not referent_id:
            assign(None)
            return
        kind = self.to.cls if isinstance(self.to, StructType) else self.to
        referent = reader.full.get(referent_id)
        if referent is not None and referent.kind != kind:
            raise DecodeError("two pointers share a pointee of two types", reader.offset)
        if referent is None:
            referent = reader.full[referent_id] = Referent(kind)
            referent.waiting.append(assign)
            reader.defer(partial(self.to.read, reader, scope, referent.set))
        elif referent.known:
            assign(referent.value)
        else:
            referent.waiting.append(assign)


Count = str | Callable[[Any], int]
"""Where a count is declared: a field beside the array, or an expression of the structure."""


def _declared(scope: Any, count: Count) -> int:
    return int(getattr(scope, count)) if isinstance(count, str) else count(scope)


class Array(NdrType):
    """``[size_is(...)] T a[]``: a count, then so many elements. ``length_is`` makes it varying too.

    ``announced`` is for a size_is that names a parameter of the other direction: it is written and not compared.
    """

    conformant = True

    def __init__(
        self,
        of: Any,
        *,
        size_is: Count | None = None,
        length_is: Count | None = None,
        announced: str | None = None,
        max_count: int | None = None,
    ) -> None:
        self.of = type_of(of)
        self.size_is, self.length_is, self.max_count = size_is, length_is, max_count
        self.announced = announced

    def alignment(self, ndr64: bool) -> int:
        return max(8 if ndr64 else 4, self.of.alignment(ndr64))

    def minimum(self, ndr64: bool) -> int:
        return 8 if ndr64 else 4

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        self.read_behind(reader, scope, assign, reader.count())

    def read_behind(self, reader: Decoder, scope: Any, assign: Assign, maximum: int) -> None:
        """The rest of the array, of which the count was read already."""
        count = maximum
        if self.length_is is not None:
            offset, count = reader.count(), reader.count()
            if offset or count > maximum:
                raise DecodeError(f"array counts {maximum}, {offset}, {count} disagree", reader.offset)
        if self.max_count is not None and maximum > self.max_count:
            raise DecodeError(f"array of {maximum}, at most {self.max_count} are allowed", reader.offset)
        self._agree(reader, scope, self.size_is, maximum)
        self._agree(reader, scope, self.length_is, count)
        self._elements(reader, scope, assign, count)

    @staticmethod
    def _agree(reader: Decoder, scope: Any, declared: Count | None, count: int) -> None:
        if declared is None:
            return

        def check() -> None:
            expected = _declared(scope, declared)
            if expected != count:
                raise DecodeError(f"array holds {count} elements where {expected} are declared")

        reader.checks.append(check)

    def _elements(self, reader: Decoder, scope: Any, assign: Assign, count: int) -> None:
        reader.claim(count, self.of.minimum(reader.ndr64))
        values: list[Any] = [None] * count
        for index in range(count):
            self.of.read(reader, scope, partial(values.__setitem__, index))
        assign(values)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        writer.count(self.conformance(value, scope))
        self.write_behind(writer, value, scope)

    def conformance(self, value: Any, scope: Any) -> int:
        """The count before the array; what is declared beside it must agree."""
        count = len(value)
        maximum = count
        if self.size_is is not None:
            maximum = _declared(scope, self.size_is)
        elif self.announced is not None:
            told = getattr(scope, self.announced)
            maximum = count if told is None else told
        length = count if self.length_is is None else _declared(scope, self.length_is)
        if length != count or (self.length_is is None and maximum != count) or maximum < count:
            raise EncodeError(f"array holds {count} elements where {maximum} are declared")
        if self.max_count is not None and maximum > self.max_count:
            raise EncodeError(f"array of {maximum}, at most {self.max_count} are allowed")
        return maximum

    def write_behind(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if self.length_is is not None:
            writer.count(0)
            writer.count(len(value))
        self._write_elements(writer, value, scope)

    def _write_elements(self, writer: NdrWriter, value: Sequence[Any], scope: Any) -> None:
        for element in value:
            self.of.write(writer, element, scope)


class Octets(Array):
    """``[size_is(...)] byte a[]`` as bytes."""

    def __init__(
        self, *, size_is: Count | None = None, length_is: Count | None = None, max_count: int | None = None
    ) -> None:
        super().__init__(U8, size_is=size_is, length_is=length_is, max_count=max_count)

    def _elements(self, reader: Decoder, scope: Any, assign: Assign, count: int) -> None:
        assign(reader.raw(count))

    def _write_elements(self, writer: NdrWriter, value: Sequence[Any], scope: Any) -> None:
        writer.raw(bytes(value))


class Union(NdrType):
    """``[switch_is(...)] union``: a discriminant that repeats the field it is switched by, then one arm.

    ``arms`` maps discriminants to types; None is an empty arm. The value is that of the arm. In NDR the arm lies
    where its own alignment has it; NDR64 aligns discriminant and arm to the widest arm (MS-RPCE 2.2.5.3.4.4), with
    the same padding that ends a structure there.
    """

    def __init__(self, tag: Any, arms: Mapping[int, Any], *, switch_is: Count) -> None:
        self.tag = type_of(tag)
        self.arms = {case: None if arm is None else type_of(arm) for case, arm in arms.items()}
        self.switch_is = switch_is

    def _arm_alignment(self, ndr64: bool) -> int:
        return max((arm.alignment(ndr64) for arm in self.arms.values() if arm is not None), default=1)

    def alignment(self, ndr64: bool) -> int:
        return max(self.tag.alignment(ndr64), self._arm_alignment(ndr64))

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        reader.end_structure(self.alignment(True))
        found: list[int] = []
        self.tag.read(reader, scope, found.append)
        case = found[0]
        if case not in self.arms:
            raise DecodeError(f"a union has no arm {case}", reader.offset)

        def check() -> None:
            if _declared(scope, self.switch_is) != case:
                raise DecodeError(f"a union holds arm {case} and is switched otherwise")

        reader.checks.append(check)
        arm = self.arms[case]
        if arm is None:
            assign(None)
            return
        reader.end_structure(self._arm_alignment(True))
        arm.read(reader, scope, assign)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        case = _declared(scope, self.switch_is)
        if case not in self.arms:
            raise EncodeError(f"a union has no arm {case}")
        writer.end_structure(self.alignment(True))
        self.tag.write(writer, case, scope)
        arm = self.arms[case]
        if arm is not None:
            writer.end_structure(self._arm_alignment(True))
            arm.write(writer, value, scope)


class Custom(NdrType):
    """A type with functions of its own, in the manner of `msmq.wire.queue_format_ndr`.

    ``read(reader)`` gives a thunk that is called when everything it defers was read; ``pointers`` says that the
    type is aligned like a pointer, otherwise it is aligned to four.
    """

    def __init__(
        self,
        read: Callable[[NdrReader], Callable[[], Any]],
        write: Callable[[NdrWriter, Any], None],
        *,
        pointers: bool = True,
    ) -> None:
        self._read, self._write, self._pointers = read, write, pointers

    def alignment(self, ndr64: bool) -> int:
        return 8 if ndr64 and self._pointers else 4

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        thunk = self._read(reader)
        reader.defer(lambda: assign(thunk()))

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        self._write(writer, value)


# --- structures and parameters -----------------------------------------------------------------------


class Struct:
    """Base of every declared structure."""

    __slots__ = ()
    MEMBERS: ClassVar[tuple[tuple[str, NdrType], ...]] = ()


class StructType(NdrType):
    """How a declared structure lies in the stream."""

    def __init__(self, cls: type[Struct]) -> None:
        self.cls = cls
        self.members = cls.MEMBERS
        self.conformant = bool(self.members) and self.members[-1][1].conformant  # type: ignore[misc]
        self._alignments = tuple(
            max((_inside(kind).alignment(ndr64) for _, kind in self.members), default=1)
            for ndr64 in (False, True)
        )

    def alignment(self, ndr64: bool) -> int:
        return self._alignments[ndr64]

    def minimum(self, ndr64: bool) -> int:
        return max(1, sum(kind.minimum(ndr64) for _, kind in self.members))

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        maximum = reader.count() if self.conformant else None
        self.read_behind(reader, scope, assign, maximum)

    def read_behind(self, reader: Decoder, scope: Any, assign: Assign, maximum: int | None) -> None:
        reader.align(self.alignment(reader.ndr64))
        value = object.__new__(self.cls)
        for name, kind in self.members:
            put = partial(setattr, value, name)
            if kind.conformant:
                kind.read_behind(reader, value, put, maximum)  # type: ignore[attr-defined]
            else:
                kind.read(reader, value, put)
        reader.end_structure(self.alignment(reader.ndr64))
        assign(value)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if self.conformant:
            writer.count(self.conformance(value, scope))
        self.write_behind(writer, value, scope)

    def conformance(self, value: Any, scope: Any) -> int:
        name, kind = self.members[-1]
        counted: int = kind.conformance(getattr(value, name), value)  # type: ignore[attr-defined]
        return counted

    def write_behind(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if not isinstance(value, self.cls):
            raise EncodeError(f"a {self.cls.__name__} is needed here, not {type(value).__name__}")
        writer.align(self.alignment(writer.ndr64))
        for name, kind in self.members:
            if kind.conformant:
                kind.write_behind(writer, getattr(value, name), value)  # type: ignore[attr-defined]
            else:
                kind.write(writer, getattr(value, name), value)
        writer.end_structure(self.alignment(writer.ndr64))


def _inside(kind: NdrType) -> NdrType:
    """What of a member lies inside its structure: the count of an array stands before it."""
    return kind.of if isinstance(kind, Array) else kind


class Shortcut(Protocol):
    """A quick way for the usual form of some parameters; values are those of the fields, in their order."""

    def unpack(self, stub: bytes, ndr64: bool) -> tuple[tuple[Any, ...], int] | None:
        """The values and where they end, or None for what is to go the long way."""

    def pack(self, values: tuple[Any, ...], ndr64: bool) -> bytes | None:
        """The stub, or None for what is to go the long way."""


class Fixed:
    """Parameters that are nothing but numbers and bytes of known length: they lie alike in NDR and NDR64, and one
    ``struct`` reads and writes them all."""

    def __init__(self, members: Sequence[tuple[str, NdrType]]) -> None:
        layout, offset = "<", 0
        self._octets: list[tuple[int, int]] = []
        self._ranges: list[tuple[int, int, int]] = []
        for index, (_, kind) in enumerate(members):
            if isinstance(kind, Range):
                self._ranges.append((index, kind.low, kind.high))
                kind = kind.of
            assert kind.code is not None
            padding = -offset % kind.alignment(False)
            code = struct.Struct("<" + kind.code)
            layout += f"{padding}x{kind.code}"
            offset += padding + code.size
            if kind.code.endswith("s"):
                self._octets.append((index, code.size))
        self._struct = struct.Struct(layout)
        self._size = self._struct.size

    @staticmethod
    def of(members: Sequence[tuple[str, NdrType]]) -> Fixed | None:
        kinds = [kind.of if isinstance(kind, Range) else kind for _, kind in members]
        return Fixed(members) if kinds and all(kind.code is not None for kind in kinds) else None

    def unpack(self, stub: bytes, ndr64: bool) -> tuple[tuple[Any, ...], int] | None:
        if len(stub) < self._size:
            return None
        values = self._struct.unpack_from(stub)
        for index, low, high in self._ranges:
            if not low <= values[index] <= high:
                return None
        return values, self._size

    def pack(self, values: tuple[Any, ...], ndr64: bool) -> bytes | None:
        for index, size in self._octets:
            if not isinstance(values[index], bytes) or len(values[index]) != size:
                return None
        for index, low, high in self._ranges:
            if not isinstance(values[index], int) or not low <= values[index] <= high:
                return None
        try:
            return self._struct.pack(*values)
        except struct.error:
            return None


class Parameters:
    """Base of what one direction of a call carries."""

    __slots__ = ()
    MEMBERS: ClassVar[tuple[tuple[str, NdrType], ...]] = ()
    SHORTCUT: ClassVar[Shortcut | None] = None
    VALUES: ClassVar[Callable[[Any], tuple[Any, ...]]]
    """Gives the values of all fields."""

    @classmethod
    def decode(cls, stub: bytes, ndr64: bool = False) -> tuple[Self, int]:
        """The parameters and where in ``stub`` they end."""
        shortcut = cls.SHORTCUT
        if shortcut is not None and (found := shortcut.unpack(stub, ndr64)) is not None:
            return cls(*found[0]), found[1]
        return cls.decode_declared(stub, ndr64)

    @classmethod
    def decode_declared(cls, stub: bytes, ndr64: bool) -> tuple[Self, int]:
        """The long way, which says what is wrong."""
        reader = Decoder(stub, ndr64)
        value = object.__new__(cls)
        for name, kind in cls.MEMBERS:
            kind.read(reader, value, partial(setattr, value, name))
            reader.resolve()
        reader.finish()
        return value, reader.offset

    def encode(self, ndr64: bool = False) -> bytes:
        cls = type(self)
        if cls.SHORTCUT is not None:
            stub = cls.SHORTCUT.pack(cls.VALUES(self), ndr64)
            if stub is not None:
                return stub
        return self.encode_declared(ndr64)

    def encode_declared(self, ndr64: bool) -> bytes:
        """The long way."""
        writer = NdrWriter(ndr64)
        for name, kind in self.MEMBERS:
            kind.write(writer, getattr(self, name), self)
            writer.resolve()
        return writer.getvalue()


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda value: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)


T = TypeVar("T", bound=Struct | Parameters)


@dataclass_transform(eq_default=True)
def declare(plain: type[T]) -> type[T]:
    """Make a class of annotated fields a structure or a set of parameters."""
    hints = get_type_hints(plain, include_extras=True)
    cls = dataclass(slots=True)(plain)
    members = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        kind = type_of(hints[field.name])
        if kind.conformant and issubclass(cls, Struct) and field is not dataclasses.fields(cls)[-1]:  # type: ignore[arg-type]
            raise TypeError(f"{cls.__name__}.{field.name}: a conformant array stands last in its structure")
        members.append((field.name, kind))
    cls.MEMBERS = tuple(members)
    if issubclass(cls, Parameters):
        cls.VALUES = _values_of([name for name, _ in members])
        if cls.SHORTCUT is None:
            cls.SHORTCUT = Fixed.of(members)
    return cls


def type_of(declaration: Any) -> NdrType:
    """The type a field, an element or a pointee is declared with."""
    if isinstance(declaration, NdrType):
        return declaration
    if isinstance(declaration, type) and issubclass(declaration, Struct):
        return StructType(declaration)
    for entry in getattr(declaration, "__metadata__", ()):
        if isinstance(entry, NdrType):
            return entry
    raise TypeError(f"{declaration!r} has no NDR type")
