"""The client's end against a server that does not behave."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.rpc.acceptor import CallArrived
from msmq.rpc.channel import Limits
from msmq.rpc.initiator import (
    BindRefused,
    Bound,
    ConnectionClosed,
    FaultArrived,
    ResponseArrived,
    ShutdownAsked,
    State,
)
from msmq.rpc.pdu import (
    AuthLevel,
    BindAck,
    ContextAnswer,
    Fault,
    PduFlags,
    PduType,
    Response,
    Syntax,
    build,
)
from msmq.rpc.syntaxes import NDR, NDR64
from msmq.rpc.verification import SIGNATURE
from tests.rpc.echo import ECHOES
from tests.rpc.machines import Pair, client, ntlm


def ack(*answers: ContextAnswer, size: int = 5840) -> bytes:
    return build(PduType.BIND_ACK, 1, BindAck(size, size, 5, b"1", answers).write_body())


def response(call_id: int, stub: bytes, flags: int = 3) -> bytes:
    return build(PduType.RESPONSE, call_id, Response(len(stub)).encode() + stub, flags=flags)


def test_an_interface_that_is_not_served() -> None:
    pair = Pair()
    pair.client.bind(Syntax(bytes(16), 1))
    (bound,) = pair.run()[0]
    assert isinstance(bound, Bound)
    assert (bound.context_id, bound.result, bound.reason) == (None, 2, 1)


def test_a_refusal() -> None:
    pair = Pair()
    pair.client.bind(ECHOES.syntax, association_group_id=7)
    assert [type(event) for event in pair.run()[0]] == [BindRefused, ConnectionClosed]


@pytest.mark.parametrize(
    "data",
    [
        ack(),
        ack(ContextAnswer(0, 0, NDR64)),
        ack(ContextAnswer(0, 0, NDR), size=100),
        response(1, b""),
        build(PduType.BIND_ACK, 1, b"short"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    ids=["no answer", "not offered", "too small", "response", "short", "another protocol"],
)
def test_a_bad_answer_to_a_bind_closes(data: bytes) -> None:
    machine = client()
    machine.bind(ECHOES.syntax)
    assert [type(event) for event in machine.receive_data(data)] == [ConnectionClosed]
    assert machine.state is State.CLOSED
    assert machine.receive_data(data) == []


def test_an_unsigned_answer_is_not_believed() -> None:
    pair = Pair(ntlm(AuthLevel.INTEGRITY))
    call_id = pair.client.call(pair.bound(), 0, b"")
    assert [type(event) for event in pair.client.receive_data(response(call_id, b"forged"))] == [
        ConnectionClosed
    ]


def test_a_changed_answer_is_not_believed() -> None:
    pair = Pair(ntlm(AuthLevel.PRIVACY))
    call_id = pair.client.call(pair.bound(), 0, b"")
    pair.run()
    pair.server.respond(call_id, b"the answer of the server")
    data = bytearray(pair.server.data_to_send())
    data[30] ^= 1
    assert [type(event) for event in pair.client.receive_data(bytes(data))] == [ConnectionClosed]


@pytest.mark.parametrize("level", [None, AuthLevel.CONNECT, AuthLevel.INTEGRITY, AuthLevel.PRIVACY])
def test_a_signed_request_says_which_call_it_means(level: AuthLevel | None) -> None:
    """In the verification trailer, which its signature covers and whose absence no server minds."""
    pair = Pair(ntlm(level) if level is not None else None)
    pair.client.call(pair.bound(), 0, b"12345678")
    _, (arrived,) = pair.run()
    assert isinstance(arrived, CallArrived)
    assert arrived.stub.startswith(b"12345678")
    assert (SIGNATURE in arrived.stub) is (level in (AuthLevel.INTEGRITY, AuthLevel.PRIVACY))


def test_answers_are_bounded_and_in_order() -> None:
    pair = Pair(client_limits=Limits(max_stub=100, max_partial=150))
    context_id = pair.bound()
    one, two = (pair.client.call(context_id, 0, b"") for _ in range(2))
    first = PduFlags.FIRST_FRAG
    assert pair.client.receive_data(response(one, bytes(90), first) + response(two, bytes(50), first)) == []
    assert pair.client.receive_data(response(one, bytes(10), 0)) == [], "just as much as we take"
    assert [type(e) for e in pair.client.receive_data(response(one, bytes(20), 2))] == [ConnectionClosed]


@pytest.mark.parametrize("flags", [0, 2], ids=["middle", "last"])
def test_an_answer_begins_at_its_beginning(flags: int) -> None:
    pair = Pair()
    call_id = pair.client.call(pair.bound(), 0, b"")
    assert [type(e) for e in pair.client.receive_data(response(call_id, b"", flags))] == [ConnectionClosed]


def test_answers_to_what_was_given_up_are_thrown_away() -> None:
    pair = Pair()
    call_id = pair.client.call(pair.bound(), 0, b"")
    pair.client.orphan(call_id)
    assert pair.client.receive_data(response(call_id, b"late")) == []
    assert pair.client.receive_data(build(PduType.FAULT, call_id, Fault(status=5).encode())) == []
    pair.client.cancel(call_id)
    pair.client.orphan(call_id)


def test_faults_shutdown_and_a_refused_alteration() -> None:
    pair = Pair()
    call_id = pair.client.call(pair.bound(), 0, b"")
    flags = 3 | PduFlags.DID_NOT_EXECUTE
    assert pair.client.receive_data(build(PduType.FAULT, call_id, Fault(status=5).encode(), flags=flags)) == [
        FaultArrived(call_id, 5, True)
    ]
    assert pair.client.receive_data(build(PduType.SHUTDOWN, 0, b"")) == [ShutdownAsked()]
    pair.client.alter(ECHOES.syntax)
    fault = build(PduType.FAULT, 3, Fault(status=5).encode())
    assert [type(e) for e in pair.client.receive_data(fault)] == [BindRefused, ConnectionClosed]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4), st.booleans())
def test_a_server_can_only_close(changes: list[tuple[int, int]], signed: bool) -> None:
    pair = Pair(ntlm(AuthLevel.INTEGRITY) if signed else None)
    call_id = pair.client.call(pair.bound(), 0, b"abc")
    pair.run()
    pair.server.respond(call_id, b"answer")
    data = bytearray(pair.server.data_to_send())
    for where, value in changes:
        data[where % len(data)] = value
    for event in pair.client.receive_data(bytes(data)):
        assert isinstance(
            event, ConnectionClosed | FaultArrived | ResponseArrived | ShutdownAsked | BindRefused
        )
        if signed and isinstance(event, ResponseArrived):
            assert event.stub == b"answer"
