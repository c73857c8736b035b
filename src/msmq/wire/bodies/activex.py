"""Bodies whose BodyType is a VARTYPE, as MSMQ's COM objects and System.Messaging's ActiveXMessageFormatter write them.

The two differ in two places, and both forms are read. COM writes a truth value in two bytes and a date as days since
1899-12-30; System.Messaging writes a truth value in one byte and a date as ticks of 100 ns since the year 1. The eight
bytes of a date show which form they have: no date in the calendar has ticks that are also a plausible number of days.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from msmq.errors import DecodeError, EncodeError


class BodyType(IntEnum):
    """The VARTYPEs of bodies (MS-OAUT 2.2.7 and those of PROPVARIANT): senders put any of them into BodyType."""

    EMPTY = 0
    NULL = 1
    I2 = 2
    I4 = 3
    R4 = 4
    R8 = 5
    CY = 6
    DATE = 7
    BSTR = 8
    ERROR = 10
    BOOL = 11
    VARIANT = 12
    DECIMAL = 14
    I1 = 16
    UI1 = 17
    UI2 = 18
    UI4 = 19
    I8 = 20
    UI8 = 21
    INT = 22
    UINT = 23
    HRESULT = 25
    LPSTR = 30
    LPWSTR = 31
    FILETIME = 64
    BLOB = 65
    STREAM = 66
    STORAGE = 67
    STREAMED_OBJECT = 68
    STORED_OBJECT = 69
    CLSID = 72


VT_VECTOR: Final = 0x1000
VT_BYTES: Final = VT_VECTOR | BodyType.UI1

_NUMBERS: Final[dict[int, str]] = {
    **dict.fromkeys((BodyType.I4, BodyType.INT), "<i"),
    **dict.fromkeys((BodyType.UI4, BodyType.UINT, BodyType.ERROR, BodyType.HRESULT), "<I"),
    BodyType.I1: "<b",
    BodyType.UI1: "<B",
    BodyType.I2: "<h",
    BodyType.UI2: "<H",
    BodyType.I8: "<q",
    BodyType.UI8: "<Q",
    BodyType.R4: "<f",
    BodyType.R8: "<d",
}
_BYTES: Final = frozenset(
    {
        BodyType.BLOB,
        BodyType.STREAM,
        BodyType.STORAGE,
        BodyType.STREAMED_OBJECT,
        BodyType.STORED_OBJECT,
        VT_BYTES,
        VT_VECTOR | BodyType.I1,
    }
)

SCALARS: Final = frozenset(_NUMBERS) | {
    BodyType.CY, BodyType.DATE, BodyType.BOOL, BodyType.DECIMAL, BodyType.FILETIME, BodyType.CLSID,
}  # fmt: skip
"""Types whose values are numbers, dates and the like: neither text nor bytes."""

_TICKS_PER_MICROSECOND: Final = 10
_YEAR_ONE: Final = datetime(1, 1, 1)
_OLE_EPOCH: Final = datetime(1899, 12, 30)
_FILE_EPOCH: Final = datetime(1601, 1, 1)
_LAST_TICK: Final = 3_155_378_975_999_999_999
_CURRENCY_UNIT: Final = Decimal(10_000)
_DECIMAL_SCALE: Final = 28


def known(body_type: int) -> bool:
    """True if `read` understands bodies of this type."""
    return body_type in _READERS or (body_type & ~VT_VECTOR) in _NUMBERS


def read(body_type: int, body: bytes) -> Any:
    """Read a body as the value its VARTYPE names. Raises DecodeError if type and size do not match."""
    layout = _NUMBERS.get(body_type)
    if layout is not None:
        return _exactly(layout, body)
    reader = _READERS.get(body_type)
    if reader is not None:
        return reader(body)
    element = _NUMBERS.get(body_type & ~VT_VECTOR) if body_type & VT_VECTOR else None
    if element is None:
        raise DecodeError(f"A body of type {body_type} is of no type that is known.")
    size = struct.calcsize(element)
    if len(body) % size:
        raise DecodeError("The body is no whole number of elements.")
    return [each for (each,) in struct.iter_unpack(element, body)]


def _exactly(layout: str, body: bytes) -> Any:
    if len(body) != struct.calcsize(layout):
        raise DecodeError("The size of the body is not that of its type.")
    return struct.unpack(layout, body)[0]


def _nothing(body: bytes) -> None:
    if body:
        raise DecodeError("A body of type VT_NULL holds something.")


def _boolean(body: bytes) -> bool:
    if len(body) not in (1, 2):
        raise DecodeError("A truth value has one or two bytes.")
    return any(body)


def _currency(body: bytes) -> Decimal:
    return Decimal(_exactly("<q", body)) / _CURRENCY_UNIT


def _date(body: bytes) -> datetime:
    ticks = _exactly("<q", body)
    if 0 < ticks <= _LAST_TICK:
        return from_ticks(ticks)
    days = _exactly("<d", body)
    try:
        # Before the epoch the days are negative, but the time of day still counts forward.
        return _OLE_EPOCH + timedelta(days=int(days)) + timedelta(days=abs(days - int(days)))
    except (OverflowError, ValueError) as error:
        raise DecodeError("The date is outside the calendar.") from error


def from_ticks(ticks: int, epoch: datetime = _YEAR_ONE) -> datetime:
    """Return the time that many units of 100 ns after ``epoch``, cut to microseconds."""
    try:
        return epoch + timedelta(microseconds=ticks // _TICKS_PER_MICROSECOND)
    except OverflowError as error:
        raise DecodeError("The date is outside the calendar.") from error


def to_ticks(moment: datetime) -> int:
    """Return the units of 100 ns since the year 1, by the time that the clock of ``moment`` shows."""
    return (moment.replace(tzinfo=None) - _YEAR_ONE) // timedelta(microseconds=1) * _TICKS_PER_MICROSECOND


def _file_time(body: bytes) -> datetime:
    return from_ticks(_exactly("<Q", body), _FILE_EPOCH)


def _decimal(body: bytes) -> Decimal:
    if len(body) != 16:
        raise DecodeError("A decimal has 16 bytes.")
    _, scale, sign, high, low = struct.unpack("<HBBIQ", body)
    return from_decimal_parts(high << 64 | low, scale, bool(sign & 0x80))


def from_decimal_parts(digits: int, scale: int, negative: bool) -> Decimal:
    """Make a number of 96 bits whose decimal point is ``scale`` places from the right."""
    if scale > _DECIMAL_SCALE:
        raise DecodeError("A decimal has more places than there are.")
    return Decimal((int(negative), tuple(map(int, str(digits))), -scale))


def to_decimal_parts(value: Decimal) -> tuple[int, int, bool]:
    """Split a number into digits, scale and sign, as a DECIMAL holds them."""
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):
        raise EncodeError(f"{value} is no number that a decimal can hold.")
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    if number >> 96 or -exponent > _DECIMAL_SCALE:
        raise EncodeError(f"{value} has more digits than a decimal can hold.")
    return number, max(-exponent, 0), bool(sign)


def _guid(body: bytes) -> UUID:
    if len(body) != 16:
        raise DecodeError("A GUID has 16 bytes.")
    return UUID(bytes_le=body)


def _wide_text(body: bytes) -> str:
    try:
        return body.decode("utf-16-le").removesuffix("\0")
    except UnicodeDecodeError as error:
        raise DecodeError("The body is no UTF-16 text.") from error


def _byte_text(body: bytes) -> str:
    """Decode a VT_LPSTR. Its code page is unknown: what is not UTF-8 is taken for Windows-1252, which has every
    byte.
    """
    body = body.removesuffix(b"\0")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    BodyType.NULL: _nothing,
    BodyType.CY: _currency,
    BodyType.DATE: _date,
    BodyType.BSTR: _wide_text,
    BodyType.BOOL: _boolean,
    BodyType.DECIMAL: _decimal,
    BodyType.LPSTR: _byte_text,
    BodyType.LPWSTR: _wide_text,
    BodyType.FILETIME: _file_time,
    BodyType.CLSID: _guid,
    **dict.fromkeys(_BYTES, bytes),
}


_BUFFERS: Final = (bytes, bytearray, memoryview)
_EMPTY: Final = BodyType.EMPTY


def write(value: Any, body_type: int | None = None, *, as_net: bool = False) -> tuple[bytes, int]:
    """Write a value. Returns the body and its VARTYPE. ``body_type`` asks for a type other than the usual one;
    ``as_net`` writes truth values and dates as System.Messaging reads them."""
    if isinstance(value, _BUFFERS):
        return bytes(value), (VT_BYTES if as_net else _EMPTY) if body_type is None else body_type
    if value is None:
        return b"", (BodyType.NULL if as_net else BodyType.EMPTY) if body_type is None else body_type
    if isinstance(value, str):
        kind = BodyType.LPWSTR if body_type is None else body_type
        return value.encode("utf-16-le" if kind in (BodyType.BSTR, BodyType.LPWSTR) else "utf-8"), kind
    if isinstance(value, bool):
        return (b"\xff" if value else b"\0") * (1 if as_net else 2), BodyType.BOOL
    if isinstance(value, int | float):
        return _write_number(value, body_type)
    if isinstance(value, UUID):
        return value.bytes_le, BodyType.CLSID
    if isinstance(value, datetime):
        return struct.pack("<q", to_ticks(value)) if as_net else _write_date(value), BodyType.DATE
    if isinstance(value, Decimal):
        return _write_decimal(value, body_type)
    raise TypeError(f"No VARTYPE holds a value of type {type(value).__name__}.")


def _write_number(value: float, body_type: int | None) -> tuple[bytes, int]:
    kind = body_type or (
        BodyType.R8
        if isinstance(value, float)
        else BodyType.I4
        if -(1 << 31) <= value < 1 << 31
        else BodyType.I8
    )
    layout = _NUMBERS.get(kind)
    if layout is None:
        raise EncodeError(f"A number cannot be written as a body of type {kind}.")
    try:
        return struct.pack(layout, value), kind
    except (struct.error, OverflowError) as error:
        raise EncodeError(f"{value} cannot be written as a body of type {kind}.") from error


def _write_date(moment: datetime) -> bytes:
    since = moment.replace(tzinfo=None) - _OLE_EPOCH
    part = (since - timedelta(days=since.days)) / timedelta(days=1)
    return struct.pack("<d", since.days + part if since.days >= 0 else since.days - part)


def _write_decimal(value: Decimal, body_type: int | None) -> tuple[bytes, int]:
    """Write an amount with at most four decimal places as currency, which every reader knows; other numbers as
    DECIMAL.
    """
    with localcontext(prec=40):
        units = value * _CURRENCY_UNIT if value.is_finite() else value
        fits = value.is_finite() and units == int(units) and -(1 << 63) <= units < 1 << 63
    if body_type == BodyType.CY or (body_type is None and fits):
        if not fits:
            raise EncodeError(f"{value} is no amount of currency with four places.")
        return struct.pack("<q", int(units)), BodyType.CY
    digits, scale, negative = to_decimal_parts(value)
    return struct.pack(
        "<HBBIQ", 0, scale, negative << 7, digits >> 64, digits & (1 << 64) - 1
    ), BodyType.DECIMAL
