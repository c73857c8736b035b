"""Attribute values: the syntaxes of the schema (MS-MQDSSM 2.2.2) as pairs of functions.

An LDAP attribute is a list of octet strings. A codec turns a value of the data model into such a list and back. Empty
strings, lists and blobs become an empty list, which means no attribute, because the directory refuses empty values.
Values that cannot be read raise DecodeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from msmq.errors import DecodeError, EncodeError
from msmq.manager.model import OperatingSystemType, QueuePrivacyLevel

Values = Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type are written and read. ``decode`` is given at least one value."""

    encode: Callable[[Any], list[bytes]]
    decode: Callable[[Values], Any]


def _one(values: Values) -> bytes:
    return values[0]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise DecodeError("a directory string is not UTF-8") from None


def _number(value: bytes) -> int:
    try:
        number = int(value)
    except ValueError:
        raise DecodeError("an integer of the directory is no number") from None
    if not -(1 << 31) <= number < 1 << 32:
        raise DecodeError("an integer of the directory takes more than 32 bits")
    return number


def _boolean(value: bytes) -> bool:
    try:
        return {b"TRUE": True, b"FALSE": False}[value.upper()]
    except KeyError:
        raise DecodeError("a boolean of the directory is TRUE or FALSE") from None


def _signed(value: int) -> int:
    """A 32-bit number as LDAP writes it, signed: 0xFFFFFFFF becomes -1."""
    return value - (1 << 32) if value >= 1 << 31 else value


def _guid(value: bytes) -> bytes:
    if len(value) != 16:
        raise DecodeError("a GUID of the directory has 16 bytes")
    return bytes(value)


def _time(value: bytes) -> int:
    """A GeneralizedTime, which the directory gives in UTC, in seconds since 1970."""
    try:
        return int(
            datetime.strptime(_text(value).partition(".")[0].rstrip("Z"), "%Y%m%d%H%M%S")
            .replace(tzinfo=UTC)
            .timestamp()
        )
    except ValueError:
        raise DecodeError("a time of the directory is not YYYYMMDDHHMMSS.0Z") from None


def _time_text(seconds: int) -> bytes:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S.0Z").encode()
    except (ValueError, OverflowError, OSError):
        raise EncodeError("a time is between the years 1970 and 9999") from None


def _listed(table: Mapping[Any, bytes], other: Any = None) -> Codec:
    """A codec for an enumeration; values that are not in the table are read as ``other``."""
    back = {value: key for key, value in table.items()}

    def decode(values: Values) -> Any:
        if values[0] not in back and other is None:
            raise DecodeError("a value of the directory is none of its enumeration")
        return back.get(values[0], other)

    return Codec(lambda value: [table[value]], decode)


TEXT: Final = Codec(lambda text: [text.encode()] if text else [], lambda values: _text(_one(values)))
OCTETS: Final = Codec(lambda data: [bytes(data)] if data else [], lambda values: bytes(_one(values)))
INTEGER: Final = Codec(lambda number: [b"%d" % number], lambda values: _number(_one(values)))
DWORD: Final = Codec(
    lambda number: [b"%d" % _signed(number)], lambda values: _number(_one(values)) & 0xFFFFFFFF
)
BOOLEAN: Final = Codec(lambda flag: [b"TRUE" if flag else b"FALSE"], lambda values: _boolean(_one(values)))
FLAG: Final = Codec(lambda flag: [b"1" if flag else b"0"], lambda values: _number(_one(values)) == 1)
"""For mSMQNt4Stub, which is a number although all similar attributes are booleans."""
GUID: Final = Codec(lambda guid: [_guid(guid)], lambda values: _guid(_one(values)))
GUIDS: Final = Codec(lambda guids: [_guid(guid) for guid in guids], lambda values: tuple(map(_guid, values)))
TEXTS: Final = Codec(
    lambda texts: [text.encode() for text in texts], lambda values: tuple(map(_text, values))
)
TIME: Final = Codec(lambda seconds: [_time_text(seconds)], lambda values: _time(_one(values)))
YES_NO: Final = _listed({True: b"Y", False: b"N"})
VERSION: Final = _listed({True: b"3", False: b"200"})
PRIVACY: Final = _listed(
    {QueuePrivacyLevel.NONE: b"0", QueuePrivacyLevel.OPTIONAL: b"1", QueuePrivacyLevel.BODY: b"2"}
)
OPERATING_SYSTEM: Final = _listed(
    {
        OperatingSystemType.OTHER: b"0",
        OperatingSystemType.FOREIGN: b"256",
        OperatingSystemType.WIN95: b"512",
        OperatingSystemType.WIN_CLIENT: b"768",
        OperatingSystemType.WIN_SERVER: b"1024",
        OperatingSystemType.WIN_ENT: b"1280",
    },
    OperatingSystemType.OTHER,
)
