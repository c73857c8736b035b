"""From the name of a queue to the addresses of the next hop (MS-MQQB 3.1.5.2.1, 3.1.7.4, 3.1.7.5).

A direct name contains its host, which the resolver knows. Every other name leads to a queue manager that is known by
its identifier: the directory tells its address, and routing (MS-MQBR) the hosts on the way. Answers of the directory
are kept for a while, and longer while it cannot be reached.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from msmq.errors import UnsupportedFormatnameOperationError
from msmq.manager.core import Core
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    by_identifier,
    element_of,
)
from msmq.manager.model import QueueManagerRecord, RoutingLink
from msmq.routing.network import Link, Machine, Network
from msmq.routing.next_hops import next_hops
from msmq.wire.guid import NULL_GUID
from msmq.wire.names import (
    ConnectorName,
    DirectName,
    FormatName,
    MulticastName,
    PrivateName,
    Protocol,
    PublicName,
)
from msmq.wire.names.direct import HTTP_DEFAULT_PORT

Resolve = Callable[[str], Awaitable[list[str]]]
"""Returns the addresses of a host by name; raises OSError if there are none."""
Ask = Callable[[Callable[[], list[QueueManagerRecord]]], Awaitable[list[QueueManagerRecord]]]
Destination = str | bytes | PublicName | ConnectorName
"""A host, a queue manager, or a queue whose queue manager is in the directory."""

_RECENT_S: Final = 5
_MOST_UNKNOWN: Final = 10_000
_NOT_IP: Final = (Protocol.IPX, Protocol.SPX)


async def resolve(host: str) -> list[str]:
    """Ask the system for the addresses of a host."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # no such name can exist
        raise socket.gaierror(str(error)) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def resolve_with(known: Mapping[str, list[str]], otherwise: Resolve) -> Resolve:
    """Look up addresses in a table by host name in lower case, and otherwise with ``otherwise``."""

    async def look_up(host: str) -> list[str]:
        found = known.get(host.lower())
        return list(found) if found else await otherwise(host)

    return look_up


async def _at_once(call: Callable[[], list[QueueManagerRecord]]) -> list[QueueManagerRecord]:
    return call()


class NoWayError(Exception):
    """The next hop is unknown: the directory cannot be reached, or has no route."""


class Hop(NamedTuple):
    """NextHop (3.1.1.3.1.3). The host of a direct name has no identifier."""

    address: str
    host_name: str = ""
    queue_manager: bytes = NULL_GUID


def check_way(name: FormatName) -> None:
    """Refuse names that the binary protocol cannot deliver to."""
    if isinstance(name, MulticastName):
        raise UnsupportedFormatnameOperationError(
            f"{name}: messages are not multicast here; name the queues in one text, with commas between: "
            "DIRECT=OS:host1\\private$\\q,DIRECT=TCP:10.0.0.2\\private$\\q."
        )
    if isinstance(name, ConnectorName):
        raise UnsupportedFormatnameOperationError(
            f"{name}: a message is not sent to a connector by that name; send it to the queue of the foreign system "
            "(PUBLIC=, PRIVATE= or DIRECT=OS:), and it waits for the connector on the way."
        )
    if not isinstance(name, DirectName):
        return
    if name.protocol in HTTP_DEFAULT_PORT:
        raise UnsupportedFormatnameOperationError(
            f"{name}: messages are not sent over HTTP here; use DIRECT=OS: or DIRECT=TCP:."
        )
    if name.protocol in _NOT_IP:
        raise UnsupportedFormatnameOperationError(
            f"{name}: there is no IPX network here; use DIRECT=OS: or DIRECT=TCP:."
        )


