"""Network Data Representation: the encoding of RPC structures (C706 chapter 14, MS-RPCE 2.2.4-2.2.5).

How it works. A value sits at an offset that is a multiple of its alignment, counted from the start of the stream. A
pointer is written as a referent id; its pointee is *deferred*: it follows the outermost construct that holds the
pointer, depth first and in the order of the pointers. So a structure is read in two steps: ``pointer(read)`` takes the
id and returns a thunk, then ``resolve()`` reads what was deferred, and only after that may the thunks be called. The
writer mirrors that with ``pointer(write)`` and ``resolve()``.

NDR and NDR64 differ little: ids and array counts take 4 bytes in NDR and 8 in NDR64, and NDR64 pads the end of a
structure to its alignment.

Every count is checked against the remaining bytes before anything is read for it, the sum of counts against
``max_elements``, and the nesting of pointers against ``max_depth``: so memory and time are in proportion to the bytes
received.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from msmq.errors import DecodeError, EncodeError

T = TypeVar("T")

MAX_DEPTH: Final = 16
MAX_ELEMENTS: Final = 1 << 20
GUID_SIZE: Final = 16
GUID_ALIGNMENT: Final = 4

_FIRST_REFERENT: Final = 0x00020000
_REFERENT_STEP: Final = 4

_U8 = struct.Struct("<B")
_I8 = struct.Struct("<b")
_U16 = struct.Struct("<H")
_I16 = struct.Struct("<h")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")


class NdrReader:
    """Reads one NDR stream. It raises nothing but DecodeError, whatever the bytes are."""

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        ndr64: bool = False,
        *,
        max_depth: int = MAX_DEPTH,
        max_elements: int = MAX_ELEMENTS,
    ) -> None:
        self.data = bytes(data)
        self.offset = 0
        self.ndr64 = ndr64
        self._count = _U64 if ndr64 else _U32
        self._depth_left = max_depth
        self._elements_left = max_elements
        self.deferred: list[Callable[[], None]] = []

    @property
    def pointer_size(self) -> int:
        """The size and alignment of a referent id."""
        return 8 if self.ndr64 else 4

    @property
    def remaining(self) -> int:
        return len(self.data) - self.offset

    def align(self, alignment: int) -> None:
        """Skip padding, whatever it holds."""
        padding = -self.offset % alignment
        if padding > len(self.data) - self.offset:
            raise DecodeError(f"{padding} bytes expected, {self.remaining} left", self.offset)
        self.offset += padding

    def end_structure(self, alignment: int) -> None:
        """Skip the padding that NDR64 puts after a structure; NDR puts none."""
        if self.ndr64:
            self.align(alignment)

    def end(self) -> None:
        """Raise DecodeError if anything follows."""
        if self.remaining:
            raise DecodeError(f"{self.remaining} bytes follow the value", self.offset)

    def u8(self) -> int:
        return self._integer(_U8)

    def i8(self) -> int:
        return self._integer(_I8)

    def u16(self) -> int:
        return self._integer(_U16)

    def i16(self) -> int:
        return self._integer(_I16)

    def u32(self) -> int:
        return self._integer(_U32)

    def i32(self) -> int:
        return self._integer(_I32)

    def u64(self) -> int:
        return self._integer(_U64)

    def i64(self) -> int:
        return self._integer(_I64)

    def raw(self, size: int) -> bytes:
        """Read bytes without alignment."""
        offset = self.offset
        end = offset + size
        if end > len(self.data):
            raise DecodeError(f"{size} bytes expected, {self.remaining} left", offset)
        self.offset = end
        return self.data[offset:end]

    def values(self, forms: Sequence[struct.Struct]) -> tuple[Any, ...]:
        """Read values with one of eight structs: the one for the offset, modulo 8, at which its padding begins."""
        offset = self.offset
        form = forms[offset & 7]
        self.offset = end = offset + form.size
        if end > len(self.data):
            raise DecodeError(f"{form.size} bytes expected, {len(self.data) - offset} left", offset)
        return form.unpack_from(self.data, offset)

    def guid(self) -> bytes:
        """Read a GUID as 16 bytes in MS-DTYP order."""
        self.align(GUID_ALIGNMENT)
        return self.raw(GUID_SIZE)

    def count(self) -> int:
        """Read the maximum, offset or actual count of an array: 4 bytes in NDR, 8 in NDR64."""
        form, offset = self._count, self.offset
        start = offset + (-offset & form.size - 1)
        self.offset = end = start + form.size
        if end > len(self.data):
            raise DecodeError(f"{end - offset} bytes expected, {len(self.data) - offset} left", offset)
        value: int = form.unpack_from(self.data, start)[0]
        return value

    def conformant_count(self, element_size: int, expected: int | None = None) -> int:
        """Read the count before a conformant array whose elements take at least ``element_size`` bytes each.

        ``expected`` is the member that size_is names; the two must agree.
        """
        count = self.count()
        if expected is not None and count != expected:
            raise DecodeError(f"array holds {count} elements where {expected} are declared", self.offset)
        self.claim(count, element_size)
        return count

    def claim(self, count: int, element_size: int) -> None:
        """Check a count against the bytes that are left and against ``max_elements``."""
        if count * element_size > len(self.data) - self.offset:
            raise DecodeError(f"array of {count} exceeds the {self.remaining} bytes left", self.offset)
        if count > self._elements_left:
            raise DecodeError("too many array elements", self.offset)
        self._elements_left -= count

    def conformant_bytes(self, expected: int | None = None) -> bytes:
        """Read a conformant array of bytes."""
        count = self.count()
        if expected is not None and count != expected:
            raise DecodeError(f"array holds {count} bytes where {expected} are declared", self.offset)
        return self.raw(count)

    def wide_string(self) -> str:
        """Read a conformant varying string of WCHARs. Its terminating null is not returned."""
        maximum, offset, actual = self.count(), self.count(), self.count()
        if offset or not 1 <= actual <= maximum:
            raise DecodeError(f"string counts {maximum}, {offset}, {actual} disagree", self.offset)
        start = self.offset
        text = self.raw(2 * actual).decode("utf-16-le", "surrogatepass")
        if text.find("\0") != len(text) - 1:
            raise DecodeError("string does not end with its only null", start)
        return text[:-1]

    def pointer(self, read: Callable[[], T]) -> Callable[[], T | None]:
        """Read a unique pointer. The thunk returns the pointee, or None for null, once ``resolve`` was called."""
        if not self.count():
            return lambda: None
        return self._defer(read)

    def ref_pointer(self, read: Callable[[], T]) -> Callable[[], T]:
        """Read a pointer that may not be null."""
        if not self.count():
            raise DecodeError("null where a pointer is required", self.offset)
        return self._defer(read)

    def defer(self, read: Callable[[], None]) -> None:
        """Defer a call of ``read`` to its place among the pointees."""
        self.deferred.append(read)

    def resolve(self) -> None:
        """Read all pointees deferred so far, each followed by those that it defers."""
        if not self.deferred:
            return
        if not self._depth_left:
            raise DecodeError("pointers nest too deeply", self.offset)
        self._depth_left -= 1
        pending, self.deferred = self.deferred, []
        for read in pending:
            read()
            if self.deferred:
                self.resolve()
        self._depth_left += 1

    def _defer(self, read: Callable[[], T]) -> Callable[[], T]:
        pointee: list[T] = []
        self.deferred.append(lambda: pointee.append(read()))
        return lambda: pointee[0]

    def _integer(self, form: struct.Struct) -> int:
        offset = self.offset
        start = offset + (-offset & form.size - 1)
        self.offset = end = start + form.size
        if end > len(self.data):
            raise DecodeError(f"{end - offset} bytes expected, {len(self.data) - offset} left", offset)
        value: int = form.unpack_from(self.data, start)[0]
        return value


class NdrWriter:
    """Writes one NDR stream; padding is zero. Raises EncodeError for values that do not fit."""

    def __init__(self, ndr64: bool = False) -> None:
        self._data = bytearray()
        self.ndr64 = ndr64
        self._count = _U64 if ndr64 else _U32
        self._next_referent = _FIRST_REFERENT
        self.deferred: list[Callable[[], None]] = []

    @property
    def pointer_size(self) -> int:
        """The size and alignment of a referent id."""
        return 8 if self.ndr64 else 4

    def getvalue(self) -> bytes:
        """Return what was written. No pointee may still be deferred."""
        assert not self.deferred, "resolve() was not called"
        return bytes(self._data)

    def align(self, alignment: int) -> None:
        if padding := -len(self._data) % alignment:
            self._data += bytes(padding)

    def end_structure(self, alignment: int) -> None:
        """Write the padding that NDR64 puts after a structure; NDR puts none."""
        if self.ndr64:
            self.align(alignment)

    def u8(self, value: int) -> None:
        self._integer(_U8, value)

    def i8(self, value: int) -> None:
        self._integer(_I8, value)

    def u16(self, value: int) -> None:
        self._integer(_U16, value)

    def i16(self, value: int) -> None:
        self._integer(_I16, value)

    def u32(self, value: int) -> None:
        self._integer(_U32, value)

    def i32(self, value: int) -> None:
        self._integer(_I32, value)

    def u64(self, value: int) -> None:
        self._integer(_U64, value)

    def i64(self, value: int) -> None:
        self._integer(_I64, value)

    def raw(self, value: bytes) -> None:
        """Write bytes without alignment."""
        self._data += value

    def values(self, forms: Sequence[struct.Struct], values: Sequence[Any]) -> None:
        """Write values with one of eight structs, as `NdrReader.values` reads them."""
        try:
            self._data += forms[len(self._data) & 7].pack(*values)
        except struct.error as error:
            raise EncodeError(f"{values!r} cannot be written: {error}") from error

    def guid(self, value: bytes) -> None:
        """Write a GUID, given as 16 bytes in MS-DTYP order."""
        if len(value) != GUID_SIZE:
            raise EncodeError(f"a GUID has 16 bytes, not {len(value)}")
        self.align(GUID_ALIGNMENT)
        self._data += value

    def count(self, value: int) -> None:
        """Write the maximum, offset or actual count of an array: 4 bytes in NDR, 8 in NDR64."""
        self._integer(self._count, value)

    def conformant_bytes(self, value: bytes) -> None:
        """Write a conformant array of bytes."""
        self.count(len(value))
        self.raw(value)

    def wide_string(self, value: str) -> None:
        """Write a conformant varying string of WCHARs; the terminating null is added."""
        if "\0" in value:
            raise EncodeError("a null cannot stand inside a string")
        text = f"{value}\0".encode("utf-16-le", "surrogatepass")
        for count in (len(text) // 2, 0, len(text) // 2):
            self.count(count)
        self.raw(text)

    def pointer(self, write: Callable[[], None] | None) -> None:
        """Write a pointer; None is null. The pointee, written by ``write``, follows when ``resolve`` is called."""
        self.count(0 if write is None else self.refer(write))

    def refer(self, write: Callable[[], None]) -> int:
        """Return the referent id of a pointer that is written among other values; ``write`` is deferred."""
        referent = self._next_referent
        self._next_referent = referent + _REFERENT_STEP
        self.deferred.append(write)
        return referent

    def resolve(self) -> None:
        """Write all pointees deferred so far, each followed by those that it defers."""
        if not self.deferred:
            return
        pending, self.deferred = self.deferred, []
        for write in pending:
            write()
            if self.deferred:
                self.resolve()

    def _integer(self, form: struct.Struct, value: int) -> None:
        data = self._data
        if padding := -len(data) & form.size - 1:
            data += bytes(padding)
        try:
            data += form.pack(value)
        except struct.error as error:
            raise EncodeError(f"{value} does not fit {form.size} bytes") from error
