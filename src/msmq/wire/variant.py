"""PROPVARIANT: a value with its type, in which properties are transmitted (MS-MQMQ 2.2.12 to 2.2.17).

``Variant(VT.UI4, 7)`` holds a Python value and is always valid: a value that does not fit the type is refused.

=====================  ==================================================================================
type                   Python value
=====================  ==================================================================================
EMPTY, NULL            None
I1 ... UI8             int in the range of the type
BOOL                   bool (VARIANT_BOOL, 2.2.14: true is 0xFFFF, false is 0)
LPWSTR                 str without its null, or None for a null pointer
CLSID                  the 16 bytes of a GUID, or None for a null pointer
BLOB                   bytes
VECTOR | UI1           bytes
VECTOR | UI2 I4 UI4    tuple of int (and UI8)
VECTOR | LPWSTR        tuple of str
VECTOR | CLSID         tuple of 16-byte GUIDs
VECTOR | VARIANT       tuple of Variant
=====================  ==================================================================================

On the wire (NDR), vt comes first and again as the discriminant of the union; an arm of the union starts at a multiple
of eight because the widest arms do. A vector or blob is a count and a pointer to that many elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final, TypeAlias, TypeVar

from msmq.errors import DecodeError, EncodeError
from msmq.wire.ndr import GUID_SIZE, NdrReader, NdrWriter

T = TypeVar("T")

MAX_NESTING: Final = 8
"""How deeply variants may be nested. MS-MQMQ 2.3.12.25 needs three levels."""

UNION_ALIGNMENT: Final = 8
_SMALLEST_VARIANT: Final = 10
"""vt, the reserved members and the discriminant: the size of an EMPTY element of an array."""

VARIANT_TRUE: Final = 0xFFFF
VARIANT_FALSE: Final = 0x0000


class VT(IntEnum):
    """VARENUM (MS-MQMQ 2.2.12); VECTOR is a bit added to one of the others."""

    EMPTY = 0
    NULL = 1
    I2 = 2
    I4 = 3
    BOOL = 11
    VARIANT = 12
    I1 = 16
    UI1 = 17
    UI2 = 18
    UI4 = 19
    I8 = 20
    UI8 = 21
    LPWSTR = 31
    BLOB = 65
    CLSID = 72
    VECTOR = 0x1000


Value: TypeAlias = (
    "bool | int | str | bytes | tuple[int, ...] | tuple[str, ...] | tuple[bytes, ...]"
    " | tuple[Variant, ...] | None"
)
Thunk: TypeAlias = "Callable[[], Value]"


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer type: its range and its encoding in NDR."""

    low: int
    high: int
    read: Callable[[NdrReader], int]
    write: Callable[[NdrWriter, int], None]
    size: int


INTEGERS: Final[dict[int, Integer]] = {
    VT.I1: Integer(-(1 << 7), (1 << 7) - 1, NdrReader.i8, NdrWriter.i8, 1),
    VT.UI1: Integer(0, (1 << 8) - 1, NdrReader.u8, NdrWriter.u8, 1),
    VT.I2: Integer(-(1 << 15), (1 << 15) - 1, NdrReader.i16, NdrWriter.i16, 2),
    VT.UI2: Integer(0, (1 << 16) - 1, NdrReader.u16, NdrWriter.u16, 2),
    VT.I4: Integer(-(1 << 31), (1 << 31) - 1, NdrReader.i32, NdrWriter.i32, 4),
    VT.UI4: Integer(0, (1 << 32) - 1, NdrReader.u32, NdrWriter.u32, 4),
    VT.I8: Integer(-(1 << 63), (1 << 63) - 1, NdrReader.i64, NdrWriter.i64, 8),
    VT.UI8: Integer(0, (1 << 64) - 1, NdrReader.u64, NdrWriter.u64, 8),
}

VECTORS: Final = (VT.UI1, VT.UI2, VT.I4, VT.UI4, VT.UI8, VT.CLSID, VT.LPWSTR, VT.VARIANT)
"""The only types that exist as vectors, in the order of the union (MS-MQMQ 2.2.13.1)."""

SCALARS: Final = (
    *(VT.EMPTY, VT.NULL),
    *(VT.I1, VT.UI1, VT.I2, VT.UI2, VT.I4, VT.UI4, VT.I8, VT.UI8),
    *(VT.BOOL, VT.CLSID, VT.BLOB, VT.LPWSTR),
)

