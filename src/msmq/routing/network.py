"""The enterprise as far as routing needs it (MS-MQBR 3.1.1): machines, sites and links between sites, all by GUID."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Machine:
    """The attributes of a QueueManager that matter for routes."""

    identifier: bytes
    sites: tuple[bytes, ...] = ()
    routing_server: bool = False
    out_routing_servers: tuple[bytes, ...] = ()
    """The servers that take everything this machine sends; empty for no fixed ones."""
    in_routing_servers: tuple[bytes, ...] = ()
    """The servers that deliver everything this machine receives."""

    def shares_site_with(self, other: Machine) -> bool:
        return not set(self.sites).isdisjoint(other.sites)


@dataclass(frozen=True, slots=True)
class Link:
    """RoutingLink: two sites whose gates can reach each other, and the cost of that."""

    site1: bytes
    site2: bytes
    cost: int
    gates: tuple[bytes, ...] = ()
    """The gates of both sites, in order of preference."""


@dataclass(frozen=True, slots=True)
class Network:
    """All machines and links. ``machines`` holds at least the routing servers and the two ends of the route in
    question."""

    machines: Mapping[bytes, Machine] = field(default_factory=dict)
    links: tuple[Link, ...] = ()

    @classmethod
    def of(cls, machines: Iterable[Machine], links: Iterable[Link] = ()) -> Network:
        return cls({machine.identifier: machine for machine in machines}, tuple(links))

    def site_gates(self, site: bytes) -> tuple[bytes, ...]:
        """Site.SiteGateCollection: the gates, among those of the site's links, that are in the site, each once."""
        found = (
            gate
            for link in self.links
            if site in (link.site1, link.site2)
            for gate in link.gates
            if gate in self.machines and site in self.machines[gate].sites
        )
        return tuple(dict.fromkeys(found))

    def is_site_gate(self, machine: Machine) -> bool:
        """IsSiteGate (3.1.5.8)."""
        return machine.routing_server and any(
            machine.identifier in self.site_gates(site) for site in machine.sites
        )
