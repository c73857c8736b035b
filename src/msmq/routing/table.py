"""RoutingTable (MS-MQBR 3.1.1.2, 3.1.3.1): the next site on the cheapest route to every other site.

Dijkstra's algorithm over the links, both directions of each. Of routes with the same cost the one with fewer sites is
taken, and of those the one whose sites come first in the order of their GUIDs, so the result is deterministic. Every
link has a cost, so each hop brings a message nearer and no two gates send it to and fro.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msmq.routing.network import Link


class Row(NamedTuple):
    """The route to one site: the next site on it, and its whole cost."""

    next_hop_site: bytes
    cost: int


def routing_table(own_sites: Iterable[bytes], links: Iterable[Link]) -> dict[bytes, Row]:
    """The rows by DestinationSiteID, for every site that can be reached except our own."""
    neighbours: dict[bytes, list[tuple[bytes, int]]] = {}
    for link in links:
        neighbours.setdefault(link.site1, []).append((link.site2, link.cost))
        neighbours.setdefault(link.site2, []).append((link.site1, link.cost))
    # cost, number of sites, sites on the route: heap order is order of preference
    heap: list[tuple[int, int, tuple[bytes, ...]]] = [(0, 1, (site,)) for site in sorted(set(own_sites))]
    table: dict[bytes, Row] = {}
    reached: set[bytes] = set()
    while heap:
        cost, length, way = heapq.heappop(heap)
        site = way[-1]
        if site in reached:
            continue
        reached.add(site)
        if length > 1:
            table[site] = Row(way[1], cost)
        for neighbour, more in neighbours.get(site, ()):
            if neighbour not in reached:
                heapq.heappush(heap, (cost + more, length + 1, (*way, neighbour)))
    return table


def next_site(table: Mapping[bytes, Row], destinations: Iterable[bytes]) -> bytes | None:
    """The next site for a message to a machine: towards the cheapest of the machine's sites."""
    rows = [table[site] for site in destinations if site in table]
    return min(rows, key=lambda row: row.cost).next_hop_site if rows else None
