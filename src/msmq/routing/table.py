"""RoutingTable (MS-MQBR 3.1.1.2, 3.1.3.1): from each site, the next one on the cheapest way to every other.

Dijkstra's algorithm over the links, both directions of each. Of ways that cost the same the one with fewer sites is
taken, and of those the one whose sites come first in the order of their GUIDs, so that nothing is left to chance. A
link costs something, so each hop brings a message nearer and no two gates send it to and fro.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msmq.routing.network import Link


class Row(NamedTuple):
    """The way to one site: the next site on it, and what it costs in all."""

    next_hop_site: bytes
    cost: int


def routing_table(own_sites: Iterable[bytes], links: Iterable[Link]) -> dict[bytes, Row]:
    """The rows by DestinationSiteID, for every site that can be reached and is not our own."""
    neighbours: dict[bytes, list[tuple[bytes, int]]] = {}
    for link in links:
        neighbours.setdefault(link.site1, []).append((link.site2, link.cost))
        neighbours.setdefault(link.site2, []).append((link.site1, link.cost))
    # cost, number of sites, the sites on the way: the order of preference is the order of the heap
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
    """Where a message for a machine goes next: to the cheapest of the machine's sites."""
    rows = [table[site] for site in destinations if site in table]
    return min(rows, key=lambda row: row.cost).next_hop_site if rows else None
