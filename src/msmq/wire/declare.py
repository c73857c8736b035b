"""The declaration of the specification's structures.

A class reads like its table in the specification::

    @wire("MS-MQMQ 2.2.20.4", size=16)
    class SessionHeader(Wire):
        ack_sequence_number: u16 = 0
        ...

The decorator joins the codes of the annotated fields into one little-endian ``struct.Struct``, refuses at import a
declaration whose size differs from the one in the specification, makes the class a slotted dataclass and generates its
``decode`` and ``encode``. Fields without a wire annotation are the variable tail: they come last and are read and
written by hand beside the class.

Named bits of a field are declared with :class:`Bits`, which read and write the integer that holds them.

Decoded objects are filled by one tuple assignment instead of a call of ``__init__``, which makes them as fast as
hand-written ``struct`` code. Integers and raw GUIDs stay as they are; richer types are made where applications see
them.
"""

from __future__ import annotations

import dataclasses
import struct
from codecs import utf_16_le_decode, utf_16_le_encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform, get_type_hints

from msmq.errors import DecodeError, EncodeError


@dataclass(frozen=True)
class Code:
    """The ``struct`` code of a field, carried by its annotation."""

    code: str


u8 = Annotated[int, Code("B")]
u16 = Annotated[int, Code("H")]
u32 = Annotated[int, Code("I")]
u64 = Annotated[int, Code("Q")]
i64 = Annotated[int, Code("q")]
guid = Annotated[bytes, Code("16s")]
octets3 = Annotated[bytes, Code("3s")]
octets4 = Annotated[bytes, Code("4s")]
octets8 = Annotated[bytes, Code("8s")]
octets16 = Annotated[bytes, Code("16s")]
octets20 = Annotated[bytes, Code("20s")]
octets64 = Annotated[bytes, Code("64s")]
octets512 = Annotated[bytes, Code("512s")]


@dataclass(frozen=True)
class FieldSpec:
    """One row of a structure's table: a field's place in the bytes and its name in the specification."""

    name: str
    spec_name: str
    code: str
    offset: int
    size: int


class Bits:
    """A named group of bits in an integer field: ``priority = Bits("flags", 0, 3, "PR")``."""

    __slots__ = ("field", "low", "mask", "spec_name", "width")

    def __init__(self, field: str, low: int, width: int, spec_name: str) -> None:
        self.field = field
        self.low = low
        self.width = width
        self.mask = (1 << width) - 1
        self.spec_name = spec_name

    def __get__(self, obj: Any, owner: type | None = None) -> int:
        if obj is None:
            return self  # type: ignore[return-value]  # only the renderer and the docs look at the declaration
        value: int = getattr(obj, self.field)
        return (value >> self.low) & self.mask

    def __set__(self, obj: Any, value: int) -> None:
        if not 0 <= value <= self.mask:
            raise EncodeError(f"{self.spec_name} takes {self.width} bits; {value} does not fit")
        setattr(obj, self.field, getattr(obj, self.field) & ~(self.mask << self.low) | value << self.low)


class Wire:
    """Base class of every declared structure."""

    __slots__ = ()

    SECTION: ClassVar[str]
    SIZE: ClassVar[int]
    FIELDS: ClassVar[tuple[FieldSpec, ...]]
    TAIL: ClassVar[dict[str, Any]]
    BITS: ClassVar[tuple[tuple[str, Bits], ...]]

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> Self:
        """Decode the fixed part at ``offset``. The variable tail, if there is one, keeps its defaults for the caller to
        fill."""
        raise NotImplementedError  # replaced by the decorator

    def encode(self) -> bytes:
        """Encode the fixed part."""
        raise NotImplementedError  # replaced by the decorator

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        """Read the whole structure, with its tail and padding, within ``limit``. Returns it and where it ends."""
        if limit is not None and limit - offset < cls.SIZE:
            raise truncated(cls, data[:limit], offset)
        return cls.decode(data, offset), offset + cls.SIZE

    @classmethod
    def at(cls, name: str, offset: int = 0) -> int:
        """Return the offset of a field in a structure that begins at ``offset``."""
        return offset + next(spec.offset for spec in cls.FIELDS if spec.name == name)

    @classmethod
    def mask(cls, *names: str) -> int:
        """Return the mask of named groups of bits within the integer that holds them."""
        declared = dict(cls.BITS)
        return sum(declared[name].mask << declared[name].low for name in names)

    def write(self) -> bytes:
        """Encode the whole structure, with its tail and padding."""
        return self.encode()


