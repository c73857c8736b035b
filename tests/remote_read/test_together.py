"""Receives, and acknowledgments of them, whose calls came one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from msmq.errors import InsufficientResourcesError
from msmq.manager.mailbox.positions import PositionState
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import Action
from msmq.remote_read.remote_message import WHOLE
from msmq.rpc.association import AssociationGroup
from msmq.rpc.interface import Call, Promise, Together
from msmq.rpc.pdu import AuthLevel
from msmq.security.access import Token
from tests.remote_read.support import (
    INVALID_HANDLE,
    INVALID_PARAMETER,
    OK,
    TIMEOUT,
    Peer,
    Served,
    body_or_status,
    direct,
    on_loop,
)


class Reader:
    """A reader whose calls go to the handlers as one read of its socket would bring them."""

    def __init__(self, *bodies: bytes) -> None:
        self.served = Served()
        self.queue = self.served.queue("orders", *bodies)
        self.call = Call(
            idl.REMOTE_READ, idl.R_START_RECEIVE, False, Token.anonymous(), None, AuthLevel.NONE, AssociationGroup(1),
            "", "", self,
        )  # fmt: skip
        self.handle = b""
        self.events = 0
        """Events of the queue manager that wrote something, or locked messages."""

    async def open(self, name: str = "orders") -> bytes:
        request = Peer(None).request(direct(name))  # type: ignore[arg-type]
        self.handle = (await self.served.service.open_queue(self.call, request)).pph_context
        return self.handle

    def _answers(self, opnum: int, requests: Sequence[Any]) -> list[Any]:
        handler = self.served.service.methods[opnum]
        assert isinstance(handler, Together)
        answers: list[Any] = []
        while len(answers) < len(requests):
            self.events += 1
            answers += handler.answer(self.call, requests[len(answers) :])
        return answers

    def start(self, *request_ids: int, **fields: Any) -> list[Any]:
        values = {"ul_action": Action.RECEIVE, "ul_timeout": 0, "h_cursor": 0, "lookup_id": 0} | fields
        requests = [
            idl.StartReceive(
                ph_context=self.handle, dw_request_id=number, dw_max_body_size=WHOLE,
                dw_max_compound_message_size=WHOLE, **values,
            )
            for number in request_ids
        ]  # fmt: skip
        return [
            answer if isinstance(answer, Promise) else body_or_status(answer)
            for answer in self._answers(7, requests)
        ]

    def end(self, *request_ids: int, ack: int = idl.RR_ACK) -> list[Any]:
        requests = [idl.EndReceive(self.handle, ack, number) for number in request_ids]
        return [
            answer if isinstance(answer, Promise) else answer.status for answer in self._answers(9, requests)
        ]

    @property
    def states(self) -> list[PositionState]:
        return [entry.state for entry in self.queue.positions]


@on_loop
async def test_receives_take_the_next_messages_in_one_event() -> None:
    reader = Reader(b"1", b"2", b"3", b"4")
    await reader.open()
    assert reader.start(1, 2, 3) == [b"1", b"2", b"3"]
    assert reader.events == 1
    assert reader.states == [PositionState.LOCKED] * 3 + [PositionState.AVAILABLE]
    assert reader.end(1, 2, 3) == [OK] * 3
    assert reader.events == 2
    assert reader.served.host.contents(reader.queue) == [b"4"]
    assert not reader.served.handle.requests


@on_loop
async def test_those_that_find_nothing_end_by_themselves() -> None:
    reader = Reader(b"1", b"2")
    await reader.open()
    assert reader.start(1, 2, 3, 4) == [b"1", b"2", TIMEOUT, TIMEOUT]
    assert sorted(reader.served.handle.requests) == [1, 2]


@on_loop
async def test_those_that_wait_get_what_comes_in_their_order() -> None:
    reader = Reader(b"1")
    await reader.open()
    first, *waiting = reader.start(1, 2, 3, ul_timeout=60_000)
    assert first == b"1"
    told: list[tuple[int, bytes | int]] = []
    for number, promise in enumerate(waiting):

        def deliver(answer: Any, number: int = number) -> None:
            told.append((number, body_or_status(answer)))

        promise.deliver_to(deliver, lambda action: action())
    reader.served.fill(reader.queue, b"2", b"3")
    assert told == [(0, b"2"), (1, b"3")]


@on_loop
async def test_a_request_id_that_is_used_twice_is_refused_once() -> None:
    reader = Reader(b"1", b"2", b"3")
    await reader.open()
    assert reader.start(1, 1, 2) == [b"1", INVALID_PARAMETER, b"2"]
    assert reader.end(1, 2, 2, 1) == [OK, OK, INVALID_HANDLE, INVALID_HANDLE]
    assert reader.served.host.contents(reader.queue) == [b"3"]


@on_loop
async def test_an_acknowledgment_that_comes_twice_costs_no_other() -> None:
    reader = Reader(b"1", b"2", b"3", b"4")
    await reader.open()
    reader.start(1, 2, 3, 4)
    assert reader.end(1, 2, 2, 3) == [OK, OK, INVALID_PARAMETER, OK]
    assert reader.states == [PositionState.LOCKED]


@on_loop
async def test_large_messages_are_not_read_together() -> None:
    large = bytes(100_000)
    reader = Reader(large, large, large)
    await reader.open()
    assert reader.start(1, 2, 3) == [large] * 3
    assert reader.events == 3


@on_loop
async def test_what_is_given_back_is_back_at_its_place() -> None:
    reader = Reader(b"1", b"2", b"3")
    await reader.open()
    reader.start(1, 2, 3)
    assert reader.end(1, 3, ack=idl.RR_NACK) == [OK] * 2
    assert reader.states == [PositionState.AVAILABLE, PositionState.LOCKED, PositionState.AVAILABLE]
    assert reader.start(4, 5) == [b"1", b"3"]


@on_loop
async def test_a_message_that_is_gone_is_an_error_of_its_own() -> None:
    reader = Reader(b"1", b"2", b"3")
    await reader.open()
    reader.start(1, 2, 3)
    (_, second, _) = reader.queue.positions
    reader.served.manager.mailbox.remove(reader.queue, (second.lookup_id,), 0)
    answers = reader.end(1, 2, 3)
    assert (answers[0], answers[2]) == (OK, OK)
    assert answers[1] != OK
    assert not len(reader.queue.positions)


@on_loop
async def test_a_store_that_refuses_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No acknowledgment counts then, and all may be tried again."""
    reader = Reader(b"1", b"2", b"3")
    await reader.open()
    reader.start(1, 2, 3)

    def refuse(*_: object, **__: object) -> None:
        raise InsufficientResourcesError("The disk is full.")

    with monkeypatch.context() as full:
        full.setattr(reader.served.manager.core.ledger, "delete_messages", refuse)
        full.setattr(reader.served.manager.mailbox, "remove", refuse)
        assert reader.end(1, 2, 3) == [InsufficientResourcesError.code] * 3
    assert reader.states == [PositionState.LOCKED] * 3
    assert reader.end(1, 2, 3) == [OK] * 3


@on_loop
async def test_nobody_is_told_before_it_is_durable() -> None:
    reader = Reader(b"1", b"2")
    await reader.open()
    reader.start(1, 2)
    reader.served.slow = True
    promises = reader.end(1, 2)
    told: list[int] = []
    for promise in promises:
        promise.deliver_to(lambda answer: told.append(answer.status), lambda action: action())
    assert not told
    reader.served.settle()
    assert told == [OK, OK]


@on_loop
async def test_other_handles_and_other_reads_are_not_mixed_up() -> None:
    reader = Reader(b"1", b"2")
    reader.served.queue("others", b"a", b"b")
    first = await reader.open()
    second = await reader.open("others")

    def request(handle: bytes, number: int, action: int = Action.RECEIVE) -> idl.StartReceive:
        return idl.StartReceive(handle, 0, 0, action, 0, number, WHOLE, WHOLE)

    answers = reader._answers(
        7,
        [
            request(first, 1),
            request(second, 1),
            request(second, 2, Action.PEEK_CURRENT),
            request(second, 2),
            request(first, 2),
        ],
    )
    assert [body_or_status(answer) for answer in answers] == [b"1", b"a", b"b", b"b", b"2"]
