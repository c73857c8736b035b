"""Two daemons in this process exchange messages over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.manager.ledger.retention import Cleaning
from msmq.store import Store
from tests.server.support import ALICE, BOB, eventually, name_of, neighbourhood


async def test_express(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        for number in range(300):
            alice.send(name_of(BOB), b"%d" % number)
        await eventually(lambda: len(orders.positions) == 300)
        assert bob.bodies(orders) == [b"%d" % number for number in range(300)]
        await eventually(lambda: not len(alice.outgoing(BOB).positions))


async def test_recoverable(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        for number in range(300):
            alice.send(name_of(BOB), b"%d" % number, recoverable=True)
        await eventually(lambda: len(orders.positions) == 300)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))


async def test_transactional(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue(transactional=True)
        for number in range(100):
            alice.send_together(name_of(BOB), b"%da" % number, b"%db" % number)
        await eventually(lambda: len(orders.positions) == 200)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))


async def test_the_store_is_cleaned_a_little_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages wait while it is cleaned; so it is not cleaned for long, and goes on while there is more to do."""
    budgets: list[int] = []

    def clean_step(store: Store, owner: Cleaning, budget_bytes: int = 1 << 20) -> bool:
        budgets.append(budget_bytes)
        return len(budgets) < 100

    async with neighbourhood(tmp_path) as here:
        monkeypatch.setattr(Store, "clean_step", clean_step)
        await here.node(ALICE)
        await eventually(lambda: len(budgets) >= 100)
    assert max(budgets) <= 1 << 15


async def test_of_very_many_messages_each_expires(tmp_path: Path) -> None:
    """When messages expire is looked at later, in several goes."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        clock, began = alice.core._now, alice.core._now()
        alice.core._now = lambda: began  # on a busy machine, the first would expire before the last is sent
        for _ in range(2_500):
            alice.send(name_of(BOB), ttrq_s=1)
        assert len(alice.outgoing(BOB).positions) == 2_500
        alice.core._now = clock
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