T = TypeVar("T", bound=Wire)

_UNITS = ("_s", "_ms")


def _spec_name(name: str) -> str:
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return "".join(word.capitalize() for word in name.split("_"))


def _generate(cls: type[Wire], layout: struct.Struct, tail: dict[str, Any]) -> None:
    """Generate ``decode`` and ``encode`` of a class, as ``dataclasses`` does with ``__init__``."""
    targets = ", ".join(f"self.{spec.name}" for spec in cls.FIELDS)
    texts = [spec for spec in cls.FIELDS if spec.code.endswith("s")]
    wrong = " or ".join(f"len(self.{spec.name}) != {spec.size}" for spec in texts) or "False"
    source = (
        "def decode(cls, data, offset=0):\n"
        "    self = new(cls)\n"
        "    try:\n"
        f"        {targets}, = unpack_from(data, offset)\n"
        "    except struct_error:\n"
        "        raise truncated(cls, data, offset) from None\n"
        + _fill("self", tail, "tail")
        + "    return self\n"
        "def encode(self):\n"
        f"    if {wrong}:\n"  # struct would cut or pad them in silence
        "        raise unwritable(self)\n"
        "    try:\n"
        f"        return pack({targets})\n"
        "    except struct_error:\n"
        "        raise unwritable(self) from None\n"
    )
    namespace = _namespace(layout) | {f"tail_{name}": value for name, value in tail.items()}
    exec(source, namespace)
    for name in ("decode", "encode"):
        function = namespace[name]
        function.__qualname__ = f"{cls.__qualname__}.{name}"
        function.__module__ = cls.__module__
        function.__doc__ = getattr(Wire, name).__doc__
    cls.decode = classmethod(namespace["decode"])  # type: ignore[assignment]
    cls.encode = namespace["encode"]  # type: ignore[method-assign]


def _fill(target: str, tail: dict[str, Any], prefix: str) -> str:
    """Write the source that gives the tail its defaults, so that a decoded object lacks no attribute."""
    return "".join(f"    {target}.{name} = {prefix}_{name}\n" for name in tail)


def _namespace(layout: struct.Struct) -> dict[str, Any]:
    return {
        "new": object.__new__,
        "pack": layout.pack,
        "unpack_from": layout.unpack_from,
        "struct_error": struct.error,
        "truncated": truncated,
        "unwritable": _unwritable,
    }


A = TypeVar("A", bound=Wire)
B = TypeVar("B", bound=Wire)


def together(first: type[A], second: type[B]) -> Callable[[bytes], tuple[A, B]]:
    """Make a decoder of two structures that always follow each other, at the cost of one.

    It reads at offset 0; the second one's tail keeps its defaults, as with ``decode``.
    """
    layout = struct.Struct("<" + "".join(spec.code for spec in first.FIELDS + second.FIELDS))
    targets = ", ".join(
        [f"a.{spec.name}" for spec in first.FIELDS] + [f"b.{spec.name}" for spec in second.FIELDS]
    )
    source = (
        "def decode_both(data):\n"
        "    a = new(first)\n"
        "    b = new(second)\n"
        "    try:\n"
        f"        {targets}, = unpack_from(data)\n"
        "    except struct_error:\n"
        "        raise truncated(second, data, first.SIZE) from None\n"
        + _fill("b", second.TAIL, "tail")
        + "    return a, b\n"
    )
    namespace = _namespace(layout) | {"first": first, "second": second}
    namespace |= {f"tail_{name}": value for name, value in second.TAIL.items()}
    exec(source, namespace)
    decode_both: Callable[[bytes], tuple[A, B]] = namespace["decode_both"]
    return decode_both


