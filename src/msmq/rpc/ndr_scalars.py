"""The simple types of NDR and NDR64: numbers, identifiers, handles, strings (C706 14.2, 14.3; MS-RPCE 2.2.4, 2.2.5),
and types that bring their own functions.

`NdrType` is their base and that of the other types, in `msmq.rpc.ndr`, which explains how all of them work.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Protocol

from msmq.errors import DecodeError, EncodeError
from msmq.wire.ndr import NdrReader, NdrWriter

Assign = Callable[[Any], None]
CONTEXT_HANDLE_SIZE: Final = 20
NULL_HANDLE: Final = bytes(CONTEXT_HANDLE_SIZE)


class Decoder(NdrReader):
    """A reader that remembers the full pointers read so far, and the checks to make at the end."""

    def __init__(self, data: bytes, ndr64: bool = False) -> None:
        NdrReader.__init__(self, data, ndr64)
        self.checks: list[Callable[[], None]] = []
        self.full: dict[int, Referent] = {}


class Referent:
    """The pointee of a full pointer, and the fields that wait for it."""

    __slots__ = ("kind", "known", "value", "waiting")

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.known = False
        self.value: Any = None
        self.waiting: list[Assign] = []

    def set(self, value: Any) -> None:
        self.known, self.value = True, value
        for assign in self.waiting:
            assign(value)


class NdrType:
    """How values of a type are read and written."""

    conformant: ClassVar[bool] = False
    """Whether a count of this type comes before the structure that ends with it."""
    flat: Callable[[Decoder], Any] | None = None
    """Reads and returns a structure of a fixed size directly, or None for a type that is read by `read`."""

    def alignment(self, ndr64: bool) -> int:
        raise NotImplementedError

    def minimum(self, ndr64: bool) -> int:
        """The fewest bytes a value takes, or 1 if that varies. Counts are checked against it."""
        return 1

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        raise NotImplementedError

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        raise NotImplementedError


class Scalar(NdrType):
    """A value of a fixed size without pointers, read and written by ``struct``."""

    def code(self, ndr64: bool) -> str:
        raise NotImplementedError

    def objection(self, value: Any) -> str | None:
        """What is wrong with a value, beyond what ``struct`` itself rejects; None if nothing is."""
        return None

    def doubtful(self, ndr64: bool, reading: bool) -> bool:
        """Whether ``struct`` accepts values, when reading or when writing, that have an `objection`."""
        return False

    def alignment(self, ndr64: bool) -> int:
        return struct.calcsize("<" + self.code(ndr64))

    def minimum(self, ndr64: bool) -> int:
        return struct.calcsize("<" + self.code(ndr64))

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        (value,) = reader.values(forms((self,), reader.ndr64))
        if (objection := self.objection(value)) is not None:
            raise DecodeError(objection, reader.offset)
        assign(value)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if (objection := self.objection(value)) is not None:
            raise EncodeError(objection)
        writer.values(forms((self,), writer.ndr64), (value,))


class Coded(Protocol):
    """Anything that has a ``struct`` code."""

    def code(self, ndr64: bool) -> str: ...

    def alignment(self, ndr64: bool) -> int: ...


@cache
def forms(scalars: tuple[Coded, ...], ndr64: bool, structure: int = 1) -> tuple[struct.Struct, ...]:
    """The ``struct`` for consecutive values, one for each offset modulo 8 at which they may begin. If the values are a
    whole structure, ``structure`` is its alignment, and its padding is included."""
    found = []
    for start in range(8):
        offset = start + -start % structure
        layout = f"<{offset - start}x"
        for scalar in scalars:
            code = scalar.code(ndr64)
            padding = -offset % scalar.alignment(ndr64)
            layout += f"{padding}x{code}"
            offset += padding + struct.calcsize("<" + code)
        if ndr64:
            layout += f"{-offset % structure}x"
        found.append(struct.Struct(layout))
    return tuple(found)


@dataclass(frozen=True)
class Primitive(Scalar):
    """An integer of a fixed size."""

    letter: str

    def code(self, ndr64: bool) -> str:
        return self.letter


@dataclass(frozen=True)
class _Enum16(Scalar):
    """An enum without [v1_enum]: 16 bits in NDR, 32 in NDR64."""

    def code(self, ndr64: bool) -> str:
        return "I" if ndr64 else "H"

    def objection(self, value: Any) -> str | None:
        fits = isinstance(value, int) and 0 <= value <= 0xFFFF
        return None if fits else f"{value!r} is no 16-bit enum"

    def doubtful(self, ndr64: bool, reading: bool) -> bool:
        return ndr64


@dataclass(frozen=True)
class FixedOctets(Scalar):
    """``byte x[size]``, or with an alignment a structure that is kept as its bytes: a GUID, a context handle."""

    size: int
    align: int = 1

    def code(self, ndr64: bool) -> str:
        return f"{self.size}s"

    def objection(self, value: Any) -> str | None:
        fits = isinstance(value, bytes) and len(value) == self.size
        return None if fits else f"{self.size} bytes are needed here"

    def doubtful(self, ndr64: bool, reading: bool) -> bool:
        return not reading  # when writing, ``struct`` pads and cuts

    def alignment(self, ndr64: bool) -> int:
        return self.align


U8: Final = Primitive("B")
U16: Final = Primitive("H")
U32: Final = Primitive("I")
U64: Final = Primitive("Q")
I8: Final = Primitive("b")
I16: Final = Primitive("h")
I32: Final = Primitive("i")
I64: Final = Primitive("q")

u8 = Annotated[int, U8]
u16 = Annotated[int, U16]
u32 = Annotated[int, U32]
u64 = Annotated[int, U64]
i8 = Annotated[int, I8]
i16 = Annotated[int, I16]
i32 = Annotated[int, I32]
i64 = Annotated[int, I64]
enum16 = Annotated[int, _Enum16()]
guid = Annotated[bytes, FixedOctets(16, 4)]
context_handle = Annotated[bytes, FixedOctets(CONTEXT_HANDLE_SIZE, 4)]
"""20 bytes: attributes and a UUID (C706 14.2.16.6, ndr_context_handle); `NULL_HANDLE` is null."""


@dataclass(frozen=True)
class _WideString(NdrType):
    """``[string] wchar_t *``: conformant varying, with its terminating null."""

    def alignment(self, ndr64: bool) -> int:
        return 8 if ndr64 else 4

    def minimum(self, ndr64: bool) -> int:
        return 3 * self.alignment(ndr64) + 2

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        assign(reader.wide_string())

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if not isinstance(value, str):
            raise EncodeError("a string is needed here")
        writer.wide_string(value)


@dataclass(frozen=True)
class _ByteString(NdrType):
    """``[string] char *``: conformant varying, kept as its bytes without the null."""

    def alignment(self, ndr64: bool) -> int:
        return 8 if ndr64 else 4

    def minimum(self, ndr64: bool) -> int:
        return 3 * self.alignment(ndr64) + 1

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        maximum, offset, actual = reader.count(), reader.count(), reader.count()
        if offset or not 1 <= actual <= maximum:
            raise DecodeError(f"string counts {maximum}, {offset}, {actual} disagree", reader.offset)
        text = reader.raw(actual)
        if text.find(b"\0") != len(text) - 1:
            raise DecodeError("string does not end with its only null", reader.offset)
        assign(text[:-1])

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if not isinstance(value, bytes) or b"\0" in value:
            raise EncodeError("bytes without a null are needed here")
        for count in (len(value) + 1, 0, len(value) + 1):
            writer.count(count)
        writer.raw(value + b"\0")


wstring = Annotated[str, _WideString()]
cstring = Annotated[bytes, _ByteString()]


class Silent(NdrType):
    """Has no bytes: a parameter of the other direction that an ``announced`` count needs. Read, it is None."""

    def alignment(self, ndr64: bool) -> int:
        return 1

    def minimum(self, ndr64: bool) -> int:
        return 0

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        assign(None)

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        return


class Text(NdrType):
    """``[string] char x[size]``: a varying string in a field of a fixed size, as bytes without the null."""

    def __init__(self, size: int) -> None:
        self.size = size

    def alignment(self, ndr64: bool) -> int:
        return 8 if ndr64 else 4

    def minimum(self, ndr64: bool) -> int:
        return 2 * self.alignment(ndr64)

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        offset, count = reader.count(), reader.count()
        if offset or count > self.size:
            raise DecodeError(f"string counts {offset}, {count} disagree with {self.size}", reader.offset)
        assign(reader.raw(count).rstrip(b"\0"))

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        if not isinstance(value, bytes) or len(value) >= self.size or value.endswith(b"\0"):
            raise EncodeError(f"up to {self.size - 1} bytes are needed here")
        writer.count(0)
        writer.count(len(value) + 1)
        writer.raw(value + b"\0")


class Custom(NdrType):
    """A type with functions of its own, in the manner of `msmq.wire.queue_format_ndr`.

    ``read(reader)`` gives a thunk that is called when everything it defers was read. The
    alignment is that of a pointer.
    """

    def __init__(
        self, read: Callable[[NdrReader], Callable[[], Any]], write: Callable[[NdrWriter, Any], None]
    ) -> None:
        self._read, self._write = read, write

    def alignment(self, ndr64: bool) -> int:
        return 8 if ndr64 else 4

    def read(self, reader: Decoder, scope: Any, assign: Assign) -> None:
        thunk = self._read(reader)
        reader.defer(lambda: assign(thunk()))

    def write(self, writer: NdrWriter, value: Any, scope: Any) -> None:
        self._write(writer, value)
