"""The tables as a whole, and the judgement of arrays."""

from __future__ import annotations

from pathlib import Path

import pytest

import msmq
from msmq.errors import (
    IllegalMqqmpropsError,
    IllegalMqqueuepropsError,
    IllegalPropertyValueError,
    IllegalPropertyVtError,
    IllegalPropidError,
    IllegalSecurityDescriptorError,
    Information,
    InsufficientPropertiesError,
    InvalidParameterError,
    PropertyNotallowedError,
    TooManyPropertiesError,
)
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.wire.names import MsmqVersion
from msmq.wire.properties import (
    BY_NAME,
    MAX_PROPERTIES,
    TABLES,
    Content,
    ObjectType,
    Use,
    check_properties,
    check_value,
    lookup,
)
from msmq.wire.variant import VARTYPES, VT, Variant
from tests.wire.properties.declared import DECLARED
from tests.wire.properties.support import CONTENTS, DESCRIPTOR, GUID, PATH, USER, declared, keeps, row_marks

LABEL = Variant(VT.LPWSTR, "label")
PATHNAME = Variant(VT.LPWSTR, PATH)

PARTITION_IDS = row_marks(
    PROPID_Q_PARTITIONID="2.3.1.16-a",
    PROPID_QM_PARTITIONID="2.3.2.11-a",
    PROPID_S_PARTITIONID="2.3.3.7-a",
    PROPID_CN_PARTITIONID="2.3.4.4-a",
    PROPID_E_PARTITIONID="2.3.5.7-a",
    PROPID_U_PARTITIONID="2.3.6.2-a",
    PROPID_L_PARTITIONID="2.3.7.4-a",
    PROPID_SET_PARTITIONID="2.3.8.6-a",
    PROPID_D_PARTITIONID="2.3.13.2-a",
)
SEQUENCE_NUMBERS = row_marks(
    PROPID_Q_SEQNUM="2.3.1.17-a",
    PROPID_QM_SEQNUM="2.3.2.13-a",
    PROPID_S_SEQNUM="2.3.3.8-a",
    PROPID_CN_SEQNUM="2.3.4.5-a",
    PROPID_E_SEQNUM="2.3.5.8-a",
    PROPID_U_SEQNUM="2.3.6.3-a",
    PROPID_L_SEQNUM="2.3.7.5-a",
    PROPID_D_SEQNUM="2.3.13.1-a",
)
RESERVED_NUMBERS = row_marks(
    PROPID_Q_HASHKEY="2.3.1.18-a",
    PROPID_Q_LABEL_HASHKEY="2.3.1.19-a",
    PROPID_QM_HASHKEY="2.3.2.12-a",
    PROPID_E_S_INTERVAL1="2.3.5.5-a",
    PROPID_E_S_INTERVAL2="2.3.5.6-a",
    PROPID_E_CSP_TYPE="2.3.5.11-a",
    PROPID_E_ENCRYPT_ALG="2.3.5.12-a",
    PROPID_E_SIGN_ALG="2.3.5.13-a",
    PROPID_E_HASH_ALG="2.3.5.14-a",
    PROPID_E_CIPHER_MODE="2.3.5.18-a",
)
DESCRIPTORS = row_marks(
    PROPID_Q_SECURITY="2.3.1.25-a",
    PROPID_Q_OBJ_SECURITY="2.3.1.26-a",
    PROPID_QM_OBJ_SECURITY="2.3.2.30-a",
    PROPID_QM_SECURITY="2.3.2.36-a",
    PROPID_S_SECURITY="2.3.3.13-a",
    PROPID_CN_SECURITY="2.3.4.6-a",
    PROPID_E_SECURITY="2.3.5.17-a",
    PROPID_MQU_SECURITY="2.3.9.5-a",
)


@pytest.mark.parametrize("name", DECLARED)
def test_every_property_is_declared_as_printed(name: str) -> None:
    row = declared(name)
    assert row.doc.endswith(".")
    assert row.vt in VARTYPES
    if row.default_variant is not None:
        check_value(row, row.default_variant)


def test_there_are_no_others() -> None:
    assert BY_NAME.keys() == DECLARED.keys()
    assert sum(map(len, TABLES.values())) == len(DECLARED) == 186


@pytest.mark.spec("MQMQ-2.3-a")
def test_identifiers_are_32_bit_numbers() -> None:
    assert all(0 < propid < 2**32 for table in TABLES.values() for propid in table)


