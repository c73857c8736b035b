"""The quick way does what the methods do: the same answers, byte for byte, and the same queue behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.errors import MQError
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import QueueAccessType, QueueShareMode
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import ACTIONS, Action
from msmq.remote_read.handles import OpenHandle
from msmq.rpc.association import AssociationGroup
from msmq.rpc.interface import Call, Promise
from msmq.rpc.ndr import Parameters
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.status import RpcFault
from msmq.security.access import Token
from tests.remote_read.support import INVALID_HANDLE, OK, WHOLE, Served, direct

START, END = idl.R_START_RECEIVE, idl.R_END_RECEIVE
NOBODY = Token.anonymous()


@dataclass
class Desk:
    """A service that is called without a network, in the quick way where there is one or not at all."""

    quickly: bool
    ndr64: bool = False
    served: Served = field(default_factory=Served)
    answers: list[object] = field(default_factory=list)
    """What was answered, or will be: an answer that has not come yet is None."""

    def __post_init__(self) -> None:
        self.call = Call(
            idl.REMOTE_READ, START, None, self.ndr64, NOBODY, None, AuthLevel.NONE, AssociationGroup(1), "", "", self
        )  # fmt: skip
        self.quick_answers = 0

    def open(self, access: QueueAccessType = QueueAccessType.RECEIVE, name: str = "orders") -> bytes:
        service = self.served.service
        opened = self.served.manager.queues.open(direct(name), access, QueueShareMode.DENY_NONE, NOBODY)
        handle = service.handles.add(opened, self.call, AuthLevel.NONE)
        return self.call.open_handle(handle)

    def handle(self, context: bytes) -> OpenHandle:
        found: OpenHandle = self.call.find_handle(context)
        return found

    def ask(self, opnum: int, request: Parameters) -> None:
        service, place = self.served.service, len(self.answers)
        self.answers.append(None)
        answer: Any = None
        try:
            if self.quickly:
                quick = {7: service.quick.start, 9: service.quick.end}[opnum]
                answer = quick(self.call, request.encode(self.ndr64))
                self.quick_answers += answer is not None
            if answer is None:
                answer = service.methods[opnum](self.call, request)
        except RpcFault as fault:
            self.answers[place] = fault.status
            return
        if isinstance(answer, Promise):
            answer.deliver_to(lambda later: self.keep(place, later))
        else:
            self.keep(place, answer)

    def keep(self, place: int, answer: object) -> None:
        assert not isinstance(answer, MQError)
        self.answers[place] = answer.encode(self.ndr64) if isinstance(answer, Parameters) else answer

    @property
    def state(self) -> list[object]:
        """Everything that may tell two of them apart."""
        queue = self.served.host.find()
        handles = sorted(
            (
                sorted(handle.descriptor.begun),
                sorted((one.request_id, one.lookup_id, one.receives) for one in handle.requests.values()),
            )
            for handle in self.served.service.handles.open
        )
        unsaid = [
            (request.request_id, until) for request, (until, _) in self.served.service.handles._unsaid.items()
        ]
        return [list(queue.positions), len(queue.waiting), handles, unsaid]


STARTS = st.tuples(
    st.just(7),
    st.sampled_from([*ACTIONS, Action.RECEIVE, Action.PEEK_CURRENT, Action.LOOKUP_PEEK_NEXT, 99]),
    st.integers(-1, 7),  # the message of the lookup identifier, none for -1
    st.sampled_from([0, 0, 0, 5_000]),
    st.integers(1, 5),
    st.sampled_from([WHOLE, WHOLE, 0, 3, 4_000]),
    st.booleans(),
)
ENDS = st.tuples(
    st.just(9), st.sampled_from([idl.RR_ACK, idl.RR_ACK, idl.RR_NACK]), st.integers(1, 5), st.booleans()
)
STEPS = st.lists(
    STARTS | ENDS | st.sampled_from([("send",), ("slow",), ("settle",), ("wait",)]), min_size=1, max_size=25
)


def take(desk: Desk, contexts: list[bytes], ids: list[int], step: Any) -> None:
    served = desk.served
    match step:
        case (7, action, number, timeout_ms, request_id, limit, peeks):
            lookup_id = ids[number] if 0 <= number < len(ids) else 0
            start = idl.StartReceive(
                contexts[peeks], lookup_id, 0, action, timeout_ms, request_id, limit, limit
            )  # fmt: skip
            desk.ask(7, start)
        case (9, ack, request_id, peeks):
            desk.ask(9, idl.EndReceive(contexts[peeks], ack, request_id))
        case ("send",):
            served.host.send(served.host.find(), b"more", recoverable=len(ids) % 2 == 0)
            ids.append(
                list(served.host.find().positions)[-1].lookup_id if len(served.host.find().positions) else 0
            )
        case ("slow",):
            served.slow = True
        case ("settle",):
            served.settle()
        case ("wait",):
            served.host.advance(6)


@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_both_ways_answer_alike(steps: list[Any], ndr64: bool) -> None:
    desks = [Desk(quickly, ndr64) for quickly in (True, False)]
    contexts, ids = [], []
    for desk in desks:
        queue = desk.served.queue("orders", b"one", b"two", b"three", b"a longer one")
        ids.append([entry.lookup_id for entry in queue.positions])
        contexts.append([desk.open(), desk.open(QueueAccessType.PEEK)])
    for step in steps:
        for desk, context, known in zip(desks, contexts, ids, strict=True):
            take(desk, context, known, step)
        assert desks[0].answers == desks[1].answers
        assert desks[0].state == desks[1].state


def test_the_usual_calls_are_quick() -> None:
    """Otherwise the comparison above would compare nothing."""
    desk = Desk(True)
    desk.served.queue("orders", b"one", b"two")
    context = desk.open()
    first = next(iter(desk.served.host.find().positions)).lookup_id
    desk.ask(7, idl.StartReceive(context, 0, 0, Action.PEEK_CURRENT, 0, 1, WHOLE, WHOLE))
    desk.ask(7, idl.StartReceive(context, first, 0, Action.LOOKUP_PEEK_NEXT, 0, 2, WHOLE, WHOLE))
    desk.ask(7, idl.StartReceive(context, 0, 0, Action.RECEIVE, 0, 3, WHOLE, WHOLE))
    desk.ask(9, idl.EndReceive(context, idl.RR_ACK, 3))
    assert desk.quick_answers == 4
    assert all(isinstance(answer, bytes) for answer in desk.answers)
    assert desk.answers[3] == idl.Status(OK).encode()
    assert desk.served.host.contents(desk.served.host.find()) == [b"two"]


def test_a_message_that_cannot_be_sent_is_back_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(True)
    queue = desk.served.queue("orders", b"one")
    context = desk.open()

    def fail(*_: object) -> None:
        raise ValueError("it cannot be written")

    monkeypatch.setattr("msmq.remote_read.quick.usual_parts", fail)
    monkeypatch.setattr("msmq.remote_read.receive.sections_of", fail)
    with pytest.raises(ValueError, match="cannot be written"):  # of which the RPC server makes a fault
        desk.ask(7, idl.StartReceive(context, 0, 0, Action.RECEIVE, 0, 1, 0, 0))
    assert [entry.state for entry in queue.positions] == [PositionState.AVAILABLE]
    assert not desk.handle(context).requests


def test_stubs_of_another_length_are_left_alone() -> None:
    desk = Desk(True)
    desk.served.queue("orders", b"one")
    start = idl.StartReceive(desk.open(), 0, 0, Action.RECEIVE, 0, 1, WHOLE, WHOLE).encode()
    quick = desk.served.service.quick
    for stub in (b"", start[:-1], start + b"\0"):
        assert quick.start(desk.call, stub) is None
        assert quick.end(desk.call, stub) is None
    assert not any(handle.requests for handle in desk.served.service.handles.open)


def test_a_queue_that_is_gone_is_the_methods_to_tell() -> None:
    desk = Desk(True)
    desk.served.queue("orders", b"one")
    context = desk.open()
    desk.served.manager.queues.close(desk.handle(context).descriptor)
    desk.ask(7, idl.StartReceive(context, 0, 0, Action.RECEIVE, 0, 1, WHOLE, WHOLE))
    desk.ask(9, idl.EndReceive(context, idl.RR_ACK, 1))
    assert desk.quick_answers == 0
    assert desk.answers[1] == idl.Status(INVALID_HANDLE).encode()


U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


@given(values=st.tuples(st.binary(min_size=20, max_size=20), U64, U32, U32, U32, U32, U32, U32))
def test_the_stub_of_a_start_is_that_of_its_declaration(values: tuple[Any, ...]) -> None:
    for ndr64 in (False, True):
        assert idl.start_receive_stub(*values) == idl.StartReceive(*values).encode_declared(ndr64)
    assert idl.read_start_receive(idl.start_receive_stub(*values)) == values


@given(values=st.tuples(st.binary(min_size=20, max_size=20), st.integers(1, 2), U32))
def test_the_stub_of_an_end_is_that_of_its_declaration(values: tuple[Any, ...]) -> None:
    for ndr64 in (False, True):
        assert idl.end_receive_stub(*values) == idl.EndReceive(*values).encode_declared(ndr64)
    assert idl.read_end_receive(idl.end_receive_stub(*values)) == values
