"""State diagrams of the protocol as Mermaid text, drawn from the tables the machines follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msmq.transfer.ping import TRANSITIONS, PingState
from msmq.transfer.states import FIRST, TABLES, Role, State, Table

_TITLES: Final = {
    Role.INITIATOR: "Session, the side that connects",
    Role.ACCEPTOR: "Session, the side that accepts",
}


def session_diagram(role: Role) -> str:
    """Draw the states of a session; inputs with the same effect share an arrow."""
    arrows = [f"[*] --> {FIRST[role].name}", *_arrows(TABLES[role])]
    if role is Role.ACCEPTOR:
        arrows.append(f"{State.CLOSED.name} --> [*]")
    return _diagram(arrows)


def ping_diagram() -> str:
    """Draw the states of a ping request."""
    arrows = [f"[*] --> {PingState.WAITING.name}"]
    arrows += [f"{state.name} --> {end.name} : {given.value}" for (state, given), end in TRANSITIONS.items()]
    arrows += [f"{state.name} --> [*]" for state in PingState if state is not PingState.WAITING]
    return _diagram(arrows)


def page() -> str:
    """Make a page of the documentation with every diagram."""
    parts = [
        "# State diagrams",
        "Drawn from the tables in `msmq.transfer.states` and `msmq.transfer.ping`. A packet for which a state has no"
        " arrow closes the session.",
    ]
    for role, title in _TITLES.items():
        parts += [f"## {title}", _fenced(session_diagram(role))]
    parts += ["## Ping", _fenced(ping_diagram())]
    return "\n\n".join(parts) + "\n"


def _arrows(table: Table) -> list[str]:
    inputs: dict[tuple[str, str, str], list[str]] = {}
    for (state, given), (action, following) in table.items():
        arrow = (state.name, following.name, action.value)
        inputs.setdefault(arrow, []).append(given.name.lower().replace("_", " "))
    return [
        f"{state} --> {following} : {', '.join(given)} / {action}"
        for (state, following, action), given in inputs.items()
    ]


def _diagram(arrows: Iterable[str]) -> str:
    return "\n".join(["stateDiagram-v2", *(f"    {arrow}" for arrow in arrows)])


def _fenced(diagram: str) -> str:
    return f"```mermaid\n{diagram}\n```"
