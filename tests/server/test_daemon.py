"""Two daemons in this process exchange messages over real sockets."""

from __future__ import annotations

from pathlib import Path

from tests.server.support import ALICE, BOB, eventually, name_of, neighbourhood, run


def test_express(tmp_path: Path) -> None:
    async def test() -> None:
        async with neighbourhood(tmp_path) as here:
            alice, bob = await here.node(ALICE), await here.node(BOB)
            orders = bob.queue()
            for number in range(300):
                alice.send(name_of(BOB), b"%d" % number)
            await eventually(lambda: len(orders.positions) == 300)
            assert bob.bodies(orders) == [b"%d" % number for number in range(300)]
            await eventually(lambda: not len(alice.outgoing(BOB).positions))

    run(test)


def test_recoverable(tmp_path: Path) -> None:
    async def test() -> None:
        async with neighbourhood(tmp_path) as here:
            alice, bob = await here.node(ALICE), await here.node(BOB)
            orders = bob.queue()
            for number in range(300):
                alice.send(name_of(BOB), b"%d" % number, recoverable=True)
            await eventually(lambda: len(orders.positions) == 300)
            await eventually(lambda: not len(alice.outgoing(BOB).positions))

    run(test)


def test_transactional(tmp_path: Path) -> None:
    async def test() -> None:
        async with neighbourhood(tmp_path) as here:
            alice, bob = await here.node(ALICE), await here.node(BOB)
            orders = bob.queue(transactional=True)
            for number in range(100):
                alice.send_together(name_of(BOB), b"%da" % number, b"%db" % number)
            await eventually(lambda: len(orders.positions) == 200)
            await eventually(lambda: not len(alice.outgoing(BOB).positions))

    run(test)
