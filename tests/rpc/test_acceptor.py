"""The server's end: joined with the client's in memory, and alone against what a client must not do."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.rpc.acceptor import (
    SERVER_TABLE,
    CallArrived,
    CallCancelled,
    CallOrphaned,
    ConnectionClosed,
    ServerConnection,
    State,
)
from msmq.rpc.channel import Limits
from msmq.rpc.initiator import Bound, FaultArrived, ResponseArrived
from msmq.rpc.mgmt import MGMT
from msmq.rpc.pdu import (
    AuthLevel,
    AuthType,
    Bind,
    BindAck,
    BindNak,
    CommonHeader,
    ContextElement,
    ContextResult,
    Fault,
    Fragment,
    NakReason,
    PduFlags,
    PduType,
    Request,
    SecTrailer,
    Syntax,
    build,
)
from msmq.rpc.security import Credentials, SecurityContext
from msmq.rpc.status import FaultStatus
from msmq.rpc.syntaxes import NDR, NDR64, feature_syntax
from tests.rpc.echo import ECHOES
from tests.rpc.machines import Pair, ntlm, server, take_fragments
from tests.rpc.support import ALICE

EVERY_LEVEL = [AuthLevel.CONNECT, AuthLevel.PKT, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]
CREDENTIALS = [
    None,
    *(ntlm(level, kind) for kind in (AuthType.NTLM, AuthType.NEGOTIATE) for level in EVERY_LEVEL),
]


def name_of(value: Credentials | None) -> str:
    return "nobody" if value is None else f"{value.auth_type.name}-{value.level.name}"


def answers(data: bytes) -> list[Fragment]:
    return take_fragments(data, 65_535)


def offer(*contexts: ContextElement, group: int = 0, size: int = 5840) -> bytes:
    return build(PduType.BIND, 1, Bind(size, size, group, contexts=contexts).write_body())


ECHO_CONTEXT = ContextElement(7, ECHOES.syntax, (NDR,))


def request(call_id: int, stub: bytes = b"", flags: int = 3, context_id: int = 7, opnum: int = 0) -> bytes:
    return build(PduType.REQUEST, call_id, Request(0, context_id, opnum).write_body() + stub, flags=flags)


@pytest.mark.parametrize("credentials", CREDENTIALS, ids=name_of)
@pytest.mark.parametrize("cut", [1 << 20, 7], ids=["whole", "in pieces"])
def test_calls_and_answers_of_any_size(credentials: Credentials | None, cut: int) -> None:
    pair = Pair(credentials, cut=cut)
    context_id = pair.bound()
    for size in (0, 1, 16, 5_000, 15_000):
        stub = random.Random(size).randbytes(size)
        call_id = pair.client.call(context_id, 3, stub)
        _, (arrived,) = pair.run()
        assert isinstance(arrived, CallArrived)
        assert arrived.stub.startswith(stub)
        assert (arrived.call_id, arrived.opnum) == (call_id, 3)
        identity = arrived.security.identity if arrived.security is not None else None
        assert (identity.token.user if identity is not None else None) == (
            None if credentials is None else ALICE
        )
        pair.server.respond(call_id, stub * 3)
        assert pair.run()[0] == [ResponseArrived(call_id, stub * 3)]


def test_many_calls_are_in_flight_and_answered_in_any_order() -> None:
    pair = Pair(ntlm(AuthLevel.PRIVACY))
    context_id = pair.bound()
    numbers = [pair.client.call(context_id, 0, bytes((n,))) for n in range(50)]
    assert [event.call_id for event in pair.run()[1] if isinstance(event, CallArrived)] == numbers
    random.Random(1).shuffle(numbers)
    for number in numbers:
        pair.server.respond(number, bytes((number % 256,)))
    assert pair.run()[0] == [ResponseArrived(number, bytes((number % 256,))) for number in numbers]


def test_cancel_and_orphan() -> None:
    pair = Pair()
    context_id = pair.bound()
    first, second = (pair.client.call(context_id, 0, b"") for _ in range(2))
    pair.run()
    pair.client.cancel(first)
    pair.client.orphan(second)
    assert pair.run()[1] == [CallCancelled(first), CallOrphaned(second)]
    pair.server.respond(second, b"too late")
    pair.server.fault(first, FaultStatus.NCA_FAULT_CANCEL)
    assert pair.run()[0] == [FaultArrived(first, FaultStatus.NCA_FAULT_CANCEL, False)]
    assert not pair.server._executing


def test_another_interface_on_the_same_connection() -> None:
    pair = Pair(ntlm(AuthLevel.INTEGRITY))
    pair.bound()
    pair.client.alter(MGMT.syntax)
    (bound,) = pair.run()[0]
    assert isinstance(bound, Bound)
    assert bound.context_id is not None
    pair.client.call(bound.context_id, 2, b"")
    ((arrived,)) = pair.run()[1]
    assert isinstance(arrived, CallArrived)
    assert arrived.context.interface == MGMT.syntax


def test_syntaxes_are_agreed_on() -> None:
    machine = server()
    both = ContextElement(1, ECHOES.syntax, (NDR64, NDR))
    only64 = ContextElement(2, ECHOES.syntax, (NDR64,))
    features = ContextElement(3, ECHOES.syntax, (feature_syntax(0xFF),))
    neither = ContextElement(4, ECHOES.syntax, (Syntax(bytes(16), 1),))
    unknown = ContextElement(5, Syntax(bytes(16), 1), (NDR,))
    machine.receive_data(offer(ECHO_CONTEXT, both, only64, features, neither, unknown))
    ack = BindAck.read_body(answers(machine.data_to_send())[0].body)
    assert [(a.result, a.reason, a.transfer) for a in ack.answers] == [
        (0, 0, NDR),
        (0, 0, NDR64),
        (0, 0, NDR64),
        (ContextResult.NEGOTIATE_ACK, 3, Syntax(bytes(16), 0)),
        (2, 2, Syntax(bytes(16), 0)),
        (2, 1, Syntax(bytes(16), 0)),
    ]
    assert ack.secondary_address == b"2103"


@pytest.mark.parametrize(("asked", "agreed"), [(0, 2048), (3199, 3192), (5840, 5840), (65535, 5840)])
def test_fragment_sizes_are_agreed_on(asked: int, agreed: int) -> None:
    machine = server()
    machine.receive_data(offer(ECHO_CONTEXT, size=asked))
    ack = BindAck.read_body(answers(machine.data_to_send())[0].body)
    assert (ack.max_xmit_frag, ack.max_recv_frag) == (agreed, agreed)
    machine.receive_data(request(2))
    machine.respond(2, bytes(20_000))
    sizes = [fragment.header.frag_length for fragment in answers(machine.data_to_send())]
    assert max(sizes) <= agreed
    assert len(sizes) > 3


@pytest.mark.parametrize(
    "state", [state for state in State if state is not State.CLOSED], ids=lambda s: s.value
)
@pytest.mark.parametrize("ptype", range(25))
def test_what_is_not_in_the_table_ends_the_connection(state: State, ptype: int) -> None:
    machine = server()
    if state is not State.OPENING:
        machine.receive_data(offer(ECHO_CONTEXT))
        machine.state = state
        machine.data_to_send()
    known = ptype in PduType.__members__.values() and (state, PduType(ptype)) in SERVER_TABLE
    header = CommonHeader(ptype=ptype, frag_length=16, call_id=9)
    events = machine.receive_data(header.encode())
    if not known:
        assert isinstance(events[-1], ConnectionClosed)
        assert machine.state is State.CLOSED
        kinds = [fragment.header.ptype for fragment in answers(machine.data_to_send())]
        assert kinds == (
            [PduType.BIND_NAK] if ptype == PduType.BIND else [] if state is State.OPENING else [PduType.FAULT]
        )


def fault_of(machine: ServerConnection) -> Fault:
    (fragment,) = answers(machine.data_to_send())
    assert fragment.header.ptype == PduType.FAULT
    return Fault.decode(fragment.body)


def opened(limits: Limits | None = None) -> ServerConnection:
    machine = server(limits)
    machine.receive_data(offer(ECHO_CONTEXT, ContextElement(8, MGMT.syntax, (NDR,))))
    machine.data_to_send()
    return machine


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(2, context_id=9), FaultStatus.NCA_UNKNOWN_INTERFACE),
        (request(2, context_id=8), FaultStatus.ACCESS_DENIED),
        (request(2, bytes(2000)), FaultStatus.NCA_FAULT_REMOTE_NO_MEMORY),
    ],
    ids=["unknown context", "level too low", "too long"],
)
def test_a_refused_call_leaves_the_connection_usable(data: bytes, status: FaultStatus) -> None:
    machine = opened(Limits(max_unknown_stub=1000))
    assert machine.receive_data(data) == []
    assert fault_of(machine).status == status
    (arrived,) = machine.receive_data(request(3, b"next"))
    assert arrived.stub == b"next"


def test_a_refused_call_is_waited_out() -> None:
    machine = opened(Limits(max_unknown_stub=1000))
    first, last = PduFlags.FIRST_FRAG, PduFlags.LAST_FRAG
    assert machine.receive_data(request(2, bytes(900), first)) == []
    assert machine.receive_data(request(2, bytes(900), 0)) == []
    assert fault_of(machine).status == FaultStatus.NCA_FAULT_REMOTE_NO_MEMORY
    assert machine.receive_data(request(2, bytes(900), last)) == []
    assert machine.data_to_send() == b""
    assert not machine._incoming


def test_calls_and_memory_are_bounded() -> None:
    machine = opened(Limits(max_unknown_calls=4, max_partial=10_000, max_calls=8))
    statuses = []
    for call_id in range(100, 200):
        machine.receive_data(request(call_id, bytes(4000), PduFlags.FIRST_FRAG))
        statuses += [Fault.decode(f.body).status for f in answers(machine.data_to_send())]
        held = sum(incoming.size for incoming in machine._incoming.values())
        assert held <= 10_000
    assert set(statuses) == {FaultStatus.NCA_FAULT_REMOTE_NO_MEMORY, FaultStatus.NCA_SERVER_TOO_BUSY}
    assert machine.state is State.CLOSED


@pytest.mark.parametrize(
    "data",
    [
        request(5, b"", PduFlags.LAST_FRAG),
        request(5, b"", PduFlags.FIRST_FRAG) + request(5, b"", PduFlags.FIRST_FRAG),
        build(PduType.AUTH3, 5, bytes(4), trailer=SecTrailer(10, 5, 0, 0, 1), token=b"x"),
        build(PduType.REQUEST, 5, bytes(8), trailer=SecTrailer(10, 5, 0, 0, 1), token=bytes(16)),
        build(PduType.REQUEST, 5, b"\0"),
        CommonHeader(ptype=0, frag_length=6000).encode(),
        CommonHeader(ptype=0, frag_length=10).encode(),
        CommonHeader(rpc_vers=4, frag_length=16).encode(),
        CommonHeader(packed_drep=bytes(4), frag_length=16).encode(),
        CommonHeader(ptype=0, frag_length=24, auth_length=20).encode() + bytes(8),
    ],
    ids=[
        "no first",
        "twice",
        "auth3",
        "unknown verifier",
        "short",
        "long",
        "no header",
        "version",
        "endian",
        "verifier",
    ],
)
def test_a_broken_protocol_ends_the_connection(data: bytes) -> None:
    machine = opened()
    events = machine.receive_data(data)
    assert isinstance(events[-1], ConnectionClosed)
    assert all(f.header.ptype == PduType.FAULT for f in answers(machine.data_to_send()))
    assert machine.receive_data(request(9)) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (offer(), NakReason.NOT_SPECIFIED),
        (b"\4" + offer(ECHO_CONTEXT)[1:], NakReason.PROTOCOL_VERSION_NOT_SUPPORTED),
        (b"\5\2" + offer(ECHO_CONTEXT)[2:], NakReason.PROTOCOL_VERSION_NOT_SUPPORTED),
        (offer(ECHO_CONTEXT, group=77), NakReason.NOT_SPECIFIED),
        (build(PduType.BIND, 1, offer(ECHO_CONTEXT)[16:], trailer=SecTrailer(99, 5), token=b"x"),
         NakReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED),
        (build(PduType.BIND, 1, offer(ECHO_CONTEXT)[16:], trailer=SecTrailer(10, 9), token=b"x"),
         NakReason.NOT_SPECIFIED),
        (build(PduType.BIND, 1, offer(ECHO_CONTEXT)[16:], trailer=SecTrailer(10, 5), token=b"x"),
         NakReason.INVALID_CHECKSUM),
    ],
    ids=["nothing", "version 4", "version 5.2", "no group", "no provider", "no level", "bad token"],
)  # fmt: skip
def test_a_bind_that_cannot_be(data: bytes, reason: NakReason) -> None:
    machine = server()
    assert isinstance(machine.receive_data(data)[-1], ConnectionClosed)
    (nak,) = answers(machine.data_to_send())
    assert nak.header.ptype == PduType.BIND_NAK
    assert BindNak.decode(nak.body).provider_reject_reason == reason


@pytest.mark.parametrize("level", [AuthLevel.INTEGRITY, AuthLevel.PRIVACY], ids=lambda level: level.name)
@pytest.mark.parametrize("where", ["stub", "signature", "opnum", "level", "context"])
def test_a_changed_byte_is_noticed(level: AuthLevel, where: str) -> None:
    pair = Pair(ntlm(level))
    context_id = pair.bound()
    pair.client.call(context_id, 3, b"0123456789abcdef")
    data = bytearray(pair.client.data_to_send())
    length = len(data)
    data[
        {"stub": 26, "signature": length - 3, "opnum": 22, "level": length - 23, "context": length - 20}[
            where
        ]
    ] ^= 1
    events = pair.server.receive_data(bytes(data))
    assert [type(event) for event in events] == [ConnectionClosed]
    assert Fault.decode(answers(pair.server.data_to_send())[0].body).status == FaultStatus.ACCESS_DENIED


def test_a_repeated_request_is_noticed() -> None:
    pair = Pair(ntlm(AuthLevel.INTEGRITY))
    pair.client.call(pair.bound(), 3, b"pay")
    data = pair.client.data_to_send()
    assert len(pair.server.receive_data(data)) == 1
    assert [type(event) for event in pair.server.receive_data(data)] == [ConnectionClosed]


def test_a_signed_connection_takes_an_unsigned_request_for_nobodys() -> None:
    pair = Pair(ntlm(AuthLevel.INTEGRITY))
    pair.bound()
    (arrived,) = pair.server.receive_data(request(9, context_id=0))
    assert isinstance(arrived, CallArrived)
    assert arrived.security is None


def test_who_calls_without_a_verifier_is_asked_again_when_somebody_else_comes() -> None:
    pair = Pair(ntlm(AuthLevel.CONNECT))
    context_id = pair.bound()

    def caller(call_id: int) -> SecurityContext | None:
        (arrived,) = pair.server.receive_data(request(call_id, context_id=context_id))
        assert isinstance(arrived, CallArrived)
        return arrived.security

    first = caller(50)
    assert first is not None
    assert caller(51) is caller(52) is first
    second = ntlm(AuthLevel.CONNECT).initiate("host", 2)

    def leg(ptype: PduType, body: bytes, token: bytes) -> None:
        trailer = SecTrailer(second.auth_type, second.level, 0, 0, 2)
        pair.server.receive_data(build(ptype, 60, body, trailer=trailer, token=token))

    group = pair.server.association_group_id
    offered = ContextElement(context_id, ECHOES.syntax, (NDR,))
    leg(PduType.ALTER_CONTEXT, Bind(5840, 5840, group, contexts=(offered,)).write_body(), second.step(None))
    assert caller(61) is first, "the other one has not proven anything yet"
    challenge = answers(pair.server.data_to_send())[-1].auth_value
    leg(PduType.AUTH3, bytes(4), second.step(challenge))
    assert caller(62) is None, "two are here, and the request names neither"


def test_requests_wait_for_the_handshake() -> None:
    pair = Pair(ntlm(AuthLevel.INTEGRITY))
    pair.client.bind(ECHOES.syntax)
    pair.server.receive_data(pair.client.data_to_send())
    assert pair.server.state is State.AUTHENTICATING
    assert isinstance(pair.server.receive_data(request(2))[-1], ConnectionClosed)


def test_a_finished_token_that_is_sent_again_is_ignored() -> None:
    pair = Pair(ntlm(AuthLevel.INTEGRITY))
    pair.bound()
    again = build(
        PduType.ALTER_CONTEXT,
        5,
        Bind(5840, 5840, 0, contexts=(ContextElement(4, ECHOES.syntax, (NDR,)),)).write_body(),
        trailer=SecTrailer(AuthType.NTLM, AuthLevel.INTEGRITY, 0, 0, 1),
        token=b"whatever it was",
    )
    assert pair.server.receive_data(again) == []
    (answer,) = answers(pair.server.data_to_send())
    assert answer.header.ptype == PduType.ALTER_CONTEXT_RESP
    assert answer.trailer is None


def test_a_failed_handshake_denies_every_request() -> None:
    machine = server()
    first = build(PduType.BIND, 1, offer(ECHO_CONTEXT)[16:], trailer=SecTrailer(10, 2, 0, 0, 4),
                  token=ntlm(AuthLevel.CONNECT).initiate("host", 4).step(None))  # fmt: skip
    machine.receive_data(first)
    machine.receive_data(
        build(PduType.AUTH3, 1, bytes(4), trailer=SecTrailer(10, 2, 0, 0, 4), token=b"rubbish")
    )
    machine.data_to_send()
    assert machine.receive_data(request(2)) == []
    assert fault_of(machine).status == FaultStatus.ACCESS_DENIED


SEED_STREAMS: list[bytes] = []
for _credentials in CREDENTIALS[:6]:
    _pair = Pair(_credentials)
    _pair.client.bind(ECHOES.syntax)
    _bind = _pair.client.data_to_send()
    SEED_STREAMS += [_bind, _bind + request(2, b"abc", context_id=0), offer(ECHO_CONTEXT) + request(2) * 3]


@settings(max_examples=300)
@given(
    seed=st.sampled_from(SEED_STREAMS),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    tail=st.binary(max_size=60),
    cut=st.integers(1, 500),
)
def test_whatever_comes_only_answers_go_out(
    seed: bytes, changes: list[tuple[int, int]], tail: bytes, cut: int
) -> None:
    data = bytearray(seed)
    for where, value in changes:
        data[where % len(data)] = value
    data += tail
    machine = server()
    for start in range(0, len(data), cut):
        for event in machine.receive_data(bytes(data[start : start + cut])):
            if isinstance(event, CallArrived):
                machine.respond(event.call_id, event.stub)
    allowed = {
        PduType.BIND_ACK,
        PduType.BIND_NAK,
        PduType.ALTER_CONTEXT_RESP,
        PduType.FAULT,
        PduType.RESPONSE,
    }
    assert {fragment.header.ptype for fragment in answers(machine.data_to_send())} <= allowed
