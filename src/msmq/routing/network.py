"""The enterprise as routing sees it (MS-MQBR 3.1.1): machines, sites and links between sites, all known by GUID."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Machine:
    """What of a QueueManager decides about routes."""

    identifier: bytes
    sites: tuple[bytes, ...] = ()
    routing_server: bool = False
    out_routing_servers: tuple[bytes, ...] = ()
    """Who takes everything this machine sends; nobody in particular when empty."""
    in_routing_servers: tuple[bytes, ...] = ()
    """Who hands over everything this machine receives."""

    def shares_site_with(self, other: Machine) -> bool:
        return not set(self.sites).isdisjoint(other.sites)


@dataclass(frozen=True, slots=True)
class Link:
    """RoutingLink: two sites whose gates can talk to each other, and what that costs."""

    site1: bytes
    site2: bytes
    cost: int
    gates: tuple[bytes, ...] = ()
    """The gates of both sites, in order of preference."""


@dataclass(frozen=True, slots=True)
class Network:
    """All of it. ``machines`` holds at least the routing servers and the two ends of the route that is asked for."""

    machines: Mapping[bytes, Machine] = field(default_factory=dict)
    links: tuple[Link, ...] = ()

    @classmethod
    def of(cls, machines: Iterable[Machine], links: Iterable[Link] = ()) -> Network:
        return cls({machine.identifier: machine for machine in machines}, tuple(links))

    def site_gates(self, site: bytes) -> tuple[bytes, ...]:
        """Site.SiteGateCollection: the gates of the links of a site that stand in it, each once."""
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
