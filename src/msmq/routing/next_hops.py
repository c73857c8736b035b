"""GetNextHops (MS-MQBR 3.1.5.1 to 3.1.5.7): the queue managers that a message may go to next, best ones first.

The specification takes one routing server or gate where there are several. Here all of them are returned, beginning
with the one that ``choice`` selects, so that the caller can try the next when one is down, and can spread the load. A
client that reaches its destination directly gets the routing servers of its site as second choice, for a destination
that cannot be connected to (1.3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msmq.routing.network import Machine, Network
from msmq.routing.table import next_site, routing_table


def next_hops(network: Network, source: bytes, destination: bytes, choice: int = 0) -> tuple[bytes, ...]:
    """The candidates for the next hop from one queue manager to another, in order of preference; empty if there is no
    route."""
    here, there = network.machines.get(source), network.machines.get(destination)
    if here is None or there is None:
        return ()
    if not here.routing_server:
        hops = _for_client(network, here, there, choice)
    elif network.is_site_gate(here):
        hops = _for_site_gate(network, here, there, choice)
    else:
        hops = _for_routing_server(network, here, there, choice)
    return tuple(dict.fromkeys(hop for hop in hops if hop != source))


def _for_client(network: Network, here: Machine, there: Machine, choice: int) -> Iterable[bytes]:
    if here.out_routing_servers:
        return _turned(here.out_routing_servers, choice)
    servers = _turned(_routing_servers(network, here), choice)
    if not here.shares_site_with(there):
        return servers
    if there.in_routing_servers:
        return _turned(there.in_routing_servers, choice)
    return there.identifier, *servers


def _for_routing_server(network: Network, here: Machine, there: Machine, choice: int) -> Iterable[bytes]:
    """GetNextHopsForRouter (3.1.5.2)."""
    if here.identifier in there.in_routing_servers or here.shares_site_with(there):
        return _within_site(here, there, choice)
    gates = [gate for site in here.sites for gate in network.site_gates(site)]
    return _turned(gates, choice)


def _for_site_gate(network: Network, here: Machine, there: Machine, choice: int) -> Iterable[bytes]:
    """GetNextHopsForSiteGate (3.1.5.3)."""
    if here.identifier in there.in_routing_servers or here.shares_site_with(there):
        return _within_site(here, there, choice)
    site = next_site(routing_table(here.sites, network.links), there.sites)
    return () if site is None else _turned(network.site_gates(site), choice)


def _within_site(here: Machine, there: Machine, choice: int) -> Iterable[bytes]:
    if there.in_routing_servers and here.identifier not in there.in_routing_servers:
        return _turned(there.in_routing_servers, choice)
    return (there.identifier,)


def _routing_servers(network: Network, here: Machine) -> list[bytes]:
    """GetRoutingServer (3.1.5.5): the routing servers in the machine's sites."""
    return [
        machine.identifier
        for machine in network.machines.values()
        if machine.routing_server and machine.shares_site_with(here)
    ]


def _turned(servers: Sequence[bytes], choice: int) -> tuple[bytes, ...]:
    """The servers in the same cyclic order, beginning with the one that ``choice`` selects."""
    if not servers:
        return ()
    start = choice % len(servers)
    return (*servers[start:], *servers[:start])
