"""Who is a gate of which site (MS-MQBR 3.1.5.8)."""

from __future__ import annotations

from msmq.routing.network import Link, Machine, Network

PARIS, ROME = b"P" * 16, b"R" * 16
ANNE, BRUNO, CARLA = b"a" * 16, b"b" * 16, b"c" * 16


def test_gates_stand_in_their_site_and_are_routing_servers() -> None:
    network = Network.of(
        [
            Machine(ANNE, (PARIS,), routing_server=True),
            Machine(BRUNO, (ROME,), routing_server=True),
            Machine(CARLA, (PARIS,)),
        ],
        [Link(PARIS, ROME, 1, (ANNE, BRUNO, CARLA, b"gone" * 4)), Link(PARIS, ROME, 2, (ANNE,))],
    )
    assert network.site_gates(PARIS) == (ANNE, CARLA)
    assert network.site_gates(ROME) == (BRUNO,)
    gates = [name for name, machine in network.machines.items() if network.is_site_gate(machine)]
    assert gates == [ANNE, BRUNO], "who is listed but routes nothing is no gate"
