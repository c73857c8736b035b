"""Who a Kerberos principal is."""

from __future__ import annotations

import secrets

import pytest

from msmq.directory.principals import DirectoryPrincipals
from msmq.directory.settings import Password, Server, Settings
from msmq.security.sid import AUTHENTICATED_USERS, EVERYONE
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD, REALM
from tests.directory.support import Domain


def settings_of(domain: Domain, password: str = PASSWORD) -> Settings:
    controller = domain.controller
    server = Server(HOST, controller.address, controller.ports["ldap"])
    return Settings((server,), Password(ADMINISTRATOR, password), mechanism="ntlm")


def sid_of(domain: Domain, name: str) -> str:
    for line in domain.controller.tool("user", "show", name, "--attributes=objectSid").splitlines():
        if line.startswith("objectSid: "):
            return line.removeprefix("objectSid: ")
    raise AssertionError(name)


def group_sid_of(domain: Domain, name: str) -> str:
    for line in domain.controller.tool("group", "show", name, "--attributes=objectSid").splitlines():
        if line.startswith("objectSid: "):
            return line.removeprefix("objectSid: ")
    raise AssertionError(name)


def test_a_user_and_the_groups_of_its_groups(domain: Domain) -> None:
    mark = secrets.token_hex(4)
    user, inner, outer = f"u{mark}", f"inner{mark}", f"outer{mark}"
    tool = domain.controller.tool
    tool("user", "create", user, PASSWORD)
    tool("group", "add", inner)
    tool("group", "add", outer)
    tool("group", "addmembers", inner, user)
    tool("group", "addmembers", outer, inner)
    now = [0.0]
    principals = DirectoryPrincipals(settings_of(domain), REALM, keep_s=10, clock=lambda: now[0])
    token = principals.identify(f"{user}@{REALM}")
    assert token is not None
    assert str(token.user) == sid_of(domain, user)
    expected = {group_sid_of(domain, name) for name in (inner, outer, "Domain Users")}
    assert expected | {str(EVERYONE), str(AUTHENTICATED_USERS)} <= {str(sid) for sid in token.groups}

    # It is kept, and asked again when its time is over.
    tool("user", "disable", user)
    assert principals.identify(f"{user.upper()}@{REALM.lower()}") is token
    now[0] = 10.0
    assert principals.identify(f"{user}@{REALM}") is None


@pytest.mark.parametrize(
    "principal",
    ["", "alice", "alice@OTHER.TEST", *(f"{name}@{REALM}" for name in ("", "no-such", "*", "alice)(cn=*"))],
)
def test_nobody_we_know(domain: Domain, principal: str) -> None:
    assert DirectoryPrincipals(settings_of(domain), REALM).identify(principal) is None


def test_a_directory_that_does_not_answer(domain: Domain) -> None:
    principals = DirectoryPrincipals(settings_of(domain, "wrong"), REALM)
    assert principals.identify(f"alice@{REALM}") is None
