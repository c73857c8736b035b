"""The descriptor of a new queue: MS-MQDMPR 3.1.7.1.3.1, and the rule that runs."""

from __future__ import annotations

import struct

import pytest

from msmq.errors import AccessDeniedError, IllegalSecurityDescriptorError
from msmq.manager.access.default_descriptor import (
    Circumstances,
    decode_supplied,
    ruled_descriptor,
    specified_descriptor,
)
from msmq.manager.initialization import Settings
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import QueueOperation, Token, check_access
from msmq.security.descriptor import Ace, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, Sid
from msmq.wire.access_masks import SecurityInformation
from tests.manager.domain import SITE, DomainHost
from tests.manager.support import Host

DOMAIN = Sid.parse("S-1-5-21-1-2-3")
USER, MACHINE, OTHER, GUEST = (DOMAIN.child(number) for number in (1001, 1002, 1003, 501))
NOTHING = SecurityDescriptor()
DACL = SecurityInformation.DACL
LOOK, ALL, SEND = 0x00020020, 0x000F003F, 0x4


def token(sid: Sid) -> Token:
    return Token.authenticated(sid)


def entries(descriptor: SecurityDescriptor) -> list[tuple[Sid, int]]:
    assert descriptor.dacl is not None
    assert {ace.type for ace in descriptor.dacl.aces} == {AceType.ACCESS_ALLOWED}
    return [(ace.sid, ace.mask) for ace in descriptor.dacl.aces]


def specified(supplied: SecurityDescriptor = NOTHING, **given: object) -> SecurityDescriptor:
    return specified_descriptor(supplied, Circumstances(**given))  # type: ignore[arg-type]


def strict(host: type[Host], **settings: object) -> Host:
    return host(settings=Settings(strict_default_security=True, **settings))  # type: ignore[arg-type]


def created(host: Host, caller: Token | None = None, security: bytes | None = None) -> SecurityDescriptor:
    request = QueueRequest(".\\private$\\q", security=security)
    host.manager.administration.set_manager_security(DACL, SecurityDescriptor().encode())  # anybody creates
    return SecurityDescriptor.decode(host.manager.queues.create(request, caller).security)


# --- to the letter --------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.3.1-a", "DMPR-3.1.7.1.3.1-e")
def test_the_account_of_the_machine() -> None:
    asked: list[str] = []

    def found(computer: str) -> Sid:
        asked.append(computer)
        return MACHINE

    settings = {"directory_integrated": True, "site_identifier": SITE}
    domain = strict(DomainHost, **settings, computer_sid=found)
    assert entries(created(domain, token(USER)))[1] == (MACHINE, LOOK)
    assert asked == ["HOST"]
    unknown = strict(DomainHost, **settings, computer_sid=lambda computer: None)
    assert MACHINE not in dict(entries(created(unknown, token(USER))))
    workgroup = strict(Host, computer_sid=found)
    assert MACHINE not in dict(entries(created(workgroup, token(USER))))
    assert asked == ["HOST"]


@pytest.mark.spec("DMPR-3.1.7.1.3.1-b")
@pytest.mark.parametrize("strictly", [True, False])
def test_a_supplied_descriptor(strictly: bool) -> None:
    dacl = Acl.of(Ace(AceType.ACCESS_DENIED, SEND, OTHER), Ace(AceType.ACCESS_ALLOWED, LOOK, EVERYONE))
    sacl = Acl.of(Ace(AceType.SYSTEM_AUDIT, ALL, EVERYONE))
    host = DomainHost(
        settings=Settings(directory_integrated=True, site_identifier=SITE, strict_default_security=strictly)
    )
    given = SecurityDescriptor(owner=OTHER, dacl=dacl, sacl=sacl)
    stored = created(host, security=given.encode())
    assert stored.owner == OTHER
    assert stored.dacl is not None
    assert stored.dacl.encode() == dacl.encode()
    assert stored.sacl is not None
    assert stored.sacl.encode() == sacl.encode()


def test_an_owner_alone_leaves_the_list_to_us() -> None:
    final = specified(SecurityDescriptor(owner=OTHER), caller=token(USER), in_domain=True)
    assert final.owner == OTHER
    assert entries(final) == [(EVERYONE, LOOK), (OTHER, ALL)]
    assert final.sacl is None


