"""Properties of queues."""

from __future__ import annotations

import pytest

from msmq.errors import IllegalQueuePathnameError, Information, PropertyNotallowedError
from msmq.security.descriptor import SecurityDescriptor
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.names import MsmqVersion
from msmq.wire.properties import ObjectType, Use, check_properties, check_value
from msmq.wire.properties.queue import (
    NO_QUOTA_KB,
    Authenticate,
    Journal,
    PrivLevel,
    Scope,
    Transaction,
    accepts_authentication,
    accepts_privacy,
    accepts_transaction,
    within_quota,
)
from msmq.wire.variant import VT, Variant
from tests.wire.properties.support import (
    DESCRIPTOR,
    DISTINGUISHED_NAME,
    GUID,
    PATH,
    declared,
    default_of,
    judge,
    keeps,
    refuses,
)


def test_what_the_system_writes_is_read_only() -> None:
    for name, value in (
        ("PROPID_Q_INSTANCE", GUID),
        ("PROPID_Q_QMID", GUID),
        ("PROPID_Q_FULL_PATH", DISTINGUISHED_NAME),
        ("PROPID_Q_NAME_SUFFIX", "rest"),
    ):
        with pytest.raises(PropertyNotallowedError):
            judge(Use.SET, name, value)
        keeps(name, value)


@pytest.mark.spec("MQMQ-2.3.1.2-a")
def test_type_is_optional_and_can_change() -> None:
    path = Variant(VT.LPWSTR, PATH)
    assert check_properties(ObjectType.QUEUE, Use.CREATE, [103], [path]).statuses == (0,)
    keeps("PROPID_Q_TYPE", GUID, GUID[::-1])


@pytest.mark.spec("MQMQ-2.3.1.3-a")
def test_path_name_is_given_once() -> None:
    assert judge(Use.CREATE, "PROPID_Q_PATHNAME", PATH) == (0,)
    with pytest.raises(PropertyNotallowedError) as refused:
        judge(Use.SET, "PROPID_Q_PATHNAME", "srv\\other")
    assert refused.value.code == 0xC00E003E
    for bad in ("", "orders", "srv\\", "srv\\a\\b"):
        with pytest.raises(IllegalQueuePathnameError) as bad_syntax:
            judge(Use.CREATE, "PROPID_Q_PATHNAME", bad)
        assert bad_syntax.value.code == 0xC00E0014


@pytest.mark.spec("MQMQ-2.3.1.4-a")
def test_journal() -> None:
    assert (Journal.MQ_JOURNAL_NONE, Journal.MQ_JOURNAL) == (0, 1)
    keeps("PROPID_Q_JOURNAL", 0, 1)
    refuses("PROPID_Q_JOURNAL", 2, 255)
    assert default_of("PROPID_Q_JOURNAL") == 0


@pytest.mark.spec("MQMQ-2.3.1.5-a", "MQMQ-2.3.1.7-a", "MQMQ-2.3.2.14-a")
@pytest.mark.parametrize("name", ["PROPID_Q_QUOTA", "PROPID_Q_JOURNAL_QUOTA", "PROPID_QM_JOURNAL_QUOTA"])
def test_quotas_are_kilobytes_that_are_never_passed(name: str) -> None:
    """Messages of 700 bytes into a store of 2 kilobytes: the second fits, the third is refused."""
    keeps(name, 0, 2, 0xFFFFFFFF)
    held = 0
    refused = 0
    for _message in range(5):
        if within_quota(2, held, 700):
            held += 700
        else:
            refused += 1
    assert (held, refused) == (1400, 3)
    assert within_quota(2, 1400, 648)
    assert not within_quota(2, 1400, 649)
    assert not within_quota(0, 0, 1)


def test_without_a_quota_there_is_no_limit() -> None:
    assert default_of("PROPID_Q_QUOTA") == default_of("PROPID_Q_JOURNAL_QUOTA") == NO_QUOTA_KB
    assert within_quota(NO_QUOTA_KB, 2**60, 2**60)


@pytest.mark.spec("MQMQ-2.3.1.6-a")
def test_base_priority_of_a_public_queue() -> None:
    keeps("PROPID_Q_BASEPRIORITY", 32767, -32768, 0)
    assert default_of("PROPID_Q_BASEPRIORITY") == 0


@pytest.mark.spec("MQMQ-2.3.1.6-b")
def test_base_priority_of_a_private_queue_is_always_zero() -> None:
    five, path = Variant(VT.I2, 5), Variant(VT.LPWSTR, "srv\\private$\\q")
    created = check_properties(ObjectType.QUEUE, Use.CREATE, [106, 103], [five, path])
    assert created.statuses == (Information.MQ_INFORMATION_PROPERTY_IGNORED, 0)
    assert [row.id for row, _ in created.accepted] == [103]
    changed = check_properties(ObjectType.QUEUE, Use.SET, [106], [five], private=True)
    assert changed.statuses == (Information.MQ_INFORMATION_PROPERTY_IGNORED,)
    assert changed.accepted == ()


@pytest.mark.spec("MQMQ-2.3.1.8-a")
def test_label() -> None:
    keeps("PROPID_Q_LABEL", "", "x" * 124)
    refuses("PROPID_Q_LABEL", "x" * 125)


@pytest.mark.spec("MQMQ-2.3.1.9-a", "MQMQ-2.3.1.10-a")
def test_times_are_for_the_system_to_write() -> None:
    for name in ("PROPID_Q_CREATE_TIME", "PROPID_Q_MODIFY_TIME"):
        declared(name)
        with pytest.raises(PropertyNotallowedError):
            judge(Use.SET, name, 1)


