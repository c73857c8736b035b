"""A directory in memory, for tests that need a directory but no domain controller.

It behaves as :class:`msmq.manager.directory.Directory` says: it chooses identifiers and distinguished names, records
the time of changes, and answers DirectoryNotConnected while ``connected`` is false. ``calls`` lists the calls that were
made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from msmq.directory.listed import ListedDirectory
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Filter,
    ObjectClass,
    Published,
    SortKey,
    directory_object,
)
from msmq.security.access import Token
from msmq.security.sid import Sid

_NOT_CONNECTED: Final = DirectoryResult.DIRECTORY_NOT_CONNECTED

_NAMED_BY: Final = {
    ObjectClass.QUEUE_MANAGER: "computer_name",
    ObjectClass.QUEUE: "pathname",
    ObjectClass.ENTERPRISE: "name",
    ObjectClass.SITE: "name",
    ObjectClass.ROUTING_LINK: "description",
    ObjectClass.CONNECTED_NETWORK: "name",
    ObjectClass.USER: "security_identifier",
}
_TIMED: Final = frozenset({ObjectClass.QUEUE_MANAGER, ObjectClass.QUEUE})
_WITH_PATH: Final = _TIMED | {ObjectClass.SITE, ObjectClass.ROUTING_LINK}


class MemoryDirectory(ListedDirectory):
    """The directory; its objects are in the order in which they were made."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self.connected = True
        self.last_failure = ""
        """Why it last refused something, in words."""
        self.writers: set[Sid] | None = None
        """The users who may change objects, besides queue managers; None means everybody."""
        self.calls: list[tuple[str, ObjectClass | None]] = []
        self._now = now
        self._identifiers = count(1)

    # --- the administrator's side ---------------------------------------------------------------------------

    def put(self, item: DirectoryObject | Published) -> DirectoryObject:
        """Put an object into the directory, with the identifier that it has and without any check."""
        if not isinstance(item, DirectoryObject):
            item = directory_object(item)
        self.objects.append(DirectoryObject(item.object_class, dict(item.attributes)))
        return self.objects[-1]

    def queues_of(self, computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
        """Return all public queues of a computer."""
        if not self.connected:
            return _NOT_CONNECTED, ()
        start = f"{computer.lower()}\\"
        return DirectoryResult.SUCCESS, [
            item.only(None)
            for item in self.objects
            if item.object_class is ObjectClass.QUEUE
            and item.attributes["pathname"].lower().startswith(start)
        ]

    def computer_sid(self, computer: str) -> Sid | None:
        """Return None: computers have no accounts here."""
        return None

    def find(self, object_class: ObjectClass, **attributes: Any) -> DirectoryObject | None:
        """Return the object with these attributes itself, not a copy."""
        for item in self.objects:
            same = all(item.attributes.get(name) == value for name, value in attributes.items())
            if item.object_class is object_class and same:
                return item
        return None

    def asked(self, call: str) -> list[ObjectClass | None]:
        """Return the classes of the objects for which ``call`` was made."""
        return [object_class for name, object_class in self.calls if name == call]

    # --- changing -------------------------------------------------------------------------------------------

    def create(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> tuple[DirectoryResult, bytes | None]:
        self.calls.append(("create", item.object_class))
        refused = self._refused(caller)
        if refused is not None:
            return refused, None
        key = _NAMED_BY[item.object_class]
        if self.find(item.object_class, **{key: item.attributes[key]}) is not None:
            return DirectoryResult.OBJECT_ALREADY_EXISTS, None
        made = item.only(attributes)
        identifier = next(self._identifiers).to_bytes(16, "big")
        made.attributes["identifier"] = identifier
        name = str(item.attributes[key]).replace("\\", "_")
        if item.object_class in _WITH_PATH:
            made.attributes["full_path"] = f"CN={name},OU=msmq,DC=test"
        if item.object_class is ObjectClass.QUEUE:
            made.attributes["directory_path"] = f"LDAP://CN={name},OU=msmq,DC=test"
        if item.object_class in _TIMED:
            made.attributes["create_time"] = made.attributes["modify_time"] = int(self._now())
        self.objects.append(made)
        return DirectoryResult.SUCCESS, identifier

    def delete(self, item: DirectoryObject, caller: Token | None) -> DirectoryResult:
        self.calls.append(("delete", item.object_class))
        found = self.find(item.object_class, identifier=item.identifier)
        refused = self._refused(caller)
        if refused is not None or found is None:
            return refused or DirectoryResult.OBJECT_NOT_FOUND
        self.objects.remove(found)
        return DirectoryResult.SUCCESS

    def write(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult:
        self.calls.append(("write", item.object_class))
        found = self.find(item.object_class, identifier=item.identifier)
        refused = self._refused(caller)
        if refused is not None or found is None:
            return refused or DirectoryResult.OBJECT_NOT_FOUND
        changes = item.only(attributes).attributes
        for name in ("identifier", "full_path", "create_time"):
            changes.pop(name, None)
        found.attributes |= changes
        if item.object_class in _TIMED:
            found.attributes["modify_time"] = int(self._now())
        return DirectoryResult.SUCCESS

    def _refused(self, caller: Token | None) -> DirectoryResult | None:
        if not self.connected:
            return _NOT_CONNECTED
        allowed = caller is None or self.writers is None or caller.user in self.writers
        return None if allowed else DirectoryResult.GENERIC_ERROR

    # --- reading --------------------------------------------------------------------------------------------

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        self.calls.append(("read", object_class))
        if not self.connected:
            return _NOT_CONNECTED, None
        return super().read(object_class, conditions, attributes)

    def read_begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None,
        sort_order: Mapping[str, SortKey] | None,
    ) -> tuple[DirectoryResult, int | None]:
        self.calls.append(("read_begin", object_class))
        if not self.connected:
            return _NOT_CONNECTED, None
        return super().read_begin(object_class, conditions, attributes, sort_order)

    def read_next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]:
        self.calls.append(("read_next", None))
        return super().read_next(query) if self.connected else (_NOT_CONNECTED, None)

    def read_end(self, query: int) -> DirectoryResult:
        self.calls.append(("read_end", None))
        return super().read_end(query)

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        self.calls.append(("resolve_distribution_list", None))
        return super().resolve_distribution_list(guid, domain) if self.connected else (_NOT_CONNECTED, ())
