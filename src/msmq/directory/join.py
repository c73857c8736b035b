"""What an operator does with a directory: see whether all is well, join and leave, copy it to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.names import child, dns_name
from msmq.directory.threads import find_all
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
)
from msmq.wire.guid import guid_text
from msmq.wire.names import QueuePath

MOST_SKEW_S: Final = 300
"""What Kerberos puts up with."""
_TIME: Final = "%Y%m%d%H%M%S"


class JoiningError(MsmqError):
    """It cannot be done; the message says why and what to do."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    good: bool
    detail: str
    remedy: str = ""


def named(attribute: str, value: Any) -> Filter:
    return (Expression(attribute, Relation.EQUALS, value),)


class Joining:
    """The operator's view of a directory; ``computer`` is this host."""

    def __init__(
        self, directory: ActiveDirectory, computer: str, now: Callable[[], float] = time.time
    ) -> None:
        self.directory = directory
        self.computer = computer
        self._now = now

    # --- looking --------------------------------------------------------------------------------------------

    def inspect(self) -> Iterable[Finding]:
        """Everything a queue manager in a domain needs, in the order it needs it; the first thing that keeps the rest
        from being looked at is the last one."""
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

    def join(self, site: str, *, make_computer: bool = False) -> bytes:
        """Have this host in the directory, with the rights its own account needs; gives its GUID. Keys are made and
        published by the queue manager itself when it starts.

        Raises:
            JoiningError: it is not there, or not as it should be.
        """
        self._reach()
        directory = self.directory
        if directory.computer_sid(self.computer) is None:
            if not make_computer:
                raise JoiningError(
                    f"{directory.objects.names.computer(self.computer)} is not there. {remedy('noSuchObject')} Or let "
                    "--create-computer make it."
                )
            self._make_computer()
        sites = (self._site(site),) if site else self._only_site()
        known = self._manager()
        if known is None:
            item = DirectoryObject(
                ObjectClass.QUEUE_MANAGER,
                {"computer_name": self.computer, "site_identifier_list": sites, "security": b""},
            )
            result, identifier = directory.create(item, None, None)
            if result is not DirectoryResult.SUCCESS or identifier is None:
                raise self._refusal(f"{self.computer} could not be published")
            return identifier
        if site and sites[0] not in known.attributes["site_identifier_list"]:
            item = DirectoryObject(
                ObjectClass.QUEUE_MANAGER,
                {
                    "identifier": known.identifier,
                    "computer_name": self.computer,
                    "site_identifier_list": sites,
                },
            )
            if directory.write(item, ("site_identifier_list",), None) is not DirectoryResult.SUCCESS:
                raise self._refusal(f"the site of {self.computer} could not be written")
        return known.identifier

    def leave(self, *, with_queues: bool = False) -> int:
        """Take this host and its public queues out of the directory; gives how many queues there were.

        Raises:
            JoiningError: it is still there, or was not there.
        """
        self._reach()
        manager = self._manager()
        if manager is None:
            raise JoiningError(f"{self.computer} is not in the directory.")
        result, queues = self.directory.queues_of(self.computer)
        if result is not DirectoryResult.SUCCESS:
            raise self._refusal("the queues could not be read")
        if queues and not with_queues:
            raise JoiningError(
                f"{self.computer} has {len(queues)} public queues, which nobody would find any more. Say --with-queues "
                "to delete them from the directory; their messages stay on the host."
            )
        for item in (*queues, manager):
            if self.directory.delete(item, None) is not DirectoryResult.SUCCESS:
                raise self._refusal(f"{item.attributes['full_path']} could not be deleted")
        return len(queues)

    def _reach(self) -> None:
        if not self.directory.initialize():
            raise JoiningError(f"No domain controller answers: {explain(self.directory)}")

    def _refusal(self, what: str) -> JoiningError:
        return JoiningError(f"{what}: {explain(self.directory)}")

    def _site(self, name: str) -> bytes:
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
        """An account in our domain without a password: it gets one, or a keytab, by other means."""
        domain = self.directory.objects.default_naming_context
        dn = child(self.computer, f"CN=Computers,{domain}")
        account = {
            "sAMAccountName": f"{self.computer[:15].upper()}$",
            "userAccountControl": "4128",
            "dNSHostName": f"{self.computer}.{dns_name(domain)}",
        }
        values = {name: [text.encode()] for name, text in account.items()}
        result, _ = self.directory.attempt(lambda: self._add(dn, values))
        if result is not DirectoryResult.SUCCESS:
            raise self._refusal(f"{dn} could not be made")

    def _add(self, dn: str, values: Mapping[str, list[bytes]]) -> None:
        with self.directory.connection.use():
            self.directory.connection.add(dn, "computer", values)

    # --- copying --------------------------------------------------------------------------------------------

    def export(self) -> str:
        """The enterprise as a directory file (kind file): sites, links, hosts and public queues.

        Raises:
            JoiningError: it could not be read.
        """
        self._reach()
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
            raise self._refusal(f"{object_class.value} objects could not be read")
        return sorted(found, key=lambda item: item.identifier)

    def find(
        self, object_class: ObjectClass, conditions: Filter, attributes: tuple[str, ...] | None = None
    ) -> list[DirectoryObject]:
        """Objects by their attributes; by an identifier at most one.

        Raises:
            JoiningError: the directory could not be asked.
        """
        self._reach()
        if [expression.attribute for expression in conditions] == ["identifier"]:
            result, item = self.directory.read(object_class, by_identifier(conditions[0].value), attributes)
            if result not in (DirectoryResult.SUCCESS, DirectoryResult.OBJECT_NOT_FOUND):
                raise self._refusal("the directory could not be asked")
            return [] if item is None else [item]
        result, found = find_all(self.directory, object_class, conditions, attributes)
        if result is not DirectoryResult.SUCCESS:
            raise self._refusal("the directory could not be asked")
        return found


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
    """Others may have put names into the directory that no queue manager would open."""
    try:
        QueuePath.parse(text)
    except MQError:
        return False
    return True


def _names(identifiers: Iterable[bytes], names: Mapping[bytes, str]) -> list[str]:
    return [names[identifier] for identifier in identifiers if identifier in names]


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    """An entry of a TOML document, without what is empty."""
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
