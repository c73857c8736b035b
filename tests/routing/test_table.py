"""The cheapest way between sites, compared with trying all of them (MS-MQBR 3.1.3.1)."""

from __future__ import annotations

from itertools import pairwise, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.routing.network import Link
from msmq.routing.table import Row, next_site, routing_table

SITES = [bytes([number]) * 16 for number in range(6)]
A, B, C, D = SITES[:4]

links = st.lists(
    st.builds(
        Link,
        st.sampled_from(SITES),
        st.sampled_from(SITES),
        st.integers(1, 20),
    ),
    max_size=10,
)


def cheapest_by_trying(start: bytes, end: bytes, known: list[Link]) -> int | None:
    """The cost of the best way among all ways that visit no site twice."""
    cost: dict[tuple[bytes, bytes], int] = {}
    for link in known:
        for pair in ((link.site1, link.site2), (link.site2, link.site1)):
            cost[pair] = min(link.cost, cost.get(pair, link.cost))
    between = [site for site in SITES if site not in (start, end)]
    best: int | None = None
    for length in range(len(between) + 1):
        for middle in permutations(between, length):
            way = (start, *middle, end)
            steps = list(pairwise(way))
            if all(step in cost for step in steps):
                total = sum(cost[step] for step in steps)
                best = total if best is None else min(best, total)
    return best


@settings(deadline=None)
@given(links)
def test_it_finds_what_trying_everything_finds(known: list[Link]) -> None:
    table = routing_table([A], known)
    assert A not in table
    for site in SITES[1:]:
        best = cheapest_by_trying(A, site, known)
        assert (table[site].cost if site in table else None) == best


@settings(deadline=None)
@given(links)
def test_following_the_tables_arrives_and_costs_what_the_first_one_said(known: list[Link]) -> None:
    for destination, row in routing_table([A], known).items():
        here, spent = A, 0
        while here != destination:
            step = routing_table([here], known)[destination]
            assert step.cost == row.cost - spent
            spent += routing_table([here], known)[step.next_hop_site].cost
            here = step.next_hop_site
        assert spent == row.cost


@settings(deadline=None)
@given(links, st.randoms())
def test_the_order_of_the_links_means_nothing(known: list[Link], random: object) -> None:
    shuffled = list(known)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert routing_table([A], shuffled) == routing_table([A], known)


def test_the_published_example() -> None:
    """MS-MQBR 4: A-B costs 3 and the others 1, so A reaches C by B alone; with B-C at 3 as well, by B and D."""
    cheap = [Link(A, B, 3), Link(B, C, 1), Link(B, D, 1), Link(C, D, 1)]
    assert routing_table([A], cheap)[C] == Row(B, 4)
    assert routing_table([B], cheap)[C] == Row(C, 1)
    dear = [Link(A, B, 3), Link(B, C, 3), Link(B, D, 1), Link(C, D, 1)]
    assert routing_table([A], dear)[C] == Row(B, 5)
    assert routing_table([B], dear)[C] == Row(D, 2)


def test_the_nearest_site_of_a_machine_counts() -> None:
    table = routing_table([A], [Link(A, B, 5), Link(A, C, 2)])
    assert next_site(table, (B, C)) == C
    assert next_site(table, (D,)) is None
