"""Joining a domain with the rights of the host's own account, and a clock that is wrong."""

from __future__ import annotations

import time

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.join import Joining, JoiningError
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE
from tests.directory.support import DEFAULT_SITE, Domain

PASSWORD = "Another!P4ssword"


def account(domain: Domain, name: str) -> ActiveDirectory:
    """The directory as the computer itself sees it."""
    domain.controller.tool("user", "setpassword", f"{name[:15]}$", f"--newpassword={PASSWORD}")
    directory = ActiveDirectory(domain.settings(f"{name[:15]}$@MSMQ.TEST", PASSWORD))
    assert directory.initialize(), directory.connection.last_trouble
    return directory


def test_after_an_administrator_has_joined_it_the_hosts_own_account_is_enough(domain: Domain) -> None:
    name = domain.computer()
    identifier = Joining(domain.directory, name).join(DEFAULT_SITE)
    own = account(domain, name)
    keys = DirectoryObject(
        ObjectClass.QUEUE_MANAGER,
        {"identifier": identifier, "computer_name": name, "public_encryption_key_list": b"keys"},
    )
    assert own.write(keys, ("public_encryption_key_list",), None) is DirectoryResult.SUCCESS, own.last_failure
    seen = domain.look(domain.directory.objects.names.queue_manager(name))
    assert seen["mSMQEncryptKey"] == [b"keys"]
    # As a queue manager writes them: with a list of who may do what, to which its own account is added.
    everybody = SecurityDescriptor(dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x24, EVERYONE))).encode()
    queue = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{name}\\orders", "security": everybody})
    result, made = own.create(queue, None, None)
    assert result is DirectoryResult.SUCCESS, own.last_failure
    assert domain.look(domain.directory.objects.names.queue(f"{name}\\orders"))["objectGUID"] == [made]
    findings = {finding.what: finding for finding in Joining(own, name).inspect()}
    assert [finding for finding in findings.values() if not finding.good] == []


@pytest.mark.parametrize("skew_s", [-400, 400])
def test_a_clock_that_is_wrong(domain: Domain, skew_s: int) -> None:
    joining = Joining(domain.directory, domain.computer(), lambda: time.time() + skew_s)
    findings = {finding.what: finding for finding in joining.inspect()}
    assert not findings["clock"].good
    assert "chrony" in findings["clock"].remedy
    assert findings["domain controller"].good


def test_another_site(domain: Domain) -> None:
    name = domain.computer()
    joining = Joining(domain.directory, name)
    first = joining.join(DEFAULT_SITE)
    site, identifier = domain.site()
    assert joining.join(site) == first
    assert domain.look(domain.directory.objects.names.queue_manager(name))["mSMQSites"] == [identifier]
    assert joining.join("") == first  # it stays where it is
    joining = Joining(domain.directory, domain.computer())
    with pytest.raises(JoiningError, match="name one"):  # there are several by now
        joining.join("")
