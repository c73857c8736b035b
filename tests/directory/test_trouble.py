"""What goes wrong in the middle of an event: refusals for one object, rights that are missing, lost races."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import msmq.directory
from msmq.directory.exchange import Entry
from msmq.directory.objects import by_guid
from msmq.directory.results import DirectoryFailure, result_of
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass, by_identifier
from msmq.security.descriptor import Ace, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from msmq.wire.certificates import UserSignCert, UserSignCerts
from scripts.samba_dc import DomainController
from tests.directory.support import ENTERPRISE_DN, Domain

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
INSUFFICIENT_ACCESS = 50
NOT_ON_NON_LEAF = 66
USERS = "CN=Users,DC=msmq,DC=test"

Refuse = Callable[..., None]


@pytest.fixture
def refuse(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Have the server answer requests about certain objects with a code."""

    def arrange(method: str, *about: str, code: int = INSUFFICIENT_ACCESS, after: int = 0) -> None:
        real = getattr(domain.directory.connection, method)
        passed = iter(range(after))

        def request(dn: str, *arguments: Any, **options: Any) -> list[Entry] | None:
            if dn in about and next(passed, None) is None:
                raise DirectoryFailure(result_of(code), f"({code})")
            answer: list[Entry] | None = real(dn, *arguments, **options)
            return answer

        monkeypatch.setattr(domain.directory.connection, method, request)

    return arrange


def queue_manager(**attributes: Any) -> DirectoryObject:
    return DirectoryObject(ObjectClass.QUEUE_MANAGER, attributes)


def server(domain: Domain, **attributes: Any) -> tuple[DirectoryObject, bytes, str]:
    """A queue manager that may be a server, its site, and where its settings are or would be."""
    name, where = domain.site()
    computer = domain.computer()
    domain.server(computer, name)
    item = domain.queue_manager(computer_name=computer, site_identifier_list=(where,), **attributes)
    return item, where, domain.directory.objects.names.settings(computer, name)


@pytest.mark.spec("DSSM-3.1.6.1.1.2-k")
def test_an_existing_queue_manager_that_cannot_be_read(domain: Domain, refuse: Refuse) -> None:
    item = domain.queue_manager()
    refuse("search", item.attributes["full_path"])
    again = queue_manager(computer_name=item.attributes["computer_name"], site_identifier_list=())
    assert domain.directory.create(again, None, None) == (GENERIC, None)


@pytest.mark.spec("DSSM-3.1.6.1.1.3-b")
def test_certificates_that_cannot_be_written(domain: Domain, refuse: Refuse) -> None:
    computer = domain.computer()
    names = domain.directory.objects.names
    refuse("replace", names.computer(computer))
    blob = UserSignCerts((UserSignCert.of(b"certificate", uuid4().bytes_le),)).encode()
    item = queue_manager(computer_name=computer, site_identifier_list=(), public_signing_key_list=blob)
    assert domain.directory.create(item, None, None) == (GENERIC, None)
    assert domain.exists(names.queue_manager(computer))


@pytest.mark.spec("DSSM-3.1.6.1.1.3-e")
def test_sites_of_a_new_server(domain: Domain, refuse: Refuse) -> None:
    name, where = domain.site()
    computer = domain.computer()
    domain.server(computer, name)
    item = queue_manager(
        computer_name=computer, site_identifier_list=(uuid4().bytes_le, where), routing_server=True
    )
    assert domain.directory.create(item, None, None)[0] is SUCCESS
    assert domain.exists(domain.directory.objects.names.settings(computer, name))
    refuse("search", by_guid(where))
    assert domain.directory.create(item, None, None) == (GENERIC, None)


@pytest.mark.spec("DSSM-3.1.6.1.1.3-i")
def test_old_settings_that_cannot_be_deleted(domain: Domain, refuse: Refuse) -> None:
    name, where = domain.site()
    computer = domain.computer()
    path = domain.add(f"CN=MSMQ Settings,{domain.server(computer, name)}", "mSMQSettings")
    refuse("delete", path, code=NOT_ON_NON_LEAF)
    item = queue_manager(computer_name=computer, site_identifier_list=(where,), routing_server=True)
    assert domain.directory.create(item, None, None) == (GENERIC, None)


