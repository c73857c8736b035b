"""Create Directory Object and Delete Directory Object (MS-MQDSSM 3.1.6.1, 3.1.6.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msmq.directory import names, protection, rights
from msmq.directory.conversion import (
    SERVER_FLAGS,
    SERVICE_SOURCES,
    Converter,
    certificate_attributes,
    populated,
    queue_manager_path,
    service_type,
)
from msmq.directory.objects import Objects
from msmq.directory.results import DirectoryFailure, generic
from msmq.directory.schema import KINDS, QUEUE, QUEUE_MANAGER, ROUTING_LINK, SITE, Kind, Use
from msmq.directory.settings_objects import SettingsObjects
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass
from msmq.security.access import Token
from msmq.security.descriptor import SecurityDescriptor
from msmq.security.sid import Sid

_NEEDED: Final[Mapping[ObjectClass, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    ObjectClass.QUEUE_MANAGER: (("site_identifier_list",), ("site_identifier_list", "computer_name")),
    ObjectClass.QUEUE: (("pathname",), ("pathname",)),
    ObjectClass.SITE: (("name",), ("name",)),
    ObjectClass.ROUTING_LINK: (
        ("site1_identifier", "site2_identifier", "actual_cost"),
        ("site1_identifier", "site2_identifier", "actual_cost"),
    ),
}
"""The attributes that a given list must contain, and those that the object must have, to be created."""


def check_list(kind: Kind, listed: Sequence[str] | None) -> Sequence[str]:
    """The attributes that an event handles. Raises if Active Directory does not support one of them."""
    if listed is None:
        return kind.names
    unsupported = sorted(kind.unsupported.intersection(listed))
    if unsupported:
        raise generic(f"Active Directory does not keep {', '.join(unsupported)}")
    return listed


class Creating:
    """The events that create and delete objects."""

    def __init__(self, objects: Objects, converter: Converter) -> None:
        self.objects = objects
        self.converter = converter
        self.settings = SettingsObjects(objects)
        self._creators: Mapping[ObjectClass, Callable[..., bytes]] = {
            ObjectClass.QUEUE_MANAGER: self._create_queue_manager,
            ObjectClass.QUEUE: self._create_queue,
            ObjectClass.SITE: self._create_site,
            ObjectClass.ROUTING_LINK: self._create_routing_link,
        }

    def create(self, item: DirectoryObject, listed: Sequence[str] | None, caller: Token | None) -> bytes:
        """Create Directory Object. Returns the GUID."""
        if item.object_class not in self._creators:
            raise generic(f"a {item.object_class.value} is not created by a queue manager")
        kind = KINDS[item.object_class]
        in_list, in_object = _NEEDED[item.object_class]
        if listed is not None and not set(in_list) <= set(listed):
            raise generic(f"{', '.join(in_list)} must be among the attributes")
        if not all(populated(item, name) for name in in_object) or item.attributes.get("name") == "":
            raise generic(f"{', '.join(in_object)} must be known")
        if kind is QUEUE and listed is not None and "scope" in listed:
            raise generic("Active Directory does not keep scope")
        return self._creators[item.object_class](item, check_list(kind, listed), caller)

    def _create_queue_manager(
        self, item: DirectoryObject, listed: Sequence[str], caller: Token | None
    ) -> bytes:
        computer = str(item.attributes["computer_name"])
        path = self.objects.names.computer(computer)
        attributes = self.converter.ldap_values(QUEUE_MANAGER, item, listed, Use.CREATE)
        given = {
            name: item.attributes[name]
            for name in SERVICE_SOURCES
            if name in listed and populated(item, name)
        }
        if given:
            attributes["mSMQServiceType"] = [b"%d" % service_type(given)]
        if "security" in listed:
            attributes["nTSecurityDescriptor"] = [self._queue_manager_security(item, listed, path, caller)]
        try:
            guid = self.objects.create(path, "msmq", QUEUE_MANAGER.ldap_class, attributes)
        except DirectoryFailure as failure:
            if failure.result is not DirectoryResult.OBJECT_ALREADY_EXISTS:
                raise
            guid = self.objects.get(names.child("msmq", path), b"", ["objectGUID"])["objectGUID"][0]
        if "public_signing_key_list" in listed and populated(item, "public_signing_key_list"):
            self.objects.set(path, b"", certificate_attributes(item.attributes["public_signing_key_list"]))
        if any(item.attributes.get(flag) for flag in SERVER_FLAGS):
            for site in item.attributes["site_identifier_list"]:
                configuration = {**attributes, "objectGUID": [guid]}
                self.settings.create(computer, site, configuration, replace_old=True)
        return guid

    def _queue_manager_security(
        self, item: DirectoryObject, listed: Sequence[str], computer: str, caller: Token | None
    ) -> bytes:
        try:
            machine = self.objects.get(computer, b"", ["objectSid"])["objectSid"]
        except DirectoryFailure:
            machine = []
        descriptor = protection.queue_manager_descriptor(
            _supplied(item),
            Sid.decode(machine[0]) if machine else None,
            self._identity(caller),
            foreign="foreign_system" in listed and bool(item.attributes.get("foreign_system")),
        )
        return rights.to_directory(descriptor, ObjectClass.QUEUE_MANAGER).encode()

    def _identity(self, caller: Token | None) -> Sid | None:
        """The user on whose behalf an object is created: the caller, or the account we are logged on as."""
        if caller is not None:
            return caller.user
        return next(iter(self.objects.account()), None)

    def _create_queue(self, item: DirectoryObject, listed: Sequence[str], caller: Token | None) -> bytes:
        computer, queue = names.split_pathname(item.attributes["pathname"])
        common_name, extension = names.split_queue_name(queue)
        attributes = self.converter.ldap_values(QUEUE, item, listed, Use.CREATE)
        if "security" in listed and populated(item, "security"):
            wanted = SecurityDescriptor.decode(item.attributes["security"])
            taken = protection.acceptable(wanted, self.objects.account(), ObjectClass.QUEUE)
            attributes["nTSecurityDescriptor"] = [rights.to_directory(taken, ObjectClass.QUEUE).encode()]
        if extension:
            attributes["mSMQQueueNameExt"] = [extension.encode()]
        parent = self.objects.names.queue_manager(computer)
        return self.objects.create(parent, common_name, QUEUE.ldap_class, attributes)

    def _create_site(self, item: DirectoryObject, listed: Sequence[str], caller: Token | None) -> bytes:
        attributes = self.converter.ldap_values(SITE, item, listed, Use.CREATE)
        supplied = _supplied(item) if "security" in listed else SecurityDescriptor()
        identity = None if supplied.owner is not None else self._identity(caller)
        descriptor = protection.site_descriptor(supplied, identity)
        attributes["nTSecurityDescriptor"] = [rights.to_directory(descriptor, ObjectClass.SITE).encode()]
        return self.objects.create(
            self.objects.names.sites, item.attributes["name"], SITE.ldap_class, attributes
        )

    def _create_routing_link(
        self, item: DirectoryObject, listed: Sequence[str], caller: Token | None
    ) -> bytes:
        attributes = self.converter.ldap_values(ROUTING_LINK, item, listed, Use.CREATE)
        name = names.routing_link_name(
            item.attributes["site1_identifier"], item.attributes["site2_identifier"]
        )
        return self.objects.create(self.objects.names.enterprise, name, ROUTING_LINK.ldap_class, attributes)

    # --- deleting -------------------------------------------------------------------------------------------

    def delete(self, item: DirectoryObject) -> None:
        """Delete Directory Object."""
        if item.object_class not in self._creators:
            raise generic(f"a {item.object_class.value} is not deleted by a queue manager")
        guid = item.attributes["identifier"] if populated(item, "identifier") else b""
        places = self.objects.names
        path = str(item.attributes["full_path"]) if populated(item, "full_path") else ""
        if not path and item.object_class is ObjectClass.QUEUE_MANAGER:
            path = queue_manager_path(places, item)
        elif not path and item.object_class is ObjectClass.QUEUE and populated(item, "pathname"):
            path = places.queue(item.attributes["pathname"])
        elif not path and item.object_class is ObjectClass.SITE and item.attributes.get("name"):
            path = places.site(item.attributes["name"])
        if not path and not guid:
            raise generic("nothing says which object to delete")
        if item.object_class is ObjectClass.QUEUE_MANAGER:
            self._delete_queue_manager(item, path, guid)
        else:
            self.objects.delete(path, guid)

    def _delete_queue_manager(self, item: DirectoryObject, path: str, guid: bytes) -> None:
        """Delete a queue manager, then its settings objects. If the caller does not tell its roles they are read
        first, or the settings objects would stay behind."""
        roles: dict[str, Any] = dict(item.attributes)
        needed = (*SERVER_FLAGS, "site_identifier_list", "computer_name")
        missing = [name for name in needed if not populated(item, name)]
        if missing:
            wanted = [entry.ldap[0] for entry in QUEUE_MANAGER.attributes if entry.name in missing]
            found = self.objects.get(path, guid, wanted)
            roles |= self.converter.element(QUEUE_MANAGER, missing, found, {}).attributes
        self.objects.delete(path, guid)
        if any(roles.get(flag) for flag in SERVER_FLAGS):
            for site in roles["site_identifier_list"]:
                self.settings.delete(str(roles["computer_name"]), site)


def _supplied(item: DirectoryObject) -> SecurityDescriptor:
    security = item.attributes.get("security")
    return SecurityDescriptor.decode(security) if security else SecurityDescriptor()
