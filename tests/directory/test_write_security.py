"""Who may change what in the directory: security descriptors that are written."""

from __future__ import annotations

from uuid import uuid4

import pytest

from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass, by_identifier
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from tests.directory.support import Domain, read, write

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
REPLACE = 2
RANDOM = uuid4().bytes_le
ALICE = "CN=alice,CN=Users,DC=msmq,DC=test"


# --- security -----------------------------------------------------------------------------------------------

LOOK = Ace(AceType.ACCESS_ALLOWED, 0x20020, EVERYONE)


def sid_of(domain: Domain, dn: str) -> Sid:
    return Sid.decode(domain.look(dn, "objectSid")["objectSid"][0])


def mask_of(security: bytes, sid: Sid) -> int:
    dacl = SecurityDescriptor.decode(security).dacl
    assert dacl is not None
    mask = 0
    for ace in dacl.aces:
        mask |= ace.mask if ace.sid == sid else 0
    return mask


@pytest.mark.spec("DSSM-3.1.6.17-b", "DSSM-3.1.6.17-c", "DSSM-3.1.6.7.2.3-a", "DSSM-3.1.6.7.2-a")
def test_the_descriptor_of_a_queue_is_written_separately(domain: Domain) -> None:
    item = domain.queue(domain.queue_manager().attributes["computer_name"])
    alice = sid_of(domain, ALICE)
    security = SecurityDescriptor(dacl=Acl.of(LOOK, Ace(AceType.ACCESS_ALLOWED, 0x3, alice))).encode()
    domain.trace.clear()
    assert (
        write(domain, ObjectClass.QUEUE, identifier=item.identifier, label="x", security=security) is SUCCESS
    )
    first, second = domain.trace.sent("modifyRequest")
    assert set(first.fields) == {"mSMQLabelEx"}
    assert set(second.fields) == {"nTSecurityDescriptor"}
    assert second.controls == ["1.2.840.113556.1.4.801"]
    assert domain.trace.operations[-4:] == ["searchRequest"] * 3 + ["modifyRequest"]
    assert "nTSecurityDescriptor" in domain.trace.sent("searchRequest")[-1].fields["filter"]
    stored = read(domain, ObjectClass.QUEUE, item.identifier, "security")["security"]
    assert mask_of(stored, alice) == 0x3
    assert mask_of(stored, EVERYONE) == 0x20020


@pytest.mark.spec("DSSM-3.1.6.7.1.3-a", "DSSM-3.1.6.7.1.2-c")
def test_the_descriptor_of_a_queue_manager(domain: Domain) -> None:
    item = domain.queue_manager()
    alice = sid_of(domain, ALICE)
    security = SecurityDescriptor(dacl=Acl.of(LOOK, Ace(AceType.ACCESS_ALLOWED, 0x4, alice))).encode()
    domain.trace.clear()
    values = {"identifier": item.identifier, "security": security}
    assert write(domain, ObjectClass.QUEUE_MANAGER, "security", **values) is SUCCESS
    assert [set(request.fields) for request in domain.trace.sent("modifyRequest")] == [
        {"nTSecurityDescriptor"}
    ]
    stored = read(domain, ObjectClass.QUEUE_MANAGER, item.identifier, "security")["security"]
    assert mask_of(stored, alice) == 0x4


@pytest.mark.spec("DSSM-3.1.6.7.4.3-a")
def test_the_descriptor_of_a_site(domain: Domain) -> None:
    name, identifier = domain.site()
    alice = sid_of(domain, ALICE)
    security = SecurityDescriptor(dacl=Acl.of(LOOK, Ace(AceType.ACCESS_ALLOWED, 0x10, alice))).encode()
    assert write(domain, ObjectClass.SITE, name=name, security=security) is SUCCESS
    stored = SecurityDescriptor.decode(
        read(domain, ObjectClass.SITE, identifier, "security")["security"]
    ).dacl
    assert stored is not None
    own = [(ace.type, ace.mask, ace.sid) for ace in stored.aces if not ace.flags & AceFlags.INHERITED]
    given = (LOOK, Ace(AceType.ACCESS_ALLOWED, 0x10, alice))
    assert sorted(own, key=str) == sorted(((ace.type, ace.mask, ace.sid) for ace in given), key=str)
    assert len(own) < len(stored.aces)


@pytest.mark.spec("DSSM-3.1.6.1.1.8-i", "DSSM-2.2.6-e", "DSSM-5.1-b")
def test_an_ordinary_user_may_look_and_not_change(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    security = SecurityDescriptor(dacl=Acl.of(LOOK)).encode()
    item = domain.queue(host, label="mine", security=security)
    alice = domain.directory_as("alice")
    result, found = alice.read(ObjectClass.QUEUE, by_identifier(item.identifier), ["label"])
    assert result is SUCCESS
    assert found is not None
    assert found.attributes == {"label": "mine"}
    change = DirectoryObject(ObjectClass.QUEUE, {"identifier": item.identifier, "label": "hers"})
    assert alice.write(change, None, None) is GENERIC
    assert "(50)" in alice.last_failure
    assert domain.look(item.attributes["full_path"])["mSMQLabelEx"] == [b"mine"]
    parent = DirectoryObject(ObjectClass.QUEUE_MANAGER, {"computer_name": host})
    assert domain.directory.delete(parent, None) is GENERIC


@pytest.mark.spec("DSSM-3.1.6.17-d")
def test_an_owner_changes_the_descriptor_without_any_privilege(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    alice = sid_of(domain, ALICE)
    everything = Ace(AceType.ACCESS_ALLOWED, 0xF003F, alice)
    item = domain.queue(host, security=SecurityDescriptor(dacl=Acl.of(LOOK, everything)).encode())
    directory = domain.directory_as("alice")
    result, found = directory.read(ObjectClass.QUEUE, by_identifier(item.identifier), ["security"])
    assert result is SUCCESS
    assert found is not None
    old = SecurityDescriptor.decode(found.attributes["security"])
    assert old.dacl is not None
    bob = sid_of(domain, ALICE.replace("alice", "bob"))
    aces = (*old.dacl.aces, Ace(AceType.ACCESS_ALLOWED, 0x4, bob))
    changed = SecurityDescriptor(old.owner, old.group, Acl.of(*aces)).encode()
    wanted = DirectoryObject(ObjectClass.QUEUE, {"identifier": item.identifier, "security": changed})
    assert directory.write(wanted, ["security"], None) is SUCCESS, directory.last_failure
    assert mask_of(read(domain, ObjectClass.QUEUE, item.identifier, "security")["security"], bob) == 0x4
