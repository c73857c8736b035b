"""The events "... Using LDAP" (MS-MQDSSM 3.1.3, 3.1.6.12 to 3.1.6.19): each is a few requests on the connection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final
from uuid import UUID

from msmq.directory import filters, names
from msmq.directory.connection import (
    OWNER_GROUP_DACL,
    SEARCH_TIME_LIMIT_S,
    CachedConnection,
    is_missing,
)
from msmq.directory.exchange import Entry
from msmq.directory.filters import condition
from msmq.directory.names import Names
from msmq.directory.results import DirectoryFailure, generic
from msmq.errors import DecodeError
from msmq.manager.directory import DirectoryResult, Relation
from msmq.security.descriptor import SecurityDescriptor
from msmq.security.sid import Sid
from msmq.wire.access_masks import SecurityInformation

_EXISTS: Final = ("objectClass",)
_RANGE: Final = re.compile(r"(?P<name>[^;]+);range=\d+-(?P<last>\d+|\*)")
_OWNER: Final = int(SecurityInformation.OWNER)
_GROUP: Final = int(SecurityInformation.GROUP)
_DACL: Final = int(SecurityInformation.DACL)
_DOMAIN_FLAGS: Final = 3
"""The systemFlags of a domain's cross-reference (MS-ADTS 2.2.10): a naming context, and one of a domain."""
_LONGEST_ACCOUNT: Final = 15

Attributes = Mapping[str, Sequence[bytes]]