@pytest.mark.spec("DMPR-3.1.7.1.3.1-c")
def test_the_owner() -> None:
    domain = strict(DomainHost, directory_integrated=True, site_identifier=SITE)
    assert created(domain, token(USER)).owner == USER
    assert created(strict(Host), token(USER)).owner == ANONYMOUS
    assert specified(in_domain=True).owner == ANONYMOUS
    assert specified(caller=token(ADMINISTRATORS), in_domain=True).owner == ANONYMOUS


@pytest.mark.spec("DMPR-3.1.7.1.3.1-d")
def test_everyone_and_the_owner() -> None:
    assert entries(specified(caller=token(USER), in_domain=True)) == [(EVERYONE, LOOK), (USER, ALL)]
    assert entries(specified(caller=token(USER))) == [(EVERYONE, ALL)]
    guest = specified(caller=token(GUEST), in_domain=True)
    assert (guest.owner, entries(guest)) == (GUEST, [(EVERYONE, ALL)])


@pytest.mark.spec("DMPR-3.1.7.1.3.1-f")
def test_reachable_by_srmp() -> None:
    settings = {"directory_integrated": True, "site_identifier": SITE}
    assert entries(created(strict(DomainHost, **settings, srmp_http_support=True), token(USER))) == [
        (EVERYONE, 0x00020024),
        (ANONYMOUS, 0x4),
        (USER, ALL),
    ]
    assert entries(created(strict(DomainHost, **settings), token(USER)))[0] == (EVERYONE, LOOK)


@pytest.mark.spec("DMPR-3.1.7.1.3.1-g")
def test_the_order_of_entries() -> None:
    final = specified(caller=token(USER), in_domain=True, machine=MACHINE, reachable_by_srmp=True)
    assert [sid for sid, _ in entries(final)] == [EVERYONE, ANONYMOUS, MACHINE, USER]


@pytest.mark.spec("DMPR-3.1.7.1.3.1-h")
def test_the_stored_form_is_self_relative() -> None:
    host = Host()
    data = host.queue().security
    (control,) = struct.unpack_from("<H", data, 2)
    assert control & 0x8000
    descriptor = SecurityDescriptor.decode(data)
    assert descriptor.owner is not None
    assert descriptor.control & Control.SELF_RELATIVE
    for offset in struct.unpack_from("<IIII", data, 4):
        assert offset == 0 or 20 <= offset < len(data)
    assert descriptor.encode() == data


def test_bytes_that_are_no_descriptor() -> None:
    with pytest.raises(IllegalSecurityDescriptorError) as refused:
        decode_supplied(b"\x01" * 19)
    assert refused.value.code == 0xC00E0021
    assert decode_supplied(None) == decode_supplied(b"") == NOTHING


# --- the rule that runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_domain", [False, True])
def test_owner_and_administrators_everything_everyone_send(in_domain: bool) -> None:
    final = ruled_descriptor(NOTHING, Circumstances(token(USER), in_domain))
    assert final.owner == USER
    for sid in (USER, ADMINISTRATORS):
        for operation in QueueOperation:
            check_access(final, Token.authenticated(OTHER, [sid]), operation)
    allowed = {QueueOperation.WRITE_MESSAGE, QueueOperation.GET_PROPERTIES, QueueOperation.GET_PERMISSIONS}
    for stranger in (token(OTHER), Token.anonymous()):
        for operation in QueueOperation:
            if operation in allowed:
                check_access(final, stranger, operation)
            else:
                with pytest.raises(AccessDeniedError):
                    check_access(final, stranger, operation)


@pytest.mark.parametrize("caller", [None, Token.anonymous(), token(EVERYONE)])
def test_nobody_in_particular_owns_nothing(caller: Token | None) -> None:
    final = ruled_descriptor(NOTHING, Circumstances(caller))
    assert final.owner == ADMINISTRATORS
    assert entries(final) == [(EVERYONE, LOOK | SEND), (ADMINISTRATORS, ALL)]


def test_the_switch() -> None:
    assert entries(created(Host(), token(USER)))[0] == (EVERYONE, LOOK | SEND)
    assert entries(created(strict(Host), token(USER)))[0] == (EVERYONE, ALL)