VARTYPES: Final = frozenset({*SCALARS, *(VT.VECTOR | vt for vt in VECTORS)})
"""Every vt that a PROPVARIANT may have."""


@dataclass(frozen=True, slots=True)
class Variant:
    """PROPVARIANT, alias tag_inner_PROPVARIANT (MS-MQMQ 2.2.13)."""

    vt: int
    value: Value = None

    def __post_init__(self) -> None:
        if self.vt not in VARTYPES:
            raise EncodeError(f"no PROPVARIANT has the type 0x{self.vt:04X}")
        if not _holds(self.vt, self.value):
            raise EncodeError(f"{vt_name(self.vt)} cannot hold this {type(self.value).__name__}")


def vt_name(vt: int) -> str:
    """Write the type as the specification does: "VT_UI1", "VT_UI1 | VT_VECTOR"."""
    if vt not in VARTYPES:
        return f"0x{vt:04X}"
    name = f"VT_{VT(vt & ~VT.VECTOR).name}"
    return f"{name} | VT_VECTOR" if vt & VT.VECTOR else name


def encode_variant(variant: Variant, ndr64: bool = False) -> bytes:
    """Encode one PROPVARIANT as a stream of its own."""
    writer = NdrWriter(ndr64)
    write_variant(writer, variant)
    writer.resolve()
    return writer.getvalue()


def decode_variant(data: bytes | bytearray | memoryview, ndr64: bool = False) -> Variant:
    """Decode a PROPVARIANT that takes up all of ``data``."""
    reader = NdrReader(data, ndr64)
    variant = read_variant(reader)
    reader.resolve()
    reader.end()
    return variant()


def write_variant(writer: NdrWriter, variant: Variant, nesting: int = 0) -> None:
    """Write a PROPVARIANT; its pointees follow with the writer's ``resolve``."""
    if nesting > MAX_NESTING:
        raise EncodeError("variants nest too deeply")
    writer.align(UNION_ALIGNMENT)
    writer.u16(variant.vt)
    for _reserved in range(2):
        writer.u8(0)
    writer.u32(0)
    writer.u16(variant.vt)
    # An empty arm has no bytes and thus no alignment: the value ends here (MQMQ-2.2.12-b).
    if variant.vt not in (VT.EMPTY, VT.NULL):
        writer.align(UNION_ALIGNMENT)
        _write_arm(writer, variant, nesting)
    writer.end_structure(UNION_ALIGNMENT)


def read_variant(reader: NdrReader, nesting: int = 0) -> Callable[[], Variant]:
    """Read a PROPVARIANT; the thunk returns it once the reader's ``resolve`` was called."""
    if nesting > MAX_NESTING:
        raise DecodeError("variants nest too deeply", reader.offset)
    reader.align(UNION_ALIGNMENT)
    vt = reader.u16()
    reader.raw(2)  # wReserved1 and wReserved2, ignored as is wReserved3
    reader.u32()
    discriminant = reader.u16()
    if discriminant != vt:
        raise DecodeError(f"vt 0x{vt:04X} but union discriminant 0x{discriminant:04X}", reader.offset)
    if vt not in VARTYPES:
        raise DecodeError(f"no PROPVARIANT has the type 0x{vt:04X}", reader.offset)
    value: Thunk = _nothing
    if vt not in (VT.EMPTY, VT.NULL):
        reader.align(UNION_ALIGNMENT)
        value = _read_arm(reader, vt, nesting)
    reader.end_structure(UNION_ALIGNMENT)
    return lambda: Variant(vt, value())


def _nothing() -> None:
    return None


def _holds(vt: int, value: object) -> bool:
    """True if the type can hold ``value``."""
    if vt in INTEGERS:
        return _is_integer(INTEGERS[vt], value)
    if vt in (VT.EMPTY, VT.NULL):
        return value is None
    if vt == VT.BOOL:
        return isinstance(value, bool)
    if vt == VT.LPWSTR:
        return value is None or _is_text(value)
    if vt == VT.CLSID:
        return value is None or _is_guid(value)
    if vt in (VT.BLOB, VT.VECTOR | VT.UI1):
        return isinstance(value, bytes)
    return isinstance(value, tuple) and all(_is_element(vt & ~VT.VECTOR, item) for item in value)


