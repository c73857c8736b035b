"""Conversion between the objects of the data model and LDAP values (MS-MQDSSM 3.1.6.11, and the tables of the other
events).

Most attributes have a codec (:mod:`msmq.directory.schema`). The others are here: names that are made from
distinguished names, lists of identifiers that the directory keeps as references to objects, the bits of
mSMQServiceType, security descriptors, and attributes of a queue manager that are kept on its computer's object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msmq.directory import names, rights, values
from msmq.directory.connection import is_missing
from msmq.directory.names import Names
from msmq.directory.objects import Objects
from msmq.directory.results import DirectoryFailure, generic
from msmq.directory.schema import QUEUE_MANAGER, REQUIRED, Attribute, Kind, Use
from msmq.errors import DecodeError
from msmq.manager.directory import DirectoryObject, DirectoryResult
from msmq.manager.model import DirectoryServerType
from msmq.wire.certificates import UserSignCerts
from msmq.wire.guid import NULL_GUID

DIRECTORY_PATH_PREFIX: Final = "LDAP:///"

ROUTING_BIT: Final = 0x01
REMOTE_ACCESS_BIT: Final = 0x10
_CONTROLLER_BITS: Final = {
    DirectoryServerType.BACKUP_SITE_CONTROLLER: 0x02,
    DirectoryServerType.PRIMARY_SITE_CONTROLLER: 0x04,
    DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER: 0x08,
}
SERVICE_SOURCES: Final = (
    "directory_server",
    "directory_server_type",
    "remote_access_server",
    "routing_server",
)
"""The attributes from which mSMQServiceType is computed."""
SERVER_FLAGS: Final = ("routing_server", "directory_server", "supporting_server")
"""A queue manager with one of these set has mSMQSettings objects."""

_CLUSTER_MARK: Final = b"MSClusterVirtualServer"

Ldap = Mapping[str, Sequence[bytes]]
Known = dict[str, Any]
"""Results of look-ups during a conversion, by distinguished name, so that a long list looks nothing up twice."""


def populated(item: DirectoryObject, name: str) -> bool:
    """Whether an object has a value for an attribute; an empty identifier, path or descriptor does not count."""
    value = item.attributes.get(name)
    if name in ("identifier", "full_path", "directory_path", "security", "pathname", "computer_name"):
        return bool(value) and value != NULL_GUID
    return value is not None


def service_type(flags: Mapping[str, Any]) -> int:
    """mSMQServiceType (3.1.6.1.1.5)."""
    value = ROUTING_BIT if flags.get("routing_server") else 0
    value |= REMOTE_ACCESS_BIT if flags.get("remote_access_server") else 0
    if flags.get("directory_server"):
        value |= _CONTROLLER_BITS.get(flags.get("directory_server_type", DirectoryServerType.STANDALONE), 0)
    return value


def directory_server_type(value: int) -> DirectoryServerType:
    """DirectoryServerType (3.1.6.11.1.5)."""
    kinds = (kind for kind, bit in _CONTROLLER_BITS.items() if value & bit)
    return next(kinds, DirectoryServerType.STANDALONE)


def certificate_attributes(certificates: bytes) -> dict[str, list[bytes]]:
    """mSMQSignCertificates and mSMQDigests (3.1.6.1.1.9), always together and in the same order.

    A value that is no list of certificates is published as it is, without digests.
    """
    try:
        digests = [entry.digest for entry in UserSignCerts.decode(certificates).certificates]
    except DecodeError:
        digests = []
    return {
        "mSMQSignCertificates": [certificates] if certificates else [],
        "mSMQDigests": list(dict.fromkeys(digests)),
    }


class Converter:
    """Conversions, some of which look something up in the directory."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._readers: Mapping[str, Callable[[Kind, Attribute, Ldap, Known], Any]] = {
            "computer_name": self._computer_name,
            "out_routing_server_identifier_list": self._identifiers,
            "in_routing_server_identifier_list": self._identifiers,
            "site_gate_identifier_list": self._identifiers,
            "remote_access_server": self._remote_access_server,
            "site1_identifier": self._site_identifier,
            "site2_identifier": self._site_identifier,
            "security": self._security,
            "pathname": self._pathname,
            "qualified_pathname": self._qualified_pathname,
            "directory_path": self._directory_path,
            "name": self._enterprise_name,
        }

    # --- to LDAP --------------------------------------------------------------------------------------------

    def ldap_values(
        self, kind: Kind, item: DirectoryObject, listed: Collection[str], use: Use
    ) -> dict[str, list[bytes]]:
        """The LDAP values to store of an object: of attributes that are listed, populated and stored."""
        stored: dict[str, list[bytes]] = {}
        for entry in kind.attributes:
            if entry.name in listed and entry.use & use and populated(item, entry.name):
                stored[entry.ldap[0]] = self._encode(entry, item.attributes[entry.name])
        return stored

    def _encode(self, entry: Attribute, value: Any) -> list[bytes]:
        if entry.codec is not None:
            return entry.codec.encode(value)
        if entry.name in ("site1_identifier", "site2_identifier"):
            return [self.site_path(value)]
        return self._paths(value)

    def site_path(self, identifier: bytes) -> bytes:
        """The distinguished name of a site (3.1.6.1.4.4)."""
        try:
            return self.objects.get("", identifier, ["distinguishedName"])["distinguishedName"][0]
        except DirectoryFailure as failure:
            raise _worse(failure, "a site cannot be found") from failure

    def _paths(self, identifiers: Iterable[bytes]) -> list[bytes]:
        """The distinguished names of queue managers (3.1.6.1.1.6); those that are not found are skipped."""
        paths = []
        for identifier in identifiers:
            try:
                found = self.objects.get("", identifier, ["distinguishedName"])
            except DirectoryFailure as failure:
                _go_on_unless_offline(failure)
                continue
            paths += found["distinguishedName"][:1]
        return paths

    # --- from LDAP ------------------------------------------------------------------------------------------

    def element(self, kind: Kind, listed: Collection[str], found: Ldap, known: Known) -> DirectoryObject:
        """Create ADM Element From LDAP Values (3.1.6.11)."""
        item = DirectoryObject(kind.object_class)
        try:
            for entry in kind.attributes:
                if entry.name in listed and entry.name != "directory_server_type":
                    item.attributes[entry.name] = self._decode(kind, entry, found, known)
            if "directory_server_type" in listed and item.attributes.get("directory_server"):
                item.attributes["directory_server_type"] = directory_server_type(_service_bits(found))
            if any(entry.name in listed for entry in kind.elsewhere):
                item.attributes |= self._from_computer(listed, found, known)
        except DecodeError as error:
            path = b"".join(found.get("distinguishedName", ())).decode(errors="replace")
            raise generic(f"{path}: {error}") from error
        return item

    def _decode(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> Any:
        raw = found.get(entry.ldap[0], ()) if entry.ldap else ()
        if entry.ldap and not raw:
            return default(entry)
        if entry.codec is not None:
            return entry.codec.decode(raw)
        return self._readers[entry.name](kind, entry, found, known)

    def _computer_name(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> str:
        return names.first_value(names.parent(_path(found)))

    def _remote_access_server(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> bool:
        return bool(_service_bits(found) & REMOTE_ACCESS_BIT)

    def _security(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> bytes:
        return rights.decode(found[entry.ldap[0]][0], kind.object_class)

    def _directory_path(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> str:
        return DIRECTORY_PATH_PREFIX + _path(found)

    def _enterprise_name(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> str:
        root = self.objects.root_domain_naming_context
        if not root:
            raise generic("the root of the directory does not say what the root domain is")
        return root

    def _pathname(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> str:
        computer = names.first_value(names.parent(names.parent(_path(found))))
        return f"{computer}\\{_queue_name(found)}".lower()

    def _qualified_pathname(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> str:
        computer = names.parent(names.parent(_path(found)))
        host = self._known(known, computer, lambda: self._host_name(computer))
        return f"{host}\\{_queue_name(found)}".lower() if host else ""

    def _host_name(self, computer: str) -> str:
        found = self.objects.get(computer, b"", ["dNSHostName"])["dNSHostName"]
        return str(values.TEXT.decode(found)) if found else ""

    def _identifiers(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> tuple[bytes, ...]:
        """Identifiers of the objects that are referred to; references to missing objects are skipped."""
        identifiers = []
        for dn in values.TEXTS.decode(found[entry.ldap[0]]):
            try:
                identifiers.append(self._identifier_of(dn, known))
            except DirectoryFailure as failure:
                if not is_missing(failure):
                    raise _worse(failure, f"{dn} cannot be read") from failure
        return tuple(identifiers)

    def _site_identifier(self, kind: Kind, entry: Attribute, found: Ldap, known: Known) -> bytes:
        dn = values.TEXT.decode(found[entry.ldap[0]])
        try:
            return self._identifier_of(dn, known)
        except DirectoryFailure as failure:
            raise _worse(failure, f"the site {dn} cannot be read") from failure

    def _identifier_of(self, dn: str, known: Known) -> bytes:
        identifier: bytes = self._known(
            known, f"identifier of {dn}", lambda: self.objects.get(dn, b"", ["objectGUID"])["objectGUID"][0]
        )
        return identifier

    def _known(self, known: Known, key: str, look: Callable[[], Any]) -> Any:
        if key not in known:
            known[key] = look()
        return known[key]

    def _from_computer(self, listed: Collection[str], found: Ldap, known: Known) -> dict[str, Any]:
        """The attributes of a queue manager that are kept on its computer's object (3.1.6.11.1, the second read)."""
        entries = [entry for entry in QUEUE_MANAGER.elsewhere if entry.name in listed]
        computer = names.parent(_path(found))
        on_computer = self.objects.get(computer, b"", [entry.ldap[0] for entry in entries])
        attributes: dict[str, Any] = {}
        for entry in entries:
            raw = on_computer[entry.ldap[0]]
            if entry.name == "clustered":
                attributes[entry.name] = any(_CLUSTER_MARK in name for name in raw)
            elif not raw:
                attributes[entry.name] = default(entry)
            else:
                assert entry.codec is not None
                attributes[entry.name] = entry.codec.decode(raw)
        return attributes


def default(entry: Attribute) -> Any:
    if entry.default is REQUIRED:
        raise DecodeError(f"the object has no {entry.ldap[0]}")
    return entry.default


def _path(found: Ldap) -> str:
    paths = found.get("distinguishedName") or [b""]
    if not paths[0]:
        raise DecodeError("the object has no distinguishedName")
    return str(values.TEXT.decode(paths))


def _queue_name(found: Ldap) -> str:
    extension = found.get("mSMQQueueNameExt") or ()
    return names.join_queue_name(
        names.first_value(_path(found)), values.TEXT.decode(extension) if extension else ""
    )


def _service_bits(found: Ldap) -> int:
    raw = found.get("mSMQServiceType") or ()
    return int(values.INTEGER.decode(raw)) if raw else 0


def _worse(failure: DirectoryFailure, reason: str) -> DirectoryFailure:
    """The failure of an event, for the failure of a look-up that it needed."""
    _go_on_unless_offline(failure)
    return generic(f"{reason}: {failure.reason}")


def _go_on_unless_offline(failure: DirectoryFailure) -> None:
    """Raise the failure if the directory went away: that is not the object's fault, and the caller should know."""
    if failure.result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
        raise failure


def queue_manager_path(places: Names, item: DirectoryObject) -> str:
    """The distinguished name of a queue manager's object, or ""."""
    if populated(item, "full_path"):
        return str(item.attributes["full_path"])
    return places.queue_manager(item.attributes["computer_name"]) if populated(item, "computer_name") else ""


def computer_of(attributes: Mapping[str, Any]) -> str:
    """The name of the computer that an object or a condition is about, or ""."""
    computer = attributes.get("computer_name") or str(attributes.get("pathname") or "").partition("\\")[0]
    return str(computer)