@pytest.mark.spec("DSSM-3.1.6.2.1.3-b")
def test_sites_of_a_server_that_goes(domain: Domain, refuse: Refuse) -> None:
    item, where, settings = server(domain, routing_server=True)
    both = DirectoryObject(item.object_class, dict(item.attributes))
    both.attributes["site_identifier_list"] = (uuid4().bytes_le, where)
    assert domain.directory.delete(both, None) is SUCCESS
    assert not domain.exists(settings)
    other, where, _ = server(domain, routing_server=True)
    refuse("search", by_guid(where))
    assert domain.directory.delete(other, None) is GENERIC


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            "out_routing_server_identifier_list", marks=pytest.mark.spec("DSSM-3.1.6.11.1.3-b"), id="out"
        ),
        pytest.param(
            "in_routing_server_identifier_list", marks=pytest.mark.spec("DSSM-3.1.6.11.1.4-b"), id="in"
        ),
    ],
)
def test_routing_servers_that_cannot_be_read(domain: Domain, refuse: Refuse, name: str) -> None:
    other = domain.queue_manager()
    item = domain.queue_manager(**{name: (other.identifier,)})
    refuse("search", other.attributes["full_path"])
    wanted = by_identifier(item.identifier)
    assert domain.directory.read(ObjectClass.QUEUE_MANAGER, wanted, [name]) == (GENERIC, None)


@pytest.mark.spec("DSSM-3.1.6.11.1-o")
def test_a_computer_that_cannot_be_read(domain: Domain, refuse: Refuse) -> None:
    item = domain.queue_manager()
    refuse("search", domain.directory.objects.names.computer(item.attributes["computer_name"]))
    wanted = by_identifier(item.identifier)
    assert domain.directory.read(ObjectClass.QUEUE_MANAGER, wanted, ["clustered"]) == (GENERIC, None)
    assert domain.directory.read(ObjectClass.QUEUE_MANAGER, wanted, ["journal_quota_kb"])[0] is SUCCESS


@pytest.mark.spec("DSSM-3.1.6.11.3.1-b")
def test_a_root_domain_nobody_names(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain.directory.objects, "root_domain_naming_context", "")
    assert domain.directory.read(ObjectClass.ENTERPRISE, None, ["name"]) == (GENERIC, None)


@pytest.mark.spec("DSSM-3.1.6.9-h")
def test_a_member_that_cannot_be_read(domain: Domain, refuse: Refuse) -> None:
    queue = domain.queue(domain.queue_manager().attributes["computer_name"])
    name = domain.name("list")
    members = [queue.attributes["full_path"].encode()]
    dn = domain.add(f"CN={name},{USERS}", "group", sAMAccountName=name, member=members)
    guid = domain.look(dn, "objectGUID")["objectGUID"][0]
    refuse("search", queue.attributes["full_path"])
    assert domain.directory.resolve_distribution_list(guid, None) == (GENERIC, ())


@pytest.mark.spec("DSSM-3.1.6.7.1.9-e")
def test_settings_that_are_gone_already(domain: Domain) -> None:
    item, _, settings = server(domain, routing_server=True)
    domain.remove(settings)
    change = queue_manager(identifier=item.identifier, routing_server=False)
    assert domain.directory.write(change, None, None) is NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.7.1-a")
def test_the_order_in_which_a_queue_manager_is_written(domain: Domain) -> None:
    item, _, settings = server(domain)
    names = domain.directory.objects.names
    blob = UserSignCerts((UserSignCert.of(b"certificate", uuid4().bytes_le),)).encode()
    security = SecurityDescriptor(dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20020, EVERYONE))).encode()
    change = queue_manager(
        identifier=item.identifier,
        computer_name=item.attributes["computer_name"],
        routing_server=True,
        security=security,
        public_signing_key_list=blob,
    )
    domain.trace.clear()
    assert domain.directory.write(change, None, None) is SUCCESS
    changes = [
        request for request in domain.trace.requests if request.operation in ("modifyRequest", "addRequest")
    ]
    assert [request.dn for request in changes] == [
        item.attributes["full_path"],
        item.attributes["full_path"],
        names.computer(item.attributes["computer_name"]),
        settings,
    ]
    assert "nTSecurityDescriptor" in changes[1].fields


