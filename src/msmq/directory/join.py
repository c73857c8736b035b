"""An operator's tasks with a directory: check it, join it, leave it, copy it to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from msmq.directory import protection, rights
from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.conversion import SERVER_FLAGS
from msmq.directory.names import child, dns_name, parent
from msmq.directory.query import find_all, find_each
from msmq.directory.troubles import explain, remedy
from msmq.errors import MQError, MsmqError
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    by_identifier,
    directory_object,
)
from msmq.manager.initialization import QUEUE_MANAGER_VERSION
from msmq.manager.model import QueueManagerRecord
from msmq.security.descriptor import SecurityDescriptor
from msmq.security.sid import Sid
from msmq.wire.guid import guid_text
from msmq.wire.names import QueuePath

MOST_SKEW_S: Final = 300
"""The largest difference of clocks that Kerberos tolerates."""
_TIME: Final = "%Y%m%d%H%M%S"


_PUBLISHED: Final = (
    ("queue_manager_version", "mSMQComputerTypeEx"),
    ("operating_system_type", "mSMQOSType"),
    ("queue_manager_quota_kb", "mSMQQuota"),
    ("journal_quota_kb", "mSMQJournalQuota"),
    ("foreign_system", "mSMQForeign"),
    ("routing_server", "mSMQRoutingServices"),
    ("directory_server", "mSMQDsServices"),
    ("supporting_server", "mSMQDependentClientServices"),
    ("remote_access_server", "mSMQServiceType"),
)
"""What the object of a queue manager holds (MS-MQDSSM 3.1.6.1.1.2), beside its sites, keys and rights."""


class JoiningError(MsmqError):
    """The operation failed; the message says why and what to do."""


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    good: bool
    detail: str
    remedy: str = ""


def named(attribute: str, value: Any) -> Filter:
    return (Expression(attribute, Relation.EQUALS, value),)


class Joining:
    """An operator's tasks with a directory; ``computer`` is the name of this host."""

    def __init__(
        self, directory: ActiveDirectory, computer: str, now: Callable[[], float] = time.time
    ) -> None:
        self.directory = directory
        self.computer = computer
        self._now = now
        self.done: list[str] = []
        """What :meth:`join` created or mended, in words."""

    # --- looking --------------------------------------------------------------------------------------------

    def inspect(self) -> Iterable[Finding]:
        """Check everything that a queue manager in a domain needs, in order; stops at a problem that makes further
        checks impossible."""
        directory = self.directory
        if not directory.initialize():
            reason = directory.connection.last_trouble
            yield Finding("domain controller", False, reason, remedy(reason))
            return
        yield Finding("domain controller", True, directory.objects.root_domain_naming_context)
        yield self._clock()
        yield self._enterprise()
        sid = directory.computer_sid(self.computer)
        if sid is None:
            what = f"no {directory.objects.names.computer(self.computer)}"
            yield Finding("computer account", False, what, remedy("noSuchObject"))
            return
        yield Finding("computer account", True, f"{self.computer} {sid}")
        manager = self._manager()
        if manager is None:
            yield Finding(
                "queue manager",
                False,
                "not in the directory",
                "Run `msmq directory join`, or start it: it joins.",
            )
            return
        yield Finding("queue manager", True, guid_text(manager.identifier))
        yield self._keys(manager)
        yield self._sites(manager)
        yield from self._roles(manager)
        yield from self._rights(sid)
        result, queues = directory.queues_of(self.computer)
        good = result is DirectoryResult.SUCCESS
        yield Finding("public queues", good, str(len(queues)) if good else explain(directory))

    def _clock(self) -> Finding:
        with self.directory.connection.use():
            (root,) = self.directory.connection.search("", attributes=["currentTime"])
        text = root.get("currentTime")[0].decode().partition(".")[0]
        theirs = datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp()
        skew_s = round(self._now() - theirs)
        good = abs(skew_s) < MOST_SKEW_S
        return Finding("clock", good, f"{skew_s:+d} s", "" if good else remedy("Clock skew"))

    def _enterprise(self) -> Finding:
        _, found = self.directory.read(ObjectClass.ENTERPRISE, None, ("name",))
        if found is None:
            return Finding("enterprise", False, self.directory.last_failure, remedy("noSuchObject"))
        return Finding("enterprise", True, self.directory.objects.names.enterprise)

    def _manager(self) -> DirectoryObject | None:
        return self.directory.read(ObjectClass.QUEUE_MANAGER, named("computer_name", self.computer), None)[1]

    def _roles(self, manager: DirectoryObject) -> Iterable[Finding]:
        """Check the settings objects by which a server is found in its sites."""
        if not is_server(manager):
            return
        places = self.directory.objects.names
        for site in self._site_names(manager, ()):
            path = places.settings(self.computer, site)
            result, found = self.directory.attempt(
                lambda path=path: self.directory.objects.get(path, b"", ["mSMQQMID"])  # type: ignore[misc]
            )
            good = result is DirectoryResult.SUCCESS and found is not None
            good = good and found["mSMQQMID"] == [manager.identifier]  # type: ignore[index]
            yield Finding(
                f"routing server in {site}",
                good,
                path,
                ""
                if good
                else "Let an administrator run `msmq directory join --routing-server`, which mends it.",
            )

    def _rights(self, sid: Sid) -> Iterable[Finding]:
        """Check that the account of the host may change the host's objects."""
        wrong = [dn for dn, _, _ in self._locked(sid)]
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            yield Finding(
                "rights",
                False,
                f"{self.computer}$ may not look after {wrong[0]}{more}",
                "Let an administrator run `msmq directory join`, which gives it the rights.",
            )

    def _keys(self, manager: DirectoryObject) -> Finding:
        published = bool(manager.attributes.get("public_encryption_key_list"))
        missing = "Start the queue manager once: it makes and publishes them."
        return Finding("keys", published, "published" if published else "none", "" if published else missing)

    def _sites(self, manager: DirectoryObject) -> Finding:
        wanted = set(manager.attributes["site_identifier_list"])
        _, sites = find_all(self.directory, ObjectClass.SITE, None, ("name", "identifier"))
        names = sorted(site.attributes["name"] for site in sites if site.identifier in wanted)
        missing = "Name one in directory.site and run `msmq directory join` again."
        return Finding("sites", bool(names), ", ".join(names) or "none", "" if names else missing)

    # --- coming and going -----------------------------------------------------------------------------------

    def join(self, *sites: str, make_computer: bool = False, routing_server: bool | None = None) -> bytes:
        """Put this host into the directory, with everything that others expect and the rights that its own account
        needs, and return its GUID. Existing objects are completed; ``done`` tells what was created or mended. The
        queue manager itself makes and publishes its keys when it starts.

        Raises:
            JoiningError: it could not be done, or not completely.
        """
        self.reach()
        self.done.clear()
        directory = self.directory
        if directory.computer_sid(self.computer) is None:
            if not make_computer:
                raise JoiningError(
                    f"{directory.objects.names.computer(self.computer)} is not there. {remedy('noSuchObject')} Or let "
                    "--create-computer make it."
                )
            self._make_computer()
        self._mend_dns_name()
        named_sites = [name for name in sites if name]
        wanted = tuple(map(self.site_identifier, named_sites))
        known = self._manager()
        if known is None:
            wanted = wanted or self._only_site()
        serves = routing_server if routing_server is not None else bool(known and is_server(known))
        if serves:
            for name in named_sites or self._site_names(known, wanted):
                self._have_server(name)
        if known is None:
            return self._publish(wanted, bool(routing_server))
        self._complete(known, wanted, routing_server)
        self._mend_rights()
        return known.identifier

    def _publish(self, sites: tuple[bytes, ...], routing_server: bool) -> bytes:
        record = QueueManagerRecord(
            computer_name=self.computer,
            queue_manager_version=QUEUE_MANAGER_VERSION,
            site_identifier_list=sites,
            routing_server=routing_server,
        )
        result, identifier = self.directory.create(directory_object(record), None, None)
        if result is not DirectoryResult.SUCCESS or identifier is None:
            raise self.refusal(f"{self.computer} could not be published")
        return identifier

    def _complete(
        self, known: DirectoryObject, sites: tuple[bytes, ...], routing_server: bool | None
    ) -> None:
        """Write what an existing object lacks, and what the operator wants to change."""
        given = known.attributes
        wanted: dict[str, Any] = {}
        if sites and not set(sites) <= set(given["site_identifier_list"]):
            wanted["site_identifier_list"] = sites
        if routing_server is not None and routing_server is not given["routing_server"]:
            wanted["routing_server"] = routing_server
        elif given["routing_server"]:
            wanted["routing_server"] = True  # so that the settings objects in its sites are checked
        path = self.directory.objects.names.queue_manager(self.computer)
        present = self._look(path, [ldap for _, ldap in _PUBLISHED])
        absent = {name for name, ldap in _PUBLISHED if not present.get(ldap)}
        for name in absent:
            wanted.setdefault(name, given.get(name) or getattr(QueueManagerRecord(), name))
        if "queue_manager_version" in absent:
            wanted["queue_manager_version"] = QUEUE_MANAGER_VERSION
        if not wanted:
            return
        item = DirectoryObject(
            ObjectClass.QUEUE_MANAGER,
            {"identifier": known.identifier, "computer_name": self.computer, **wanted},
        )
        if self.directory.write(item, tuple(wanted), None) is not DirectoryResult.SUCCESS:
            raise self.refusal(f"{', '.join(sorted(wanted))} of {self.computer} could not be written")
        changed = sorted(set(wanted) - ({"routing_server"} if given["routing_server"] else set()))
        if changed:
            self.done.append(f"{path}: wrote {', '.join(changed)}")

    def _look(self, dn: str, attributes: list[str]) -> dict[str, list[bytes]]:
        result, found = self.directory.attempt(lambda: self.directory.objects.get(dn, b"", attributes))
        if result is not DirectoryResult.SUCCESS or found is None:
            raise self.refusal(f"{dn} could not be read")
        return found

    def _mend_dns_name(self) -> None:
        """Write the DNS name of the account if it is missing: others find the host by it, and some tools leave it
        out."""
        computer = self.directory.objects.names.computer(self.computer)
        if self._look(computer, ["dNSHostName"])["dNSHostName"]:
            return
        name = self.own_dns_name()
        self._set(computer, {"dNSHostName": [name.encode()]})
        self.done.append(f"{computer}: wrote dNSHostName {name}, which was missing")

    def own_dns_name(self) -> str:
        """The DNS name of this computer in its domain."""
        return f"{self.computer}.{dns_name(self.directory.objects.default_naming_context)}"

    def _set(self, dn: str, attributes: Mapping[str, list[bytes]]) -> None:
        result, _ = self.directory.attempt(lambda: self.directory.objects.set(dn, b"", attributes))
        if result is not DirectoryResult.SUCCESS:
            raise self.refusal(f"{', '.join(attributes)} of {dn} could not be written")

    def _locked(self, sid: Sid) -> Iterable[tuple[str, ObjectClass, SecurityDescriptor]]:
        """Objects of this host that the account of the computer may not change, with their descriptors."""
        path = self.directory.objects.names.queue_manager(self.computer)
        kind = ObjectClass.QUEUE_MANAGER
        for raw in self._look(path, ["nTSecurityDescriptor"])["nTSecurityDescriptor"]:
            descriptor = rights.from_directory(SecurityDescriptor.decode(raw), kind)
            if not protection.keeps(descriptor, sid, kind):
                yield path, kind, descriptor
        for item in self._queues():
            if item.attributes["security"]:
                descriptor = SecurityDescriptor.decode(item.attributes["security"])
                if not protection.keeps(descriptor, sid, ObjectClass.QUEUE):
                    yield item.attributes["full_path"], ObjectClass.QUEUE, descriptor

    def _mend_rights(self) -> None:
        """Give the account of the computer the right to change the host's objects where it is missing."""
        sid = self.directory.computer_sid(self.computer)
        if sid is None:
            return
        for dn, kind, old in self._locked(sid):
            new = replace(protection.looked_after(old, sid, kind), owner=None, group=None)
            result, _ = self.directory.attempt(
                lambda dn=dn, new=new, kind=kind: self.directory.objects.set_security(  # type: ignore[misc]
                    dn, b"", rights.to_directory(new, kind)
                )
            )
            if result is not DirectoryResult.SUCCESS:
                raise self.refusal(f"the rights of {self.computer} on {dn} could not be written")
            self.done.append(f"{dn}: let {self.computer}$ look after it")

    def is_there(self) -> bool:
        """Whether this host is in the directory."""
        return self._manager() is not None

    def published(self) -> Sequence[DirectoryObject]:
        """The public queues that the directory has below this host; none if it does not have the host.

        Raises:
            JoiningError: the queues could not be read.
        """
        return self._queues() if self.is_there() else ()

    def _queues(self) -> Sequence[DirectoryObject]:
        result, queues = self.directory.queues_of(self.computer)
        if result is not DirectoryResult.SUCCESS:
            raise self.refusal("the queues could not be read")
        return queues

    def _site_names(self, known: DirectoryObject | None, sites: tuple[bytes, ...]) -> list[str]:
        wanted = set(sites or (known.attributes["site_identifier_list"] if known else ()))
        _, found = find_all(self.directory, ObjectClass.SITE, None, ("name", "identifier"))
        return [site.attributes["name"] for site in found if site.identifier in wanted]

    def _have_server(self, site: str) -> None:
        """Create the object of this computer among the servers of a site, below which a routing server is found."""
        names = self.directory.objects.names
        computer = names.computer(self.computer).encode()
        server = names.server(self.computer, site)
        for dn, ldap_class, values in (
            (parent(server), "serversContainer", {}),
            (server, "server", {"serverReference": [computer]}),
        ):
            result, _ = self.directory.attempt(
                lambda dn=dn: self.directory.objects.get(dn, b"", [])  # type: ignore[misc]
            )
            if result is DirectoryResult.OBJECT_NOT_FOUND:
                self.make(dn, ldap_class, values)
                self.done.append(f"made {dn}")

    def leave(self, *, with_queues: bool = False) -> int:
        """Remove this host and its public queues from the directory. Returns how many queues there were.

        Raises:
            JoiningError: it was not there, or could not be removed.
        """
        self.reach()
        manager = self._manager()
        if manager is None:
            raise JoiningError(f"{self.computer} is not in the directory.")
        queues = self._queues()
        if queues and not with_queues:
            raise JoiningError(
                f"{self.computer} has {len(queues)} public queues, which nobody would find any more. Say --with-queues "
                "to delete them from the directory; their messages stay on the host."
            )
        for item in (*queues, manager):
            if self.directory.delete(item, None) is not DirectoryResult.SUCCESS:
                raise self.refusal(f"{item.attributes['full_path']} could not be deleted")
        return len(queues)

    def reach(self) -> None:
        """Connect to the directory.

        Raises:
            JoiningError: no controller answers.
        """
        if not self.directory.initialize():
            raise JoiningError(f"No domain controller answers: {explain(self.directory)}")

    def refusal(self, what: str) -> JoiningError:
        """The error for something that the directory did not do, with the reason."""
        return JoiningError(f"{what}: {explain(self.directory)}")

    def site_identifier(self, name: str) -> bytes:
        """The identifier of a site.

        Raises:
            JoiningError: there is no site of this name.
        """
        _, site = self.directory.read(ObjectClass.SITE, named("name", name), ("identifier",))
        if site is None:
            raise JoiningError(f"There is no site {name}; `msmq directory find sites` lists them.")
        return site.identifier

    def _only_site(self) -> tuple[bytes, ...]:
        _, sites = find_all(self.directory, ObjectClass.SITE, None, ("identifier",))
        if len(sites) == 1:
            return (sites[0].identifier,)
        raise JoiningError(f"There are {len(sites)} sites: name one in directory.site, or with --site.")

    def _make_computer(self) -> None:
        """Create an account in our domain, without a password or keytab, which it gets by other means."""
        domain = self.directory.objects.default_naming_context
        dn = child(self.computer, f"CN=Computers,{domain}")
        account = {
            "sAMAccountName": f"{self.computer[:15].upper()}$",
            "userAccountControl": "4128",
            "dNSHostName": self.own_dns_name(),
        }
        self.make(dn, "computer", {name: [text.encode()] for name, text in account.items()})

    def make(self, dn: str, ldap_class: str, values: Mapping[str, list[bytes]]) -> None:
        def add() -> None:
            with self.directory.connection.use():
                self.directory.connection.add(dn, ldap_class, values)

        if self.directory.attempt(add)[0] is not DirectoryResult.SUCCESS:
            raise self.refusal(f"{dn} could not be made")

    # --- copying --------------------------------------------------------------------------------------------

    def export(self) -> str:
        """The enterprise as a directory file (kind file): sites, links, hosts and public queues.

        Raises:
            JoiningError: it could not be read.
        """
        self.reach()
        sites = self._all(ObjectClass.SITE, ("identifier", "name"))
        hosts = self._all(ObjectClass.QUEUE_MANAGER, None)
        links = self._all(ObjectClass.ROUTING_LINK, None)
        queues = self._all(ObjectClass.QUEUE, ("identifier", "pathname", "base_priority"))
        site_names = {site.identifier: site.attributes["name"] for site in sites}
        host_names = {host.identifier: host.attributes["computer_name"] for host in hosts}
        lines: list[str] = []
        for site in sites:
            lines += _table("sites", {"name": site.attributes["name"], "guid": guid_text(site.identifier)})
        for host in hosts:
            lines += _table("hosts", _host(host, site_names, host_names))
        for link in links:
            given = link.attributes
            ends = [site_names.get(given[f"site{number}_identifier"]) for number in (1, 2)]
            if all(ends):
                gates = _names(given["site_gate_identifier_list"], host_names)
                entry = {"sites": ends, "cost": given["actual_cost"], "gates": gates}
                lines += _table("links", entry | {"guid": guid_text(link.identifier)})
        known = {name.lower() for name in host_names.values()}
        for queue in queues:
            path = queue.attributes["pathname"]
            if not _is_path(path):
                lines += [f"# left out, for it is no path name: {_toml(path)}", ""]
            elif path.partition("\\")[0].lower() in known:
                lines += _table(
                    "queues",
                    {
                        "path": path,
                        "guid": guid_text(queue.identifier),
                        "base_priority": queue.attributes["base_priority"],
                    },
                )
        return "\n".join(lines) + "\n"

    def _all(self, object_class: ObjectClass, attributes: tuple[str, ...] | None) -> list[DirectoryObject]:
        result, found = find_all(self.directory, object_class, None, attributes)
        if result is not DirectoryResult.SUCCESS:
            raise self.refusal(f"{object_class.value} objects could not be read")
        return sorted(found, key=lambda item: item.identifier)

    def find(
        self, object_class: ObjectClass, conditions: Filter, attributes: tuple[str, ...] | None = None
    ) -> Iterator[DirectoryObject]:
        """Find objects by their attributes; by an identifier at most one.

        Raises:
            JoiningError: the directory could not be asked.
        """
        self.reach()
        if [expression.attribute for expression in conditions] == ["identifier"]:
            result, item = self.directory.read(object_class, by_identifier(conditions[0].value), attributes)
            if result not in (DirectoryResult.SUCCESS, DirectoryResult.OBJECT_NOT_FOUND):
                raise self.refusal("the directory could not be asked")
            if item is not None:
                yield item
            return
        result = yield from find_each(self.directory, object_class, conditions, attributes)
        if result is not DirectoryResult.SUCCESS:
            raise self.refusal("the directory could not be asked")


