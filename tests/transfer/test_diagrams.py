"""The diagrams show the tables, all of them and nothing else."""

from __future__ import annotations

import pytest

from msmq.transfer.diagrams import page, ping_diagram, session_diagram
from msmq.transfer.states import TABLES, Role


@pytest.mark.parametrize("role", Role)
def test_every_transition_is_an_arrow(role: Role) -> None:
    drawn = set()
    for line in session_diagram(role).splitlines()[1:]:
        ends, _, label = line.strip().partition(" : ")
        source, target = ends.split(" --> ")
        inputs, _, action = label.partition(" / ")
        drawn |= {(source, target, given, action) for given in inputs.split(", ") if given}
    assert drawn == {
        (state.name, following.name, given.name.lower().replace("_", " "), action.value)
        for (state, given), (action, following) in TABLES[role].items()
    }


def test_the_acceptors_end_is_an_end() -> None:
    assert "CLOSED --> [*]" in session_diagram(Role.ACCEPTOR)
    assert "CLOSED --> [*]" not in session_diagram(Role.INITIATOR)


def test_the_ping_diagram() -> None:
    assert "    WAITING --> SILENT : Ping Response Timer" in ping_diagram().splitlines()


def test_the_page_has_all_three() -> None:
    assert page().count("```mermaid\nstateDiagram-v2\n") == 3
