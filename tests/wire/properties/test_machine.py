"""Properties of queue managers."""

from __future__ import annotations

import pytest

from msmq.errors import IllegalPropertyValueError, PropertyNotallowedError
from msmq.wire.addresses import AddressType, TAAddress, decode_addresses
from msmq.wire.names import MsmqVersion
from msmq.wire.properties import Use, check_value
from msmq.wire.properties.machine import OperatingSystem
from msmq.wire.variant import VT, Variant
from tests.wire.properties.support import (
    DISTINGUISHED_NAME,
    GUID,
    KEYS,
    USER,
    declared,
    judge,
    keeps,
    refuses,
    row_marks,
)


@pytest.mark.spec("MQMQ-2.3.2.4-a")
def test_the_older_key() -> None:
    keeps("PROPID_QM_ENCRYPTION_PK", b"", b"old")


@pytest.mark.spec("MQMQ-2.3.2.5-a")
def test_addresses() -> None:
    blob = b"".join(TAAddress(AddressType.IP, bytes([10, 0, 0, last])).encode() for last in (1, 2))
    assert len(blob) == 16
    keeps("PROPID_QM_ADDRESS", blob)
    assert [str(address) for address in decode_addresses(blob)] == ["10.0.0.1", "10.0.0.2"]
    refuses("PROPID_QM_ADDRESS", blob[:-1], b"\x04\x00\x09\x00abcd")


@pytest.mark.parametrize(
    "name",
    row_marks(PROPID_QM_CNS="2.3.2.6-a", PROPID_QM_SITE_IDS="2.3.2.21-a"),
)
def test_vectors_of_guids(name: str) -> None:
    keeps(name, (), (GUID,), (GUID, bytes(16)))


@pytest.mark.parametrize("name", ["PROPID_QM_OUTFRS", "PROPID_QM_INFRS"])
def test_routing_servers_are_kept(name: str) -> None:
    keeps(name, (GUID, GUID[::-1]))


@pytest.mark.parametrize("name", ["PROPID_QM_SITE_ID", "PROPID_QM_MACHINE_ID"])
def test_identifiers_are_kept(name: str) -> None:
    keeps(name, GUID)


@pytest.mark.spec("MQMQ-2.3.2.9-a")
def test_service() -> None:
    keeps("PROPID_QM_SERVICE", 0, 1, 2, 4, 8, 0x10)
    refuses("PROPID_QM_SERVICE", 3, 0x20)


@pytest.mark.spec("MQMQ-2.3.2.15-a")
def test_machine_type() -> None:
    keeps("PROPID_QM_MACHINE_TYPE", "", "Windows NT 5.0 (Build 2195, x86) - MSMQ 2.0 (Build 641)")
    refuses("PROPID_QM_MACHINE_TYPE", "a computer")
    row = declared("PROPID_QM_MACHINE_TYPE")
    with pytest.raises(IllegalPropertyValueError):
        check_value(row, Variant(VT.LPWSTR, ""), version=MsmqVersion.V2)


@pytest.mark.spec("MQMQ-2.3.2.16-a", "MQMQ-2.3.2.17-a")
def test_times_are_set_by_the_directory() -> None:
    for name in ("PROPID_QM_CREATE_TIME", "PROPID_QM_MODIFY_TIME"):
        declared(name)
        with pytest.raises(PropertyNotallowedError):
            judge(Use.SET, name, 0)


@pytest.mark.parametrize(
    "name",
    row_marks(
        PROPID_QM_FOREIGN="2.3.2.18-a",
        PROPID_QM_GROUP_IN_CLUSTER="2.3.2.35-a",
        PROPID_QM_SERVICE_DSSERVER="2.3.2.25-a",
        PROPID_QM_SERVICE_DEPCLIENTS="2.3.2.26-a",
    ),
)
def test_switches(name: str) -> None:
    keeps(name, 0, 1)
    refuses(name, 2, 255)


