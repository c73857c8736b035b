"""A domain for the tests of the directory: the shared controller, seen by us and by others."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.query import find_all
from msmq.directory.settings import Password, Server, Settings
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    SortKey,
    by_identifier,
)
from scripts.samba_dc import (
    ADMINISTRATOR,
    HOST,
    PASSWORD,
    REALM,
    ROOT_DN,
    DomainController,
    DomainControllerError,
)

CONFIGURATION = f"CN=Configuration,{ROOT_DN}"
ENTERPRISE_DN = f"CN=MsmqServices,CN=Services,{CONFIGURATION}"
DEFAULT_SITE = "Default-First-Site-Name"


@dataclass
class Request:
    """An LDAP request as its bytes say it."""

    operation: str
    dn: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    controls: list[str] = field(default_factory=list)


_NEVER = re.compile(
    rb"mSMQOwnerID|mSMQSiteID|mSMQPrevSiteGates|MSMQ-SecuredSource|mSMQComputerType(?!Ex)|mSMQLabel(?!Ex)|mSMQSiteName"
    rb"|Mig\b|mSMQMigrated"
)
"""Attributes that are in the schema and out of use (2.2.4), or that only Windows 2000 knew (2.2.2)."""
CREATED = {"mSMQConfiguration", "mSMQQueue", "site", "mSMQSiteLink", "mSMQSettings"}


class Trace:
    """What was sent, read from the bytes."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def __call__(self, data: bytes) -> None:
        """Whatever a test is about, what we never send is never sent."""
        assert not _NEVER.search(data)
        self.messages.append(data)
        request = _request(data)
        if request.operation == "addRequest":
            assert request.fields["objectClass"][0].decode() in CREATED

    def clear(self) -> None:
        self.messages.clear()

    @property
    def requests(self) -> list[Request]:
        return [_request(data) for data in self.messages]

    def sent(self, operation: str) -> list[Request]:
        return [request for request in self.requests if request.operation == operation]

    @property
    def operations(self) -> list[str]:
        """All but binding and unbinding, in their order."""
        return [
            request.operation
            for request in self.requests
            if request.operation not in ("bindRequest", "unbindRequest")
        ]


_OPERATIONS = {
    0x60: "bindRequest",
    0x42: "unbindRequest",
    0x63: "searchRequest",
    0x66: "modifyRequest",
    0x68: "addRequest",
    0x4A: "delRequest",
}


def _request(data: bytes) -> Request:
    """Read an LDAPMessage (RFC 4511 4.1.1) without the help of the library that wrote it."""
    ((_, message),) = parts_of(data)
    _, (tag, body), *controls = parts_of(message)
    request = Request(_OPERATIONS[tag])
    for _, listed in controls:
        request.controls = [parts_of(control)[0][1].decode() for _, control in parts_of(listed)]
    if request.operation == "delRequest":
        request.dn = body.decode()
    elif request.operation == "searchRequest":
        base, scope, deref, size, time, types, conditions, attributes = parts_of(body)
        request.dn = base[1].decode()
        request.fields = {
            "scope": scope[1][0],
            "deref": deref[1][0],
            "size_limit": int.from_bytes(size[1], "big"),
            "time_limit": int.from_bytes(time[1], "big"),
            "types_only": bool(types[1][0]),
            "attributes": [name.decode() for _, name in parts_of(attributes[1])],
            "filter": _filter(*conditions),
        }
    elif request.operation == "addRequest":
        (_, dn), (_, attributes_given) = parts_of(body)
        request.dn = dn.decode()
        for _, attribute in parts_of(attributes_given):
            (_, name), (_, values) = parts_of(attribute)
            request.fields[name.decode()] = [value for _, value in parts_of(values)]
    elif request.operation == "modifyRequest":
        (_, dn), (_, changes) = parts_of(body)
        request.dn = dn.decode()
        for _, change in parts_of(changes):
            (_, operation), (_, modification) = parts_of(change)
            (_, name), (_, values) = parts_of(modification)
            request.fields[name.decode()] = (operation[0], [value for _, value in parts_of(values)])
    return request


def parts_of(data: bytes) -> list[tuple[int, bytes]]:
    """The elements of BER-encoded data: tags and contents."""
    parts = []
    while data:
        tag, length, start = data[0], data[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[2:start], "big")
        assert len(data) >= start + length
        parts.append((tag, data[start : start + length]))
        data = data[start + length :]
    return parts


