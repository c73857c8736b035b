"""Rights on the objects of the directory, tried by a user who has all of them but one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.rights import CREATE_CHILD, LIST_OBJECT, READ_PROPERTY, WRITE_PROPERTY
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass, by_identifier
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import Sid
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.certificates import UserSignCert, UserSignCerts
from tests.directory.support import Domain

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
DACL = int(SecurityInformation.DACL)


@dataclass
class User:
    sid: Sid
    directory: ActiveDirectory


def user(domain: Domain) -> User:
    """Somebody new, who may nothing."""
    name = domain.name("user")
    domain.controller.tool("user", "create", name, "P@ssw0rd!msmq")
    sid = domain.look(f"CN={name},CN=Users,DC=msmq,DC=test", "objectSid")["objectSid"][0]
    return User(Sid.decode(sid), domain.directory_as(name))


def entry(domain: Domain, dn: str, sid: Sid, mask: int, kind: AceType = AceType.ACCESS_ALLOWED) -> None:
    """Put an entry in front of an object's access list, as an administrator does."""
    hand = domain.hand
    with hand.use():
        (found,) = hand.search(dn, attributes=["nTSecurityDescriptor"])
        old = SecurityDescriptor.decode(found.get("nTSecurityDescriptor")[0])
        assert old.dacl is not None
        new = replace(old, owner=None, group=None, dacl=Acl.of(Ace(kind, mask, sid), *old.dacl.aces))
        hand.replace(dn, {"nTSecurityDescriptor": [new.encode()]}, descriptor_parts=DACL)


def certificates() -> bytes:
    return UserSignCerts((UserSignCert.of(b"certificate", bytes(16)),)).encode()


RIGHTS = ("create on computer", "write on computer", "create on server")


@pytest.mark.spec("DSSM-5.1.1-a")
@pytest.mark.parametrize("missing", ["none of them", *RIGHTS])
def test_who_creates_a_queue_manager_needs_three_rights(domain: Domain, missing: str) -> None:
    somebody = user(domain)
    name, site = domain.site()
    computer = domain.computer()
    server = domain.server(computer, name)
    path = domain.directory.objects.names.computer(computer)
    places = {
        RIGHTS[0]: (path, CREATE_CHILD),
        RIGHTS[1]: (path, WRITE_PROPERTY),
        RIGHTS[2]: (server, CREATE_CHILD),
    }
    for right, (dn, mask) in places.items():
        if right != missing:
            entry(domain, dn, somebody.sid, mask)
    values: dict[str, Any] = {
        "computer_name": computer,
        "site_identifier_list": (site,),
        "routing_server": True,
        "directory_server": False,
        "supporting_server": False,
        "public_signing_key_list": certificates(),
    }
    item = DirectoryObject(ObjectClass.QUEUE_MANAGER, values)
    result, _ = somebody.directory.create(item, None, None)
    if missing == "none of them":
        assert result is SUCCESS, somebody.directory.last_failure
        assert domain.exists(domain.directory.objects.names.settings(computer, name))
    else:
        assert result is GENERIC
        assert "(50)" in somebody.directory.last_failure
        refused = {RIGHTS[0]: f"CN=msmq,{path}", RIGHTS[2]: f"CN=MSMQ Settings,{server}"}.get(missing)
        assert refused is None or not domain.exists(refused)
        assert "mSMQSignCertificates" not in domain.look(path) or missing == RIGHTS[2]


@pytest.mark.spec("DSSM-5.1.1-c")
def test_a_computer_that_only_others_may_read(domain: Domain) -> None:
    somebody = user(domain)
    item = domain.queue_manager(queue_manager_quota_kb=77)
    computer = domain.directory.objects.names.computer(item.attributes["computer_name"])
    entry(domain, computer, somebody.sid, READ_PROPERTY | LIST_OBJECT, AceType.ACCESS_DENIED)
    own = by_identifier(item.identifier)
    result, found = somebody.directory.read(ObjectClass.QUEUE_MANAGER, own, ["queue_manager_quota_kb"])
    assert result is SUCCESS, somebody.directory.last_failure
    assert found is not None
    assert found.attributes["queue_manager_quota_kb"] == 77
    assert somebody.directory.read(ObjectClass.QUEUE_MANAGER, own, ["clustered"])[0] is not SUCCESS
    assert domain.directory.read(ObjectClass.QUEUE_MANAGER, own, ["clustered"])[0] is SUCCESS
    # Writing needs its own right on each of the two.
    change = DirectoryObject(
        ObjectClass.QUEUE_MANAGER, {"identifier": item.identifier, "queue_manager_quota_kb": 78}
    )
    assert somebody.directory.write(change, ("queue_manager_quota_kb",), None) is GENERIC
    entry(domain, item.attributes["full_path"], somebody.sid, WRITE_PROPERTY)
    assert somebody.directory.write(change, ("queue_manager_quota_kb",), None) is SUCCESS