def test_operating_system() -> None:
    assert [member.value for member in OperatingSystem] == [0, 0x100, 0x200, 0x300, 0x400, 0x500]
    keeps("PROPID_QM_OS", *OperatingSystem)
    refuses("PROPID_QM_OS", 1, 0x600)


@pytest.mark.spec("MQMQ-2.3.2.20-a")
def test_full_path() -> None:
    keeps("PROPID_QM_FULL_PATH", DISTINGUISHED_NAME)
    refuses("PROPID_QM_FULL_PATH", "", "srv", "CN=a;DC=b")


@pytest.mark.parametrize("name", row_marks(PROPID_QM_OUTFRS_DN="2.3.2.22-a", PROPID_QM_INFRS_DN="2.3.2.23-a"))
def test_distinguished_names_of_routing_servers(name: str) -> None:
    keeps(name, (), (DISTINGUISHED_NAME,), (DISTINGUISHED_NAME, "CN=b"))
    refuses(name, ("srv",), (DISTINGUISHED_NAME, ""))


@pytest.mark.spec("MQMQ-2.3.2.24-a")
def test_routing_is_for_the_installer_to_set() -> None:
    for value in (0, 1):
        with pytest.raises(PropertyNotallowedError):
            judge(Use.SET, "PROPID_QM_SERVICE_ROUTING", value)
    keeps("PROPID_QM_SERVICE_ROUTING", 0, 1)
    refuses("PROPID_QM_SERVICE_ROUTING", 2)


@pytest.mark.parametrize(
    "name",
    row_marks(PROPID_QM_ENCRYPTION_PK_BASE="2.3.2.27-a", PROPID_QM_ENCRYPTION_PK_ENHANCED="2.3.2.28-a"),
)
def test_key_bytes(name: str) -> None:
    keeps(name, b"", bytes(range(256)))


@pytest.mark.spec("MQMQ-2.3.2.29-a")
def test_dns_name() -> None:
    keeps("PROPID_QM_PATHNAME_DNS", "srv.corp.example")
    refuses("PROPID_QM_PATHNAME_DNS", "srv", "")


@pytest.mark.spec("MQMQ-2.3.2.31-a")
def test_security_information() -> None:
    keeps("PROPID_QM_SECURITY_INFORMATION", *range(16))
    refuses("PROPID_QM_SECURITY_INFORMATION", 0x10, 0x1F, 0x80000000)


@pytest.mark.parametrize(
    "name", row_marks(PROPID_QM_ENCRYPT_PKS="2.3.2.32-a", PROPID_QM_SIGN_PKS="2.3.2.33-a")
)
def test_public_keys(name: str) -> None:
    keeps(name, KEYS)
    refuses(name, b"", KEYS[:-1], KEYS + b"\0")


@pytest.mark.parametrize("name", row_marks(PROPID_QM_SIGN_PK="2.3.2.37-a", PROPID_QM_ENCRYPT_PK="2.3.2.38-a"))
def test_keys_given_at_creation_only(name: str) -> None:
    keeps(name, KEYS)
    assert judge(Use.CREATE, name, KEYS) == (0,)
    with pytest.raises(PropertyNotallowedError):
        judge(Use.SET, name, KEYS)
    refuses(name, KEYS[:-1])


@pytest.mark.spec("MQMQ-2.3.2.34-a")
def test_owner_sid() -> None:
    keeps("PROPID_QM_OWNER_SID", USER.encode())
    refuses("PROPID_QM_OWNER_SID", b"", USER.encode()[:-1])


@pytest.mark.spec("MQMQ-2.3.2.39-a")
def test_upgrade_dacl_is_a_request_without_a_value() -> None:
    row = declared("PROPID_QM_UPGRADE_DACL")
    for blob in (b"", b"ignored"):
        assert judge(Use.SET, row.name, blob) == (0,)
    assert Use.GET not in row.uses
    with pytest.raises(PropertyNotallowedError):
        judge(Use.CREATE, row.name, b"")


def test_quota_is_any_number() -> None:
    keeps("PROPID_QM_QUOTA", 0, 0xFFFFFFFF)
