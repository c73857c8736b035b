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
last. Their ``decode(stub, ndr64)`` returns the value and the offset of its end, ``encode(ndr64)`` the stub. A
top-level reference pointer has no bytes of its own, so ``[in] GUID *p`` is declared as ``guid`` and ``[out] X **pp``
as ``Unique(X)``.

What is checked. Every count against the bytes that remain before anything is read for it, all counts together and
the depth of pointers against the limits of `NdrReader`, ``size_is``, ``length_is`` and ``switch_is`` against the
field they name once everything is read, ranges, null in reference pointers. The error is DecodeError, always.

How it works. Consecutive members of a fixed size are a `msmq.rpc.ndr_runs.Run`, which one ``struct`` reads and writes.
Most parameters are one run and nothing else, and need no reader or writer. Any other type passes the value it has read
to ``assign``: at once, or, behind a pointer, when the pointee's turn comes. ``scope`` is the structure the field
stands in, which is where ``size_is`` looks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform, get_type_hints

from msmq.errors import DecodeError, EncodeError
from msmq.rpc.ndr_runs import Member, Pointer, Run, steps_of
from msmq.rpc.ndr_scalars import (
    NULL_HANDLE,
    U8,
    Assign,
    Custom,
    Decoder,
    FixedOctets,
    NdrType,
    Referent,
    Scalar,
    Silent,
    Text,
    context_handle,
    cstring,
    enum16,
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
from msmq.wire.ndr import NdrWriter

__all__ = [
    "NULL_HANDLE", "Array", "Custom", "FixedOctets", "Full", "NdrType", "Octets", "Parameters", "Range", "Ref",
    "Scalar", "Silent", "Struct", "Text", "Union", "Unique", "context_handle", "cstring", "declare", "enum16", "guid",
    "i8", "i16", "i32", "i64", "type_of", "u8", "u16", "u32", "u64", "wstring",
]  # fmt: skip


class Range(Scalar):
    """``[range(low, high)]`` of an integer."""

    def __init__(self, of: Any, low: int, high: int) -> None:
        kind = type_of(of)
        assert isinstance(kind, Scalar)
        self.of, self.low, self.high = kind, low, high

    def code(self, ndr64: bool) -> str:
        return self.of.code(ndr64)

    def doubtful(self, ndr64: bool, reading: bool) -> bool:
        return True

    def objection(self, value: Any) -> str | None:
        fits = isinstance(value, int) and self.low <= value <= self.high
        return None if fits else f"{value!r} is not within {self.low} to {self.high}"


class Unique(Pointer):
    """``[unique]``: null, or a pointee of its own."""

    def __init__(self, to: Any) -> None:
        self.to = type_of(to)

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        self.follow(reader, scope, assign, reader.count())

    def follow(self, reader: Decoder, scope: Any, assign: Assign, referent_id: int) -> None:
        if referent_id:
            reader.deferred.append(partial(self.to.read, reader, scope, assign))
        else:
            assign(None)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        writer.count(self.refer(writer, value, scope))

    def refer(self, writer: NdrWriter, value: Any, scope: Any) -> int:
        return 0 if value is None else writer.refer(partial(self.to.write, writer, value, scope))


class Ref(Unique):
    """``[ref]`` inside a structure: a pointer that may not be null."""

    def follow(self, reader: Decoder, scope: Any, assign: Assign, referent_id: int) -> None:
        if not referent_id:
            raise DecodeError("null where a pointer is required", reader.offset)
        super().follow(reader, scope, assign, referent_id)

    def refer(self, writer: NdrWriter, value: Any, scope: Any) -> int:
        if value is None:
            raise EncodeError("null where a pointer is required")
        return super().refer(writer, value, scope)


class Full(Unique):
    """``[ptr]``: like `Unique`, but pointers with the same referent id share their pointee. We never write such
    pointers."""

    def follow(self, reader: Decoder, scope: Any, assign: Assign, referent_id: int) -> None:
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
"""Where the count of an array is declared: the name of a field beside it, or a function of its structure."""


def _declared(scope: Any, count: Count) -> int:
    return int(getattr(scope, count)) if isinstance(count, str) else count(scope)


class Array(NdrType):
    """``[size_is(...)] T a[]``: a count, then as many elements. ``length_is`` makes it varying too.

    ``announced`` names the parameter of the other direction that a size_is refers to: the count is written from it and
    not compared when read.
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
        """Read the rest of the array, whose count was read already."""
        count, size_is = maximum, self.size_is
        if self.length_is is not None:
            offset, count = reader.count(), reader.count()
            if offset or count > maximum:
                raise DecodeError(f"array counts {maximum}, {offset}, {count} disagree", reader.offset)
        if self.max_count is not None and maximum > self.max_count:
            raise DecodeError(f"array of {maximum}, at most {self.max_count} are allowed", reader.offset)
        if size_is is not None and not (type(size_is) is str and getattr(scope, size_is, None) == maximum):
            self._agree(reader, scope, size_is, maximum)
        if self.length_is is not None:
            self._agree(reader, scope, self.length_is, count)
        self._elements(reader, scope, assign, count)

    @staticmethod
    def _agree(reader: Decoder, scope: Any, declared: Count, count: int) -> None:
        def check() -> None:
            expected = _declared(scope, declared)
            if expected != count:
                raise DecodeError(f"array holds {count} elements where {expected} are declared")

        reader.checks.append(check)  # the field with the count may stand behind the array

    def _elements(self, reader: Decoder, scope: Any, assign: Assign, count: int) -> None:
        reader.claim(count, self.of.minimum(reader.ndr64))
        flat = self.of.flat
        if flat is not None:
            assign([flat(reader) for _ in range(count)])
            return
        values: list[Any] = [None] * count
        read = self.of.read
        for index in range(count):
            read(reader, scope, partial(values.__setitem__, index))
        assign(values)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        writer.count(self.conformance(value, scope))
        self.write_behind(writer, value, scope)

    def conformance(self, value: Any, scope: Any) -> int:
        """The count to write before the array. Raises EncodeError if it differs from what is declared."""
        maximum = count = len(value)
        size_is = self.size_is
        if size_is is not None:
            maximum = int(getattr(scope, size_is)) if isinstance(size_is, str) else size_is(scope)
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
    """``[size_is(...)] byte a[]``, kept as bytes."""

    def __init__(self, *, size_is: Count | None = None, max_count: int | None = None) -> None:
        super().__init__(U8, size_is=size_is, max_count=max_count)

    def _elements(self, reader: Decoder, scope: Any, assign: Assign, count: int) -> None:
        assign(reader.raw(count))

    def _write_elements(self, writer: NdrWriter, value: Sequence[Any], scope: Any) -> None:
        writer.raw(value if type(value) is bytes else bytes(value))


class Union(NdrType):
    """``[switch_is(...)] union``: a discriminant that repeats the field it is switched by, then one arm.

    ``arms`` maps discriminants to types; None is an empty arm. The value is that of the arm. In NDR the arm has its
    own alignment; NDR64 aligns discriminant and arm to the widest arm (MS-RPCE 2.2.5.3.4.4), with the same padding
    that ends a structure there.
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


# --- structures and parameters -----------------------------------------------------------------------


class Struct:
    """Base of every declared structure."""

    __slots__ = ()
    MEMBERS: ClassVar[tuple[tuple[str, NdrType], ...]] = ()


class StructType(NdrType):
    """The NDR type of a declared structure."""

    def __init__(self, cls: type[Struct]) -> None:
        self.cls = cls
        self.members = cls.MEMBERS
        self.conformant = bool(self.members) and self.members[-1][1].conformant  # type: ignore[misc]
        self._alignments = tuple(
            max((_inside(kind).alignment(ndr64) for _, kind in self.members), default=1)
            for ndr64 in (False, True)
        )
        self._minima = tuple(
            max(1, sum(kind.minimum(ndr64) for _, kind in self.members)) for ndr64 in (False, True)
        )
        names, kinds = zip(*self.members, strict=True) if self.members else ((), ())
        self._run: Run | None = None
        """The whole structure with its padding, if it is one run."""
        if kinds and all(isinstance(kind, Scalar | Pointer) for kind in kinds):
            self._run = Run(names, kinds, self._alignments)
            self.flat = self._read_flat
        self._steps = steps_of(self.members[:-1] if self.conformant else self.members, apart=False)

    def alignment(self, ndr64: bool) -> int:
        return self._alignments[ndr64]

    def minimum(self, ndr64: bool) -> int:
        return self._minima[ndr64]

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        if self.flat is not None:
            assign(self.flat(reader))
            return
        maximum = reader.count() if self.conformant else None
        self.read_behind(reader, scope, assign, maximum)

    def _read_flat(self, reader: Decoder) -> Any:
        assert self._run is not None
        value = object.__new__(self.cls)
        self._run.read(reader, value)
        return value

    def read_behind(self, reader: Decoder, scope: Any, assign: Assign, maximum: int | None) -> None:
        value = object.__new__(self.cls)
        alignment = self._alignments[reader.ndr64]
        reader.align(alignment)
        for step in self._steps:
            step.read(reader, value)
        if self.conformant:
            name, kind = self.members[-1]
            kind.read_behind(reader, value, partial(setattr, value, name), maximum)  # type: ignore[attr-defined]
        reader.end_structure(alignment)
        assign(value)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if self.conformant:
            writer.count(self.conformance(value, scope))
        self.write_behind(writer, value, scope)

    def write_behind(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        """Write the rest of the structure, whose array count was written already."""
        if not isinstance(value, self.cls):
            raise EncodeError(f"a {self.cls.__name__} is needed here, not {type(value).__name__}")
        if self._run is not None:
            self._run.write(writer, value)
            return
        alignment = self._alignments[writer.ndr64]
        writer.align(alignment)
        for step in self._steps:
            step.write(writer, value)
        if self.conformant:
            name, kind = self.members[-1]
            kind.write_behind(writer, getattr(value, name), value)  # type: ignore[attr-defined]
        writer.end_structure(alignment)

    def conformance(self, value: Any, scope: Any) -> int:
        name, kind = self.members[-1]
        counted: int = kind.conformance(getattr(value, name), value)  # type: ignore[attr-defined]
        return counted


def _inside(kind: NdrType) -> NdrType:
    """The type of a member that lies inside its structure. Of an array these are the elements: its count comes before
    the structure."""
    return kind.of if isinstance(kind, Array) else kind


class Parameters:
    """Base of the parameters that one direction of a call carries."""

    __slots__ = ()
    MEMBERS: ClassVar[tuple[tuple[str, NdrType], ...]] = ()
    STEPS: ClassVar[tuple[Run | Member, ...]] = ()
    FLAT: ClassVar[Run | None] = None
    """The only run, if the parameters are one run without pointers."""

    @classmethod
    def decode(cls, stub: bytes, ndr64: bool = False) -> tuple[Self, int]:
        """Read the parameters. Returns them and the offset of their end in ``stub``."""
        value, flat = object.__new__(cls), cls.FLAT
        if flat is not None:
            return value, flat.read_only(stub, value, ndr64)
        reader = Decoder(stub, ndr64)
        for step in cls.STEPS:
            step.read(reader, value)
            if reader.deferred:
                reader.resolve()
        for check in reader.checks:
            check()
        return value, reader.offset

    def encode(self, ndr64: bool = False) -> bytes:
        flat = self.FLAT
        if flat is not None:
            return flat.write_only(self, ndr64)
        writer = NdrWriter(ndr64)
        for step in self.STEPS:
            step.write(writer, self)
            if writer.deferred:
                writer.resolve()
        return writer.getvalue()


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
        cls.STEPS = steps = steps_of(members, apart=True)
        if len(steps) == 1 and isinstance(steps[0], Run) and not steps[0].pointers:
            cls.FLAT = steps[0]
    return cls


def type_of(declaration: Any) -> NdrType:
    """The NDR type of a declared field, element or pointee."""
    if isinstance(declaration, NdrType):
        return declaration
    if isinstance(declaration, type) and issubclass(declaration, Struct):
        return StructType(declaration)
    for entry in getattr(declaration, "__metadata__", ()):
        if isinstance(entry, NdrType):
            return entry
    raise TypeError(f"{declaration!r} has no NDR type")
