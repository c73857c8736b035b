"""Objects that tests create and delete."""

from __future__ import annotations

from typing import Any

from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass
from tests.directory.support import Domain

SUCCESS = DirectoryResult.SUCCESS
_HOSTS: dict[int, str] = {}


def queue_manager(**attributes: Any) -> DirectoryObject:
    return DirectoryObject(ObjectClass.QUEUE_MANAGER, attributes)


def queue(**attributes: Any) -> DirectoryObject:
    return DirectoryObject(ObjectClass.QUEUE, attributes)


def site(**attributes: Any) -> DirectoryObject:
    return DirectoryObject(ObjectClass.SITE, attributes)


def link(**attributes: Any) -> DirectoryObject:
    return DirectoryObject(ObjectClass.ROUTING_LINK, attributes)


def made(domain: Domain, item: DirectoryObject, *listed: str) -> bytes:
    result, identifier = domain.directory.create(item, listed or None, None)
    assert result is SUCCESS, domain.directory.last_failure
    assert identifier is not None
    return identifier


def refused(domain: Domain, item: DirectoryObject, *listed: str) -> DirectoryResult:
    result, identifier = domain.directory.create(item, listed or None, None)
    assert identifier is None
    return result


def host_of(domain: Domain) -> str:
    """A queue manager for queues; one is enough for all of them."""
    if id(domain) not in _HOSTS:
        _HOSTS[id(domain)] = domain.queue_manager().attributes["computer_name"]
    return _HOSTS[id(domain)]