class Objects:
    """The objects of a directory, by their distinguished names."""

    def __init__(self, connection: CachedConnection) -> None:
        self.connection = connection
        self._catalog: CachedConnection | None = None
        self._domains: list[str] | None = None
        self._moved: dict[str, str] = {}
        self._kept: ExitStack | None = None
        self.configuration_naming_context = ""
        """CachedConfigurationNamingContext; empty until the directory has been reached."""
        self.root_domain_naming_context = ""
        self.default_naming_context = ""
        self._begun = False
        self._account: tuple[Sid, ...] | None = None

    def initialize(self) -> None:
        """Initialization (3.1.3). It does not raise: without a directory the contexts stay empty."""
        self._begun = True
        self._account = None
        try:
            with self.connection.use():
                (root,) = self.connection.search("", attributes=["*"])
        except (DirectoryFailure, ValueError):
            self.configuration_naming_context = ""
            return
        self.configuration_naming_context = _only(root, "configurationNamingContext")
        self.root_domain_naming_context = _only(root, "rootDomainNamingContext")
        self.default_naming_context = _only(root, "defaultNamingContext")

    def check(self) -> None:
        """Raise if the naming context is not known; after a failed start it is asked for again."""
        if not self.configuration_naming_context and self._begun:
            self.initialize()
        if not self.configuration_naming_context:
            raise DirectoryFailure(DirectoryResult.DIRECTORY_NOT_CONNECTED, self.connection.last_trouble)

    @property
    def names(self) -> Names:
        self.check()
        return Names(self.root_domain_naming_context, self.configuration_naming_context, self._moved)

    # --- forests --------------------------------------------------------------------------------------------

    @property
    def domains(self) -> list[str]:
        """The naming contexts of all domains of the forest, asked for once."""
        if self._domains is None:
            self.check()
            domain = condition("systemFlags", Relation.EQUALS, b"%d" % _DOMAIN_FLAGS)
            try:
                with self.connection.use():
                    found = self.connection.search(
                        f"CN=Partitions,{self.configuration_naming_context}",
                        attributes=["nCName"],
                        subtree=True,
                        conditions=filters.conjunction([filters.of_class("crossRef"), domain]),
                    )
            except DirectoryFailure as failure:
                if failure.result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
                    raise
                found = []  # assume that there are no others
            self._domains = [_only(entry, "nCName") for entry in found if entry.get("nCName")]
        return self._domains

    @property
    def catalog(self) -> CachedConnection | None:
        """The global catalog, or None in a forest of one domain, which needs none."""
        if self._catalog is None and len(self.domains) > 1:
            forest = names.dns_name(self.root_domain_naming_context)
            self._catalog = CachedConnection(self.connection.settings.of_catalog(forest))
            if self._kept is not None:
                self._kept.enter_context(self._catalog.hold())
        return self._catalog

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep connections between operations."""
        with self.connection.hold(), ExitStack() as kept:
            if self._catalog is not None:
                kept.enter_context(self._catalog.hold())
            before, self._kept = self._kept, kept
            try:
                yield
            finally:
                self._kept = before

    @contextmanager
    def _everywhere(self) -> Iterator[CachedConnection]:
        """A connection that finds objects of all domains."""
        catalog = self.catalog
        if catalog is None:
            with self._here() as connection:
                yield connection
            return
        try:
            catalog.prepare()
        except DirectoryFailure as failure:  # the directory itself may be there
            raise generic(f"no global catalog answers: {failure.reason}") from failure
        try:
            yield catalog
        finally:
            catalog.shut_down()

    @contextmanager
    def _here(self) -> Iterator[CachedConnection]:
        with self.connection.use():
            yield self.connection

    def look_elsewhere(self, computer: str) -> bool:
        """Search for the account of a computer that is not in the place that 2.2.1 gives it: administrators move
        computers. Returns whether it was found in a place that was not known yet."""
        account = f"{computer[:_LONGEST_ACCOUNT]}$"
        either = [("sAMAccountName", account), ("dNSHostName", computer), ("cn", computer)]
        named = "".join(condition(name, Relation.EQUALS, text.encode()) for name, text in either)
        with self._everywhere() as connection:
            found = connection.search(
                "" if connection.settings.catalog else self.names.root,
                attributes=["sAMAccountName"],
                subtree=True,
                conditions=filters.conjunction([filters.of_class("computer"), f"(|{named})"]),
                time_limit_s=SEARCH_TIME_LIMIT_S,
            )
        home = self.default_naming_context.lower()
        found.sort(
            key=lambda entry: (
                not entry.dn.lower().endswith(f",{home}"),
                _only(entry, "sAMAccountName").lower() != account.lower(),
            )
        )
        if not found or found[0].dn.lower() == self.names.computer(computer).lower():
            return False
        self._moved[computer.lower()] = found[0].dn
        return True

    # --- the events -----------------------------------------------------------------------------------------

    def create(self, parent: str, name: str, ldap_class: str, attributes: Attributes) -> bytes:
        """Create Object Using LDAP. Returns the GUID that the directory chose."""
        self.check()
        dn = names.child(name, parent)
        with self.connection.use():
            self.connection.search(parent, attributes=_EXISTS)
            self.connection.add(dn, ldap_class, attributes)
            return _readable(self.connection.search(dn, attributes=["objectGUID"])).get("objectGUID")[0]

    def delete(self, dn: str = "", guid: bytes = b"") -> None:
        """Delete Object Using LDAP. If both are given, the identifier counts."""
        self.check()
        with self.connection.use():
            dn = self.find(guid) if guid else dn
            self.connection.search(names.parent(dn), attributes=_EXISTS)
            self.connection.search(dn, attributes=_EXISTS)
            self.connection.delete(dn)

    def get(self, dn: str, guid: bytes, attributes: Sequence[str]) -> dict[str, list[bytes]]:
        """Get Object Properties Using LDAP: lists of values in the order of ``attributes``, empty ones for missing
        values. objectGUID and distinguishedName are always included."""
        self.check()
        wanted = _with_keys(attributes)
        base = by_guid(guid) if guid else dn
        with self.connection.use():
            try:
                found = _readable(self.connection.search(base, attributes=wanted))
                return {name: self._all_values(self.connection, found, name) for name in wanted}
            except DirectoryFailure as failure:
                if not (is_missing(failure) or failure.referred) or self.catalog is None:
                    raise
        with self._everywhere() as catalog:
            found = _readable(catalog.search(base, attributes=wanted))
            return {name: self._all_values(catalog, found, name) for name in wanted}

    def search(
        self, ldap_class: str, conditions: Sequence[str], attributes: Sequence[str], base: str = ""
    ) -> list[dict[str, list[bytes]]]:
        """Search Using LDAP, everywhere or below ``base``."""
        return [found for page in self.pages(ldap_class, conditions, attributes, base) for found in page]

    def pages(
        self, ldap_class: str, conditions: Sequence[str], attributes: Sequence[str], base: str = ""
    ) -> Iterator[list[dict[str, list[bytes]]]]:
        """Like :meth:`search`, page by page; the connection is kept open until the iterator ends."""
        self.check()
        wanted = _with_keys(attributes)
        place = base or self.search_base(ldap_class)
        of_domains = not base and place == self.names.root
        with self._everywhere() if of_domains else self._here() as connection:
            place = "" if connection.settings.catalog else place
            connection.search(place, attributes=_EXISTS)
            for page in connection.pages(
                place,
                attributes=wanted,
                conditions=filters.conjunction([filters.of_class(ldap_class), *conditions]),
                time_limit_s=SEARCH_TIME_LIMIT_S,
            ):
                yield [{name: entry.get(name) for name in wanted} for entry in page]

    def search_base(self, ldap_class: str) -> str:
        """Where objects of a class are: those of computers and users are in their domain."""
        places = self.names
        return {
            "mSMQEnterpriseSettings": places.services,
            "site": places.sites,
            "mSMQSiteLink": places.enterprise,
        }.get(ldap_class, places.root)

    def set(self, dn: str, guid: bytes, attributes: Attributes) -> None:
        """Set Object Properties Using LDAP. Without attributes no request is sent."""
        self.check()
        with self.connection.use():
            dn = self.find(guid) if guid else dn
            self.connection.search(dn, attributes=_EXISTS)
            if attributes:
                self.connection.replace(dn, attributes)

    def set_security(self, dn: str, guid: bytes, security: SecurityDescriptor) -> None:
        """Set Object Security Using LDAP. Only the parts that differ are written: writing the owner would need the
        right to take ownership, and writing the SACL a privilege."""
        self.check()
        with self.connection.use():
            dn = self.find(guid) if guid else dn
            self.connection.search(dn, attributes=_EXISTS)
            found = self.connection.search(
                dn, attributes=["nTSecurityDescriptor"], conditions="(nTSecurityDescriptor=*)"
            )
            parts = _changed_parts(found[0].get("nTSecurityDescriptor") if found else [], security)
            if parts:
                value = security.select(SecurityInformation(parts)).encode()
                self.connection.replace(dn, {"nTSecurityDescriptor": [value]}, descriptor_parts=parts)

    def find(self, guid: bytes) -> str:
        """Find Object By GUID Using LDAP: its distinguished name."""
        found = self.connection.search(by_guid(guid), attributes=["distinguishedName"])
        if not found:
            raise DirectoryFailure(DirectoryResult.OBJECT_NOT_FOUND)
        return found[0].dn

    def account(self) -> tuple[Sid, ...]:
        """Our own SIDs as the directory knows them: our account, then its groups; empty if it does not tell. Asked
        once after each initialization."""
        self.check()
        if self._account is None:
            with self.connection.use():
                (root,) = self.connection.search("", attributes=["tokenGroups"])
            self._account = tuple(map(Sid.decode, root.get("tokenGroups")))
        return self._account

    def _all_values(self, connection: CachedConnection, entry: Entry, name: str) -> list[bytes]:
        """All values of an attribute; if the server returns only a range of them, the rest is asked for."""
        values = entry.get(name)
        while not values or name.lower() not in entry.attributes:
            ranged = _ranged(entry, name)
            if ranged is None:
                return values
            given, last = ranged
            values += given
            if last == "*":
                return values
            more = connection.search(entry.dn, attributes=[f"{name};range={int(last) + 1}-*"])
            if not more:
                raise DirectoryFailure(DirectoryResult.OBJECT_NOT_FOUND)
            entry = more[0]
        return values


def by_guid(guid: bytes) -> str:
    """The search base that names an object by its GUID (MS-ADTS 3.1.1.3.1.2.4)."""
    return f"<GUID={UUID(bytes_le=guid)}>"


def _readable(found: Sequence[Entry]) -> Entry:
    """The one object that was found. Raises if there is none, or if it may not be read: then even its identifier is
    missing."""
    if not found:
        raise DirectoryFailure(DirectoryResult.OBJECT_NOT_FOUND)
    if not found[0].get("objectGUID"):
        raise generic(f"{found[0].dn} may not be read")
    return found[0]


def _only(entry: Entry, name: str) -> str:
    values = entry.get(name)
    return values[0].decode() if values else ""


def _with_keys(attributes: Sequence[str]) -> list[str]:
    wanted = list(dict.fromkeys(attributes))
    return wanted + [name for name in ("objectGUID", "distinguishedName") if name not in wanted]


def _ranged(entry: Entry, name: str) -> tuple[list[bytes], str] | None:
    for attribute, values in entry.attributes.items():
        match = _RANGE.fullmatch(attribute)
        if match and match["name"] == name.lower():
            return list(values), match["last"]
    return None


def _changed_parts(current: Sequence[bytes], wanted: SecurityDescriptor) -> int:
    """The parts of a descriptor that have to be written."""
    if not current:
        return _DACL
    try:
        old = SecurityDescriptor.decode(current[0])
    except DecodeError:
        return OWNER_GROUP_DACL
    parts = _DACL if wanted.dacl is not None else 0
    parts |= _OWNER if wanted.owner is not None and wanted.owner != old.owner else 0
    return parts | (_GROUP if wanted.group is not None and wanted.group != old.group else 0)
