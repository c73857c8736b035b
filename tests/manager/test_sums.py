"""Bytes are counted right whatever happens: random events on two queues, with transactions, restarts and time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.transactions import Transaction
from msmq.manager.queues.queue import MessagePosition, Queue
from tests.manager.support import Host


class Sums(RuleBasedStateMachine):
    """Whatever happens, every queue counts exactly the messages it holds, and the host counts its queues."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Host(seed=1)
        self.open: list[Transaction] = []
        self.held: list[tuple[Any, MessagePosition]] = []
        for name, transactional in (("plain", False), ("ordered", True)):
            self._create(name, transactional)

    def _create(self, name: str, transactional: bool) -> None:
        queue = self.host.queue(name, transactional=transactional, journaling=True, journal_quota_kb=2)
        self.host.manager.queues.subqueue(queue, "sub")

    def _queues(self) -> list[Queue]:
        return [queue for name in ("plain", "ordered") for queue in self.host.find(name).family]

    def _pick(self, number: int) -> Queue:
        queues = self._queues()
        return queues[number % len(queues)]

    numbers = st.integers(0, 1000)

    @rule(
        number=numbers,
        size=st.integers(0, 900),
        recoverable=st.booleans(),
        ttl=st.sampled_from([0, 5, 10**6]),
    )
    def send(self, number: int, size: int, recoverable: bool, ttl: int) -> None:
        queue = self._pick(number).root
        within = self.open[number % len(self.open)] if self.open and queue.transactional else None
        self.host.send(queue, bytes(size), within, recoverable=recoverable, time_to_be_received_s=ttl)

    @rule(number=numbers, transactional=st.booleans())
    def receive(self, number: int, transactional: bool) -> None:
        queue = self._pick(number)
        within = (
            self.open[number % len(self.open)]
            if self.open and transactional and queue.transactional
            else None
        )
        self.host.reader(queue).receive(transaction=within)

    @rule(number=numbers)
    def begin(self, number: int) -> None:
        reader = self.host.reader(self._pick(number))
        result = reader.begin()
        if result is not None and result.position is not None:
            self.held.append((reader, result.position))

    @precondition(lambda self: self.held)
    @rule(keep=st.booleans())
    def end(self, keep: bool) -> None:
        reader, position = self.held.pop()
        reader.end(position, keep=keep)

    @rule(number=numbers, transactional=st.booleans())
    def move(self, number: int, transactional: bool) -> None:
        source = self._pick(number)
        root = source.root
        available = [one for one in source.positions if one.state is PositionState.AVAILABLE]
        if source is root.journal or not available:
            return
        target = root.subqueue_collection["sub"] if source is root else root
        within = (
            self.open[number % len(self.open)] if self.open and transactional and root.transactional else None
        )
        self.host.manager.move_message(source.position(available[0].lookup_id), target, within)

    @rule(number=numbers)
    def dead_letter(self, number: int) -> None:
        queue = self._pick(number)
        available = [one for one in queue.positions if one.state is PositionState.AVAILABLE]
        if available:
            self.host.manager.sending.dead_letter(queue, available[-1].lookup_id, 0x8002)

    @rule(number=numbers)
    def purge(self, number: int) -> None:
        self.host.manager.queues.purge(self._pick(number))

    @rule(number=numbers)
    def delete_and_create(self, number: int) -> None:
        queue = self._pick(number).root
        self.held = [(reader, position) for reader, position in self.held if position.queue.root is not queue]
        self.host.manager.queues.delete(queue)
        self._create(queue.pathname.rpartition("\\")[2], queue.transactional)

    @precondition(lambda self: len(self.open) < 3)
    @rule()
    def start_transaction(self) -> None:
        self.open.append(self.host.transactions.create())

    @precondition(lambda self: self.open)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        transaction = self.open.pop(0)
        finish = self.host.transactions.commit if commit else self.host.transactions.abort
        finish(transaction.identifier)

    @rule(seconds=st.integers(0, 6))
    def wait(self, seconds: int) -> None:
        self.held = [one for one in self.held if one[1].state is not PositionState.DELETED]
        self.host.advance(seconds)

    @rule()
    def kill(self) -> None:
        self.host.kill()
        self.host.manager.run_timers()
        self.open.clear()
        self.held.clear()

    @invariant()
    def sums_are_right(self) -> None:
        core = self.host.manager.core
        total = express = 0
        for queue in core.queues.values():
            held = 0
            for entry in queue.positions:
                size = self.host.manager.mailbox.load(queue, entry.lookup_id).size
                assert size == entry.size
                held += size
                express += 0 if entry.address else size
            assert queue.total_bytes == held, queue
            assert {one.lookup_id for one in queue.positions if not one.address} == set(queue.volatile)
            assert queue.peekable_when_locked | queue.overdue | {*queue.aborts} | {*queue.moves} <= {
                one.lookup_id for one in queue.positions
            }
            total += held
        assert (core.total_bytes, core.express_bytes) == (total, express)


Sums.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestSums = pytest.mark.spec("DMPR-3.1.1.2-t")(Sums.TestCase)
