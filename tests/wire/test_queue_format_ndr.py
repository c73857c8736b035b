"""QUEUE_FORMAT in NDR and NDR64."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError, IllegalFormatnameError
from msmq.wire.guid import guid_text
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.names import MulticastName, PrivateName
from msmq.wire.ndr import NdrReader
from msmq.wire.queue_format import (
    DLId,
    MulticastId,
    ObjectId,
    QueueFormat,
    QueueFormatFlags,
    QueueFormatType,
    SuffixType,
)
from msmq.wire.queue_format_ndr import decode_queue_format, encode_queue_format
from msmq.wire.variant import SCALARS, VECTORS, VT, Variant, encode_variant

both = pytest.mark.parametrize("ndr64", [False, True])
GUID = bytes(range(16))
T = QueueFormatType

guid = st.binary(min_size=16, max_size=16)
u32 = st.integers(0, 2**32 - 1)
text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
queue_formats = st.one_of(
    st.just(QueueFormat(T.UNKNOWN)),
    st.builds(
        QueueFormat, st.sampled_from([T.PUBLIC, T.MACHINE, T.CONNECTOR]), guid, st.sampled_from(SuffixType)
    ),
    st.builds(QueueFormat, st.just(T.PRIVATE), st.builds(ObjectId, guid, u32)),
    st.builds(
        QueueFormat, st.sampled_from([T.DIRECT, T.SUBQUEUE]), text, flags=st.sampled_from(QueueFormatFlags)
    ),
    st.builds(QueueFormat, st.just(T.DL), st.builds(DLId, guid, st.none() | text)),
    st.builds(QueueFormat, st.just(T.MULTICAST), st.builds(MulticastId, u32, u32)),
)

ARMS = [
    QueueFormat(T.UNKNOWN),
    QueueFormat(T.PUBLIC, GUID),
    QueueFormat(T.PRIVATE, ObjectId(GUID, 0xA)),
    QueueFormat(T.DIRECT, "OS:srv\\private$\\q"),
    QueueFormat(T.MACHINE, GUID, SuffixType.DEADLETTER, QueueFormatFlags.SYSTEM),
    QueueFormat(T.CONNECTOR, GUID, SuffixType.XACTONLY),
    QueueFormat(T.DL, DLId(GUID, "corp.example")),
    QueueFormat(T.DL, DLId(GUID)),
    QueueFormat(T.MULTICAST, MulticastId(0x010101EA, 8001)),
    QueueFormat(T.SUBQUEUE, "OS:srv\\private$\\q;sub", SuffixType.SUBQUEUE),
]


@both
@given(value=queue_formats)
def test_round_trip(ndr64: bool, value: QueueFormat) -> None:
    assert decode_queue_format(encode_queue_format(value, ndr64), ndr64) == value


@pytest.mark.spec("MQMQ-2.2.7-a")
@both
@pytest.mark.parametrize("value", ARMS, ids=lambda value: value.type.name)
def test_every_arm(value: QueueFormat, ndr64: bool) -> None:
    encoded = encode_queue_format(value, ndr64)
    # m_qft, m_SuffixAndFlags, m_reserved, and m_qft again as the discriminant of the union
    layout = "<BBH4xB" if ndr64 else "<BBHB"  # a union of NDR64 is aligned like its widest arm
    assert struct.unpack_from(layout, encoded) == (value.type, value.suffix_and_flags, 0, value.type)
    assert decode_queue_format(encoded, ndr64) == value
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            decode_queue_format(encoded[:size], ndr64)
    with pytest.raises(DecodeError):
        decode_queue_format(encoded + b"\0", ndr64)


@pytest.mark.spec("MQMQ-2.2.7-b")
def test_the_discriminant_must_be_a_type_and_repeat_m_qft() -> None:
    encoded = bytearray(encode_queue_format(QueueFormat(T.PUBLIC, GUID)))
    for qft in range(9, 256):
        encoded[0] = encoded[4] = qft
        with pytest.raises(DecodeError):
            decode_queue_format(encoded)
    encoded[0], encoded[4] = T.PUBLIC, T.MACHINE
    with pytest.raises(DecodeError, match="discriminant"):
        decode_queue_format(encoded)


def test_undefined_flags_and_suffixes_are_refused() -> None:
    encoded = bytearray(encode_queue_format(QueueFormat(T.PUBLIC, GUID)))
    for suffix_and_flags in (0x10, 0x40, 0x06, 0x8F):
        encoded[1] = suffix_and_flags
        with pytest.raises(DecodeError):
            decode_queue_format(encoded)


@pytest.mark.spec("MQMQ-2.2.7-l")
@both
def test_public_guid_follows_the_discriminant(ndr64: bool) -> None:
    encoded = encode_queue_format(QueueFormat(T.PUBLIC, GUID), ndr64)
    padding = 4 if ndr64 else 0
    assert (
        encoded
        == bytes.fromhex("01000000") + bytes(padding) + bytes.fromhex("01 000000") + bytes(padding) + GUID
    )
    assert decode_queue_format(encoded, ndr64).arm == GUID


@pytest.mark.spec("MQMQ-2.2.7-m", "MQMQ-2.2.8-a")
def test_private_arm_is_an_objectid_of_twenty_bytes() -> None:
    encoded = encode_queue_format(QueueFormat(T.PRIVATE, ObjectId(GUID, 0x0A0B0C0D)))
    assert encoded[8:] == GUID + bytes.fromhex("0D0C0B0A")
    assert len(encoded[8:]) == 20
    assert decode_queue_format(encoded).arm == ObjectId(GUID, 0x0A0B0C0D)
    assert encoded[8:] == MessageIdentifier(queue_manager_guid=GUID, ordinal=0x0A0B0C0D).encode()


@pytest.mark.spec("MQMQ-2.2.8-b")
def test_objectid_is_a_group_and_an_object_in_it() -> None:
    queue = QueueFormat.from_name(PrivateName(GUID, 7))
    assert queue.arm == ObjectId(lineage=GUID, uniquifier=7)
    assert decode_queue_format(encode_queue_format(queue)).to_name() == PrivateName(GUID, 7)
    message = MessageIdentifier(queue_manager_guid=GUID, ordinal=9).encode()
    assert (message[:16], int.from_bytes(message[16:], "little")) == (GUID, 9)


@pytest.mark.spec("MQMQ-2.2.7-n")
def test_direct_arm_is_the_text_without_its_prefix() -> None:
    encoded = encode_queue_format(QueueFormat(T.DIRECT, "OS:srv\\private$\\q"))
    reader = NdrReader(encoded)
    reader.raw(8)
    assert reader.u32() != 0
    assert reader.wide_string() == "OS:srv\\private$\\q"
    reader.end()
    name = decode_queue_format(encoded).to_name()
    assert str(name).upper() == "DIRECT=OS:SRV\\PRIVATE$\\Q"
    assert "DIRECT=".encode("utf-16-le") not in encoded
    null = encoded[:8] + bytes(4)
    with pytest.raises(DecodeError, match="null"):
        decode_queue_format(null)


@pytest.mark.spec("MQMQ-2.2.7-o")
def test_machine_arm() -> None:
    value = QueueFormat(T.MACHINE, GUID, SuffixType.DEADXACT, QueueFormatFlags.SYSTEM)
    encoded = encode_queue_format(value)
    assert encoded == bytes.fromhex("04830000 04000000") + GUID
    assert str(decode_queue_format(encoded).to_name()) == f"MACHINE={guid_text(GUID)};DEADXACT"


@pytest.mark.spec("MQMQ-2.2.7-p")
def test_connector_arm() -> None:
    encoded = encode_queue_format(QueueFormat(T.CONNECTOR, GUID))
    assert encoded == bytes.fromhex("05000000 05000000") + GUID
    assert str(decode_queue_format(encoded).to_name()) == f"CONNECTOR={guid_text(GUID)}"


@pytest.mark.spec("MQMQ-2.2.7-q", "MQMQ-2.2.9-a")
@both
@pytest.mark.parametrize("domain", [None, "", "corp.example"])
def test_distribution_list_arm(domain: str | None, ndr64: bool) -> None:
    encoded = encode_queue_format(QueueFormat(T.DL, DLId(GUID, domain)), ndr64)
    reader = NdrReader(encoded, ndr64)
    reader.raw(16 if ndr64 else 8)
    assert reader.guid() == GUID
    assert bool(reader.count()) == (domain is not None)
    if domain is not None:
        assert reader.wide_string() == domain
    reader.end()
    assert decode_queue_format(encoded, ndr64).arm == DLId(GUID, domain)


@pytest.mark.spec("MQMQ-2.2.7-r", "MQMQ-2.2.10-a")
def test_multicast_arm_is_two_ulongs() -> None:
    value = QueueFormat.from_name(MulticastName("234.1.1.1", 8001))
    encoded = encode_queue_format(value)
    assert encoded[8:] == bytes([234, 1, 1, 1]) + (8001).to_bytes(4, "little")
    assert decode_queue_format(encoded).to_name() == MulticastName("234.1.1.1", 8001)
    beyond = decode_queue_format(encoded[:12] + (65536).to_bytes(4, "little"))
    assert beyond.arm == MulticastId(0x010101EA, 65536)
    with pytest.raises(IllegalFormatnameError):
        beyond.to_name()


@pytest.mark.spec("MQMQ-2.2.7-s")
def test_subqueue_arm_must_name_a_subqueue() -> None:
    good = QueueFormat(T.SUBQUEUE, "OS:srv\\private$\\q;sub", SuffixType.SUBQUEUE)
    decoded = decode_queue_format(encode_queue_format(good))
    assert decoded.to_name() == good.to_name()
    assert decoded.arm == "OS:srv\\private$\\q;sub"
    bad = decode_queue_format(
        encode_queue_format(QueueFormat(T.SUBQUEUE, "OS:srv\\private$\\q", SuffixType.SUBQUEUE))
    )
    with pytest.raises(IllegalFormatnameError):
        bad.to_name()


@pytest.mark.spec("MQMQ-2.2.7-t")
def test_unknown_carries_no_arm() -> None:
    assert encode_queue_format(QueueFormat(T.UNKNOWN)) == bytes(5)
    assert decode_queue_format(bytes(5)) == QueueFormat(T.UNKNOWN)


def test_an_arm_of_another_type_cannot_be_written() -> None:
    with pytest.raises(EncodeError):
        encode_queue_format(QueueFormat(T.PUBLIC, "OS:srv\\q"))
    with pytest.raises(EncodeError):
        encode_queue_format(QueueFormat(T.UNKNOWN, GUID))


@pytest.mark.spec("MQMQ-5-a")
def test_the_idl() -> None:
    """The enumerations of the IDL, the arms of its unions, the members of its structures in order."""
    assert [(member.name, member.value) for member in QueueFormatType] == [
        ("UNKNOWN", 0),
        ("PUBLIC", 1),
        ("PRIVATE", 2),
        ("DIRECT", 3),
        ("MACHINE", 4),
        ("CONNECTOR", 5),
        ("DL", 6),
        ("MULTICAST", 7),
        ("SUBQUEUE", 8),
    ]
    scalars = "EMPTY NULL I1 UI1 I2 UI2 I4 UI4 I8 UI8 BOOL CLSID BLOB LPWSTR"
    assert [vt.name for vt in SCALARS] == scalars.split()
    assert [vt.name for vt in VECTORS] == ["UI1", "UI2", "I4", "UI4", "UI8", "CLSID", "LPWSTR", "VARIANT"]
    assert {vt.name: vt.value for vt in VT} == {
        "EMPTY": 0,
        "NULL": 1,
        "I2": 2,
        "I4": 3,
        "BOOL": 11,
        "VARIANT": 12,
        "I1": 16,
        "UI1": 17,
        "UI2": 18,
        "UI4": 19,
        "I8": 20,
        "UI8": 21,
        "LPWSTR": 31,
        "BLOB": 65,
        "CLSID": 72,
        "VECTOR": 0x1000,
    }
    # PROPVARIANT: vt, wReserved1, wReserved2, wReserved3, _varUnion; BLOB: cbSize, pBlobData
    blob = struct.unpack_from("<HBBIH6xII", encode_variant(Variant(VT.BLOB, b"x")))
    assert blob == (65, 0, 0, 0, 65, 1, 0x20000)
    # the counted arrays: cElems, pElems
    vector = struct.unpack_from("<H14xII", encode_variant(Variant(VT.VECTOR | VT.UI2, (1, 2))))
    assert vector == (0x1012, 2, 0x20000)
    # QUEUE_FORMAT: m_qft, m_SuffixAndFlags, m_reserved, union; OBJECTID: Lineage, Uniquifier
    private = QueueFormat(T.PRIVATE, ObjectId(GUID, 7), SuffixType.JOURNAL, QueueFormatFlags.SYSTEM, 0x0102)
    assert struct.unpack("<BBHB3x16sI", encode_queue_format(private)) == (2, 0x81, 0x0102, 2, GUID, 7)
    # DL_ID: m_DlGuid, m_pwzDomain; MULTICAST_ID: m_address, m_port
    dl = encode_queue_format(QueueFormat(T.DL, DLId(GUID)))
    assert struct.unpack("<8x16sI", dl) == (GUID, 0)
    assert struct.unpack("<8xII", encode_queue_format(QueueFormat(T.MULTICAST, MulticastId(1, 2)))) == (1, 2)


@both
@given(value=queue_formats, data=st.data())
def test_only_decode_errors_escape(ndr64: bool, value: QueueFormat, data: st.DataObject) -> None:
    encoded = bytearray(encode_queue_format(value, ndr64))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        decode_queue_format(encoded, ndr64)
