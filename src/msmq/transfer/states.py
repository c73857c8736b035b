"""The states of a protocol session and the transitions between them (MS-MQQB 3.1.1.1.1.1, 3.1.1.1.1.2).

Two tables define everything: ``(state, input) -> (action, next state)``, one for the side that opened the transport
connection and one for the side that accepted it. An input that is not in the table is a protocol error and closes the
session, as does every transition into CLOSED. The diagrams of the documentation are drawn from these tables
(:mod:`msmq.transfer.diagrams`), and :class:`msmq.transfer.session.Session` follows them.

A session that closed and still has messages to deliver waits in WAITING_RECONNECT; only an initiator does. An
acceptor's session ends, and what it could not deliver waits for a session that we open ourselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import Final, NamedTuple


class Role(Enum):
    INITIATOR = "initiator"
    ACCEPTOR = "acceptor"


class State(IntEnum):
    """SessionState (3.1.1.3.1)."""

    OPEN = 0
    CLOSED = 1
    WAITING_CP_MSG = 2
    WAITING_CPR_MSG = 3
    WAITING_EC_MSG = 4
    WAITING_ECR_MSG = 5
    WAITING_RECONNECT = 6


class Input(IntEnum):
    """What can happen to a session: a packet, a timer, or an event of its transport or owner."""

    ESTABLISH = 0
    """An EstablishConnection that suits us: a request that we admit, or a response that admits us."""
    UNSUITABLE_ESTABLISH = 1
    PARAMETERS = 2
    SESSION_ACK = 3
    USER_MESSAGE = 4
    MALFORMED = 5
    INITIALIZATION_EXPIRED = 6
    IDLE = 7
    UNACKNOWLEDGED = 8
    MISCOUNTED = 9
    RETRY_DUE = 10
    CONNECTED = 11
    DISCONNECTED = 12
    MESSAGES_PENDING = 13
    STOPPED = 14


class Action(Enum):
    """What a session does on its way to the next state."""

    ASK = "send EstablishConnection"
    ANSWER = "answer EstablishConnection"
    REFUSE = "answer with a refusal"
    OFFER = "send ConnectionParameters"
    CONFIRM = "answer ConnectionParameters"
    ADOPT = "adopt the peer's parameters"
    TAKE_MESSAGE = "count and hand over"
    TAKE_ACK = "release what is acknowledged"
    CLOSE = "close the transport"
    WAIT = "start the retry timer"
    RECONNECT = "ask for a connection"


class CloseReason(Enum):
    """Why a session closed."""

    MALFORMED = "a packet breaks the specification"
    OUT_OF_PLACE = "a packet that does not belong here"
    REFUSED = "we do not admit the peer"
    NOT_ADMITTED = "the peer does not admit us"
    INITIALIZATION_EXPIRED = "the opening took too long"
    IDLE = "no message for a whole interval"
    UNACKNOWLEDGED = "the peer acknowledges nothing"
    MISCOUNTED = "the two sides count differently"
    DISCONNECTED = "the transport is gone"
    STOPPED = "closed by its owner"


class Transition(NamedTuple):
    action: Action
    state: State


Table = Mapping[tuple[State, Input], Transition]


def _closing(states: Iterable[State], inputs: Iterable[Input]) -> dict[tuple[State, Input], Transition]:
    every = [(state, given) for state in states for given in inputs]
    return dict.fromkeys(every, Transition(Action.CLOSE, State.CLOSED))


_ENDS: Final = (Input.MALFORMED, Input.DISCONNECTED, Input.STOPPED)
_TOO_LATE: Final = (Input.INITIALIZATION_EXPIRED, Input.IDLE)
_IN_OPEN: Final[Table] = {
    (State.OPEN, Input.USER_MESSAGE): Transition(Action.TAKE_MESSAGE, State.OPEN),
    (State.OPEN, Input.SESSION_ACK): Transition(Action.TAKE_ACK, State.OPEN),
    **_closing([State.OPEN], [*_ENDS, Input.IDLE, Input.UNACKNOWLEDGED, Input.MISCOUNTED]),
}

INITIATOR: Final[Table] = {
    (State.CLOSED, Input.CONNECTED): Transition(Action.ASK, State.WAITING_ECR_MSG),
    (State.WAITING_ECR_MSG, Input.ESTABLISH): Transition(Action.OFFER, State.WAITING_CPR_MSG),
    (State.WAITING_CPR_MSG, Input.PARAMETERS): Transition(Action.ADOPT, State.OPEN),
    **_IN_OPEN,
    **_closing([State.WAITING_ECR_MSG], [Input.UNSUITABLE_ESTABLISH]),
    **_closing([State.WAITING_ECR_MSG, State.WAITING_CPR_MSG], [*_ENDS, *_TOO_LATE]),
    (State.CLOSED, Input.MESSAGES_PENDING): Transition(Action.WAIT, State.WAITING_RECONNECT),
    (State.WAITING_RECONNECT, Input.MESSAGES_PENDING): Transition(Action.WAIT, State.WAITING_RECONNECT),
    (State.WAITING_RECONNECT, Input.RETRY_DUE): Transition(Action.RECONNECT, State.WAITING_RECONNECT),
    (State.WAITING_RECONNECT, Input.CONNECTED): Transition(Action.ASK, State.WAITING_ECR_MSG),
    **_closing([State.WAITING_RECONNECT], [Input.STOPPED]),
}

ACCEPTOR: Final[Table] = {
    (State.WAITING_EC_MSG, Input.ESTABLISH): Transition(Action.ANSWER, State.WAITING_CP_MSG),
    (State.WAITING_EC_MSG, Input.UNSUITABLE_ESTABLISH): Transition(Action.REFUSE, State.CLOSED),
    (State.WAITING_CP_MSG, Input.PARAMETERS): Transition(Action.CONFIRM, State.OPEN),
    **_IN_OPEN,
    **_closing([State.WAITING_EC_MSG, State.WAITING_CP_MSG], [*_ENDS, *_TOO_LATE]),
}

TABLES: Final[Mapping[Role, Table]] = {Role.INITIATOR: INITIATOR, Role.ACCEPTOR: ACCEPTOR}
FIRST: Final[Mapping[Role, State]] = {
    Role.INITIATOR: State.CLOSED,
    Role.ACCEPTOR: State.WAITING_EC_MSG,
}
"""The first state: an acceptor's session begins with the transport connection; an initiator has none yet."""

REASONS: Final[Mapping[Input, CloseReason]] = {
    Input.UNSUITABLE_ESTABLISH: CloseReason.NOT_ADMITTED,
    Input.MALFORMED: CloseReason.MALFORMED,
    Input.INITIALIZATION_EXPIRED: CloseReason.INITIALIZATION_EXPIRED,
    Input.IDLE: CloseReason.IDLE,
    Input.UNACKNOWLEDGED: CloseReason.UNACKNOWLEDGED,
    Input.MISCOUNTED: CloseReason.MISCOUNTED,
    Input.DISCONNECTED: CloseReason.DISCONNECTED,
    Input.STOPPED: CloseReason.STOPPED,
}