@pytest.mark.spec("DSSM-3.1.6.7.1.3-c")
@pytest.mark.parametrize("key", ["identifier", "full_path", "computer_name"])
def test_certificates_are_written_to_the_computer_by_those_who_may(domain: Domain, key: str) -> None:
    somebody = user(domain)
    item = domain.queue_manager()
    computer = domain.directory.objects.names.computer(item.attributes["computer_name"])
    entry(domain, item.attributes["full_path"], somebody.sid, WRITE_PROPERTY)
    values = {
        key: item.attributes[key],
        "public_signing_key_list": certificates(),
        "queue_manager_quota_kb": 5,
    }
    change = DirectoryObject(ObjectClass.QUEUE_MANAGER, values)
    listed = ("public_signing_key_list", "queue_manager_quota_kb")
    assert somebody.directory.write(change, listed, None) is GENERIC
    assert "(50)" in somebody.directory.last_failure
    assert "mSMQSignCertificates" not in domain.look(computer)
    entry(domain, computer, somebody.sid, WRITE_PROPERTY)
    assert somebody.directory.write(change, listed, None) is SUCCESS, somebody.directory.last_failure
    seen = domain.look(computer)
    assert seen["mSMQSignCertificates"] == [certificates()]
    digests = [known.digest for known in UserSignCerts.decode(certificates()).certificates]
    assert seen["mSMQDigests"] == digests


@pytest.mark.spec("DSSM-3.1.6.7.4-a")
def test_a_site_is_modified_before_its_descriptor(domain: Domain) -> None:
    name, identifier = domain.site()
    security = SecurityDescriptor(dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20, user(domain).sid))).encode()
    domain.trace.clear()
    values = {"name": name, "security": security, "foreign_site": True}
    change = DirectoryObject(ObjectClass.SITE, values)
    assert domain.directory.write(change, ("security", "foreign_site"), None) is SUCCESS
    sent = [set(request.fields) for request in domain.trace.sent("modifyRequest")]
    assert sent == [{"mSMQSiteForeign"}, {"nTSecurityDescriptor"}]
    result, found = domain.directory.read(ObjectClass.SITE, by_identifier(identifier), ("foreign_site",))
    assert result is SUCCESS
    assert found is not None
    assert found.attributes["foreign_site"] is True


_connections: list[Any] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _connections is not None and event in ("socket.connect", "socket.sendto"):
        _connections.append((event, arguments[1]))


sys.addaudithook(_audit)


@pytest.fixture
def connections() -> Iterator[list[Any]]:
    """Where sockets of this process are connected to or send to."""
    global _connections
    _connections = found = []
    yield found
    _connections = None


@pytest.mark.spec("DSSM-2.1-a")
def test_nothing_but_ldap_is_spoken(domain: Domain, connections: list[Any]) -> None:
    directory = ActiveDirectory(domain.settings())
    computer = domain.computer()
    _, site = domain.site()
    connections.clear()
    assert directory.initialize()
    item = DirectoryObject(
        ObjectClass.QUEUE_MANAGER, {"computer_name": computer, "site_identifier_list": (site,)}
    )
    result, identifier = directory.create(item, None, None)
    assert (result, identifier is None) == (SUCCESS, False)
    assert identifier is not None
    queue = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{computer}\\q"})
    _, queue.attributes["identifier"] = directory.create(queue, None, None)
    assert directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(identifier), None)[0] is SUCCESS
    _, query = directory.read_begin(ObjectClass.QUEUE, None, ("identifier",), None)
    assert query is not None
    assert directory.read_next(query)[0] is SUCCESS
    directory.read_end(query)
    queue.attributes["label"] = "x"
    assert directory.write(queue, ("label",), None) is SUCCESS
    directory.attempt(lambda: directory.resolving.alias("CN=nobody,DC=msmq,DC=test"))
    directory.resolve_distribution_list(bytes(16), None)
    assert directory.delete(queue, None) is SUCCESS
    (server,) = domain.settings().servers
    assert len(connections) >= 9
    assert set(connections) == {("socket.connect", (server.address, server.port))}
