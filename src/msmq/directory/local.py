"""The directory of a workgroup: one TOML file that every host has a copy of.

It lists the hosts, their addresses and which of them route, the sites and links, the public queues and the members of
distribution lists. Hosts, sites, queues and lists have GUIDs; one that is not given is derived from the name, so that
it is the same on every host.

The file is the operator's and is only read. Creating a public queue that the file lists for this host gives it the
identifier it has there; one that is not listed is refused. Changes to a queue are kept by its queue manager in its own
store, not by the directory.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import NAMESPACE_OID, uuid5

from msmq.directory.listed import ListedDirectory
from msmq.errors import MQError, MsmqError
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    ObjectClass,
    Published,
    directory_object,
)
from msmq.manager.model import Enterprise, QueueManagerRecord, RoutingLink, Site
from msmq.security.access import Token
from msmq.wire.guid import guid_from_text
from msmq.wire.names import QueueKind, QueuePath, parse_format_name

_ROUTES: Final = (
    "identifier",
    "computer_name",
    "qualified_computer_name",
    "site_identifier_list",
    "out_routing_server_identifier_list",
    "in_routing_server_identifier_list",
    "routing_server",
)
"""The attributes of a host that the file tells; the others are known to the host itself."""
_TABLES: Final[Mapping[str, frozenset[str]]] = {
    "sites": frozenset({"name", "guid"}),
    "links": frozenset({"sites", "cost", "gates", "guid"}),
    "hosts": frozenset(
        {
            "name", "guid", "dns_name", "addresses", "sites", "routing_server", "out_routing_servers",
            "in_routing_servers",
        }
    ),
    "queues": frozenset({"path", "guid", "base_priority"}),
    "lists": frozenset({"name", "guid", "members"}),
}  # fmt: skip

Entry = dict[str, Any]
Kind = TypeVar("Kind")


class DirectoryFileError(MsmqError):
    """The file has invalid contents."""


class LocalDirectory(ListedDirectory):
    """The contents of the file, as a :class:`msmq.manager.directory.Directory`."""

    def __init__(self, table: Entry) -> None:
        """``table`` is the TOML document."""
        super().__init__()
        self.addresses: dict[str, list[str]] = {}
        """Addresses of hosts, by computer name and by DNS name in lower case, as far as the file gives them."""
        self._read_document(table)

    @classmethod
    def load(cls, path: Path) -> LocalDirectory:
        try:
            with path.open("rb") as file:
                return cls(tomllib.load(file))
        except (OSError, tomllib.TOMLDecodeError, DirectoryFileError) as error:
            raise DirectoryFileError(f"{path}: {error}") from error

    def take_over(self, fresh: LocalDirectory) -> None:
        """Replace the contents by those of another directory, for all that hold this one or its tables."""
        self.objects[:] = fresh.objects
        self.lists.clear()
        self.lists.update(fresh.lists)
        self.addresses.clear()
        self.addresses.update(fresh.addresses)

    # The file

    def _read_document(self, table: Entry) -> None:
        unknown = table.keys() - _TABLES.keys() - {"enterprise"}
        if unknown:
            raise DirectoryFileError(f"{min(unknown)} is no table of a directory.")
        sites = {entry["name"].lower(): entry for entry in _entries(table, "sites", "name")}
        hosts = {entry["name"].lower(): entry for entry in _entries(table, "hosts", "name")}
        self._read_enterprise(_get(table, "enterprise", dict))
        self._site_guids = {name: _guid("site", name, entry) for name, entry in sites.items()}
        self._hosts = {name: entry["name"] for name, entry in hosts.items()}
        self._host_guids = {name: _guid("host", name, entry) for name, entry in hosts.items()}
        for name, entry in sites.items():
            self._put(Site(self._site_guids[name], entry["name"]))
        for entry in hosts.values():
            self._read_host(entry)
        for entry in _entries(table, "links", "sites"):
            self._read_link(entry)
        for entry in _entries(table, "queues", "path"):
            self._read_queue(entry)
        for entry in _entries(table, "lists", "name"):
            self._read_list(entry)
        known: set[bytes] = set()
        for item in self.objects:
            if item.identifier in known:
                raise DirectoryFileError(f"the GUID {item.identifier.hex()} is given to two things.")
            known.add(item.identifier)

    def _put(self, element: Published, *only: str) -> None:
        self.objects.append(directory_object(element).only(only or None))

    def _read_enterprise(self, entry: Entry) -> None:
        enterprise = Enterprise(uuid5(NAMESPACE_OID, "msmq enterprise").bytes_le)
        known = {entry.name for entry in fields(Enterprise)} & {"name", "default_time_to_live_s"}
        for name, value in entry.items():
            if name not in known or type(value) is not type(getattr(enterprise, name)):
                raise DirectoryFileError(f"enterprise.{name} cannot be {value!r}.")
            setattr(enterprise, name, value)
        self._put(enterprise)

    def _read_host(self, entry: Entry) -> None:
        name = entry["name"]
        record = QueueManagerRecord(
            self._host_guids[name.lower()],
            name,
            qualified_computer_name=_get(entry, "dns_name", str) or name,
            routing_server=_get(entry, "routing_server", bool),
            site_identifier_list=self._refer(self._site_guids, entry, "sites"),
            out_routing_server_identifier_list=self._refer(self._host_guids, entry, "out_routing_servers"),
            in_routing_server_identifier_list=self._refer(self._host_guids, entry, "in_routing_servers"),
        )
        self._put(record, *_ROUTES)
        addresses = _texts(entry, "addresses")
        if addresses:
            for known_as in {record.computer_name, record.qualified_computer_name}:
                self.addresses[known_as.lower()] = addresses

    @staticmethod
    def _refer(guids: Mapping[str, bytes], entry: Entry, key: str) -> tuple[bytes, ...]:
        names = _texts(entry, key)
        for name in names:
            if name.lower() not in guids:
                raise DirectoryFileError(f"{key} names {name}, which is nowhere in the file.")
        return tuple(guids[name.lower()] for name in names)

    def _read_link(self, entry: Entry) -> None:
        sites = self._refer(self._site_guids, entry, "sites")
        if len(set(sites)) != 2:
            raise DirectoryFileError("a link joins two different sites.")
        name = " - ".join(entry["sites"])
        try:
            link = RoutingLink(
                _guid("link", name.lower(), entry),
                name,
                actual_cost=_get(entry, "cost", int) or 1,
                site1_identifier=sites[0],
                site2_identifier=sites[1],
                site_gate_identifier_list=self._refer(self._host_guids, entry, "gates"),
            )
        except ValueError as error:
            raise DirectoryFileError(f"{name}: {error}.") from None
        self._put(link)

    def _read_queue(self, entry: Entry) -> None:
        try:
            path = QueuePath.parse(entry["path"])
        except MQError as error:
            raise DirectoryFileError(f"{entry['path']}: {error}") from None
        host = self._hosts.get(path.computer.lower())
        if path.kind is not QueueKind.PUBLIC or host is None:
            raise DirectoryFileError(f"{path} is no public queue of a host of the file.")
        path = replace(path, computer=host)
        attributes = {
            "identifier": _guid("queue", str(path).lower(), entry),
            "pathname": str(path),
            "base_priority": _get(entry, "base_priority", int),
            "full_path": "",
            "directory_path": "",
        }
        self.objects.append(DirectoryObject(ObjectClass.QUEUE, attributes))

    def _read_list(self, entry: Entry) -> None:
        members = tuple(_texts(entry, "members"))
        for member in members:
            try:
                parse_format_name(member)
            except MQError as error:
                raise DirectoryFileError(f"{entry['name']} has the member {member}: {error}") from None
        self.lists[_guid("list", entry["name"].lower(), entry)] = members

    # Changing: only what the file says already

    def create(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> tuple[DirectoryResult, bytes | None]:
        if item.object_class is ObjectClass.QUEUE:
            wanted = str(item.attributes["pathname"]).lower()
            for known in self.matching(ObjectClass.QUEUE, None):
                if known.attributes["pathname"].lower() == wanted:
                    return DirectoryResult.SUCCESS, known.identifier
        return DirectoryResult.GENERIC_ERROR, None

    def delete(self, item: DirectoryObject, caller: Token | None) -> DirectoryResult:
        """Allow the deletion of a queue; its name stays reserved until the operator removes it from the file."""
        known = item.object_class is ObjectClass.QUEUE
        return DirectoryResult.SUCCESS if known else DirectoryResult.GENERIC_ERROR

    def write(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult:
        known = item.object_class is ObjectClass.QUEUE
        return DirectoryResult.SUCCESS if known else DirectoryResult.GENERIC_ERROR


def _entries(table: Entry, name: str, key: str) -> list[Entry]:
    """The entries of a table. Each must have ``key``, with a value of its own unless the key is ``sites``."""
    found = _get(table, name, list)
    for entry in found:
        if not isinstance(entry, dict) or not entry.get(key):
            raise DirectoryFileError(f"every [[{name}]] says {key}.")
        unknown = entry.keys() - _TABLES[name]
        if unknown:
            raise DirectoryFileError(f"{min(unknown)} means nothing in [[{name}]].")
        if key != "sites":
            _get(entry, key, str)
    if key != "sites":
        names = [entry[key].lower() for entry in found]
        if len(names) != len(set(names)):
            raise DirectoryFileError(f"two [[{name}]] have the same {key}.")
    return list(found)


def _get(entry: Entry, key: str, kind: type[Kind]) -> Kind:
    """A value of a type, or the type's empty value if it is missing."""
    value = entry.get(key, kind())
    if type(value) is not kind:
        raise DirectoryFileError(f"{key} is {value!r}, which is no {kind.__name__}.")
    return value


def _texts(entry: Entry, key: str) -> list[str]:
    found = _get(entry, key, list)
    if not all(isinstance(text, str) for text in found):
        raise DirectoryFileError(f"{key} is a list of texts.")
    return found


def _guid(kind: str, name: str, entry: Entry) -> bytes:
    text = _get(entry, "guid", str)
    if not text:
        return uuid5(NAMESPACE_OID, f"msmq {kind} {name}").bytes_le
    try:
        return guid_from_text(text)
    except MsmqError as error:
        raise DirectoryFileError(f"{kind} {name}: {error}") from None
    except ValueError:
        raise DirectoryFileError(f"{kind} {name}: {text} is no GUID.") from None
