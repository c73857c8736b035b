"""The tables of a session, and that a session does nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.transfer.events import Closed
from msmq.transfer.session import Session
from msmq.transfer.states import FIRST, REASONS, TABLES, Action, CloseReason, Input, Role, State
from msmq.wire.packets import ConnectionParameters, EstablishConnection
from tests.transfer import support
from tests.transfer.support import FOREIGN, OURS, START_MS, THEIRS


@pytest.mark.spec("MQQB-3.1.1.3.1-x")
def test_the_states() -> None:
    assert {state.name for state in State} == {
        "OPEN",
        "CLOSED",
        "WAITING_CP_MSG",
        "WAITING_CPR_MSG",
        "WAITING_EC_MSG",
        "WAITING_ECR_MSG",
        "WAITING_RECONNECT",
    }


@pytest.mark.parametrize("role", Role)
def test_every_state_of_a_table_can_be_reached_and_left(role: Role) -> None:
    reached = {FIRST[role]}
    while True:
        more = {target for (state, _), (_, target) in TABLES[role].items() if state in reached}
        if more <= reached:
            break
        reached |= more
    left = {state for state, _ in TABLES[role]}
    assert left <= reached
    assert reached - left <= {State.CLOSED}


def test_every_closing_has_a_reason() -> None:
    steps = [step for table in TABLES.values() for step in table.items()]
    assert {given for (_, given), (action, _) in steps if action is Action.CLOSE} <= REASONS.keys()


# Every state x every input


def in_state(role: Role, state: State) -> Session[Any]:
    """A session of ``role`` in ``state``, by the way that leads there."""
    if role is Role.ACCEPTOR:
        session = support.acceptor()
        if state is State.WAITING_EC_MSG:
            return session
        session.receive_data(EstablishConnection.request(OURS, THEIRS, 0).encode(), START_MS)
        if state is State.WAITING_CP_MSG:
            return session
        session.receive_data(ConnectionParameters.of(500, 20_000, 64).encode(), START_MS)
    else:
        session = Session(Role.INITIATOR, support.config(), START_MS)
        if state is State.WAITING_RECONNECT:
            session.reconnect_later(START_MS)
        if state in (State.CLOSED, State.WAITING_RECONNECT):
            return session
        session.connected(START_MS, THEIRS)
        request = EstablishConnection.request(OURS, THEIRS, START_MS)
        if state is State.WAITING_ECR_MSG:
            return session
        session.receive_data(request.response(THEIRS).encode(), START_MS)
        if state is State.WAITING_CPR_MSG:
            return session
        session.receive_data(ConnectionParameters.of(500, 20_000, 64).encode(), START_MS)
    if state is State.CLOSED:
        session.close(START_MS)
    return session


REQUEST = EstablishConnection.request(OURS, THEIRS, START_MS)
UNSUITABLE = EstablishConnection.request(FOREIGN, FOREIGN, START_MS)
FAR_MS = START_MS + 10_000_000


def packet_of(role: Role, given: Input) -> bytes | None:
    """The bytes that are this input, for one that is a packet."""
    answers = role is Role.INITIATOR
    return {
        Input.ESTABLISH: (REQUEST.response(THEIRS) if answers else REQUEST).encode(),
        Input.UNSUITABLE_ESTABLISH: (UNSUITABLE.response(FOREIGN) if answers else UNSUITABLE).encode(),
        Input.PARAMETERS: ConnectionParameters.of(500, 20_000, 64).encode(),
        Input.SESSION_ACK: support.ack(),
        Input.USER_MESSAGE: support.packet(),
        Input.MALFORMED: bytes(40),
        Input.MISCOUNTED: support.ack(9),
    }.get(given)


def offer(session: Session[Any], given: Input) -> list[Any]:
    """Let ``given`` happen to a session, from outside, if it can."""
    data = packet_of(session.role, given)
    if data is not None:
        return session.receive_data(data, START_MS)
    if given is Input.DISCONNECTED:
        return session.disconnected(START_MS)
    if given is Input.STOPPED:
        return session.close(START_MS)
    return session.handle_timer(FAR_MS)


def can_happen(role: Role, state: State, given: Input) -> bool:
    """Whether the world can do this: a timer runs out only where it runs, an owner keeps to its contract."""
    closed = state in (State.CLOSED, State.WAITING_RECONNECT)
    return {
        Input.INITIALIZATION_EXPIRED: state not in (State.OPEN, State.CLOSED, State.WAITING_RECONNECT),
        Input.IDLE: state is State.OPEN,
        Input.RETRY_DUE: state is State.WAITING_RECONNECT,
        Input.UNACKNOWLEDGED: False,  # needs a message; see test_session.py
        Input.CONNECTED: False,
        Input.MESSAGES_PENDING: False,
        Input.MISCOUNTED: state is State.OPEN,
        Input.DISCONNECTED: not closed,
    }.get(given, True)


CELLS = [
    (role, state, given)
    for role in Role
    for state in State
    for given in Input
    if state in {FIRST[role], *(target for _, target in TABLES[role].values())}
    and can_happen(role, state, given)
]


@pytest.mark.parametrize(("role", "state", "given"), CELLS, ids=lambda each: each.name)
def test_every_cell(role: Role, state: State, given: Input) -> None:
    """The table's transition, or a close; and what is closed ignores packets."""
    session = in_state(role, state)
    assert session.state is state
    session.data_to_send()
    events = offer(session, given)
    transition = TABLES[role].get((state, given))
    closings = support.found(events, Closed)
    if transition is not None:
        assert session.state is transition.state
        if transition.state is State.CLOSED:
            assert events[-1] is closings[0]
            assert closings[0].reason in (REASONS.get(given), CloseReason.REFUSED)
    elif state in (State.CLOSED, State.WAITING_RECONNECT):
        assert (session.state, events) == (state, [])
    else:
        assert session.state is State.CLOSED
        assert closings[0].reason is CloseReason.OUT_OF_PLACE
        assert session.data_to_send() == []


