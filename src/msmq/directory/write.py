"""Write Directory (MS-MQDSSM 3.1.6.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msmq.directory import names, protection, rights
from msmq.directory.conversion import (
    DIRECTORY_PATH_PREFIX,
    SERVER_FLAGS,
    SERVICE_SOURCES,
    Converter,
    certificate_attributes,
    populated,
    queue_manager_path,
    service_type,
)
from msmq.directory.create import check_list
from msmq.directory.filters import condition
from msmq.directory.objects import Objects
from msmq.directory.results import generic
from msmq.directory.schema import KINDS, QUEUE_MANAGER, SETTINGS_OF_CONFIGURATION, USER, Kind, Use
from msmq.directory.settings_objects import SettingsObjects
from msmq.manager.directory import DirectoryObject, ObjectClass, Relation
from msmq.security.descriptor import SecurityDescriptor

_ROLES: Final = (*SERVER_FLAGS, "remote_access_server", "directory_server_type", "site_identifier_list")


class Writing:
    """The event that changes objects, for each class."""

    def __init__(self, objects: Objects, converter: Converter) -> None:
        self.objects = objects
        self.converter = converter
        self.settings = SettingsObjects(objects)

    def write(self, item: DirectoryObject, listed: Sequence[str] | None) -> None:
        if item.object_class not in KINDS:
            raise generic(f"Active Directory has no {item.object_class.value}")
        kind = KINDS[item.object_class]
        names_listed = check_list(kind, listed)
        path, guid = self._target(item)
        if kind is QUEUE_MANAGER:
            self._write_queue_manager(item, names_listed, path, guid)
            return
        self.objects.set(path, guid, self.converter.ldap_values(kind, item, names_listed, Use.WRITE))
        self._write_security(kind, item, names_listed, path, guid)

    def _target(self, item: DirectoryObject) -> tuple[str, bytes]:
        """The distinguished name of the object to write, its identifier, or both."""
        places = self.objects.names
        if item.object_class is ObjectClass.ENTERPRISE:
            return places.enterprise, b""
        guid = item.attributes["identifier"] if populated(item, "identifier") else b""
        path = str(item.attributes["full_path"]) if populated(item, "full_path") else ""
        if item.object_class is ObjectClass.USER:
            return ("", guid) if guid else (self._user_path(item), b"")
        if not path and item.object_class is ObjectClass.QUEUE_MANAGER:
            path = queue_manager_path(places, item)
        elif not path and item.object_class is ObjectClass.QUEUE:
            if populated(item, "directory_path"):
                prefix = DIRECTORY_PATH_PREFIX.rstrip("/") + "//"
                path = str(item.attributes["directory_path"]).removeprefix(prefix).lstrip("/")
            elif populated(item, "pathname"):
                path = places.queue(item.attributes["pathname"])
        elif not path and item.object_class is ObjectClass.SITE and item.attributes.get("name"):
            path = places.site(item.attributes["name"])
        if not path and not guid:
            raise generic("nothing says which object to write")
        return path, guid

    def _user_path(self, item: DirectoryObject) -> str:
        sid = item.attributes.get("security_identifier")
        if not sid:
            raise generic("nothing says which user to write")
        found = self.objects.search(
            USER.ldap_class, [condition("objectSid", Relation.EQUALS, sid)], ["distinguishedName"]
        )
        if not found:
            raise generic("there is no user with this security identifier")
        return found[0]["distinguishedName"][0].decode()

    def _write_security(
        self, kind: Kind, item: DirectoryObject, listed: Sequence[str], path: str, guid: bytes
    ) -> None:
        if kind.object_class in rights.RIGHTS and "security" in listed and populated(item, "security"):
            wanted = SecurityDescriptor.decode(item.attributes["security"])
            taken = protection.acceptable(wanted, self.objects.account(), kind.object_class)
            self.objects.set_security(path, guid, rights.to_directory(taken, kind.object_class))

    # --- queue managers -------------------------------------------------------------------------------------

    def _write_queue_manager(
        self, item: DirectoryObject, listed: Sequence[str], path: str, guid: bytes
    ) -> None:
        """Write the configuration, its descriptor, the certificates of the computer, and the settings objects.

        The old roles are read first: a role that is not written keeps its bit, and the settings objects follow the
        change of roles.
        """
        given = {name: item.attributes[name] for name in _ROLES if name in listed and populated(item, name)}
        before = self._roles(path, guid) if given else {}
        after = before | given
        attributes = self.converter.ldap_values(QUEUE_MANAGER, item, listed, Use.WRITE)
        if any(name in given for name in SERVICE_SOURCES):
            attributes["mSMQServiceType"] = [b"%d" % service_type(after)]
        self.objects.set(path, guid, attributes)
        self._write_security(QUEUE_MANAGER, item, listed, path, guid)
        if "public_signing_key_list" in listed and populated(item, "public_signing_key_list"):
            computer = self._computer_path(item, path, guid)
            self.objects.set(
                computer, b"", certificate_attributes(item.attributes["public_signing_key_list"])
            )
        if given:
            self._follow(before, after, path, guid)

    def _computer_path(self, item: DirectoryObject, path: str, guid: bytes) -> str:
        if populated(item, "computer_name"):
            return self.objects.names.computer(item.attributes["computer_name"])
        return names.parent(path or self._dn(guid))

    def _dn(self, guid: bytes) -> str:
        return self.objects.get("", guid, ["distinguishedName"])["distinguishedName"][0].decode()

    def _roles(self, path: str, guid: bytes) -> dict[str, Any]:
        wanted = [name for name, _ in _ldap_names()]
        found = self.objects.get(path, guid, list(dict.fromkeys(ldap for _, ldap in _ldap_names())))
        return self.converter.element(QUEUE_MANAGER, wanted, found, {}).attributes

    def _follow(
        self,
        before: dict[str, Any],
        after: dict[str, Any],
        path: str,
        guid: bytes,
    ) -> None:
        """Update the settings objects after a change of roles (3.1.6.7.1.9, mSMQSettings Objects)."""
        old = _sites_served(before)
        new = _sites_served(after)
        if not old and not new:
            return
        configuration = self.objects.get(path, guid, list(SETTINGS_OF_CONFIGURATION.values()))
        computer = names.first_value(names.parent(configuration["distinguishedName"][0].decode()))
        for site in new:
            if site in old:
                self.settings.update(computer, site, configuration)
            else:
                self.settings.create(computer, site, configuration)
        for site in old:
            if site not in new:
                self.settings.delete(computer, site)


def _ldap_names() -> list[tuple[str, str]]:
    return [
        (entry.name, ldap)
        for entry in QUEUE_MANAGER.attributes
        if entry.name in _ROLES
        for ldap in entry.ldap
    ]


def _sites_served(roles: dict[str, Any]) -> tuple[bytes, ...]:
    """The sites in which a queue manager with these roles has a settings object."""
    if not any(roles.get(flag) for flag in SERVER_FLAGS):
        return ()
    return tuple(roles.get("site_identifier_list", ()))