class Addressing:
    """Finds the next hops of messages."""

    def __init__(self, core: Core, directory: DirectoryEvents, resolve: Resolve, refresh_s: int) -> None:
        self._core = core
        self._directory = directory
        self._resolve = resolve
        self._refresh_s = refresh_s
        # Hosts spread over the servers of a site by their GUIDs: each always prefers the same server.
        self._choice = int.from_bytes(core.record.identifier[:4], "little")
        self._machines: dict[bytes, QueueManagerRecord] = {}
        self._unknown: dict[bytes, int] = {}
        """When the directory told that it has no such queue manager."""
        self._carriers: dict[Destination, tuple[int, frozenset[bytes]]] = {}
        self._hosts: dict[str, bytes] = {}
        self._routers: list[QueueManagerRecord] = []
        self._links: tuple[Link, ...] = ()
        self._read_at: int | None = None
        self._tried_at: int | None = None
        self.ask: Ask = _at_once
        """Waits for an answer of the directory."""

    @property
    def has_directory(self) -> bool:
        return self._directory.exists

    def _within(self, seconds: int, then_s: int | None) -> bool:
        """Whether a time is at most this long ago. After the clock was set back it is not."""
        return then_s is not None and 0 <= self._core.now_s - then_s < seconds

    def forget(self) -> None:
        """Forget everything, because the directory has changed."""
        self._read_at = self._tried_at = None
        self._unknown.clear()
        self._carriers.clear()

    # What the directory says

    def machine(self, guid: bytes) -> QueueManagerRecord | None:
        """A queue manager; None if the directory has none with this identifier.

        Raises:
            NoWayError: the directory cannot be asked and nothing is remembered.
        """
        if guid == self._core.record.identifier:
            return self._core.record
        self._forget_old()
        known = self._machines.get(guid)
        if known is None and not self._within(_RECENT_S, self._unknown.get(guid)):
            known = self._read_machine(by_identifier(guid))
            if known is None:
                if len(self._unknown) >= _MOST_UNKNOWN:
                    self._unknown.clear()
                self._unknown[guid] = self._core.now_s
        return known

    def _read_machine(self, conditions: Filter) -> QueueManagerRecord | None:
        result, item = self._directory.read(ObjectClass.QUEUE_MANAGER, conditions)
        if result is DirectoryResult.OBJECT_NOT_FOUND:
            return None
        if item is None:
            raise NoWayError(f"the directory does not answer: {result.value}")
        found = element_of(QueueManagerRecord, item)
        self._machines[found.identifier] = found
        return found

    def _forget_old(self) -> None:
        """The QueueManager Query Timer (MS-MQBR 3.1.2.1): read everything again, if the directory can be asked."""
        if self._within(self._refresh_s, self._read_at) or self._within(_RECENT_S, self._tried_at):
            return
        now_s = self._core.now_s
        serving = (Expression("routing_server", Relation.EQUALS, True),)
        routers = self._read_all(ObjectClass.QUEUE_MANAGER, serving)
        links = self._read_all(ObjectClass.ROUTING_LINK, None)
        self._tried_at = now_s
        if routers is None or links is None:
            return
        self._read_at = now_s
        self._machines.clear()
        self._hosts.clear()
        self._routers = [element_of(QueueManagerRecord, item) for item in routers]
        self._links = tuple(_link(element_of(RoutingLink, item)) for item in links)

    def _read_all(self, object_class: ObjectClass, conditions: Filter | None) -> list[DirectoryObject] | None:
        """GetDirectoryData (MS-MQBR 3.1.5.9)."""
        result, query = self._directory.read_begin(object_class, conditions)
        if result is not DirectoryResult.SUCCESS or query is None:
            return None
        found: list[DirectoryObject] = []
        while True:
            result, item = self._directory.read_next(query)
            if result is not DirectoryResult.SUCCESS or item is None:
                break
            found.append(item)
        self._directory.read_end(query)
        return found if result is DirectoryResult.END_OF_DATA else None

    def destination(self, key: Destination) -> bytes:
        """Get Destination Info (3.1.7.4): the queue manager that messages are for; null for the host of a direct
        name.

        Raises:
            NoWayError: the directory does not tell.
        """
        if isinstance(key, str):
            return NULL_GUID
        if isinstance(key, bytes):
            return key
        guid = key.queue if isinstance(key, PublicName) else key.guid
        result, item = self._directory.read(ObjectClass.QUEUE, by_identifier(guid))
        if result is not DirectoryResult.SUCCESS or item is None:
            raise NoWayError(f"the directory does not tell where {key} is: {result.value}")
        computer: str = item.attributes["pathname"].partition("\\")[0]
        self._forget_old()
        if computer not in self._hosts:
            found = self._read_machine((Expression("computer_name", Relation.EQUALS, computer),))
            if found is None:
                raise NoWayError(f"the directory knows no {computer}")
            self._hosts[computer] = found.identifier
        return self._hosts[computer]

    # Routing

    def next_hops(self, guid: bytes) -> list[QueueManagerRecord]:
        """Get Next Hops (3.1.7.5): the hosts to send messages for a queue manager to, best ones first.

        Raises:
            NoWayError: there is none, or the directory cannot be asked.
        """
        record = self._core.record
        there = self.machine(guid)
        if there is None:
            raise NoWayError("the directory knows no such queue manager")
        known = {machine.identifier: machine for machine in self._routers}
        known |= {record.identifier: record, there.identifier: there}
        network = Network.of(map(_machine, known.values()), self._links)
        candidates = next_hops(network, record.identifier, guid, self._choice)
        hops = [machine for candidate in candidates if (machine := self.machine(candidate)) is not None]
        if not hops:
            raise NoWayError("there is no way to that queue manager")
        return hops

    def knows_way(self, guid: bytes) -> bool:
        try:
            return bool(self.next_hops(guid))
        except NoWayError:
            return False

    def carriers(self, key: Destination) -> frozenset[bytes]:
        """Queue managers whose sessions can be used instead of a new one: the destination itself, and, if it is not a
        direct neighbour, the next hops."""
        read_at, found = self._carriers.get(key, (None, frozenset[bytes]()))
        if not self._within(_RECENT_S, read_at):
            found = self._work_out_carriers(key)
            self._carriers[key] = (self._core.now_s, found)
        return found

    def _work_out_carriers(self, key: Destination) -> frozenset[bytes]:
        try:
            guid = self.destination(key)
        except NoWayError:
            return frozenset()
        try:
            hops = {hop.identifier for hop in self.next_hops(guid)}
        except NoWayError:
            hops = set()
        return frozenset({guid}) if guid in hops else frozenset({guid, *hops})

    def answers_for(self, key: Destination, neighbour: bytes, source: bytes) -> bool:
        """Whether the session of a neighbour may bring acknowledgments that ``source`` wrote for messages to a
        destination. It may if the neighbour is the destination, or a routing server that brings what the destination
        or another routing server wrote. As long as the routing servers are unknown, any neighbour may bring what the
        destination wrote."""
        try:
            guid = self.destination(key)
        except NoWayError:
            return False
        if neighbour == guid or not self.has_directory:
            return neighbour == guid
        self._forget_old()
        if self._read_at is None:
            return source == guid
        routers = {machine.identifier for machine in self._routers}
        return neighbour in routers and (source == guid or source in routers)

    # Addresses

    async def hops(self, key: Destination) -> list[Hop]:
        """Resolve Host Address (3.1.5.2.1): the addresses to connect to, best ones first.

        Raises:
            NoWayError: there is no known route.
            OSError: none of the hosts has an address.
        """
        if isinstance(key, str):
            return [Hop(address) for address in await self._addresses(key)]
        found: list[Hop] = []
        failure: OSError | None = None
        if self._read_at is None:
            self._tried_at = -_RECENT_S  # this caller can wait for the directory, so ask it
        for machine in await self.ask(lambda: self.next_hops(self.destination(key))):
            name = machine.qualified_computer_name or machine.computer_name
            try:
                addresses = await self._addresses(name)
            except OSError as error:
                failure = error
            else:
                found += [Hop(address, name, machine.identifier) for address in addresses]
        if not found and failure is not None:
            raise failure
        return found

    async def _addresses(self, host: str) -> list[str]:
        try:
            return [str(ip_address(host))]
        except ValueError:
            return await self._resolve(host)


def destination_of(name: FormatName, queue_manager: bytes = NULL_GUID) -> Destination | None:
    """The argument for :class:`Addressing` for a queue; ``queue_manager`` is its queue manager, if known."""
    if isinstance(name, DirectName) and name.protocol in (Protocol.OS, Protocol.TCP):
        return name.host.lower()
    if isinstance(name, PrivateName):
        return name.computer
    if isinstance(name, PublicName | ConnectorName):
        return queue_manager if queue_manager != NULL_GUID else name
    return None


def _machine(record: QueueManagerRecord) -> Machine:
    return Machine(
        record.identifier,
        record.site_identifier_list,
        record.routing_server,
        record.out_routing_server_identifier_list,
        record.in_routing_server_identifier_list,
    )


def _link(link: RoutingLink) -> Link:
    return Link(
        link.site1_identifier, link.site2_identifier, link.actual_cost, tuple(link.site_gate_identifier_list)
    )