walks = st.lists(st.sampled_from([*Input, "send", "stored", "pause", "time"]), min_size=1, max_size=30)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted({cell[:2] for cell in CELLS}, key=str)), walks, st.data())
def test_any_walk_follows_the_tables(start: tuple[Role, State], walk: list[Any], data: st.DataObject) -> None:
    """Whatever happens in whatever order: only known transitions, one Closed per connection, nothing raised."""
    role, first = start
    session = in_state(role, first)
    table = TABLES[role]
    now = START_MS
    recoverable = 0
    for step in walk:
        before = session.state
        events: list[Any] = []
        if step == "send":
            session.send(support.packet(recoverable=data.draw(st.booleans())), "token", now)
        elif step == "stored":
            count = session.receipts.recoverable_received - recoverable
            session.stored(recoverable + 1, count, now)
            recoverable += count
        elif step == "pause":
            session.pause(now)
        elif step == "time":
            now += data.draw(st.sampled_from([1, 499, 5_000, 10_000, 30_000, 60_000, 300_000]))
            events = session.handle_timer(now)
        elif step is Input.CONNECTED and (before, step) in table:
            session.connected(now, THEIRS)
            recoverable = 0
        elif step is Input.MESSAGES_PENDING and (before, step) in table:
            session.reconnect_later(now)
        elif isinstance(step, Input) and packet_of(role, step) is not None:
            events = session.receive_data(packet_of(role, step) or b"", now)
        elif step is Input.DISCONNECTED:
            events = session.disconnected(now)
        elif step is Input.STOPPED:
            events = session.close(now)
        known = {target for (state, _), (_, target) in table.items() if state is before}
        assert session.state in {before, *known, State.CLOSED}
        closings = support.found(events, Closed)
        assert len(closings) <= 1
        if closings:
            assert events[-1] is closings[0]
            assert session.state is State.CLOSED
            assert session.next_deadline_ms is None
        elif session.state is State.CLOSED:
            assert before is State.CLOSED
        assert session.room <= 64
        support.packets(session.data_to_send())  # whatever we send can be read
