"""Calls of one operation that come in one read, and the handler that takes several of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any

from msmq.rpc.channel import Limits
from msmq.rpc.connection import Connection
from msmq.rpc.initiator import ClientConnection, FaultArrived, ResponseArrived
from msmq.rpc.interface import Answer, Call, Interface, Operation, Promise, Together
from msmq.rpc.ndr import Parameters, declare, u32
from msmq.rpc.pdu import Syntax
from msmq.rpc.server import RpcServer, ServerConfig
from msmq.rpc.status import FaultStatus, RpcFault
from tests.rpc import machines


@declare
class Number(Parameters):
    number: u32


SQUARE = Operation(0, "Square", Number, Number)
OTHER = Operation(1, "Other", Number, Number)
NUMBERS = Interface("numbers", Syntax(bytes(range(16)), 1), (SQUARE, OTHER))


class Sink(asyncio.Transport):
    """Where a connection writes to."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 6)})
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


class Squares:
    """A server whose handler answers as many of the calls it is given as ``most`` says, and a client of it."""

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.given: list[list[int]] = []
        self.promises: list[Promise] = []
        server = RpcServer(ServerConfig(Limits(max_unknown_calls=100)))
        server.register(NUMBERS, {0: Together(self.square), 1: lambda call, request: request})
        self.sink = Sink()
        self.connection = Connection(server)
        self.connection.connection_made(self.sink)
        self.client: ClientConnection = machines.client()
        self.client.bind(NUMBERS.syntax)
        self.exchange()

    def square(self, call: Call, requests: Sequence[Number]) -> Sequence[Answer | Exception]:
        """1 cannot be squared, 2 is squared later, and with 3 in front everything goes wrong."""
        self.given.append([request.number for request in requests])
        if requests[0].number == 3:
            raise RpcFault(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)
        answers: list[Answer | Exception] = []
        for request in requests[: self.most]:
            if request.number == 1:
                answers.append(RpcFault(FaultStatus.ACCESS_DENIED))
            elif request.number == 2:
                self.promises.append(Promise())
                answers.append(self.promises[-1])
            else:
                answers.append(Number(request.number**2))
        return answers

    def exchange(self) -> dict[int, int]:
        """Have everything the client has to say come in one read; gives what was answered, by call."""
        self.connection.received(self.client.data_to_send())
        return self.answered()

    def answered(self) -> dict[int, int]:
        data, self.sink.written = self.sink.written, b""
        found = {}
        for event in self.client.receive_data(data):
            if isinstance(event, ResponseArrived):
                found[event.call_id] = int.from_bytes(event.stub, "little")
            elif isinstance(event, FaultArrived):
                found[event.call_id] = event.status
        return found

    def ask(self, *numbers: int, opnum: int = 0) -> list[int]:
        return [self.client.call(0, opnum, number.to_bytes(4, "little")) for number in numbers]


def on_loop(test: Any) -> Any:
    def run() -> None:
        async def body() -> None:
            test(Squares())

        asyncio.run(body())

    return run


@on_loop
def test_calls_of_one_read_are_answered_together(squares: Squares) -> None:
    calls = squares.ask(5, 6, 7)
    assert squares.exchange() == dict(zip(calls, (25, 36, 49), strict=True))
    assert squares.given == [[5, 6, 7]]


@on_loop
def test_no_more_than_a_few_at_a_time(squares: Squares) -> None:
    calls = squares.ask(*range(10, 30))
    assert squares.exchange() == {call: number**2 for call, number in zip(calls, range(10, 30), strict=True)}
    assert max(map(len, squares.given)) <= 8
    assert list(chain(*squares.given)) == list(range(10, 30))


@on_loop
def test_those_that_were_not_answered_come_again(squares: Squares) -> None:
    squares.most = 2
    calls = squares.ask(5, 6, 7, 8, 9)
    assert squares.exchange() == dict(zip(calls, (25, 36, 49, 64, 81), strict=True))
    assert squares.given == [[5, 6, 7, 8, 9], [7, 8, 9], [9]]


@on_loop
def test_another_operation_ends_the_row(squares: Squares) -> None:
    calls = [*squares.ask(5), *squares.ask(99, opnum=1), *squares.ask(6, 7)]
    assert squares.exchange() == dict(zip(calls, (25, 99, 36, 49), strict=True))
    assert squares.given == [[5], [6, 7]]


@on_loop
def test_one_that_makes_no_sense_costs_itself(squares: Squares) -> None:
    calls = [*squares.ask(5), squares.client.call(0, 0, b"no"), *squares.ask(6)]
    expected = dict(zip(calls, (25, FaultStatus.BAD_STUB_DATA, 36), strict=True))
    assert squares.exchange() == expected
    assert squares.given == [[5], [6]]


@on_loop
def test_an_error_among_the_answers_is_about_its_own_call(squares: Squares) -> None:
    calls = squares.ask(5, 1, 6)
    assert squares.exchange() == dict(zip(calls, (25, FaultStatus.ACCESS_DENIED, 36), strict=True))


@on_loop
def test_an_error_that_is_raised_is_about_the_first(squares: Squares) -> None:
    calls = squares.ask(3, 5, 6)
    expected = dict(zip(calls, (FaultStatus.NCA_FAULT_CONTEXT_MISMATCH, 25, 36), strict=True))
    assert squares.exchange() == expected
    assert squares.given == [[3, 5, 6], [5, 6]]


@on_loop
def test_one_that_is_promised_keeps_no_other_waiting(squares: Squares) -> None:
    calls = squares.ask(5, 2, 6)
    assert squares.exchange() == {calls[0]: 25, calls[2]: 36}
    (promise,) = squares.promises
    promise.answer(Number(4))
    squares.connection._flush()
    assert squares.answered() == {calls[1]: 4}
