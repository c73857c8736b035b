"""What others have changed since the last look, found with few requests.

Every domain controller numbers its changes (uSNChanged, MS-ADTS 3.1.1.1.9). Its root object tells the highest number:
if that is still the same nothing has happened, otherwise our objects with higher numbers are searched for. Each
controller has its own numbers, so after a change of controllers, or a restore of the database, everything may have
changed. Deleted objects cannot be found this way: links between sites are few and simply compared, other deletions are
noticed when the object is used.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msmq.directory.filters import conjunction, of_class
from msmq.directory.objects import Objects
from msmq.directory.results import generic
from msmq.manager.directory import ObjectClass

_WATCHED: Final = (
    ("mSMQQueue", ObjectClass.QUEUE),
    ("mSMQConfiguration", ObjectClass.QUEUE_MANAGER),
)
_SIGNERS: Final = "(&(objectCategory=person)(mSMQDigests=*))"
_PLACES: Final = (
    ("site", ObjectClass.SITE),
    ("mSMQEnterpriseSettings", ObjectClass.ENTERPRISE),
)


class Mark(NamedTuple):
    """The state of the directory at the last look."""

    controller: str
    number: int
    links: frozenset[tuple[bytes, bytes]]


class Changed(NamedTuple):
    """The changes since a mark."""

    mark: Mark
    everything: bool
    """True if nothing is known about earlier changes, so everything may have changed."""
    classes: frozenset[ObjectClass] = frozenset()
    identifiers: tuple[bytes, ...] = ()
    """Identifiers of the changed queues and queue managers."""


class Changes:
    """Looks for changes."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def since(self, mark: Mark | None) -> Changed:
        """What has changed since a mark, by ourselves or others."""
        objects = self.objects
        objects.check()
        with objects.connection.use():
            (root,) = objects.connection.search("", attributes=["dsServiceName", "highestCommittedUSN"])
            controller, numbers = root.get("dsServiceName"), root.get("highestCommittedUSN")
            if not controller or not numbers:
                raise generic("the domain controller does not number its changes")
            name, number = controller[0].decode(), int(numbers[0])
            if mark is not None and mark.controller == name and mark.number == number:
                return Changed(mark, False)
            links = self._links()
            new = Mark(name, number, links)
            if mark is None or mark.controller != name or mark.number > number:
                return Changed(new, True)
            later = f"(uSNChanged>={mark.number + 1})"
            kinds = "".join(of_class(ldap_class) for ldap_class, _ in _WATCHED)
            found = objects.connection.search(
                objects.default_naming_context,
                attributes=["objectClass", "objectGUID"],
                subtree=True,
                conditions=conjunction([f"(|{kinds}{_SIGNERS})", later]),
            )
            places = "".join(of_class(ldap_class) for ldap_class, _ in _PLACES)
            found += objects.connection.search(
                objects.configuration_naming_context,
                attributes=["objectClass", "objectGUID"],
                subtree=True,
                conditions=conjunction([f"(|{places})", later]),
            )
        known = dict((*_WATCHED, *_PLACES))
        classes, identifiers = set(), []
        for entry in found:
            kind = known.get(entry.get("objectClass")[-1].decode(), ObjectClass.USER)
            classes.add(kind)
            if kind in (ObjectClass.QUEUE, ObjectClass.QUEUE_MANAGER):
                identifiers += entry.get("objectGUID")[:1]
        if links != mark.links:
            classes.add(ObjectClass.ROUTING_LINK)
        return Changed(new, False, frozenset(classes), tuple(identifiers))

    def _links(self) -> frozenset[tuple[bytes, bytes]]:
        found = self.objects.connection.search(
            self.objects.names.enterprise,
            attributes=["objectGUID", "uSNChanged"],
            subtree=True,
            conditions=of_class("mSMQSiteLink"),
        )
        return frozenset(
            (entry.get("objectGUID")[0], entry.get("uSNChanged")[0])
            for entry in found
            if entry.get("objectGUID") and entry.get("uSNChanged")
        )
