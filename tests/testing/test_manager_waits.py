"""The simulator's reads that wait: what brings them messages, and what else may end them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest

from msmq.errors import IoTimeoutError, OperationCancelledError, TransactionSequenceError
from msmq.manager.mailbox import mailbox
from msmq.manager.messages.readers import Reading
from msmq.manager.messages.transactions import Transactions
from msmq.testing.manager_sim import ManagerSimulation
from msmq.testing.manager_waits import Wait

STEPS = (
    *("begin_transaction", "wait_in_transaction", "wait_to_hold", "wait_to_look", "send_batch"),
    *(
        "wait_in_transaction",
        "send_transactionally",
        "wait_to_hold",
        "end_transaction",
        "wait",
        "cancel_wait",
    ),
)
SEEDS = 12


def waiting(seed: int) -> Counter[str | int]:
    """Reads of all kinds that wait; how many got a message, by their kind, and how the others ended."""
    simulation, seen = ManagerSimulation(Random(seed)), Counter[str | int]()
    known: list[Wait] = []
    for name in ["create_queue", "create_queue", "create_queue", "create_queue", *12 * STEPS]:
        simulation.perform(name)
        for wait in [wait for wait in known if wait not in simulation.waits]:
            (result,) = wait.results
            kind = "look" if wait.peeks else "hold" if wait.work is None else "transaction"
            seen[result.status or kind] += 1
        known = list(simulation.waits)
    return seen


@cache
def seen() -> Counter[str | int]:
    return sum(map(waiting, range(SEEDS)), Counter[str | int]())


@pytest.mark.parametrize(
    "end",
    [
        "look",
        "hold",
        "transaction",
        IoTimeoutError.code,
        OperationCancelledError.code,
        TransactionSequenceError.code,
    ],
)
def test_all_kinds_of_waits_end_in_all_ways(end: str | int) -> None:
    assert seen()[end]


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("never served", "although there is a message"),
        ("never over", "its time is up"),
        ("transactions do not matter", "its transaction has ended"),
    ],
)
def test_waits_that_end_wrongly_are_noticed(
    mistake: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mistake == "never served":
        monkeypatch.setattr(mailbox, "finish_wait", lambda reader, status, position: None)
    elif mistake == "never over":
        wait = Reading._wait
        monkeypatch.setattr(
            Reading,
            "_wait",
            lambda own, read, queue, until, **more: wait(own, read, queue, until + 1e6, **more),
        )
    else:
        monkeypatch.setattr(Transactions, "_end_waiting", lambda own, transaction: None)
    with pytest.raises(AssertionError, match=words):
        list(map(waiting, range(SEEDS)))
