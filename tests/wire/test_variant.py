"""PROPVARIANT and its parts."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.variant import (
    INTEGERS,
    MAX_NESTING,
    SCALARS,
    VARTYPES,
    VECTORS,
    VT,
    Variant,
    decode_variant,
    encode_variant,
    vt_name,
)

both = pytest.mark.parametrize("ndr64", [False, True])
GUID = bytes(range(16))

text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12)
guid = st.binary(min_size=16, max_size=16)


def integer(vt: int) -> st.SearchStrategy[int]:
    return st.integers(INTEGERS[vt].low, INTEGERS[vt].high)


ELEMENTS: dict[int, st.SearchStrategy[Any]] = {
    **{vt: integer(vt) for vt in INTEGERS},
    VT.LPWSTR: text,
    VT.CLSID: guid,
}

flat = st.one_of(
    st.sampled_from([Variant(VT.EMPTY), Variant(VT.NULL)]),
    st.builds(Variant, st.just(VT.BOOL), st.booleans()),
    st.builds(Variant, st.just(VT.BLOB), st.binary(max_size=20)),
    st.builds(Variant, st.just(VT.VECTOR | VT.UI1), st.binary(max_size=20)),
    st.sampled_from([VT.LPWSTR, VT.CLSID, *INTEGERS]).flatmap(
        lambda vt: st.builds(
            Variant, st.just(vt), ELEMENTS[vt] if vt in INTEGERS else st.none() | ELEMENTS[vt]
        )
    ),
    st.sampled_from([VT.UI2, VT.I4, VT.UI4, VT.UI8, VT.CLSID, VT.LPWSTR]).flatmap(
        lambda vt: st.builds(Variant, st.just(VT.VECTOR | vt), st.lists(ELEMENTS[vt], max_size=5).map(tuple))
    ),
)
variants = st.recursive(
    flat,
    lambda inner: st.builds(Variant, st.just(VT.VECTOR | VT.VARIANT), st.lists(inner, max_size=4).map(tuple)),
    max_leaves=8,
)


@both
@given(variant=variants)
def test_round_trip(ndr64: bool, variant: Variant) -> None:
    assert decode_variant(encode_variant(variant, ndr64), ndr64) == variant


@both
@given(variant=variants, data=st.data())
def test_only_decode_errors_escape(ndr64: bool, variant: Variant, data: st.DataObject) -> None:
    encoded = bytearray(encode_variant(variant, ndr64))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        decode_variant(encoded, ndr64)


@both
def test_truncation_and_trailing_bytes_are_refused(ndr64: bool) -> None:
    whole = encode_variant(
        Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.LPWSTR, "ab"), Variant(VT.VECTOR | VT.UI8, (1, 2)))),
        ndr64,
    )
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_variant(whole[:size], ndr64)
    with pytest.raises(DecodeError):
        decode_variant(whole + b"\0", ndr64)


@pytest.mark.spec("MQMQ-2.2.12-a")
def test_varenum_values() -> None:
    assert {f"VT_{vt.name}": vt.value for vt in VT} == {
        "VT_EMPTY": 0,
        "VT_NULL": 1,
        "VT_I2": 2,
        "VT_I4": 3,
        "VT_BOOL": 11,
        "VT_VARIANT": 12,
        "VT_I1": 16,
        "VT_UI1": 17,
        "VT_UI2": 18,
        "VT_UI4": 19,
        "VT_I8": 20,
        "VT_UI8": 21,
        "VT_LPWSTR": 31,
        "VT_BLOB": 65,
        "VT_CLSID": 72,
        "VT_VECTOR": 0x1000,
    }
    assert 8 not in VARTYPES  # VT_BSTR is a body type only


@pytest.mark.spec("MQMQ-2.2.12-b", "MQMQ-2.2.12.1-a")
@pytest.mark.parametrize("vt", [VT.EMPTY, VT.NULL])
def test_empty_and_null_end_after_the_discriminant(vt: VT) -> None:
    encoded = encode_variant(Variant(vt))
    tag = vt.to_bytes(2, "little")
    assert encoded == tag + bytes(6) + tag
    assert decode_variant(encoded).value is None


@pytest.mark.spec("MQMQ-2.2.12-c")
@pytest.mark.parametrize(
    ("vt", "low", "high", "size"),
    [
        (VT.I1, -128, 127, 1),
        (VT.UI1, 0, 255, 1),
        (VT.I2, -32768, 32767, 2),
        (VT.UI2, 0, 65535, 2),
        (VT.I4, -(2**31), 2**31 - 1, 4),
        (VT.UI4, 0, 2**32 - 1, 4),
        (VT.I8, -(2**63), 2**63 - 1, 8),
        (VT.UI8, 0, 2**64 - 1, 8),
    ],
)
def test_integer_ranges(vt: VT, low: int, high: int, size: int) -> None:
    for value in (low, high):
        encoded = encode_variant(Variant(vt, value))
        assert encoded[16:] == value.to_bytes(size, "little", signed=low < 0)
        assert decode_variant(encoded).value == value
    for value in (low - 1, high + 1, True, "1", None, 1.0):
        with pytest.raises(EncodeError):
            Variant(vt, value)  # type: ignore[arg-type]


@pytest.mark.spec("MQMQ-2.2.12-d", "MQMQ-2.2.14-a")
def test_booleans() -> None:
    assert encode_variant(Variant(VT.BOOL, True))[16:] == b"\xff\xff"
    assert encode_variant(Variant(VT.BOOL, False))[16:] == b"\x00\x00"
    with pytest.raises(DecodeError, match="VARIANT_BOOL"):
        decode_variant(encode_variant(Variant(VT.BOOL, True))[:16] + b"\x01\x00")
    with pytest.raises(EncodeError):
        Variant(VT.BOOL, 1)


@pytest.mark.spec("MQMQ-2.2.12-e")
def test_variant_exists_only_as_vector() -> None:
    with pytest.raises(EncodeError):
        Variant(VT.VARIANT, ())
    bare = encode_variant(Variant(VT.VECTOR | VT.VARIANT, ())).replace(b"\x0c\x10", b"\x0c\x00")
    with pytest.raises(DecodeError):
        decode_variant(bare)
    assert decode_variant(encode_variant(Variant(0x100C, (Variant(VT.UI1, 1),)))).vt == 0x100C


@pytest.mark.spec("MQMQ-2.2.12-f")
def test_strings_carry_their_terminator() -> None:
    encoded = encode_variant(Variant(VT.LPWSTR, "ab"))
    assert encoded[16:] == bytes.fromhex("00000200 03000000 00000000 03000000 6100 6200 0000")
    assert decode_variant(encoded).value == "ab"
    with pytest.raises(DecodeError):
        decode_variant(encoded[:-2] + b"c\0")
    with pytest.raises(EncodeError):
        Variant(VT.LPWSTR, "a\0b")


@pytest.mark.spec("MQMQ-2.2.12-g", "MQMQ-2.2.15-a")
def test_blobs() -> None:
    encoded = encode_variant(Variant(VT.BLOB, b"abc"))
    assert encoded[16:] == bytes.fromhex("03000000 00000200 03000000 616263")
    assert decode_variant(encoded).value == b"abc"
    for cb_size in (2, 4, 0):
        with pytest.raises(DecodeError):
            decode_variant(encoded[:16] + struct.pack("<I", cb_size) + encoded[20:])
    null = encoded[:20] + bytes(4)
    with pytest.raises(DecodeError, match="null"):
        decode_variant(null)
    assert decode_variant(null[:16] + bytes(8)).value == b""
    pointing = encoded[:16] + bytes.fromhex("00000000 00000200 00000000")
    assert decode_variant(pointing).value == b""


@pytest.mark.spec("MQMQ-2.2.12-h")
def test_clsid_is_a_pointer_to_sixteen_bytes() -> None:
    encoded = encode_variant(Variant(VT.CLSID, GUID))
    assert encoded[16:] == bytes.fromhex("00000200") + GUID
    assert decode_variant(encoded).value == GUID


@pytest.mark.spec("MQMQ-2.2.12-i", "MQMQ-2.2.16.7-a")
@pytest.mark.parametrize("value", [(), ("",), ("a", "", "bcd")])
def test_calpwstr(value: tuple[str, ...]) -> None:
    variant = decode_variant(encode_variant(Variant(0x1000 | 31, value)))
    assert variant == Variant(VT.VECTOR | VT.LPWSTR, value)


def test_calpwstr_on_the_wire_is_pointers_then_strings() -> None:
    encoded = encode_variant(Variant(VT.VECTOR | VT.LPWSTR, ("a", "")))
    assert encoded[16:] == bytes.fromhex(
        "02000000 00000200"  # cElems, pElems
        "02000000 04000200 08000200"  # conformance, two string pointers
        "02000000 00000000 02000000 6100 0000"
        "01000000 00000000 01000000 0000"
    )
    with pytest.raises(DecodeError, match="null"):
        decode_variant(encoded.replace(bytes.fromhex("08000200"), bytes(4)))


@pytest.mark.spec("MQMQ-2.2.13.1-a")
@both
def test_layout(ndr64: bool) -> None:
    """One scalar, one pointer and one vector arm, byte for byte."""
    head = "{0} 00 00 00000000 {0} 000000000000"
    expected = {
        Variant(VT.UI4, 0x01020304): (head.format("1300") + "04030201", "00000000"),
        Variant(VT.CLSID, GUID): (head.format("4800") + "00000200", "00000000"),
        Variant(VT.VECTOR | VT.UI4, (5, 6)): (head.format("1310") + "02000000", "00000000"),
    }
    tails = {VT.CLSID: GUID.hex(), VT.VECTOR | VT.UI4: ""}
    for variant, (arm, padding) in expected.items():
        tail = tails.get(variant.vt, "")
        if variant.vt == VT.VECTOR | VT.UI4:
            tail = "02000000 05000000 06000000" if not ndr64 else "0200000000000000 05000000 06000000"
            arm += (padding + "0000020000000000") if ndr64 else "00000200"
            padding = ""
        assert encode_variant(variant, ndr64) == bytes.fromhex(arm + (padding if ndr64 else "") + tail)


@pytest.mark.spec("MQMQ-2.2.13.1-b")
def test_reserved_members_are_ignored() -> None:
    rng = random.Random(1)
    for variant in (Variant(VT.UI4, 7), Variant(VT.LPWSTR, "ab"), Variant(VT.EMPTY)):
        encoded = bytearray(encode_variant(variant))
        encoded[2:8] = rng.randbytes(6)
        assert decode_variant(encoded) == variant


@pytest.mark.spec("MQMQ-2.2.13.1-c")
@pytest.mark.parametrize(
    ("vt", "value"),
    [
        (VT.I1, -1),
        (VT.UI1, 255),
        (VT.I2, -2),
        (VT.UI2, 65535),
        (VT.I4, -3),
        (VT.UI4, 2**32 - 1),
        (VT.I8, -4),
        (VT.UI8, 2**64 - 1),
        (VT.BOOL, True),
        (VT.CLSID, GUID),
        (VT.BLOB, b"blob"),
        (VT.LPWSTR, "text"),
        (VT.EMPTY, None),
        (VT.NULL, None),
    ],
)
def test_scalar_arms(vt: VT, value: Any) -> None:
    assert vt in SCALARS
    decoded = decode_variant(encode_variant(Variant(vt, value))).value
    assert type(decoded) is type(value)
    assert decoded == value


@pytest.mark.spec("MQMQ-2.2.13.1-d")
def test_only_eight_vectors_exist() -> None:
    allowed = {VT.UI1, VT.UI2, VT.I4, VT.UI4, VT.UI8, VT.CLSID, VT.LPWSTR, VT.VARIANT}
    assert set(VECTORS) == allowed
    for vt in range(0x1000):
        if vt in allowed:
            assert decode_variant(_tagged(VT.VECTOR | vt)) == Variant(
                VT.VECTOR | vt, b"" if vt == VT.UI1 else ()
            )
            continue
        with pytest.raises(EncodeError):
            Variant(VT.VECTOR | vt, ())
        with pytest.raises(DecodeError):
            decode_variant(_tagged(VT.VECTOR | vt))


def _tagged(vt: int) -> bytes:
    """An empty vector with any type."""
    tag = vt.to_bytes(2, "little")
    return tag + bytes(6) + tag + bytes(14)


@pytest.mark.spec("MQMQ-2.2.13.1-e")
def test_the_union_follows_vt() -> None:
    encoded = bytearray(encode_variant(Variant(VT.UI4, 7)))
    encoded[8] = VT.I4
    with pytest.raises(DecodeError, match="discriminant"):
        decode_variant(encoded)
    with pytest.raises(EncodeError):
        Variant(VT.UI4, "7")
    with pytest.raises(EncodeError):
        Variant(VT.VECTOR | VT.UI4, ("7",))  # type: ignore[arg-type]


@pytest.mark.spec("MQMQ-2.2.13.1-f")
@both
def test_nesting_and_counts_are_bounded(ndr64: bool) -> None:
    variant = Variant(VT.EMPTY)
    for _ in range(MAX_NESTING):
        variant = Variant(VT.VECTOR | VT.VARIANT, (variant,))
    assert decode_variant(encode_variant(variant, ndr64), ndr64) == variant
    with pytest.raises(EncodeError, match="too deeply"):
        encode_variant(Variant(VT.VECTOR | VT.VARIANT, (variant,)), ndr64)

    # A bomb of 500 levels: every level is one variant that points to the next.
    level = encode_variant(Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.EMPTY),)), ndr64)
    size = 40 if ndr64 else 32
    with pytest.raises(DecodeError, match="too deeply"):
        decode_variant(level[:size] * 500, ndr64)

    tracemalloc.start()
    try:
        for vt in VECTORS:
            huge = bytearray(_tagged(VT.VECTOR | vt)[:16])
            huge += b"\xff" * 4 + (bytes(4) if ndr64 else b"") + b"\x01" * (16 if ndr64 else 4)
            huge += b"\xff\xff\xff\xff" + bytes(60)
            with pytest.raises(DecodeError):
                decode_variant(huge, ndr64)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.spec("MQMQ-2.2.13.2-a")
def test_one_codec_serves_the_structure_and_its_alias() -> None:
    """An element of CAPROPVARIANT is declared by the alias, the structure by its own name: same bytes."""
    alone = encode_variant(Variant(VT.UI8, 9))
    inside = encode_variant(Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.UI8, 9),)))
    assert inside[-len(alone) :] == alone


@pytest.mark.spec(
    "MQMQ-2.2.16.1-a", "MQMQ-2.2.16.2-a", "MQMQ-2.2.16.4-a", "MQMQ-2.2.16.5-a", "MQMQ-2.2.16.6-a"
)
@both
@pytest.mark.parametrize(
    ("vt", "values"),
    [
        (VT.UI1, (b"", b"\x01", bytes(range(256)))),
        (VT.UI2, ((), (1,), (0, 1, 65535))),
        (VT.UI4, ((), (1,), (0, 1, 2**32 - 1))),
        (VT.UI8, ((), (1,), (0, 1, 2**64 - 1))),
        (VT.CLSID, ((), (GUID,), (GUID, bytes(16), GUID[::-1]))),
    ],
)
def test_counted_arrays(vt: VT, values: tuple[Any, ...], ndr64: bool) -> None:
    for value in values:
        variant = Variant(VT.VECTOR | vt, value)
        encoded = encode_variant(variant, ndr64)
        assert encoded[16:20] == len(value).to_bytes(4, "little")
        assert decode_variant(encoded, ndr64) == variant


@pytest.mark.spec("MQMQ-2.2.16.5-a")
def test_elements_of_eight_bytes_are_aligned() -> None:
    encoded = encode_variant(Variant(VT.VECTOR | VT.UI8, (2**64 - 1,)))
    assert encoded[16:] == bytes.fromhex("01000000 00000200 01000000 00000000") + b"\xff" * 8
    odd = encode_variant(
        Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.BLOB, b"x"), Variant(VT.VECTOR | VT.UI8, (3,))))
    )
    assert odd.endswith((3).to_bytes(8, "little"))
    assert (len(odd) - 8) % 8 == 0


@pytest.mark.spec("MQMQ-2.2.16.3-a")
def test_cal_is_signed() -> None:
    encoded = encode_variant(Variant(VT.VECTOR | VT.I4, (-1, 0x7FFFFFFF)))
    assert encoded.endswith(bytes.fromhex("FFFFFFFF FFFFFF7F"))
    # the times of EOD_SOURCE_INFO and CONNECTION_HISTORY sit in such arrays
    history = Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.VECTOR | VT.I4, (-1,)),))
    decoded = decode_variant(encode_variant(history)).value
    assert decoded == (Variant(VT.VECTOR | VT.I4, (-1,)),)


@pytest.mark.spec("MQMQ-2.2.16.8-a")
@both
def test_management_arrays_round_trip(ndr64: bool) -> None:
    eod_source_info = Variant(
        VT.VECTOR | VT.VARIANT,
        (
            Variant(VT.VECTOR | VT.LPWSTR, ("DIRECT=OS:a\\q", "DIRECT=OS:b\\q")),
            Variant(VT.VECTOR | VT.CLSID, (GUID, GUID[::-1])),
            Variant(VT.VECTOR | VT.UI8, (1, 2**63)),
            Variant(VT.VECTOR | VT.UI4, (1, 2)),
            Variant(VT.VECTOR | VT.I4, (1_700_000_000, -1)),
            Variant(VT.VECTOR | VT.UI4, (0, 3)),
        ),
    )
    connection_history = Variant(
        VT.VECTOR | VT.VARIANT,
        (
            Variant(VT.VECTOR | VT.UI4, (0x80000004,)),
            Variant(VT.VECTOR | VT.I4, (1_700_000_000,)),
            Variant(VT.VECTOR | VT.I4, (1,)),
            Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.VECTOR | VT.LPWSTR, ("10.0.0.1", "\\\\srv")),)),
        ),
    )
    for variant, items in ((eod_source_info, 6), (connection_history, 4)):
        decoded = decode_variant(encode_variant(variant, ndr64), ndr64)
        assert decoded == variant
        assert isinstance(decoded.value, tuple)
        assert len(decoded.value) == items


@pytest.mark.spec("MQMQ-2.2.17-a")
def test_ularge_integer() -> None:
    encoded = encode_variant(Variant(VT.UI8, 0xFFFFFFFFFFFFFFFF))
    assert encoded[16:] == b"\xff" * 8
    assert decode_variant(encoded).value == 0xFFFFFFFFFFFFFFFF


def test_names_of_types() -> None:
    assert vt_name(VT.UI1) == "VT_UI1"
    assert vt_name(0x1011) == "VT_UI1 | VT_VECTOR"
    assert vt_name(0x2003) == "0x2003"


# A peer that shares no code with us: impacket's NDR, with the structures declared here.


def _impacket(arm: Callable[[Any], Any]) -> Any:
    """A PROPVARIANT of impacket with one arm; its unions do not align to 8, so the gap is a member."""
    from impacket.dcerpc.v5 import ndr

    class PropVariant(ndr.NDRSTRUCT):  # type: ignore[misc]
        structure = (
            ("vt", ndr.NDRUSHORT),
            ("wReserved1", ndr.NDRSMALL),
            ("wReserved2", ndr.NDRSMALL),
            ("wReserved3", ndr.NDRULONG),
            ("tag", ndr.NDRUSHORT),
            ("gap", '6s=b"ignore"'),
            ("arm", arm(ndr)),
        )

    return PropVariant


def _counted(ndr: Any, element: Any) -> Any:
    array = type("Array", (ndr.NDRUniConformantArray,), {"item": element})
    pointer = type("PArray", (ndr.NDRPOINTER,), {"referent": (("Data", array),)})
    return type("Counted", (ndr.NDRSTRUCT,), {"structure": (("cElems", ndr.NDRULONG), ("pElems", pointer))})


def _string_pointer(ndr: Any) -> Any:
    from impacket.dcerpc.v5.dtypes import LPWSTR

    return LPWSTR


@pytest.mark.parametrize(
    ("variant", "arm", "value"),
    [
        (Variant(VT.UI4, 0x01020304), lambda ndr: ndr.NDRULONG, 0x01020304),
        (Variant(VT.UI8, 2**63 + 5), lambda ndr: ndr.NDRUHYPER, 2**63 + 5),
        (Variant(VT.LPWSTR, "orders"), _string_pointer, "orders\0"),
        (Variant(VT.VECTOR | VT.UI4, (5, 6, 7)), lambda ndr: _counted(ndr, "<L"), [5, 6, 7]),
        (Variant(VT.VECTOR | VT.UI2, (5, 6, 7)), lambda ndr: _counted(ndr, "<H"), [5, 6, 7]),
        (
            Variant(VT.VECTOR | VT.LPWSTR, ("a", "bcd")),
            lambda ndr: _counted(ndr, _string_pointer(ndr)),
            ["a\0", "bcd\0"],
        ),
    ],
    ids=lambda v: vt_name(v.vt) if isinstance(v, Variant) else "",
)
def test_impacket_writes_what_we_read_and_reads_what_we_write(
    variant: Variant, arm: Callable[[Any], Any], value: Any
) -> None:
    prop_variant = _impacket(arm)
    ours = prop_variant()
    encoded = encode_variant(variant)
    used = ours.fromString(encoded)
    ours.fromStringReferents(encoded, used)
    assert (ours["vt"], ours["tag"]) == (variant.vt, variant.vt)
    assert _plain(ours["arm"]) == value

    theirs = prop_variant()
    theirs["vt"] = theirs["tag"] = variant.vt
    if isinstance(value, list):
        theirs["arm"]["cElems"] = len(value)
        theirs["arm"]["pElems"] = _elements(variant, value)
    else:
        theirs["arm"] = value
    body = theirs.getData()
    assert decode_variant(body + theirs.getDataReferents(len(body))) == variant


def _plain(arm: Any) -> Any:
    try:
        elements = arm["pElems"]
    except (KeyError, TypeError, IndexError):
        return arm
    return [item["Data"] if hasattr(item, "fields") else item for item in elements]


def _elements(variant: Variant, value: list[Any]) -> list[Any]:
    if variant.vt != VT.VECTOR | VT.LPWSTR:
        return value
    from impacket.dcerpc.v5.dtypes import LPWSTR

    strings = []
    for text_value in value:
        string = LPWSTR()
        string["Data"] = text_value
        strings.append(string)
    return strings
