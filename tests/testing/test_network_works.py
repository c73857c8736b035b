"""Applications of the simulated network that take their time with a transaction."""

from __future__ import annotations

import pytest

from msmq.testing.network_book import Kind, Sent
from msmq.testing.network_host import MAIL, ORDERS
from msmq.testing.network_sim import NetworkSimulation


@pytest.mark.parametrize("end", ["commit", "abort", "kill", "deleted"])
def test_messages_belong_to_the_transaction_until_it_ends(end: str) -> None:
    simulation = NetworkSimulation(1)
    alice, bob = simulation.hosts[:2]
    name, kind = (MAIL, Kind.RECOVERABLE) if end == "deleted" else (ORDERS, Kind.TRANSACTIONAL)
    for number in (1, 2, 3):
        alice.send([Sent(number, kind, alice.address, (bob.address, name), number)], [10])
    simulation.run_for(3)
    log = simulation.book.log((bob.address, name))
    bob.work(name, 2)
    (work,) = bob.works
    taken = [number for _, number in work._taken]
    (left,) = {1, 2, 3} - {*taken}
    assert bob.receive(name)
    assert not bob.receive(name), "the others are not to be seen"
    simulation.run_for(1)
    assert log.read == [left]
    if end == "kill":
        bob.kill()
        bob.start()
        assert not bob.works
    else:
        if end == "deleted":
            bob.make_anew(name)
        bob.end_work(work, commit=end != "abort")
    simulation.run_for(1)
    assert log.read == [left, *(taken if end == "commit" else [])]
    simulation.end()
    assert log.read == [left, *([] if end == "deleted" else taken)]
    simulation.network.close()