def is_server(manager: DirectoryObject) -> bool:
    """Whether a queue manager has a role for which it is listed in its sites."""
    return any(manager.attributes.get(flag) for flag in SERVER_FLAGS)


def _host(
    host: DirectoryObject, site_names: Mapping[bytes, str], host_names: Mapping[bytes, str]
) -> dict[str, Any]:
    given = host.attributes
    return {
        "name": given["computer_name"],
        "guid": guid_text(host.identifier),
        "dns_name": given.get("qualified_computer_name", ""),
        "sites": _names(given["site_identifier_list"], site_names),
        "routing_server": bool(given["routing_server"]),
        "out_routing_servers": _names(given["out_routing_server_identifier_list"], host_names),
        "in_routing_servers": _names(given["in_routing_server_identifier_list"], host_names),
    }


def _is_path(text: str) -> bool:
    """Whether a name is a valid path of a queue. Others may have put names into the directory that are not."""
    try:
        QueuePath.parse(text)
    except MQError:
        return False
    return True


def _names(identifiers: Iterable[bytes], names: Mapping[bytes, str]) -> list[str]:
    return [names[identifier] for identifier in identifiers if identifier in names]


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    """An entry of a TOML document, without empty values."""
    kept = [f"{key} = {_toml(value)}" for key, value in values.items() if value not in ("", [], 0, False)]
    return [f"[[{name}]]", *kept, ""]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    escaped = "".join(
        f"\\u{ord(character):04x}" if ord(character) < 32 or character in '"\\\x7f' else character
        for character in str(value)
    )
    return f'"{escaped}"'