@pytest.mark.spec("MQMQ-2.3.1.11-a")
def test_authenticate() -> None:
    keeps("PROPID_Q_AUTHENTICATE", 0, 1)
    refuses("PROPID_Q_AUTHENTICATE", 2)
    assert default_of("PROPID_Q_AUTHENTICATE") == 0
    assert not accepts_authentication(Authenticate.MQ_AUTHENTICATE, authenticated=False)
    assert accepts_authentication(Authenticate.MQ_AUTHENTICATE, authenticated=True)
    assert accepts_authentication(Authenticate.MQ_AUTHENTICATE_NONE, authenticated=False)
    assert accepts_authentication(Authenticate.MQ_AUTHENTICATE_NONE, authenticated=True)


@pytest.mark.spec("MQMQ-2.3.1.12-a")
def test_privacy_level() -> None:
    assert [level.value for level in PrivLevel] == [0, 1, 2]
    keeps("PROPID_Q_PRIV_LEVEL", 0, 1, 2)
    refuses("PROPID_Q_PRIV_LEVEL", 3)
    assert default_of("PROPID_Q_PRIV_LEVEL") == 1


@pytest.mark.spec("MQMQ-2.3.1.12-b")
@pytest.mark.parametrize(
    ("level", "takes_clear", "takes_encrypted"),
    [
        (PrivLevel.MQ_PRIV_LEVEL_NONE, True, False),
        (PrivLevel.MQ_PRIV_LEVEL_OPTIONAL, True, True),
        (PrivLevel.MQ_PRIV_LEVEL_BODY, False, True),
    ],
)
def test_privacy_is_enforced(level: PrivLevel, takes_clear: bool, takes_encrypted: bool) -> None:
    assert accepts_privacy(level, encrypted=False) is takes_clear
    assert accepts_privacy(level, encrypted=True) is takes_encrypted


@pytest.mark.spec("MQMQ-2.3.1.13-a")
def test_transaction() -> None:
    keeps("PROPID_Q_TRANSACTION", 0, 1)
    refuses("PROPID_Q_TRANSACTION", 2)
    assert default_of("PROPID_Q_TRANSACTION") == 0
    for level in Transaction:
        for transactional in (False, True):
            accepted = accepts_transaction(level, transactional)
            assert accepted is (transactional == (level is Transaction.MQ_TRANSACTIONAL))


@pytest.mark.spec("MQMQ-2.3.1.14-a")
def test_scope() -> None:
    assert (Scope.MQDS_SITESCOPE, Scope.MQDS_ENTERPRISESCOPE) == (0, 1)
    keeps("PROPID_Q_SCOPE", 0, 1)
    refuses("PROPID_Q_SCOPE", 2, 255)


@pytest.mark.spec("MQMQ-2.3.1.20-a")
def test_full_path() -> None:
    keeps("PROPID_Q_FULL_PATH", "CN=orders,CN=msmq,CN=srv,DC=corp")  # and refused for MSMQ 1.0 by declared()
    refuses("PROPID_Q_FULL_PATH", "orders", "")


def test_path_name_with_dns_name() -> None:
    keeps("PROPID_Q_PATHNAME_DNS", "host.domain\\q", "srv.corp.example\\private$\\q")
    refuses("PROPID_Q_PATHNAME_DNS", "srv\\q")
    refuses("PROPID_Q_PATHNAME_DNS", "srv.corp.example", error=IllegalQueuePathnameError)


@pytest.mark.spec("MQMQ-2.3.1.23-a")
def test_multicast_address() -> None:
    keeps("PROPID_Q_MULTICAST_ADDRESS", "234.1.1.1:8001")
    refuses("PROPID_Q_MULTICAST_ADDRESS", "192.168.1.1:80", "234.1.1.1", "234.1.1.1:65536")


@pytest.mark.spec("MQMQ-2.3.1.24-a")
def test_directory_path() -> None:
    keeps(
        "PROPID_Q_ADS_PATH",
        "LDAP://MyLDAPServer/CN=MyQueue,CN=msmq,CN=MyComp,CN=Computers,DC=MyDomain,DC=MyCompany,DC=COM",
    )
    refuses("PROPID_Q_ADS_PATH", "CN=MyQueue", "http://server/CN=MyQueue")


@pytest.mark.spec("MQMQ-2.3.1.27-a")
def test_security_information_chooses_the_parts() -> None:
    """The value 4 is DACL, and a descriptor updated with it changes in its DACL only."""
    row = declared("PROPID_Q_SECURITY_INFORMATION")
    check_value(row, Variant(VT.UI4, 4))
    refuses("PROPID_Q_SECURITY_INFORMATION", 0x10, 0x80000000)
    old = SecurityDescriptor.decode(DESCRIPTOR)
    new = old.update(SecurityInformation(4), SecurityDescriptor())
    assert new.dacl is None
    assert old.dacl is not None
    assert (new.owner, new.group, new.sacl) == (old.owner, old.group, old.sacl)


def test_a_path_is_read_by_the_grammar_of_the_version() -> None:
    row = declared("PROPID_Q_PATHNAME")
    check_value(row, Variant(VT.LPWSTR, "srv\\a,b"), version=MsmqVersion.V1)
    with pytest.raises(IllegalQueuePathnameError):
        check_value(row, Variant(VT.LPWSTR, "srv\\a,b"), version=MsmqVersion.V2)