@pytest.mark.spec("MQMQ-2.3-b")
def test_parallel_arrays() -> None:
    with pytest.raises(InvalidParameterError):
        check_properties(ObjectType.QUEUE, Use.SET, [108, 102], [LABEL])
    with pytest.raises(InvalidParameterError):
        check_properties(ObjectType.QUEUE, Use.SET, [108], [LABEL, LABEL])
    check_properties(ObjectType.QUEUE, Use.SET, [108] * MAX_PROPERTIES, [LABEL] * MAX_PROPERTIES)
    with pytest.raises(TooManyPropertiesError) as refused:
        check_properties(ObjectType.QUEUE, Use.SET, [108] * 129, [LABEL] * 129)
    assert refused.value.code == 0xC00E009A


@pytest.mark.spec("MQMQ-2.4-g")
def test_statuses_of_property_arrays() -> None:
    with pytest.raises(IllegalPropertyVtError) as wrong_type:
        check_properties(ObjectType.QUEUE, Use.SET, [104], [Variant(VT.UI4, 1)])
    with pytest.raises(IllegalPropertyValueError) as wrong_value:
        check_properties(ObjectType.QUEUE, Use.SET, [104], [Variant(VT.UI1, 2)])
    with pytest.raises(TooManyPropertiesError) as too_many:
        check_properties(ObjectType.QUEUE, Use.SET, [108] * 129, [LABEL] * 129)
    codes = [refused.value.code for refused in (wrong_type, wrong_value, too_many)]
    assert codes == [0xC00E0019, 0xC00E0018, 0xC00E009A]


@pytest.mark.spec("MQMQ-2.3-c")
def test_versions() -> None:
    """What a version knows is what the sections say; a later property is an unknown one."""
    for version in MsmqVersion:
        for object_type, propid, _vt, since in DECLARED.values():
            if since <= version:
                assert lookup(object_type, propid, version).since == since
            else:
                with pytest.raises(IllegalPropidError):
                    lookup(object_type, propid, version)
    variant = Variant(VT.LPWSTR, "234.1.1.1:8001")
    check_properties(ObjectType.QUEUE, Use.SET, [125], [variant], version=MsmqVersion.V3)
    with pytest.raises(IllegalPropidError):
        check_properties(ObjectType.QUEUE, Use.SET, [125], [variant], version=MsmqVersion.V2)


@pytest.mark.spec("MQMQ-2.3.8-a", "MQMQ-2.3.9-a", "MQMQ-2.3.10-a")
def test_msmq_1_has_no_settings_migrated_users_and_computers() -> None:
    for object_type in (ObjectType.SETTINGS, ObjectType.MQUSER, ObjectType.COMPUTER):
        for propid in TABLES[object_type]:
            assert lookup(object_type, propid, MsmqVersion.V2)
            with pytest.raises(IllegalPropidError):
                lookup(object_type, propid, MsmqVersion.V1)


@pytest.mark.spec("MQMQ-2.3-d")
def test_ranges_by_object_type() -> None:
    ranges = {
        ObjectType.QUEUE: [(101, 126), (1101, 1103)],
        ObjectType.MACHINE: [(201, 242), (1201, 1205)],
        ObjectType.SITE: [(301, 312), (1301, 1303)],
        ObjectType.CONNECTED_NETWORK: [(501, 505), (1501, 1501)],
        ObjectType.ENTERPRISE: [(601, 617), (1601, 1601)],
        ObjectType.USER: [(701, 706)],
        ObjectType.ROUTING_LINK: [(801, 813)],
        ObjectType.DELETION: [(1401, 1405)],
        ObjectType.SETTINGS: [(5101, 5112)],
        ObjectType.COMPUTER: [(5201, 5209)],
        ObjectType.MQUSER: [(5401, 5407)],
        ObjectType.MANAGEMENT_MACHINE: [(1, 6)],
        ObjectType.MANAGEMENT_QUEUE: [(1, 27)],
    }
    assert ranges.keys() == TABLES.keys()
    for object_type, parts in ranges.items():
        ids = sorted(TABLES[object_type])
        for low, high in parts:
            inside = [propid for propid in ids if low <= propid <= high]
            assert (inside[0], inside[-1]) == (low, high)
        assert all(any(low <= propid <= high for low, high in parts) for propid in ids)
    assert lookup(ObjectType.MANAGEMENT_MACHINE, 6).name == "PROPID_MGMT_MSMQ_BYTES_IN_ALL_QUEUES"
    assert lookup(ObjectType.MANAGEMENT_QUEUE, 6).name == "PROPID_MGMT_QUEUE_FOREIGN"
    with pytest.raises(IllegalPropidError):
        lookup(ObjectType.MANAGEMENT_MACHINE, 7)
    with pytest.raises(IllegalPropidError):
        lookup(ObjectType.QUEUE, 120)


@pytest.mark.parametrize("name", PARTITION_IDS)
def test_partition_identifiers_are_kept_and_not_used(name: str) -> None:
    keeps(name, GUID, bytes(16))
    _is_used_nowhere(name)