# --- rights -------------------------------------------------------------------------------------------------


def sid_of(domain: Domain, dn: str) -> Sid:
    return Sid.decode(domain.look(dn, "objectSid")["objectSid"][0])


@pytest.mark.spec("DSSM-3.1.6.7.1.3-b")
def test_who_may_write_properties_may_not_write_the_descriptor(domain: Domain) -> None:
    item = domain.queue_manager()
    alice = sid_of(domain, f"CN=alice,{USERS}")
    aces = (Ace(AceType.ACCESS_ALLOWED, 0x20020, EVERYONE), Ace(AceType.ACCESS_ALLOWED, 0x20030, alice))
    security = SecurityDescriptor(dacl=Acl.of(*aces)).encode()
    grant = queue_manager(identifier=item.identifier, security=security)
    assert domain.directory.write(grant, ["security"], None) is SUCCESS
    hers = SecurityDescriptor(dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, 0xF00F7, alice))).encode()
    change = queue_manager(identifier=item.identifier, queue_manager_quota_kb=5, security=hers)
    assert domain.directory_as("alice").write(change, None, None) is GENERIC
    assert domain.look(item.attributes["full_path"])["mSMQQuota"] == [b"5"]


@pytest.mark.spec("DSSM-3.1.6.7.3.3-a", "DSSM-3.1.6.7.3-a")
def test_the_descriptor_of_the_enterprise(enterprise: Domain) -> None:
    domain = enterprise
    alice = sid_of(domain, f"CN=alice,{USERS}")
    with domain.hand.use():
        (entry,) = domain.hand.search(ENTERPRISE_DN, attributes=["nTSecurityDescriptor"])
    before = entry.get("nTSecurityDescriptor")
    _, found = domain.directory.read(ObjectClass.ENTERPRISE, None, ["security"])
    assert found is not None
    old = SecurityDescriptor.decode(found.attributes["security"])
    assert old.dacl is not None
    assert alice not in {ace.sid for ace in old.dacl.aces}
    wider = SecurityDescriptor(dacl=Acl.of(*old.dacl.aces, Ace(AceType.ACCESS_ALLOWED, 0x10, alice))).encode()
    try:
        change = DirectoryObject(ObjectClass.ENTERPRISE, {"security": wider, "old_directory": False})
        domain.trace.clear()
        assert domain.directory.write(change, None, None) is SUCCESS
        sent = [set(request.fields) for request in domain.trace.sent("modifyRequest")]
        assert sent == [{"mSMQVersion"}, {"nTSecurityDescriptor"}]
        _, found = domain.directory.read(ObjectClass.ENTERPRISE, None, ["security"])
        assert found is not None
        new = SecurityDescriptor.decode(found.attributes["security"]).dacl
        assert new is not None
        assert (0x10, alice) in {(ace.mask, ace.sid) for ace in new.aces}
    finally:
        with domain.hand.use():
            domain.hand.replace(ENTERPRISE_DN, {"nTSecurityDescriptor": before}, descriptor_parts=4)


def closed(domain: Domain, dn: str) -> None:
    """Only administrators may see an object."""
    administrator = sid_of(domain, f"CN=Administrator,{USERS}")
    dacl = Acl.of(Ace(AceType.ACCESS_ALLOWED, 0xF01FF, administrator))
    value = SecurityDescriptor(dacl=dacl, control=Control.DACL_PROTECTED).encode()
    with domain.hand.use():
        domain.hand.replace(dn, {"nTSecurityDescriptor": [value]}, descriptor_parts=4)


