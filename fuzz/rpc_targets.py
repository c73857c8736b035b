"""Targets for RPC: both ends of a connection, and parameters in NDR and NDR64."""

from __future__ import annotations

from typing import Annotated, Any

from fuzz.oracles import attempt, require, target
from msmq.rpc.acceptor import CallArrived, ServerConnection, State
from msmq.rpc.channel import Limits
from msmq.rpc.epm import EPM, EptLookup, EptLookupReply, EptMap, EptMapReply, read_tower
from msmq.rpc.initiator import ClientConnection
from msmq.rpc.initiator import State as ClientState
from msmq.rpc.mgmt import InqIfIdsReply, InqPrincNameReply, InqStatsReply
from msmq.rpc.ndr import (
    Array,
    Octets,
    Parameters,
    Range,
    Struct,
    Union,
    Unique,
    declare,
    enum16,
    u16,
    u32,
    u64,
    wstring,
)
from msmq.rpc.ntlm import Account
from msmq.rpc.pdu import AuthLevel, Fragment, PduType, read_fragment
from msmq.rpc.security import Authentication
from msmq.rpc.verification import Meant, check_trailer
from msmq.security.access import Token

FROM_SERVER = {
    PduType.BIND_ACK, PduType.BIND_NAK, PduType.ALTER_CONTEXT_RESP, PduType.FAULT, PduType.RESPONSE
}  # fmt: skip
LIMITS = Limits(max_unknown_stub=8_192)


class _Someone:
    """One account, whose password nobody will guess."""

    def find(self, name: str) -> Account | None:
        return Account(name, bytes(range(16)), Token.anonymous())


AUTHENTICATION = Authentication(_Someone())


def _server() -> ServerConnection:
    return ServerConnection(
        LIMITS,
        lambda syntax: AuthLevel.NONE if syntax == EPM.syntax else None,
        lambda group: 7 if group in (0, 7) else None,
        AUTHENTICATION,
        b"2103",
    )


def _fragments(data: bytes) -> list[Fragment]:
    found: list[Fragment] = []
    start = 0
    while (fragment := read_fragment(data, start, 65_535)) is not None:
        found.append(fragment)
        start += fragment.header.frag_length
    require(start == len(data), "half an answer")
    return found


@target(max_len=4096, weight=12, memory_factor=64)
def rpc_server(data: bytes) -> None:
    """A server's connection: the first byte says how the rest is cut. Only answers come back, and it can end."""
    cut = data[0] + 1 if data else 1
    machine = _server()
    for start in range(1, len(data), cut):
        for event in machine.receive_data(data[start : start + cut]):
            if isinstance(event, CallArrived):
                require(event.security is None, "someone was authenticated")
                machine.respond(event.call_id, event.stub)
    answers = _fragments(machine.data_to_send())
    require({fragment.header.ptype for fragment in answers} <= FROM_SERVER, "something else than an answer")
    if machine.state is State.CLOSED:
        require(machine.receive_data(data) == [], "a closed connection goes on")


@target(max_len=4096, weight=8, memory_factor=64)
def rpc_client(data: bytes) -> None:
    """A client's connection that waits to be bound, and one with a call, at the mercy of their server."""
    for bound in (False, True):
        machine = ClientConnection(LIMITS)
        machine.bind(EPM.syntax)
        if bound:
            machine.state = ClientState.BOUND
            machine.call(0, 3, b"")
            machine.call(0, 3, b"")
        for start in range(0, len(data), 97):
            machine.receive_data(data[start : start + 97])


# --- parameters of every shape ------------------------------------------------------------------------


@declare
class Part(Struct):
    kind: enum16
    size: u32
    data: Annotated[bytes | None, Unique(Octets(size_is="size"))]


@declare
class Parts(Parameters):
    count: Annotated[int, Range(u32, 0, 100)]
    parts: Annotated[list[Part] | None, Unique(Array(Part, size_is="count"))]
    kind: u16
    arm: Annotated[Any, Union(u16, {0: None, 1: Unique(wstring), 2: u64}, switch_is="kind")]


SHAPES: tuple[type[Parameters], ...] = (
    EptLookup, EptLookupReply, EptMap, EptMapReply, InqIfIdsReply, InqStatsReply, InqPrincNameReply, Parts
)  # fmt: skip


@target(max_len=1024, weight=10, memory_factor=120)
def rpc_parameters(data: bytes) -> None:
    """The first byte chooses the shape; both syntaxes give the same value."""
    shape = SHAPES[data[0] % len(SHAPES)] if data else SHAPES[0]
    for ndr64 in (False, True):
        found = attempt(shape.decode, data[1:], ndr64)
        if found is None:
            continue
        value, end = found
        require(end < len(data), "more was read than is there")
        for other in (False, True):
            require(
                shape.decode(value.encode(other), other)[0] == value, "a value changed on its way through"
            )


@target(max_len=512, weight=2)
def rpc_tails(data: bytes) -> None:
    """What stands at the end of things: verification trailers and towers."""
    attempt(read_tower, data)
    attempt(check_trailer, data, 0, Meant(EPM.syntax, EPM.syntax, 0, 3), 1)


# The first handshake fills caches of the libraries below; that is no cost of an input.
_warm = AUTHENTICATION.accept(10, 5, 1)
