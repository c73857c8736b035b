"""The cached connection (MS-MQDSSM 3.1.1.6, 3.1.6.18, 3.1.6.21, 5.1), on a real domain controller."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.connection import CachedConnection
from msmq.directory.results import DirectoryFailure
from msmq.directory.settings import CredentialCache, Keytab, Password, Protection, Server, Settings
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass
from scripts.samba_dc import HOST, PASSWORD, REALM, DomainController
from tests.directory.relay import Mode, relay
from tests.directory.support import CONFIGURATION, Domain, Trace

ALICE = Password(f"alice@{REALM}", PASSWORD)
NOT_CONNECTED = DirectoryResult.DIRECTORY_NOT_CONNECTED


def at(controller: DomainController, service: str = "ldap") -> tuple[Server, ...]:
    return (Server(HOST, controller.address, controller.ports[service]),)


def reaches(settings: Settings) -> bool:
    return ActiveDirectory(settings).initialize()


def test_a_request_leaves_at_once(domain: Domain) -> None:
    """Not when the one before it is acknowledged, which a server puts off."""
    connection = ActiveDirectory(domain.settings()).connection
    with connection.use():
        assert connection._channel.inner.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.spec("DSSM-5.1-a")
@pytest.mark.parametrize("mechanism", ["ntlm", "kerberos", "negotiate"])
def test_spnego(domain: Domain, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    """The controller refuses plain requests, so every later message was sealed."""
    monkeypatch.setenv("KRB5_CONFIG", str(domain.controller.krb5_config))
    trace = Trace()
    directory = ActiveDirectory(Settings(at(domain.controller), ALICE, mechanism=mechanism), trace)
    assert directory.initialize(), directory.connection.last_trouble
    assert b"GSS-SPNEGO" in trace.messages[0]


def test_a_keytab_and_a_cache(domain: Domain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    controller = domain.controller
    monkeypatch.setenv("KRB5_CONFIG", str(controller.krb5_config))
    keytab = controller.export_keytab("bob", tmp_path / "bob.keytab")
    controller.ticket("alice", tmp_path / "cache")
    settings = Settings(at(controller), Keytab(f"bob@{REALM}", keytab), mechanism="kerberos")
    assert reaches(settings)
    assert reaches(replace(settings, credential=CredentialCache(tmp_path / "cache")))


@pytest.mark.parametrize(
    ("protection", "service"),
    [(Protection.TLS, "ldaps"), (Protection.START_TLS, "ldap")],
    ids=["tls", "start-tls"],
)
def test_tls_with_a_certificate_that_is_checked(domain: Domain, protection: Protection, service: str) -> None:
    controller = domain.controller
    settings = Settings(
        at(controller, service), ALICE, protection, certificate_authority=controller.certificate_authority
    )
    assert reaches(settings)
    assert not reaches(replace(settings, certificate_authority=None))
    stranger = (Server("other.msmq.test", controller.address, controller.ports[service]),)
    assert not reaches(replace(settings, servers=stranger))


def test_a_password_in_the_clear_is_refused(domain: Domain) -> None:
    directory = ActiveDirectory(Settings(at(domain.controller), ALICE, Protection.NONE))
    assert not directory.initialize()
    assert "strongerAuthRequired" in directory.connection.last_trouble


def test_simple_binding_needs_a_password(domain: Domain) -> None:
    directory = ActiveDirectory(Settings(at(domain.controller), CredentialCache(), Protection.NONE))
    assert not directory.initialize()
    assert "password" in directory.connection.last_trouble


@pytest.mark.spec("DSSM-3.1.6.18-c")
def test_a_wrong_password(domain: Domain) -> None:
    settings = replace(domain.settings(), credential=Password(f"alice@{REALM}", "wrong"))
    connection = CachedConnection(settings)
    with pytest.raises(DirectoryFailure) as caught:
        connection.prepare()
    assert caught.value.result is DirectoryResult.GENERIC_ERROR
    assert connection.handle is None
    directory = ActiveDirectory(settings)
    assert not directory.initialize()
    assert directory.read(ObjectClass.ENTERPRISE, None, None) == (NOT_CONNECTED, None)


@pytest.mark.spec(
    "DSSM-3.1.6.18-a", "DSSM-3.1.6.18-d", "DSSM-3.1.6.21-a", "DSSM-3.1.6.21-b", "DSSM-3.1.1.6-b"
)
def test_operations_that_overlap_share_the_connection(domain: Domain) -> None:
    trace = Trace()
    connection = CachedConnection(domain.settings(), trace)
    connection.prepare()
    assert connection.ref_count == 1
    handle = connection.handle
    assert handle is not None
    binds = len(trace.sent("bindRequest"))
    connection.prepare()
    assert connection.ref_count == 2
    assert connection.handle is handle
    connection.shut_down()
    assert connection.ref_count == 1
    assert connection.search("", attributes=["*"])
    assert len(trace.sent("bindRequest")) == binds
    channel = handle.socket
    connection.shut_down()
    assert connection.ref_count == 0
    assert connection.handle is None
    assert trace.requests[-1].operation == "unbindRequest"
    assert channel.inner.fileno() == -1


@pytest.mark.spec("DSSM-3.1.6.18-b")
def test_servers_are_tried_in_their_order(domain: Domain) -> None:
    nobody = Server("nobody.msmq.test", "127.0.0.1", 1)
    settings = replace(domain.settings(), servers=(nobody, *domain.settings().servers))
    assert reaches(settings)
    assert Settings((Server("dc"),), ALICE).port_of(Server("dc")) == 389


@pytest.mark.spec(
    "DSSM-3.1.6.12-a", "DSSM-3.1.6.13-b", "DSSM-3.1.6.14-b", "DSSM-3.1.6.15-a", "DSSM-3.1.6.16-a"
)
@pytest.mark.spec("DSSM-3.1.6.18-e")
def test_a_connection_that_has_died_is_replaced_before_it_is_used(domain: Domain) -> None:
    """A change is sent once only, so it would fail on a connection that nobody has looked at."""
    controller = domain.controller
    with relay(controller.address, controller.ports["ldap"]) as door:
        settings = replace(domain.settings(), servers=(Server(HOST, "127.0.0.1", door.port),))
        connection = CachedConnection(settings)
        with connection.hold():
            with connection.use():
                dead = connection.handle
            assert dead is not None
            door.become(Mode.CLOSED)
            while dead.socket.is_alive():
                time.sleep(0.01)
            door.become(Mode.OPEN)
            with connection.use(), pytest.raises(DirectoryFailure) as refused:
                connection.delete(f"CN=nobody,{CONFIGURATION}")
            assert refused.value.result is DirectoryResult.OBJECT_NOT_FOUND
            assert connection.handle is not dead


@pytest.mark.spec("DSSM-3.1.6.17-a", "DSSM-3.1.6.3.1-b", "DSSM-3.1.3-h", "DSSM-2.2-a")
def test_an_outage(own_domain_controller: DomainController) -> None:
    controller = own_domain_controller
    controller.stop()
    settings = Settings(at(controller), Password(f"Administrator@{REALM}", PASSWORD), mechanism="ntlm")
    late = ActiveDirectory(settings)
    assert not late.initialize()
    assert late.objects.configuration_naming_context == ""
    controller.start()
    assert late.read(ObjectClass.ENTERPRISE, None, None)[0] is DirectoryResult.SUCCESS
    assert late.objects.configuration_naming_context == CONFIGURATION
    with late.held():
        site = DirectoryObject(ObjectClass.SITE, {"name": "Default-First-Site-Name"})
        assert late.read(ObjectClass.ENTERPRISE, None, None)[0] is DirectoryResult.SUCCESS
        controller.stop()
        queue = DirectoryObject(ObjectClass.QUEUE, {"pathname": "qm\\queue", "security": b""})
        assert late.create(queue, None, None) == (NOT_CONNECTED, None)
        assert late.delete(queue, None) is NOT_CONNECTED
        assert late.write(site, ["foreign_site"], None) is NOT_CONNECTED
        assert late.read(ObjectClass.SITE, None, None) == (NOT_CONNECTED, None)
        assert late.read_begin(ObjectClass.SITE, None, None, None) == (NOT_CONNECTED, None)
        assert late.resolve_distribution_list(bytes(16), None) == (NOT_CONNECTED, ())
        controller.start()
        assert late.read(ObjectClass.ENTERPRISE, None, None)[0] is DirectoryResult.SUCCESS
        assert late.write(site, ["foreign_site"], None) is DirectoryResult.SUCCESS


def test_pages(domain: Domain) -> None:
    """With pages of three, everything still comes."""
    directory = ActiveDirectory(replace(domain.settings(), page_size=3))
    assert directory.initialize()
    with directory.connection.use():
        found = directory.connection.search(
            f"CN=Schema,{CONFIGURATION}",
            attributes=["cn"],
            subtree=True,
            conditions="(&(objectClass=attributeSchema)(lDAPDisplayName=msmq*))",
        )
    assert len(found) == 59