def _is_element(vt: int, item: object) -> bool:
    if vt == VT.LPWSTR:
        return _is_text(item)
    if vt == VT.CLSID:
        return _is_guid(item)
    if vt == VT.VARIANT:
        return isinstance(item, Variant)
    return _is_integer(INTEGERS[vt], item)


def _is_integer(form: Integer, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and form.low <= value <= form.high


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_guid(value: object) -> bool:
    return isinstance(value, bytes) and len(value) == GUID_SIZE


def _write_arm(writer: NdrWriter, variant: Variant, nesting: int) -> None:
    match variant.value:
        case bool(value):
            writer.u16(VARIANT_TRUE if value else VARIANT_FALSE)
        case int(value):
            INTEGERS[variant.vt].write(writer, value)
        case str(value):
            writer.pointer(partial(writer.wide_string, value))
        case None:
            writer.pointer(None)
        case bytes(value) if variant.vt == VT.CLSID:
            writer.pointer(partial(writer.guid, value))
        case bytes(value):
            writer.u32(len(value))
            writer.pointer(partial(writer.conformant_bytes, value) if value else None)
        case tuple(value):
            writer.u32(len(value))
            writer.pointer(partial(_write_elements, writer, variant, nesting) if value else None)


def _write_elements(writer: NdrWriter, variant: Variant, nesting: int) -> None:
    assert isinstance(variant.value, tuple)
    writer.count(len(variant.value))
    for item in variant.value:
        match item:
            case Variant():
                write_variant(writer, item, nesting + 1)
            case int():
                INTEGERS[variant.vt & ~VT.VECTOR].write(writer, item)
            case bytes():
                writer.guid(item)
            case str():
                writer.pointer(partial(writer.wide_string, item))


def _read_arm(reader: NdrReader, vt: int, nesting: int) -> Thunk:
    if vt in INTEGERS:
        number = INTEGERS[vt].read(reader)
        return lambda: number
    if vt == VT.BOOL:
        truth = reader.u16()
        if truth not in (VARIANT_TRUE, VARIANT_FALSE):
            raise DecodeError(f"0x{truth:04X} is no VARIANT_BOOL", reader.offset)
        return lambda: truth == VARIANT_TRUE
    if vt == VT.LPWSTR:
        return reader.pointer(reader.wide_string)
    if vt == VT.CLSID:
        return reader.pointer(reader.guid)
    return _read_counted(reader, vt, nesting)


def _read_counted(reader: NdrReader, vt: int, nesting: int) -> Thunk:
    """Read a BLOB (2.2.15) or one of the counted arrays (2.2.16): a count and a pointer to the elements."""
    count = reader.u32()
    if vt in (VT.BLOB, VT.VECTOR | VT.UI1):
        octets = reader.pointer(lambda: reader.conformant_bytes(count))
        return lambda: _pointee(octets(), count) or b""
    elements = reader.pointer(lambda: _read_elements(reader, VT(vt & ~VT.VECTOR), count, nesting))

    def value() -> Value:
        build = _pointee(elements(), count)
        return build() if build else ()

    return value


def _pointee(elements: T | None, count: int) -> T | None:
    """Check a pointee: null is allowed only if no elements are declared."""
    if elements is None and count:
        raise DecodeError(f"null pointer where {count} elements are declared")
    return elements


def _read_elements(reader: NdrReader, vt: VT, count: int, nesting: int) -> Thunk:
    if vt is VT.VARIANT:
        reader.conformant_count(_SMALLEST_VARIANT, count)
        variants = [read_variant(reader, nesting + 1) for _ in range(count)]
        return lambda: tuple(variant() for variant in variants)
    if vt is VT.LPWSTR:
        # each pointer is followed later by three counts and at least a terminator
        reader.conformant_count(4 * reader.pointer_size + 2, count)
        strings = [reader.ref_pointer(reader.wide_string) for _ in range(count)]
        return lambda: tuple(string() for string in strings)
    if vt is VT.CLSID:
        reader.conformant_count(GUID_SIZE, count)
        guids = tuple(reader.guid() for _ in range(count))
        return lambda: guids
    form = INTEGERS[vt]
    reader.conformant_count(form.size, count)
    numbers = tuple(form.read(reader) for _ in range(count))
    return lambda: numbers