def _filter(tag: int, body: bytes) -> str:
    """A filter as RFC 4515 writes it, values unescaped."""
    if tag in (0xA0, 0xA1, 0xA2):
        inner = "".join(_filter(*part) for part in parts_of(body))
        return f"({ {0xA0: '&', 0xA1: '|', 0xA2: '!'}[tag] }{inner})"
    if tag == 0x87:
        return f"({body.decode()}=*)"
    (_, name), (_, value) = parts_of(body)
    relation = {0xA3: "=", 0xA5: ">=", 0xA6: "<="}[tag]
    return f"({name.decode()}{relation}{value.decode(errors='backslashreplace')})"


def parse_ldif(text: str) -> list[dict[str, list[bytes]]]:
    """Entries of LDIF without folded lines."""
    entries = []
    for block in re.split(r"\n\n+", text.strip()):
        entry: dict[str, list[bytes]] = {}
        for line in block.splitlines():
            name, _, value = line.partition(":")
            if name and not line.startswith(("#", "ref", "search", "result")):
                raw = base64.b64decode(value[1:]) if value.startswith(":") else value.strip().encode()
                entry.setdefault(name, []).append(raw)
        if "dn" in entry:
            entries.append(entry)
    return entries


class Domain:
    """The shared domain: our directory in it, and helpers that go around it."""

    def __init__(self, controller: DomainController) -> None:
        self.controller = controller
        self.trace = Trace()
        self.directory = self.directory_as(ADMINISTRATOR, self.trace)
        self.trace.clear()
        self.hand = self.directory_as(ADMINISTRATOR).connection
        """What an administrator does by hand, which is not traced."""

    def settings(self, user: str = ADMINISTRATOR, password: str = PASSWORD) -> Settings:
        servers = (Server(HOST, self.controller.address, self.controller.ports["ldap"]),)
        return Settings(servers, Password(user, password), mechanism="ntlm")

    def directory_as(self, user: str, trace: Trace | None = None) -> ActiveDirectory:
        """Our directory, bound as somebody."""
        if "@" not in user:
            user = f"{user}@{REALM}"
        directory = ActiveDirectory(self.settings(user), trace)
        assert directory.initialize()
        assert directory.objects.domains == [ROOT_DN]  # asked now, they are in nobody's trace
        assert directory.objects.account()
        return directory

    # --- going around us ------------------------------------------------------------------------------------

    def look(self, dn: str, *attributes: str) -> dict[str, list[bytes]]:
        """An object as ldapsearch shows it."""
        (entry,) = parse_ldif(self.controller.ldapsearch(dn, *attributes, scope="base"))
        return entry

    def exists(self, dn: str) -> bool:
        try:
            self.controller.ldapsearch(dn, "dn", scope="base")
        except DomainControllerError as error:
            if "No such object" not in str(error):
                raise
            return False
        return True

    def add(self, dn: str, ldap_class: str, **attributes: str | bytes | Sequence[bytes]) -> str:
        """Put an object there, as an administrator does."""
        values = {name.replace("_", "-"): _values(value) for name, value in attributes.items()}
        with self.hand.use():
            self.hand.add(dn, ldap_class, values)
        return dn

    def change(self, dn: str, **attributes: str | bytes | Sequence[bytes]) -> None:
        values = {name.replace("_", "-"): _values(value) for name, value in attributes.items()}
        with self.hand.use():
            self.hand.replace(dn, values)

    def remove(self, dn: str) -> None:
        with self.hand.use():
            self.hand.delete(dn)

    # --- things to have -------------------------------------------------------------------------------------

    def name(self, prefix: str = "") -> str:
        """A name nobody else has."""
        return f"{prefix}{secrets.token_hex(4)}"

    def computer(self, name: str | None = None, **attributes: str | Sequence[bytes]) -> str:
        """A computer without a queue manager; gives its name."""
        name = name or self.name("qm")
        given: dict[str, Any] = {
            "sAMAccountName": f"{name[:15]}$",
            "userAccountControl": "4096",
            "dNSHostName": f"{name}.msmq.test",
            "servicePrincipalName": [f"HOST/{name}".encode()],
        }
        given |= attributes
        self.add(
            self.directory.objects.names.computer(name), "computer", **{k: v for k, v in given.items() if v}
        )
        return name

    def site(self, name: str | None = None) -> tuple[str, bytes]:
        """A site; gives its name and its identifier."""
        name = name or self.name("site")
        result, identifier = self.directory.create(
            DirectoryObject(ObjectClass.SITE, {"name": name}), None, None
        )
        assert result is DirectoryResult.SUCCESS, self.directory.last_failure
        assert identifier is not None
        self.add(f"CN=Servers,CN={name},CN=Sites,{CONFIGURATION}", "serversContainer")
        self.trace.clear()
        return name, identifier

    def server(self, computer: str, site: str) -> str:
        """The object of a computer among the servers of a site."""
        return self.add(f"CN={computer},CN=Servers,CN={site},CN=Sites,{CONFIGURATION}", "server")

    def queue_manager(self, **attributes: Any) -> DirectoryObject:
        """A queue manager in the directory, on a computer of its own."""
        name = attributes.pop("computer_name", None) or self.computer()
        given = {"computer_name": name, "site_identifier_list": ()} | attributes
        item = DirectoryObject(ObjectClass.QUEUE_MANAGER, given)
        result, identifier = self.directory.create(item, None, None)
        assert result is DirectoryResult.SUCCESS, self.directory.last_failure
        item.attributes["identifier"] = identifier
        item.attributes["full_path"] = self.directory.objects.names.queue_manager(name)
        self.trace.clear()
        return item

    def queue(self, computer: str, name: str | None = None, **attributes: Any) -> DirectoryObject:
        """A queue in the directory."""
        item = DirectoryObject(
            ObjectClass.QUEUE, {"pathname": f"{computer}\\{name or self.name('q')}"} | attributes
        )
        result, identifier = self.directory.create(item, None, None)
        assert result is DirectoryResult.SUCCESS, self.directory.last_failure
        item.attributes["identifier"] = identifier
        item.attributes["full_path"] = self.directory.objects.names.queue(item.attributes["pathname"])
        self.trace.clear()
        return item


