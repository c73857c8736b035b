"""Properties and security of queues and of the queue manager: reading, changing, keeping."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import (
    AccessDeniedError,
    IllegalMqqmpropsError,
    IllegalMqqueuepropsError,
    IllegalOperationError,
    IllegalPropertyValueError,
    IllegalPropertyVtError,
    IllegalPropidError,
    IllegalSecurityDescriptorError,
    Information,
    InvalidOwnerError,
    MQError,
    NoDsError,
    PrivilegeNotHeldError,
    PropertyNotallowedError,
)
from msmq.manager.model import OperatingSystemType, QueuePrivacyLevel, QueueType
from msmq.manager.queues.management import format_name
from msmq.manager.queues.properties import MACHINE, QUEUE
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Privilege, Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, EVERYONE, Sid
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.guid import guid_text
from msmq.wire.names import MsmqVersion, PublicName
from msmq.wire.properties import ObjectType, check_value, lookup
from msmq.wire.properties.machine import OperatingSystem
from msmq.wire.variant import VT, Variant
from tests.manager.domain import DomainHost
from tests.manager.support import NOON, Host

USER = Sid.parse("S-1-5-21-1-2-3-1001")
ADMINISTRATOR = Token.authenticated(USER, [ADMINISTRATORS])
AUDITOR = Token(USER, frozenset({ADMINISTRATORS, EVERYONE}), frozenset({Privilege.SECURITY}))
OWNER, DACL, SACL = SecurityInformation.OWNER, SecurityInformation.DACL, SecurityInformation.SACL
LIST = Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x4, EVERYONE))

JOURNAL, QUOTA, BASE_PRIORITY, JOURNAL_QUOTA, LABEL, MODIFY_TIME = 104, 105, 106, 107, 108, 110
AUTHENTICATE, PRIV_LEVEL, TRANSACTION, MULTICAST = 111, 112, 113, 125


# --- queues ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.2-c", "MQMQ-2.3.1.9-a", "MQMQ-2.3.1.10-a")
def test_times(host: Host) -> None:
    queue = host.queue()
    assert (queue.create_time, queue.modify_time) == (NOON, NOON)
    host.advance(60)
    host.manager.administration.set_properties(queue, [LABEL], [Variant(VT.LPWSTR, "new")])
    host.restart()
    found = host.find()
    assert (found.label, found.create_time, found.modify_time) == ("new", NOON, NOON + 60)
    times = host.manager.administration.get_properties(found, [109, 110])
    assert times == (Variant(VT.I4, NOON), Variant(VT.I4, NOON + 60))


def test_everything_that_can_be_changed(host: Host) -> None:
    values = {
        102: Variant(VT.CLSID, bytes(range(16))),
        JOURNAL: Variant(VT.UI1, 1),
        QUOTA: Variant(VT.UI4, 11),
        JOURNAL_QUOTA: Variant(VT.UI4, 12),
        LABEL: Variant(VT.LPWSTR, "label"),
        AUTHENTICATE: Variant(VT.UI1, 1),
        PRIV_LEVEL: Variant(VT.UI4, 2),
        MULTICAST: Variant(VT.LPWSTR, "234.1.1.1:8001"),
    }
    administration = host.manager.administration
    statuses = administration.set_properties(host.queue(), [*values], [*values.values()], ADMINISTRATOR)
    assert set(statuses) == {0}
    host.restart()
    queue = host.find()
    assert host.manager.administration.get_properties(queue, [*values]) == tuple(values.values())
    assert (queue.journaling, queue.authentication) == (True, True)
    assert queue.privacy_level is QueuePrivacyLevel.BODY


def test_a_label_has_at_most_124_characters(host: Host) -> None:
    queues = host.manager.queues
    queue = queues.create(QueueRequest(".\\private$\\labelled", label="x" * 124))
    with pytest.raises(IllegalPropertyValueError):
        queues.create(QueueRequest(".\\private$\\too_long", label="x" * 125))
    with pytest.raises(IllegalPropertyValueError):
        queues.change(queue, label="x" * 125)
    assert queue.label == "x" * 124


def test_quotas_apply_at_once(host: Host) -> None:
    queue = host.queue()
    host.send(queue, bytes(2000))
    host.manager.administration.set_properties(queue, [QUOTA], [Variant(VT.UI4, 1)])
    assert queue.quota_kb == 1
    with pytest.raises(AssertionError):
        host.send(queue)


def test_base_priority_is_for_public_queues(host: Host, domain: DomainHost) -> None:
    value = Variant(VT.I2, 7)
    queue = host.queue()
    ignored = int(Information.MQ_INFORMATION_PROPERTY_IGNORED)
    assert host.manager.administration.set_properties(queue, [BASE_PRIORITY], [value]) == (ignored,)
    assert queue.base_priority == 0
    public = domain.manager.queues.create(QueueRequest(".\\q"))
    assert domain.manager.administration.set_properties(public, [BASE_PRIORITY], [value]) == (0,)
    assert public.base_priority == 7


@pytest.mark.parametrize(
    ("propid", "value", "error"),
    [
        (103, Variant(VT.LPWSTR, "HOST\\private$\\other"), PropertyNotallowedError),
        (TRANSACTION, Variant(VT.UI1, 1), PropertyNotallowedError),
        (114, Variant(VT.UI1, 0), PropertyNotallowedError),
        (116, Variant(VT.CLSID, bytes(16)), PropertyNotallowedError),
        (1102, Variant(VT.BLOB, SecurityDescriptor().encode()), PropertyNotallowedError),
        (QUOTA, Variant(VT.UI1, 1), IllegalPropertyVtError),
        (JOURNAL, Variant(VT.UI1, 2), IllegalPropertyValueError),
        (LABEL, Variant(VT.LPWSTR, "x" * 125), IllegalPropertyValueError),
        (9999, Variant(VT.UI1, 2), IllegalPropidError),
    ],
)
def test_one_fault_and_nothing_is_changed(
    host: Host, propid: int, value: Variant, error: type[Exception]
) -> None:
    queue = host.queue()
    host.advance(1)
    with pytest.raises(error):
        host.manager.administration.set_properties(
            queue, [QUOTA, propid], [Variant(VT.UI4, 5), value] if propid != QUOTA else [value, value]
        )
    assert (queue.quota_kb, queue.modify_time) == (0xFFFFFFFF, NOON)


def test_parts_of_a_queue_have_no_properties_to_change(host: Host) -> None:
    queue = host.queue()
    dead = host.manager.core.dead_letter_queue
    assert dead is not None
    for part in (queue.journal, host.manager.queues.subqueue(queue, "sub"), dead):
        assert part is not None
        with pytest.raises(IllegalOperationError):
            host.manager.administration.set_properties(part, [LABEL], [Variant(VT.LPWSTR, "x")])


@pytest.mark.parametrize("propid", sorted({*QUEUE, 115, 116, 123}))
def test_every_property_reads_as_its_type(host: Host, propid: int) -> None:
    (value,) = host.manager.administration.get_properties(host.queue(), [propid])
    assert value.vt in (lookup(ObjectType.QUEUE, propid).vt, VT.EMPTY)


@pytest.mark.spec("MQMQ-2.2.24-g")
def test_properties_are_shown_to_whom_the_queue_lets_see_them(host: Host) -> None:
    queue, stranger = host.queue(), Token.authenticated(USER)
    queue.security = SecurityDescriptor(ADMINISTRATORS, dacl=LIST).encode()  # which lets send and no more
    with pytest.raises(AccessDeniedError):
        host.manager.administration.get_properties(queue, [LABEL], stranger)
    seeing = Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20, EVERYONE))
    queue.security = SecurityDescriptor(ADMINISTRATORS, dacl=seeing).encode()
    assert host.manager.administration.get_properties(queue, [LABEL], stranger)


def test_properties_of_the_manager_are_shown_to_whom_it_lets_see_them(host: Host) -> None:
    administration, stranger = host.manager.administration, Token.authenticated(USER)
    shown = administration.get_manager_properties([222], stranger)
    assert shown == administration.get_manager_properties([222])
    nothing = SecurityDescriptor(ADMINISTRATORS, dacl=Acl.of())
    administration.set_manager_security(DACL, nothing.encode(), ADMINISTRATOR)
    with pytest.raises(AccessDeniedError):
        administration.get_manager_properties([222], stranger)


def test_nothing_asked_for_is_a_mistake(host: Host) -> None:
    with pytest.raises(IllegalMqqueuepropsError):
        host.manager.administration.get_properties(host.queue(), [])
    with pytest.raises(IllegalMqqmpropsError):
        host.manager.administration.get_manager_properties([])


def test_security_is_not_read_as_a_property(host: Host) -> None:
    with pytest.raises(PropertyNotallowedError):
        host.manager.administration.get_properties(host.queue(), [1102])
    with pytest.raises(PropertyNotallowedError):
        host.manager.administration.get_manager_properties([1201])


@pytest.mark.spec("MQMQ-2.3.1.1-a")
def test_the_instance_is_the_guid_of_the_public_name(domain: DomainHost) -> None:
    queue = domain.manager.queues.create(QueueRequest(".\\q"))
    (instance,) = domain.manager.administration.get_properties(queue, [101])
    assert instance.vt == 0x0048
    assert isinstance(instance.value, bytes)
    assert format_name(domain.core, queue) == str(PublicName(instance.value))
    assert guid_text(instance.value) in format_name(domain.core, queue)


@pytest.mark.spec("MQMQ-2.3.1.15-a")
def test_the_queue_manager_of_a_queue(host: Host) -> None:
    administration = host.manager.administration
    (host_of_queue,) = administration.get_properties(host.queue(), [115])
    (own,) = administration.get_manager_properties([202])
    assert host_of_queue.vt == 0x0048
    assert host_of_queue == own
    assert own.value == host.manager.core.record.identifier


def test_public_queues_are_changed_in_the_directory_first(domain: DomainHost) -> None:
    queue = domain.manager.queues.create(QueueRequest(".\\q"))
    assert queue.queue_type is QueueType.PUBLIC
    administration = domain.manager.administration
    administration.set_properties(queue, [LABEL], [Variant(VT.LPWSTR, "new")])
    item = next(one for one in domain.directory.objects if one.attributes.get("pathname") == "HOST\\q")
    assert item.attributes["label"] == "new"
    domain.directory.connected = False
    with pytest.raises(NoDsError):
        administration.set_properties(queue, [LABEL], [Variant(VT.LPWSTR, "newer")])
    assert queue.label == "new"


# --- security -------------------------------------------------------------------------------------------------


def test_security_is_changed_part_by_part(host: Host) -> None:
    queue = host.queue()
    administration = host.manager.administration
    before = SecurityDescriptor.decode(queue.security)
    given = SecurityDescriptor(owner=USER, group=USER, dacl=LIST)
    host.advance(5)
    administration.set_security(queue, DACL, given.encode(), ADMINISTRATOR)
    assert queue.modify_time == NOON + 5
    host.restart()
    kept = SecurityDescriptor.decode(host.find().security)
    assert (kept.owner, kept.group, kept.dacl) == (before.owner, before.group, LIST)
    administration = host.manager.administration
    administration.set_security(host.find(), OWNER, given.encode())
    kept = SecurityDescriptor.decode(administration.get_security(host.find()))
    assert (kept.owner, kept.group, kept.dacl) == (USER, before.group, LIST)
    only = SecurityDescriptor.decode(administration.get_security(host.find(), OWNER))
    assert (only.owner, only.group, only.dacl) == (USER, None, None)


def test_journals_and_subqueues_show_the_security_of_their_queue(host: Host) -> None:
    queue = host.queue()
    administration = host.manager.administration
    for member in queue.family:
        assert administration.get_security(member) == administration.get_security(queue)


def test_ownership_is_taken_and_not_given(host: Host) -> None:
    queue = host.queue()
    stranger = SecurityDescriptor(owner=Sid.parse("S-1-5-21-1-2-3-9"), dacl=LIST).encode()
    with pytest.raises(InvalidOwnerError) as refused:
        host.manager.administration.set_security(queue, OWNER, stranger, ADMINISTRATOR)
    assert refused.value.code == 0xC00E0044
    with pytest.raises(InvalidOwnerError):
        host.manager.administration.set_security(queue, OWNER, SecurityDescriptor(dacl=LIST).encode())
    own = SecurityDescriptor(owner=USER).encode()
    host.manager.administration.set_security(queue, OWNER, own, ADMINISTRATOR)
    assert SecurityDescriptor.decode(queue.security).owner == USER


def test_the_audit_list_needs_the_privilege(host: Host) -> None:
    queue = host.queue()
    administration = host.manager.administration
    audit = SecurityDescriptor(sacl=Acl.of(Ace(AceType.SYSTEM_AUDIT, 0x4, EVERYONE)))
    for call in (
        lambda token: administration.set_security(queue, SACL, audit.encode(), token),
        lambda token: administration.get_security(queue, SACL, token),
        lambda token: administration.set_manager_security(SACL, audit.encode(), token),
        lambda token: administration.get_manager_security(SACL, token),
    ):
        with pytest.raises(PrivilegeNotHeldError):
            call(ADMINISTRATOR)
        call(AUDITOR)
    assert SecurityDescriptor.decode(queue.security).sacl == audit.sacl


def test_what_is_no_descriptor(host: Host) -> None:
    queue = host.queue()
    for data in (b"", b"nonsense" * 5):
        with pytest.raises(IllegalSecurityDescriptorError):
            host.manager.administration.set_security(queue, DACL, data)
        with pytest.raises(IllegalSecurityDescriptorError):
            host.manager.administration.set_manager_security(DACL, data)


# --- the queue manager ----------------------------------------------------------------------------------------


def test_the_manager_is_changed_and_remembers(host: Host) -> None:
    administration = host.manager.administration
    host.advance(9)
    values = [Variant(VT.UI4, 100), Variant(VT.UI4, 50)]
    assert administration.set_manager_properties([214, 215], values, ADMINISTRATOR) == (0, 0)
    administration.set_manager_security(DACL, SecurityDescriptor(dacl=LIST).encode(), ADMINISTRATOR)
    host.restart()
    record = host.manager.core.record
    assert (record.queue_manager_quota_kb, record.journal_quota_kb) == (100, 50)
    assert record.modify_time == NOON + 9
    assert SecurityDescriptor.decode(record.security).dacl == LIST
    assert host.manager.administration.get_manager_properties([214, 215]) == tuple(values)
    times = host.manager.administration.get_manager_properties([217, 218])
    assert times == (Variant(VT.I4, NOON), Variant(VT.I4, NOON + 9))


def test_the_manager_in_a_domain_is_changed_in_the_directory(domain: DomainHost) -> None:
    administration = domain.manager.administration
    administration.set_manager_properties([214], [Variant(VT.UI4, 100)])
    assert domain.own.attributes["queue_manager_quota_kb"] == 100
    domain.directory.connected = False
    with pytest.raises(NoDsError):
        administration.set_manager_properties([214], [Variant(VT.UI4, 200)])
    assert domain.core.record.queue_manager_quota_kb == 100


@pytest.mark.spec("MQMQ-2.3.1.22-a")
def test_the_path_name_with_the_dns_name_of_its_host(domain: DomainHost) -> None:
    queue = domain.manager.queues.create(QueueRequest(".\\orders"))
    administration = domain.manager.administration
    (value,) = administration.get_properties(queue, [124])
    assert value == Variant(VT.LPWSTR, f"{domain.core.record.qualified_computer_name}\\orders")
    assert "." in domain.core.record.qualified_computer_name
    with pytest.raises(PropertyNotallowedError):
        administration.set_properties(queue, [124], [Variant(VT.LPWSTR, "other.example\\orders")])
    row = lookup(ObjectType.QUEUE, 124)
    assert (row.name, row.vt, row.since) == ("PROPID_Q_PATHNAME_DNS", VT.LPWSTR, MsmqVersion.V2)
    for text in ("host\\q", "host.example"):
        with pytest.raises(MQError):
            check_value(row, Variant(VT.LPWSTR, text))


@pytest.mark.spec("MQMQ-2.3.2.19-a")
def test_the_operating_system_of_a_host(host: Host) -> None:
    codes = {"NONE": 0, "FOREIGN": 0x100, "95": 0x200, "NTW": 0x300, "NTS": 0x400, "NTE": 0x500}
    assert {f"MSMQ_OS_{name}": code for name, code in codes.items()} == {
        each.name: each.value for each in OperatingSystem
    }
    for kind, code in zip(OperatingSystemType, (0x100, 0x200, 0x300, 0x400, 0x500, 0), strict=True):
        host.manager.core.record.operating_system_type = kind
        (value,) = host.manager.administration.get_manager_properties([220])
        assert value == Variant(VT.UI4, code)


@pytest.mark.spec("MQMQ-2.3.1.23-b")
@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("224.0.0.0:0", True),
        ("239.255.255.255:65535", True),
        ("223.255.255.255:80", False),
        ("240.0.0.0:80", False),
        ("234.1.1.1:65536", False),
        ("234.1.1.1", False),
    ],
)
def test_the_range_of_multicast_addresses(host: Host, address: str, taken: bool) -> None:
    queue = host.queue()
    for use in (
        lambda: host.queue("other", multicast_address=address),
        lambda: host.manager.administration.set_properties(queue, [125], [Variant(VT.LPWSTR, address)]),
    ):
        if taken:
            use()
        else:
            with pytest.raises(IllegalPropertyValueError):
                use()
    assert (queue.multicast_address == address) is taken


@pytest.mark.parametrize("propid", [201, 203, 220, 242])
def test_what_the_host_is_cannot_be_set(host: Host, propid: int) -> None:
    vt = lookup(ObjectType.MACHINE, propid).vt
    value: Any = {VT.CLSID: bytes(16), VT.LPWSTR: "OTHER", VT.UI4: 0x100, VT.UI1: 0}[VT(vt)]
    with pytest.raises(PropertyNotallowedError):
        host.manager.administration.set_manager_properties([propid], [Variant(vt, value)])


@pytest.mark.parametrize("propid", sorted({*MACHINE, 210}))
def test_every_property_of_the_manager_reads_as_its_type(domain: DomainHost, propid: int) -> None:
    (value,) = domain.manager.administration.get_manager_properties([propid])
    assert value.vt in (lookup(ObjectType.MACHINE, propid).vt, VT.EMPTY)