@pytest.mark.parametrize("name", SEQUENCE_NUMBERS)
def test_sequence_numbers_are_kept(name: str) -> None:
    keeps(name, b"", b"\x01\x02\x03\x04\x05\x06\x07\x08")


@pytest.mark.parametrize("name", RESERVED_NUMBERS)
def test_reserved_numbers_are_kept_and_not_used(name: str) -> None:
    keeps(name, 0, 1, 0xFFFF)
    _is_used_nowhere(name)


@pytest.mark.spec("MQMQ-2.3.5.10-a")
def test_the_reserved_blob_is_kept_and_not_used() -> None:
    keeps("PROPID_E_CRL", b"", b"\xff\x00anything")
    _is_used_nowhere("PROPID_E_CRL")


def _is_used_nowhere(name: str) -> None:
    """Nothing interprets the value: no rule, no content, and no mention outside the table."""
    row = declared(name)
    assert (row.rule, row.content, row.default) == (None, None, None)
    sources = Path(msmq.__file__).parent.rglob("*.py")
    assert sum(source.read_text().count(name) for source in sources) == 1


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_descriptors_come_back_as_written(name: str) -> None:
    keeps(name, DESCRIPTOR)
    row = declared(name)
    with pytest.raises(IllegalSecurityDescriptorError):
        check_value(row, Variant(VT.BLOB, DESCRIPTOR[:19]), contents=CONTENTS)


@pytest.mark.spec("MQMQ-6-s")
def test_descriptors_of_old_properties_take_the_entries_of_nt_4_only() -> None:
    object_ace = Ace(AceType.ACCESS_ALLOWED_OBJECT, 1, USER)
    with_object = SecurityDescriptor(USER, dacl=Acl.of(object_ace)).encode()
    rows = [row for table in TABLES.values() for row in table.values()]
    old = {1101, 1201, 1301, 1501, 1601, 5407}
    seen = set()
    for row in rows:
        if row.content is not Content.SECURITY_DESCRIPTOR:
            continue
        seen.add(row.id)
        variant = Variant(VT.BLOB, with_object)
        if row.id in old:
            with pytest.raises(IllegalSecurityDescriptorError):
                check_value(row, variant, contents=CONTENTS)
        else:
            check_value(row, variant, contents=CONTENTS)
    assert seen == old | {1102, 234}


def test_unknown_identifiers_and_uses() -> None:
    with pytest.raises(IllegalPropidError):
        check_properties(ObjectType.QUEUE, Use.SET, [100], [LABEL])
    with pytest.raises(PropertyNotallowedError):
        check_properties(ObjectType.QUEUE, Use.SET, [101], [Variant(VT.CLSID, GUID)])
    check_properties(ObjectType.QUEUE, Use.SYSTEM, [101], [Variant(VT.CLSID, GUID)])


def test_empty_arrays_have_a_status_of_their_own() -> None:
    with pytest.raises(IllegalMqqueuepropsError):
        check_properties(ObjectType.QUEUE, Use.SET, [], [])
    with pytest.raises(IllegalMqqmpropsError):
        check_properties(ObjectType.MACHINE, Use.SET, [], [])
    with pytest.raises(InsufficientPropertiesError):
        check_properties(ObjectType.SITE, Use.SET, [], [])


def test_a_queue_needs_its_path_name() -> None:
    with pytest.raises(InsufficientPropertiesError):
        check_properties(ObjectType.QUEUE, Use.CREATE, [108], [LABEL])
    checked = check_properties(ObjectType.QUEUE, Use.CREATE, [108, 103], [LABEL, PATHNAME])
    assert [row.id for row, _ in checked.accepted] == [108, 103]
    assert checked.statuses == (0, 0)


def test_a_property_given_twice_counts_once() -> None:
    other = Variant(VT.LPWSTR, "other")
    checked = check_properties(ObjectType.QUEUE, Use.SET, [108, 108], [LABEL, other])
    assert [variant for _, variant in checked.accepted] == [LABEL]
    assert checked.statuses == (0, Information.MQ_INFORMATION_DUPLICATE_PROPERTY)


def test_null_pointers_are_no_values() -> None:
    for vt, propid in ((VT.LPWSTR, 108), (VT.CLSID, 102)):
        with pytest.raises(IllegalPropertyValueError):
            check_properties(ObjectType.QUEUE, Use.SET, [propid], [Variant(vt, None)])


def test_blobs_this_room_cannot_read_pass_without_a_decoder() -> None:
    check_properties(ObjectType.QUEUE, Use.SET, [1101], [Variant(VT.BLOB, b"anything")])
    with pytest.raises(IllegalSecurityDescriptorError):
        check_properties(
            ObjectType.QUEUE, Use.SET, [1101], [Variant(VT.BLOB, b"anything")], contents=CONTENTS
        )
