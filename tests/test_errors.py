"""The error tree against the table of MS-MQMQ 2.4."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import pytest

import msmq
from msmq import errors
from msmq.errors import CUSTOMER_BIT, STATUS, Information, MQError, error_for

PUBLISHED = {
    name: int(code, 16)
    for code, name in (
        line.split()
        for line in """
        0x400E0001 MQ_INFORMATION_PROPERTY
        0x400E0002 MQ_INFORMATION_ILLEGAL_PROPERTY
        0x400E0003 MQ_INFORMATION_PROPERTY_IGNORED
        0x400E0004 MQ_INFORMATION_UNSUPPORTED_PROPERTY
        0x400E0005 MQ_INFORMATION_DUPLICATE_PROPERTY
        0x400E0006 MQ_INFORMATION_OPERATION_PENDING
        0x400E0009 MQ_INFORMATION_FORMATNAME_BUFFER_TOO_SMALL
        0x400E000A MQ_INFORMATION_INTERNAL_USER_CERT_EXIST
        0x400E000B MQ_INFORMATION_OWNER_IGNORED
        0xC00E0001 MQ_ERROR
        0xC00E0002 MQ_ERROR_PROPERTY
        0xC00E0003 MQ_ERROR_QUEUE_NOT_FOUND
        0xC00E0004 MQ_ERROR_QUEUE_NOT_ACTIVE
        0xC00E0005 MQ_ERROR_QUEUE_EXISTS
        0xC00E0006 MQ_ERROR_INVALID_PARAMETER
        0xC00E0007 MQ_ERROR_INVALID_HANDLE
        0xC00E0008 MQ_ERROR_OPERATION_CANCELLED
        0xC00E0009 MQ_ERROR_SHARING_VIOLATION
        0xC00E000B MQ_ERROR_SERVICE_NOT_AVAILABLE
        0xC00E000D MQ_ERROR_MACHINE_NOT_FOUND
        0xC00E0010 MQ_ERROR_ILLEGAL_SORT
        0xC00E0011 MQ_ERROR_ILLEGAL_USER
        0xC00E0013 MQ_ERROR_NO_DS
        0xC00E0014 MQ_ERROR_ILLEGAL_QUEUE_PATHNAME
        0xC00E0018 MQ_ERROR_ILLEGAL_PROPERTY_VALUE
        0xC00E0019 MQ_ERROR_ILLEGAL_PROPERTY_VT
        0xC00E001A MQ_ERROR_BUFFER_OVERFLOW
        0xC00E001B MQ_ERROR_IO_TIMEOUT
        0xC00E001C MQ_ERROR_ILLEGAL_CURSOR_ACTION
        0xC00E001D MQ_ERROR_MESSAGE_ALREADY_RECEIVED
        0xC00E001E MQ_ERROR_ILLEGAL_FORMATNAME
        0xC00E001F MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL
        0xC00E0020 MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        0xC00E0021 MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR
        0xC00E0022 MQ_ERROR_SENDERID_BUFFER_TOO_SMALL
        0xC00E0023 MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL
        0xC00E0024 MQ_ERROR_CANNOT_IMPERSONATE_CLIENT
        0xC00E0025 MQ_ERROR_ACCESS_DENIED
        0xC00E0026 MQ_ERROR_PRIVILEGE_NOT_HELD
        0xC00E0027 MQ_ERROR_INSUFFICIENT_RESOURCES
        0xC00E0028 MQ_ERROR_USER_BUFFER_TOO_SMALL
        0xC00E002A MQ_ERROR_MESSAGE_STORAGE_FAILED
        0xC00E002B MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL
        0xC00E002C MQ_ERROR_INVALID_CERTIFICATE
        0xC00E002D MQ_ERROR_CORRUPTED_INTERNAL_CERTIFICATE
        0xC00E002E MQ_ERROR_INTERNAL_USER_CERT_EXIST
        0xC00E002F MQ_ERROR_NO_INTERNAL_USER_CERT
        0xC00E0030 MQ_ERROR_CORRUPTED_SECURITY_DATA
        0xC00E0031 MQ_ERROR_CORRUPTED_PERSONAL_CERT_STORE
        0xC00E0033 MQ_ERROR_COMPUTER_DOES_NOT_SUPPORT_ENCRYPTION
        0xC00E0035 MQ_ERROR_BAD_SECURITY_CONTEXT
        0xC00E0036 MQ_ERROR_COULD_NOT_GET_USER_SID
        0xC00E0037 MQ_ERROR_COULD_NOT_GET_ACCOUNT_INFO
        0xC00E0038 MQ_ERROR_ILLEGAL_MQCOLUMNS
        0xC00E0039 MQ_ERROR_ILLEGAL_PROPID
        0xC00E003A MQ_ERROR_ILLEGAL_RELATION
        0xC00E003B MQ_ERROR_ILLEGAL_PROPERTY_SIZE
        0xC00E003C MQ_ERROR_ILLEGAL_RESTRICTION_PROPID
        0xC00E003D MQ_ERROR_ILLEGAL_MQQUEUEPROPS
        0xC00E003E MQ_ERROR_PROPERTY_NOTALLOWED
        0xC00E003F MQ_ERROR_INSUFFICIENT_PROPERTIES
        0xC00E0040 MQ_ERROR_MACHINE_EXISTS
        0xC00E0041 MQ_ERROR_ILLEGAL_MQQMPROPS
        0xC00E0042 MQ_ERROR_DS_IS_FULL
        0xC00E0043 MQ_ERROR_DS_ERROR
        0xC00E0044 MQ_ERROR_INVALID_OWNER
        0xC00E0045 MQ_ERROR_UNSUPPORTED_ACCESS_MODE
        0xC00E0046 MQ_ERROR_RESULT_BUFFER_TOO_SMALL
        0xC00E0048 MQ_ERROR_DELETE_CN_IN_USE
        0xC00E0049 MQ_ERROR_NO_RESPONSE_FROM_OBJECT_SERVER
        0xC00E004A MQ_ERROR_OBJECT_SERVER_NOT_AVAILABLE
        0xC00E004B MQ_ERROR_QUEUE_NOT_AVAILABLE
        0xC00E004C MQ_ERROR_DTC_CONNECT
        0xC00E004E MQ_ERROR_TRANSACTION_IMPORT
        0xC00E0050 MQ_ERROR_TRANSACTION_USAGE
        0xC00E0051 MQ_ERROR_TRANSACTION_SEQUENCE
        0xC00E0055 MQ_ERROR_MISSING_CONNECTOR_TYPE
        0xC00E0056 MQ_ERROR_STALE_HANDLE
        0xC00E0058 MQ_ERROR_TRANSACTION_ENLIST
        0xC00E005A MQ_ERROR_QUEUE_DELETED
        0xC00E005B MQ_ERROR_ILLEGAL_CONTEXT
        0xC00E005C MQ_ERROR_ILLEGAL_SORT_PROPID
        0xC00E005D MQ_ERROR_LABEL_TOO_LONG
        0xC00E005E MQ_ERROR_LABEL_BUFFER_TOO_SMALL
        0xC00E005F MQ_ERROR_MQIS_SERVER_EMPTY
        0xC00E0060 MQ_ERROR_MQIS_READONLY_MODE
        0xC00E0061 MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL
        0xC00E0062 MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL
        0xC00E0063 MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL
        0xC00E0064 MQ_ERROR_ILLEGAL_OPERATION
        0xC00E0065 MQ_ERROR_WRITE_NOT_ALLOWED
        0xC00E0066 MQ_ERROR_WKS_CANT_SERVE_CLIENT
        0xC00E0067 MQ_ERROR_DEPEND_WKS_LICENSE_OVERFLOW
        0xC00E0068 MQ_CORRUPTED_QUEUE_WAS_DELETED
        0xC00E0069 MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE
        0xC00E006A MQ_ERROR_UNSUPPORTED_OPERATION
        0xC00E006B MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED
        0xC00E006C MQ_ERROR_CANNOT_SET_CRYPTO_SEC_DESCR
        0xC00E006D MQ_ERROR_CERTIFICATE_NOT_PROVIDED
        0xC00E006E MQ_ERROR_Q_DNS_PROPERTY_NOT_SUPPORTED
        0xC00E006F MQ_ERROR_CANNOT_CREATE_CERT_STORE
        0xC00E0070 MQ_ERROR_CANNOT_OPEN_CERT_STORE
        0xC00E0071 MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
        0xC00E0072 MQ_ERROR_CANNOT_GRANT_ADD_GUID
        0xC00E0073 MQ_ERROR_CANNOT_LOAD_MSMQOCM
        0xC00E0074 MQ_ERROR_NO_ENTRY_POINT_MSMQOCM
        0xC00E0075 MQ_ERROR_NO_MSMQ_SERVERS_ON_DC
        0xC00E0076 MQ_ERROR_CANNOT_JOIN_DOMAIN
        0xC00E0077 MQ_ERROR_CANNOT_CREATE_ON_GC
        0xC00E0078 MQ_ERROR_GUID_NOT_MATCHING
        0xC00E0079 MQ_ERROR_PUBLIC_KEY_NOT_FOUND
        0xC00E007A MQ_ERROR_PUBLIC_KEY_DOES_NOT_EXIST
        0xC00E007B MQ_ERROR_ILLEGAL_MQPRIVATEPROPS
        0xC00E007C MQ_ERROR_NO_GC_IN_DOMAIN
        0xC00E007D MQ_ERROR_NO_MSMQ_SERVERS_ON_GC
        0xC00E007E MQ_ERROR_CANNOT_GET_DN
        0xC00E007F MQ_ERROR_CANNOT_HASH_DATA_EX
        0xC00E0080 MQ_ERROR_CANNOT_SIGN_DATA_EX
        0xC00E0081 MQ_ERROR_CANNOT_CREATE_HASH_EX
        0xC00E0082 MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX
        0xC00E0083 MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
        0xC00E0084 MQ_ERROR_NO_MQUSER_OU
        0xC00E0085 MQ_ERROR_CANNOT_LOAD_MQAD
        0xC00E0086 MQ_ERROR_CANNOT_LOAD_MQDSSRV
        0xC00E0087 MQ_ERROR_PROPERTIES_CONFLICT
        0xC00E0088 MQ_ERROR_MESSAGE_NOT_FOUND
        0xC00E0089 MQ_ERROR_CANT_RESOLVE_SITES
        0xC00E008A MQ_ERROR_NOT_SUPPORTED_BY_DEPENDENT_CLIENTS
        0xC00E008B MQ_ERROR_OPERATION_NOT_SUPPORTED_BY_REMOTE_COMPUTER
        0xC00E008C MQ_ERROR_NOT_A_CORRECT_OBJECT_CLASS
        0xC00E008D MQ_ERROR_MULTI_SORT_KEYS
        0xC00E008E MQ_ERROR_GC_NEEDED
        0xC00E008F MQ_ERROR_DS_BIND_ROOT_FOREST
        0xC00E0090 MQ_ERROR_DS_LOCAL_USER
        0xC00E0091 MQ_ERROR_Q_ADS_PROPERTY_NOT_SUPPORTED
        0xC00E0092 MQ_ERROR_BAD_XML_FORMAT
        0xC00E0093 MQ_ERROR_UNSUPPORTED_CLASS
        0xC00E0094 MQ_ERROR_UNINITIALIZED_OBJECT
        0xC00E0095 MQ_ERROR_CANNOT_CREATE_PSC_OBJECTS
        0xC00E0096 MQ_ERROR_CANNOT_UPDATE_PSC_OBJECTS
        0xC00E0099 MQ_ERROR_RESOLVE_ADDRESS
        0xC00E009A MQ_ERROR_TOO_MANY_PROPERTIES
        0xC00E009B MQ_ERROR_MESSAGE_NOT_AUTHENTICATED
        0xC00E009C MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
        0xC00E0504 MQDS_UNKNOWN_SOURCE
        """.strip().splitlines()
    )
}

GROUPS = {
    errors.CallError: 11,
    errors.QueueStateError: 8,
    errors.QueueNameError: 6,
    errors.PropertyArrayError: 12,
    errors.QueryError: 10,
    errors.BufferTooSmallError: 9,
    errors.ReceiveError: 6,
    errors.AccessError: 9,
    errors.SecurityError: 19,
    errors.TransactionError: 6,
    errors.RemoteError: 9,
    errors.DirectoryError: 21,
    errors.LegacyError: 10,
}

VERSION_LIMITED = {
    "MQ_ERROR_DS_IS_FULL",
    "MQ_ERROR_DELETE_CN_IN_USE",
    "MQ_ERROR_MQIS_SERVER_EMPTY",
    "MQ_ERROR_MQIS_READONLY_MODE",
    "MQ_ERROR_CANNOT_LOAD_MSMQOCM",
    "MQ_ERROR_GUID_NOT_MATCHING",
    "MQ_ERROR_CANNOT_GET_DN",
}


def class_name(status: str) -> str:
    """How the class of a status is named."""
    if status == "MQ_ERROR":
        return "GenericError"
    for prefix in ("MQ_ERROR_", "MQDS_", "MQ_"):
        status = status.removeprefix(prefix) if status.startswith(prefix) else status
    return "".join(word.capitalize() for word in status.split("_")).removesuffix("Error") + "Error"


def test_the_table_has_the_145_published_codes() -> None:
    ours = STATUS | {member.name: member.value for member in Information}
    assert len(ours) == 145
    assert ours == PUBLISHED


@pytest.mark.spec("MQMQ-2.4-c")
def test_informational_codes_are_no_failures() -> None:
    assert sorted(Information) == [0x400E0000 + number for number in (1, 2, 3, 4, 5, 6, 9, 0xA, 0xB)]
    assert {member.name: PUBLISHED[member.name] for member in Information} == dict(Information.__members__)
    assert not any(map(errors.failed, Information))


@pytest.mark.spec("MQMQ-2.4-a")
def test_codes_are_hresults_of_facility_14() -> None:
    assert errors.MQ_OK == 0
    assert not errors.failed(errors.MQ_OK)
    for code in (*STATUS.values(), *Information):
        assert code & 0x1FFF0000 == 0x000E0000
    assert all(errors.failed(code) and code >> 16 == 0xC00E for code in STATUS.values())
    assert not any(errors.failed(code) or code >> 16 != 0x400E for code in Information)


@pytest.mark.parametrize("name", sorted(STATUS))
def test_every_error_code_has_its_class(name: str) -> None:
    cls = getattr(errors, class_name(name))
    error = error_for(PUBLISHED[name], "It was queue 7.")
    assert type(error) is cls
    assert (error.name, error.code) == (name, PUBLISHED[name])
    assert error.description.endswith(".")
    assert error.advice.endswith(".")
    assert str(error) == f"{name} (0x{error.code:08X}): {error.description} It was queue 7."
    assert sum(issubclass(cls, group) for group in GROUPS) == 1


def test_groups_have_the_size_of_their_rows() -> None:
    for group, size in GROUPS.items():
        assert len(group.__subclasses__()) == size
    assert sum(GROUPS.values()) == len(STATUS)


def test_informational_codes_are_described() -> None:
    assert all(member.description.endswith(".") for member in Information)


def test_a_code_outside_the_table_keeps_its_number() -> None:
    error = error_for(0x80070005, "from the peer")
    assert type(error) is errors.OtherStatusError
    assert error.code == 0x80070005
    assert "0x80070005" in str(error)
    assert "from the peer" in str(error)
    assert error.answer_code == 0x80070005
    assert errors.OtherStatusError.code == MQError.code


@pytest.mark.parametrize("code", [0, *Information])
def test_a_success_has_no_exception(code: int) -> None:
    with pytest.raises(ValueError, match="no failure"):
        error_for(code)


@pytest.mark.parametrize(
    "error", [errors.QueueDeletedError("now"), error_for(0x80070005), errors.NoDsError()]
)
def test_errors_survive_pickling(error: MQError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert (twin.code, twin.detail) == (error.code, error.detail)


@pytest.mark.spec("MQMQ-2.4-s")
def test_codes_of_msmq_1_and_2_are_not_returned_by_later_versions() -> None:
    limited = {name for name, code in STATUS.items() if error_for(code).last_version == 2}
    assert limited == VERSION_LIMITED
    silent = limited | {"MQ_ERROR_CANNOT_LOAD_MQDSSRV"}
    for name, code in STATUS.items():
        assert error_for(code).answer_code == (STATUS["MQ_ERROR"] if name in silent else code)


@pytest.mark.spec("MQMQ-2.4-p")
def test_legacy_codes_exist_and_the_obsolete_one_is_never_returned() -> None:
    legacy = {cls.name for cls in errors.LegacyError.__subclasses__()}
    assert legacy == {
        "MQ_ERROR_DELETE_CN_IN_USE",
        "MQ_ERROR_MQIS_SERVER_EMPTY",
        "MQ_ERROR_MQIS_READONLY_MODE",
        "MQ_ERROR_WRITE_NOT_ALLOWED",
        "MQ_ERROR_CANNOT_LOAD_MSMQOCM",
        "MQ_ERROR_NO_ENTRY_POINT_MSMQOCM",
        "MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS",
        "MQ_ERROR_CANNOT_LOAD_MQDSSRV",
        "MQ_ERROR_CANNOT_CREATE_PSC_OBJECTS",
        "MQ_ERROR_CANNOT_UPDATE_PSC_OBJECTS",
    }
    obsolete = error_for(0xC00E0086)
    assert obsolete.last_version == 0
    assert obsolete.answer_code == STATUS["MQ_ERROR"]


@pytest.mark.spec("MQMQ-2.4-q")
def test_unknown_source_of_a_directory_change() -> None:
    assert STATUS["MQDS_UNKNOWN_SOURCE"] == 0xC00E0504
    assert isinstance(error_for(0xC00E0504), errors.UnknownSourceError)


@pytest.mark.spec("MQMQ-1.7-a")
def test_published_codes_lack_the_customer_bit_and_ours_must_have_it() -> None:
    assert not any(code & CUSTOMER_BIT for code in PUBLISHED.values())
    with pytest.raises(ValueError, match="must carry 0x20000000"):
        type("Ours", (errors.VendorError,), {}, name="OURS", code=0xC00E0601)
    with pytest.raises(ValueError, match="must carry 0x20000000"):
        type("Ours", (errors.VendorError,), {}, name="OURS", code=0x200E0601)
    with pytest.raises(ValueError, match="no error code of MS-MQMQ"):
        type("Ours", (errors.CallError,), {}, name="OURS", code=0xE00E0601)
    with pytest.raises(ValueError, match="declared already"):
        type("Again", (errors.CallError,), {}, name="AGAIN", code=0xC00E0003)
    assert "OURS" not in STATUS


@pytest.mark.spec("DMPR-1.8-a", "MQRR-1.8-a")
def test_every_status_in_the_code_is_published_or_carries_the_customer_bit() -> None:
    """Scan all of the source: an integer of the MSMQ facility is a status, and so are the declared ones."""
    found = set()
    for path in Path(msmq.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and type(node.value) is int and _is_status(node.value):
                found.add(node.value)
    assert found >= set(PUBLISHED.values())
    for code in found | set(STATUS.values()):
        assert code in PUBLISHED.values() or code & CUSTOMER_BIT
    for name in STATUS.keys() & PUBLISHED.keys():
        assert STATUS[name] == PUBLISHED[name]


def _is_status(value: int) -> bool:
    return value <= 0xFFFFFFFF and value & 0x5FFF0000 == 0x400E0000


def test_exported_names() -> None:
    assert len(errors.__all__) == len(set(errors.__all__))
    for name in errors.__all__:
        assert hasattr(errors, name)
    classes = {cls.__name__ for cls in _tree(errors.MsmqError)}
    assert classes <= set(errors.__all__)
    assert all(group.__name__ in (errors.__doc__ or "") for group in GROUPS)


def _tree(cls: type[errors.MsmqError]) -> set[type[errors.MsmqError]]:
    children = [child for child in cls.__subclasses__() if child.__module__.startswith("msmq.errors")]
    return {cls}.union(*map(_tree, children))


def test_decode_error_tells_where() -> None:
    error = errors.DecodeError("too short", 12)
    assert (error.reason, error.offset, str(error)) == ("too short", 12, "too short (at offset 12)")
    assert str(errors.DecodeError("too short")) == "too short"
    assert issubclass(errors.EncodeError, ValueError)
