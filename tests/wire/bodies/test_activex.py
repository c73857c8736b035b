"""VARTYPEs that fit and VARTYPEs that do not."""

from __future__ import annotations

import struct
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from msmq.errors import DecodeError, EncodeError
from msmq.wire.bodies.activex import VT_VECTOR, BodyType, known, read, write


@pytest.mark.parametrize(
    ("body_type", "body", "value"),
    [
        (BodyType.NULL, b"", None),
        (BodyType.BOOL, b"\1", True),
        (BodyType.BOOL, b"\0", False),
        (BodyType.BOOL, b"\xff\xff", True),
        (BodyType.CY, struct.pack("<q", 1), Decimal("0.0001")),
        (BodyType.DATE, bytes(8), datetime(1899, 12, 30)),
        (BodyType.DATE, struct.pack("<d", -1.25), datetime(1899, 12, 29, 6)),
        (BodyType.ERROR, b"\x05\x40\x00\x80", 0x80004005),
        (BodyType.STREAMED_OBJECT, b"\0\1", b"\0\1"),
        (BodyType.LPSTR, b"old \xe9\0", "old é"),
        (VT_VECTOR | BodyType.I4, struct.pack("<ii", 1, -1), [1, -1]),
        (VT_VECTOR | BodyType.R8, struct.pack("<d", 0.5), [0.5]),
    ],
)
def test_reading(body_type: int, body: bytes, value: Any) -> None:
    assert known(body_type)
    assert read(body_type, body) == value


@pytest.mark.parametrize(
    ("body_type", "body"),
    [
        (BodyType.NULL, b"x"),
        (BodyType.BOOL, b"\0\0\0"),
        (BodyType.DECIMAL, bytes(15)),
        (BodyType.DECIMAL, b"\0\0\x1d" + bytes(13)),
        (BodyType.DATE, struct.pack("<d", 1e300)),
        (BodyType.DATE, struct.pack("<d", float("nan"))),
        (BodyType.FILETIME, b"\xff" * 8),
        (BodyType.CLSID, bytes(15)),
        (BodyType.BSTR, b"\0\xd8"),
        (VT_VECTOR | BodyType.I4, bytes(5)),
        (999, b""),
    ],
)
def test_what_does_not_fit_is_refused(body_type: int, body: bytes) -> None:
    with pytest.raises(DecodeError):
        read(body_type, body)


def test_amounts_are_currency_and_other_decimals_are_not() -> None:
    assert write(Decimal("12.3400")) == (struct.pack("<q", 123400), BodyType.CY)
    for value in (Decimal("0.00001"), Decimal(10) ** 28, Decimal("-79228162514264337593543950335")):
        body, body_type = write(value)
        assert (body_type, read(body_type, body)) == (BodyType.DECIMAL, value)


@pytest.mark.parametrize(
    ("value", "body_type"),
    [
        (Decimal("0.00001"), BodyType.CY),
        (Decimal(1) / 10**29, None),
        (Decimal("NaN"), None),
        (1 << 64, None),
        (300, BodyType.UI1),
        (1.5, BodyType.I4),
        (5, BodyType.BSTR),
    ],
)
def test_what_no_type_holds_is_refused(value: Any, body_type: int | None) -> None:
    with pytest.raises(EncodeError):
        write(value, body_type)