def text_of(data: bytes) -> str:
    """Decode the UTF-16 text of the wire. Lone surrogates survive, so nothing is lost and nothing raises.

    The codec's own function is called because ``bytes.decode`` looks it up anew each time, at several times its cost.
    """
    return utf_16_le_decode(data, "surrogatepass", True)[0]


def bytes_of(text: str) -> bytes:
    """Encode text as UTF-16 without a terminator: the inverse of :func:`text_of`."""
    return utf_16_le_encode(text, "surrogatepass")[0]


def rounded_up(size: int) -> int:
    """Round up to a multiple of four: where the field after a padded one begins."""
    return (size + 3) & ~3


def padded(data: bytes) -> bytes:
    """Pad ``data`` with zero bytes to a multiple of four."""
    return data + bytes(-len(data) % 4)


def truncated(cls: type[Wire], data: bytes, offset: int) -> DecodeError:
    """Make the error for a structure of which not even the fixed part is there."""
    return DecodeError(
        f"{cls.__name__} needs {cls.SIZE} bytes, {max(len(data) - offset, 0)} are left", offset
    )


def _unwritable(value: Wire) -> EncodeError:
    """Make the error that names the wrong field; only called when there is one."""
    for spec in value.FIELDS:
        content = getattr(value, spec.name)
        if spec.code.endswith("s"):
            if not isinstance(content, bytes) or len(content) != spec.size:
                return EncodeError(f"{type(value).__name__}.{spec.spec_name} takes {spec.size} bytes")
        else:
            low, high = _range(spec.code)
            if not isinstance(content, int) or not low <= content <= high:
                return EncodeError(
                    f"{type(value).__name__}.{spec.spec_name} takes {low} to {high}, not {content!r}"
                )
    return EncodeError(f"{type(value).__name__} cannot be written")


def _range(code: str) -> tuple[int, int]:
    bits = 8 * struct.calcsize("<" + code)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if code.islower() else (0, (1 << bits) - 1)


@dataclass_transform(eq_default=True)
def wire(section: str, *, size: int, names: Mapping[str, str] | None = None) -> Callable[[type[T]], type[T]]:
    """Declare a structure of ``section`` whose fixed part is ``size`` bytes.

    ``names`` gives the specification's spelling of fields for which it is not the plain camel case.
    """
    spelled = dict(names or {})

    def declare(plain: type[T]) -> type[T]:
        hints = get_type_hints(plain, include_extras=True)
        cls = dataclass(slots=True)(plain)
        specs: list[FieldSpec] = []
        tail: dict[str, Any] = {}
        offset = 0
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            code = next(
                (m.code for m in getattr(hints[field.name], "__metadata__", ()) if isinstance(m, Code)), None
            )
            if code is None:
                tail[field.name] = None if field.default is dataclasses.MISSING else field.default
                continue
            assert not tail, f"{cls.__name__}: {field.name} is fixed but follows the variable tail"
            width = struct.calcsize("<" + code)
            spec_name = spelled.get(field.name) or _spec_name(field.name)
            specs.append(FieldSpec(field.name, spec_name, code, offset, width))
            offset += width
        if offset != size:
            raise TypeError(f"{cls.__name__} is declared as {size} bytes but its fields take {offset}")
        cls.SECTION = section
        cls.SIZE = size
        cls.FIELDS = tuple(specs)
        cls.TAIL = tail
        cls.BITS = tuple((name, value) for name, value in vars(plain).items() if isinstance(value, Bits))
        layout = struct.Struct("<" + "".join(spec.code for spec in specs))
        _generate(cls, layout, tail)
        return cls

    return declare