def _values(value: str | bytes | Sequence[bytes]) -> list[bytes]:
    if isinstance(value, str):
        return [value.encode()]
    return [value] if isinstance(value, bytes) else list(value)


def domain_of(controller: DomainController) -> Iterator[Domain]:
    """A domain whose connection is held for a whole module."""
    domain = Domain(controller)
    with domain.directory.held(), domain.hand.hold():
        yield domain


def one(domain: Domain, kind: ObjectClass, conditions: Filter | None, *listed: str) -> DirectoryObject:
    result, item = domain.directory.read(kind, conditions, listed or None)
    assert result is DirectoryResult.SUCCESS, domain.directory.last_failure
    assert item is not None
    return item


def every(
    domain: Domain,
    kind: ObjectClass,
    *conditions: tuple[str, Relation, Any],
    listed: tuple[str, ...] = ("full_path",),
    order: dict[str, SortKey] | None = None,
) -> list[DirectoryObject]:
    result, found = find_all(
        domain.directory, kind, [Expression(*condition) for condition in conditions] or None, listed, order
    )
    assert result is DirectoryResult.SUCCESS, domain.directory.last_failure
    return found


def paths(found: list[DirectoryObject]) -> list[str]:
    return [item.attributes["full_path"] for item in found]


def link(domain: Domain, cost: int) -> DirectoryObject:
    attributes = {
        "site1_identifier": domain.site()[1],
        "site2_identifier": domain.site()[1],
        "actual_cost": cost,
    }
    item = DirectoryObject(ObjectClass.ROUTING_LINK, attributes)
    result, identifier = domain.directory.create(item, None, None)
    assert result is DirectoryResult.SUCCESS
    item.attributes["identifier"] = identifier
    return item


def write(domain: Domain, kind: ObjectClass, *listed: str, **attributes: Any) -> DirectoryResult:
    return domain.directory.write(DirectoryObject(kind, attributes), listed or None, None)


def read(domain: Domain, kind: ObjectClass, identifier: bytes, *listed: str) -> Mapping[str, Any]:
    result, item = domain.directory.read(kind, by_identifier(identifier), listed or None)
    assert result is DirectoryResult.SUCCESS, domain.directory.last_failure
    assert item is not None
    return item.attributes
