"""The values of properties as people read them."""

from __future__ import annotations

import pytest

from msmq.wire.properties import ObjectType, lookup, value_texts
from msmq.wire.variant import VT, Variant

GUID = bytes(range(16))


@pytest.mark.parametrize(
    ("variant", "texts"),
    [
        (Variant(VT.EMPTY), ()),
        (Variant(VT.UI4, 7), ("7",)),
        (Variant(VT.LPWSTR, "orders"), ("orders",)),
        (Variant(VT.CLSID, GUID), ("03020100-0504-0706-0809-0A0B0C0D0E0F",)),
        (Variant(VT.BLOB, b"\x01\xff"), ("01ff",)),
        (Variant(VT.VECTOR | VT.LPWSTR, ("a", "b")), ("a", "b")),
        (Variant(VT.VECTOR | VT.CLSID, (GUID,)), ("03020100-0504-0706-0809-0A0B0C0D0E0F",)),
        (
            Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.VECTOR | VT.LPWSTR, ("a", "b")), Variant(VT.UI4, 1))),
            ("[a, b]", "1"),
        ),
    ],
)
def test_one_text_for_each_value(variant: Variant, texts: tuple[str, ...]) -> None:
    assert value_texts(variant) == texts


def test_named_values_are_named() -> None:
    row = lookup(ObjectType.QUEUE, 112)
    assert value_texts(Variant(row.vt, 2), row) == ("MQ_PRIV_LEVEL_BODY (2)",)
    assert value_texts(Variant(row.vt, 9), row) == ("9",)