@pytest.mark.spec("DSSM-5.1.7-a", "DSSM-5.1.8-a")
def test_aliases_and_lists_that_others_may_not_see(domain: Domain) -> None:
    alias = domain.add(
        f"CN={domain.name()},{USERS}", "msMQ-Custom-Recipient", msMQ_Recipient_FormatName="DIRECT=OS:a\\b"
    )
    name = domain.name("list")
    group = domain.add(f"CN={name},{USERS}", "group", sAMAccountName=name, member=[alias.encode()])
    guid = domain.look(group, "objectGUID")["objectGUID"][0]
    alice = domain.directory_as("alice")
    assert alice.attempt(lambda: alice.resolving.alias(alias)) == (SUCCESS, "DIRECT=OS:a\\b")
    assert alice.resolve_distribution_list(guid, None) == (SUCCESS, ["DIRECT=OS:a\\b"])
    for dn in (alias, group):
        closed(domain, dn)
    assert alice.attempt(lambda: alice.resolving.alias(alias))[0] is not SUCCESS
    assert alice.resolve_distribution_list(guid, None)[0] is not SUCCESS


# --- several at once ----------------------------------------------------------------------------------------


def sockets_to(port: int) -> int:
    """Established connections from this computer to a port."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return sum(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


@pytest.mark.spec("DSSM-3.1-a", "DSSM-3.1.1.6-a")
def test_several_threads(own_domain_controller: DomainController) -> None:
    domain = Domain(own_domain_controller)
    host = domain.queue_manager().attributes["computer_name"]
    troubles: list[object] = []
    most: list[int] = []
    port = own_domain_controller.ports["ldap"]
    start = threading.Barrier(3)

    def work(number: int) -> None:
        start.wait(120)
        for turn in range(5):
            item = DirectoryObject(
                ObjectClass.QUEUE, {"pathname": f"{host}\\q{number}-{turn}", "label": str(turn)}
            )
            result, identifier = domain.directory.create(item, None, None)
            most.append(sockets_to(port))
            if identifier is None:
                troubles.append((result, domain.directory.last_failure))
                continue
            _, found = domain.directory.read(ObjectClass.QUEUE, by_identifier(identifier), ["label"])
            if found is None or found.attributes != {"label": str(turn)}:
                troubles.append(found)
            if (
                domain.directory.delete(DirectoryObject(ObjectClass.QUEUE, {"identifier": identifier}), None)
                is not SUCCESS
            ):
                troubles.append(domain.directory.last_failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    with domain.directory.held():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert troubles == []
    assert max(most) == 1
    assert domain.directory.connection.ref_count == 0


@pytest.mark.spec("DSSM-3.1.2-a", "DSSM-3.1.4-a", "DSSM-3.1.5-a")
def test_no_timers_and_no_listening() -> None:
    (room,) = msmq.directory.__path__
    texts: Sequence[str] = [path.read_text(encoding="utf-8") for path in Path(room).glob("*.py")]
    assert len(texts) > 15
    for word in ("Timer(", "call_later", "call_at", ".listen(", "create_server", "start_server", "sleep("):
        assert not any(word in text for text in texts)


@pytest.mark.spec("DSSM-2.2.2-f")
def test_what_is_asked_of_a_user(domain: Domain) -> None:
    guid = domain.look(f"CN=alice,{USERS}", "objectGUID")["objectGUID"][0]
    assert domain.directory.read(ObjectClass.USER, by_identifier(guid), None)[0] is SUCCESS
    (asked,) = domain.trace.sent("searchRequest")
    expected = {"objectGUID", "distinguishedName", "objectSid", "mSMQSignCertificates", "mSMQDigests"}
    assert set(asked.fields["attributes"]) == expected


@pytest.mark.spec("DSSM-2.2.6-c")
def test_an_attribute_the_server_does_not_know(domain: Domain, refuse: Refuse) -> None:
    item = domain.queue(domain.queue_manager().attributes["computer_name"])
    refuse("replace", item.attributes["full_path"], code=16)
    change = DirectoryObject(ObjectClass.QUEUE, {"identifier": item.identifier, "label": "x"})
    assert domain.directory.write(change, None, None) is DirectoryResult.ATTRIBUTE_NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.7.3.2-e")
def test_an_enterprise_that_is_not_there(domain: Domain, refuse: Refuse) -> None:
    refuse("search", ENTERPRISE_DN, code=32)
    change = DirectoryObject(ObjectClass.ENTERPRISE, {"default_time_to_live_s": 1})
    assert domain.directory.write(change, None, None) is NOT_FOUND
