"""Queue aliases and distribution lists (MS-MQDSSM 2.3, 3.1.6.8, 3.1.6.9), on a real domain controller."""

from __future__ import annotations

from uuid import uuid4

import pytest

from msmq.manager.directory import DirectoryResult
from msmq.wire.guid import guid_text
from tests.directory.support import Domain

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
USERS = "CN=Users,DC=msmq,DC=test"
NAME = "DIRECT=OS:qm1\\private$\\x"


def alias(domain: Domain, format_name: str | None = NAME) -> str:
    attributes = {"msMQ_Recipient_FormatName": format_name} if format_name else {}
    return domain.add(f"CN={domain.name('alias')},{USERS}", "msMQ-Custom-Recipient", **attributes)


def resolved(domain: Domain, dn: str) -> tuple[DirectoryResult, str | None]:
    return domain.directory.attempt(lambda: domain.directory.resolving.alias(dn))


def group(domain: Domain, *members: str) -> tuple[str, bytes]:
    given = {"member": [member.encode() for member in members]} if members else {}
    name = domain.name("list")
    dn = domain.add(f"CN={name},{USERS}", "group", sAMAccountName=name, **given)
    return dn, domain.look(dn, "objectGUID")["objectGUID"][0]


def members(domain: Domain, guid: bytes) -> list[str]:
    result, found = domain.directory.resolve_distribution_list(guid, None)
    assert result is SUCCESS, domain.directory.last_failure
    return list(found)


@pytest.mark.spec("DSSM-2.3-a", "DSSM-2.3-b", "DSSM-3.1.6.8-a", "DSSM-2.2.2-i", "DSSM-2.2.1-i")
def test_an_alias(domain: Domain) -> None:
    dn = alias(domain)
    assert resolved(domain, dn) == (SUCCESS, NAME)
    _, identifier = group(domain, dn)
    assert members(domain, identifier) == [NAME]


@pytest.mark.spec("DSSM-3.1.6.8-b")
def test_an_alias_that_is_not_there(domain: Domain) -> None:
    assert resolved(domain, f"CN=missing,{USERS}") == (NOT_FOUND, None)


@pytest.mark.spec("DSSM-3.1.6.8-c")
def test_an_alias_for_nothing(domain: Domain) -> None:
    dn = alias(domain, None)
    assert resolved(domain, dn) == (DirectoryResult.ATTRIBUTE_NOT_FOUND, None)
    _, identifier = group(domain, dn)
    assert domain.directory.resolve_distribution_list(identifier, None) == (GENERIC, ())


@pytest.mark.spec("DSSM-3.1.6.9-a", "DSSM-3.1.6.9-c", "DSSM-3.1.6.9-d", "DSSM-3.1.6.9-e")
def test_a_list_of_queues_aliases_and_lists(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    first, second = domain.queue(host), domain.queue(host)
    inner, _ = group(domain, second.attributes["full_path"])
    _, identifier = group(domain, first.attributes["full_path"], alias(domain), inner)
    expected = {f"PUBLIC={guid_text(first.identifier)}", f"PUBLIC={guid_text(second.identifier)}", NAME}
    assert set(members(domain, identifier)) == expected


@pytest.mark.spec("DSSM-3.1.6.9-f")
def test_lists_that_contain_each_other(domain: Domain) -> None:
    queue = domain.queue(domain.queue_manager().attributes["computer_name"])
    one, identifier = group(domain)
    two, _ = group(domain, one, queue.attributes["full_path"])
    domain.change(one, member=[two.encode()])
    assert members(domain, identifier) == [f"PUBLIC={guid_text(queue.identifier)}"]


@pytest.mark.spec("DSSM-3.1.6.9-g")
def test_a_list_with_a_user(domain: Domain) -> None:
    _, identifier = group(domain, alias(domain), f"CN=alice,{USERS}")
    assert domain.directory.resolve_distribution_list(identifier, None) == (GENERIC, ())


@pytest.mark.spec("DSSM-3.1.6.9-b")
def test_a_list_that_is_not_there(domain: Domain) -> None:
    assert domain.directory.resolve_distribution_list(uuid4().bytes_le, None) == (NOT_FOUND, ())


def test_an_empty_list(domain: Domain) -> None:
    _, identifier = group(domain)
    assert members(domain, identifier) == []
