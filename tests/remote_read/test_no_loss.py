"""No message is lost and none is read twice, wherever a reader, its connection or the server ends.

Readers come unsigned, signed and sealed. ``MSMQ_CUTS`` multiplies the cuts (`make cuts`): more rounds over all of them,
each with a server of its own and another chance, every conversation at every level of authentication, and more kills
of a real process, of which ``MSMQ_KILLS`` says the number. Progress is printed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from copy import copy, deepcopy
from pathlib import Path
from random import Random

import pytest

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.queues.queue import Queue
from msmq.rpc.accounts import AccountFile
from msmq.rpc.pdu import AuthLevel
from msmq.testing.traffic import Delivery, Door, Draft
from tests.mail import Mail
from tests.remote_read.cutting import SHARES, Books, Cut, Proxy, Script, Scripts, cuts_of, read
from tests.remote_read.support import (
    EVERYBODY,
    OK,
    PATIENCE_S,
    Served,
    direct,
    eventually,
    packet_of,
)
from tests.rpc.support import PASSWORD
from tests.server.support import ALICE, free_port
from tests.server.test_daemon_processes import Process

TIMES = int(os.environ.get("MSMQ_CUTS", "1"))
SEED = int(os.environ.get("MSMQ_CUTS_SEED", "2103"))
KILLS = int(os.environ.get("MSMQ_KILLS", "0")) or 40 * TIMES
"""Kills of a real process, in all."""
KILLS_EACH = 40
"""Kills of one process's store, before the next one begins: a store that grows takes its time to be looked through."""
LOW = 6
"""So many messages are in the queue at least when a reader comes."""
LONG = 9_000
"""A body that takes an answer of several fragments."""

FINE = (0.0, *(step / 16 for step in range(1, 16)), 0.999, 1.0)
"""Where a PDU is cut, for the conversation that is looked at most closely."""

SCRIPTS = list(Scripts("").all)
LEVELS = (AuthLevel.NONE, AuthLevel.INTEGRITY, AuthLevel.PRIVACY)
WAYS = ("killed", "power", "before it is durable")
LONG_FORM = TIMES > 1
PROTECTED = SCRIPTS if LONG_FORM else ["acknowledged"]
"""Conversations that are cut at the levels that sign."""


def case(*values: object) -> object:
    """A case whose name has the name of its level."""
    return pytest.param(*values, id="-".join(str(getattr(value, "name", value)) for value in values))


CUTS = [case(name, level) for level in LEVELS for name in (SCRIPTS if level is AuthLevel.NONE else PROTECTED)]
DEATHS = [case(name, way, AuthLevel.NONE) for name in SCRIPTS for way in WAYS]
DEATHS += [
    case(name, way, level)
    for level in LEVELS[1:]
    for name in PROTECTED
    for way in (WAYS if LONG_FORM else ("before it is durable",))
]


def any_message(mail: Mail, number: int, transactional: bool = False) -> Draft:
    """One that stays when its server ends, and that nobody sees while somebody has it."""
    draft = mail.numbered(
        transactional, delivery=Delivery.RECOVERABLE, more=bytes(LONG) if number % 3 == 0 else None
    )
    return draft.changed(peekable_when_locked=False)


class Bench:
    """A server that can die and come back, the books of its readers, and a queue that does not run dry."""

    def __init__(self, level: AuthLevel = AuthLevel.NONE, number: int = 0) -> None:
        self.served = Served()
        self.served.queue()
        self.books = Books()
        self.random = Random(SEED + number)
        self.cuts = 0
        self.scripts = Scripts(direct(), level)
        self.mail = Mail(Door.MANAGER, direct(), SEED + number)
        self.numbers = 0
        self.name = "orders"

    @property
    def queue(self) -> Queue:
        return self.served.host.find(self.name)

    def fill(self) -> None:
        while len(self.queue.positions) < LOW:
            self.put()

    def put(self) -> None:
        """One more message of any kind, and durable."""
        draft = any_message(self.mail, self.numbers, self.queue.transactional)
        self.numbers += 1
        self.served.post(self.queue, draft)
        self.books.add(draft)
        self.served.host.store.commit()

    async def executed(self) -> None:
        """Every call that reached the server has done what it does, up to the wait for the disk."""
        server = self.served.door.server
        for _ in range(50):
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            while any(len(each.calls) > len(self.served._waiting) for each in server._connections):
                await asyncio.sleep(0.001)

    async def die(self, power: bool) -> None:
        """The server ends without warning; with ``power``, so does what was not yet on the disk."""
        served = self.served
        # What the dead one does from now on happens to its own copy of the disk, and nobody hears of it.
        host = copy(served.host)
        host.disk = deepcopy(served.host.disk)
        if power:
            host.disk.crash(self.random)
        else:
            host.disk.kill()
        for connection in list(served.door.server._connections):
            connection.abort("killed")
        host.start()
        successor = Served(host=host)
        await served.door.close()
        await successor.door.open()
        self.served = successor

    async def settled(self) -> None:
        """The server has noticed that the reader is gone."""
        server = self.served.door.server
        await eventually(lambda: not (server.connections or len(server.groups)))
        assert not self.served.service.handles.open
        states = {entry.state for entry in self.queue.positions}
        assert states <= {PositionState.AVAILABLE}

    def check(self, proxy: Proxy) -> None:
        self.books.check(self.served.host.contents(self.queue), proxy.ends)

    async def length_of(self, script: Script) -> int:
        """How many PDUs a conversation has when nothing happens to it."""
        self.fill()
        async with Proxy(self.served.port) as proxy:
            assert await read(script, self.books, proxy)
            await self.settled()
            self.check(proxy)
            return proxy.pdus

    async def drain(self) -> None:
        """In the end a healthy reader gets all that is left, and nothing else."""
        left = self.served.host.contents(self.queue)
        async with await self.served.connect() as peer:
            handle = await peer.open(direct(self.name))
            for body in left:
                assert packet_of(await peer.start(handle)).body == body
                await self.books.acknowledge(peer, handle, body)
        self.books.check(self.served.host.contents(self.queue), len(left))
        assert self.books.gone == set(self.books.sent)
        assert set(self.books.sent) == self.books.told.keys() | self.books.in_doubt


def on_bench(test: Callable[[Bench], Awaitable[None]], level: AuthLevel = AuthLevel.NONE) -> None:
    """Run a test as often as is wanted, with a new bench each time."""

    async def run(number: int) -> int:
        bench = Bench(level, number)
        await bench.served.door.open()
        try:
            async with asyncio.timeout(4 * PATIENCE_S):
                await test(bench)
                await bench.drain()
        finally:
            await bench.served.door.close()
        return bench.cuts

    began, cuts = time.monotonic(), 0
    for number in range(TIMES):
        cuts += asyncio.run(run(number))
        tell(f"round {number + 1} of {TIMES}, {cuts} cuts", began)


def tell(progress: str, began: float) -> None:
    """Who runs the tests with ``-s`` sees how far they are."""
    print(f"  {progress}, {time.monotonic() - began:.1f} s", flush=True)


async def campaign(bench: Bench, script: Script, cuts: list[Cut]) -> int:
    """A reader for each cut; gives how many came to their end in spite of it."""
    whole = 0
    for cut in cuts:
        bench.fill()
        async with Proxy(bench.served.port, cut) as proxy:
            whole += await read(script, bench.books, proxy)
            await bench.settled()
            bench.check(proxy)
            bench.cuts += 1
    return whole


@pytest.mark.spec("MQRR-3.1.4.9-b", "MQRR-3.1.6.2-b")
@pytest.mark.parametrize(("name", "level"), CUTS)
def test_a_connection_that_is_cut(name: str, level: AuthLevel) -> None:
    async def test(bench: Bench) -> None:
        script = bench.scripts.all[name]
        shares = FINE if (name, level) == ("acknowledged", AuthLevel.NONE) else SHARES
        cuts = cuts_of(await bench.length_of(script), shares)
        assert await campaign(bench, script, cuts) < len(cuts) / 2  # the knife is sharp
        assert bench.books.in_doubt or name == "given_back"

    on_bench(test, level)


def test_a_reader_that_is_cut_off_while_it_waits() -> None:
    """The message that comes then is not for one who is gone; and if it was, it goes back."""

    async def test(bench: Bench) -> None:
        books, served = bench.books, bench.served

        async def wait(port: int, books: Books) -> None:
            async with await bench.scripts.peer(port) as peer:
                handle = await peer.open(direct())
                body = packet_of(await peer.start(handle, timeout_ms=3_600_000)).body
                await books.acknowledge(peer, handle, body)
                await peer.close_queue(handle)

        async def one(cut: Cut | None, early: bool) -> Proxy:
            """``early``: the message is there before the connection is cut, if the server has come so far."""
            await bench.drain()
            async with Proxy(served.port, cut) as proxy:
                reader = asyncio.create_task(read(wait, books, proxy))
                await eventually(lambda: proxy.over.is_set() or bench.queue.waiting)
                if not early:
                    await eventually(lambda: not bench.queue.waiting or not proxy.over.is_set())
                bench.put()
                await reader
                await bench.settled()
                bench.check(proxy)
            return proxy

        pdus = (await one(None, True)).pdus
        for cut in cuts_of(pdus, (0.0, 0.5, 1.0)):
            for early in (False, True):
                await one(cut, early)
                bench.cuts += 1

    on_bench(test)


def test_a_transaction_whose_reader_is_cut_off() -> None:
    """Nobody commits for a reader that is gone: its transaction is aborted, and everything is back."""

    async def test(bench: Bench) -> None:
        served, books = bench.served, bench.books
        served.queue("ledger", transactional=True)
        bench.name = "ledger"
        bench.scripts.name = direct("ledger")
        committed: set[bytes] = set()
        current: list[bytes] = []

        async def in_transaction(port: int, books: Books) -> None:
            uow, token = served.transactions.begin()
            current.append(uow)
            async with await bench.scripts.peer(port) as peer:
                handle = await peer.open(direct("ledger"))
                assert await peer.enlist(uow, token, direct("ledger")) == OK
                body = packet_of(await peer.start(handle, uow=uow)).body
                assert await peer.end_transactional(handle) == OK
                books.acknowledging.add(body)
                await served.transactions.commit(uow)
                committed.add(uow)
                books.told[body] += 1
                await peer.close_queue(handle)

        async def one(cut: Cut | None) -> int:
            bench.fill()
            async with Proxy(served.port, cut) as proxy:
                await read(in_transaction, books, proxy)
                await eventually(lambda: not served.service.handles.open)
                if current[-1] not in committed:
                    await served.transactions.abort(current[-1])
                await bench.settled()
                bench.check(proxy)
                return proxy.pdus

        for cut in cuts_of(await one(None)):
            await one(cut)
            bench.cuts += 1
        assert committed
        assert len(committed) < len(current)

    on_bench(test)


@pytest.mark.parametrize(("name", "way", "level"), DEATHS)
def test_a_server_that_dies(name: str, way: str, level: AuthLevel) -> None:
    """At each point of a conversation: its process, the power of its computer, or both between what a call did and
    the disk's word that it will survive."""

    async def test(bench: Bench) -> None:
        script = bench.scripts.all[name]
        for cut in cuts_of(await bench.length_of(script), (0.0, 0.5, 1.0)):
            if cut.reset:
                continue
            bench.cuts += 1
            bench.fill()
            served = bench.served

            async def disaster(served: Served = served) -> None:
                if way == "before it is durable":
                    served.slow = True
                    await bench.executed()
                await bench.die(power=way != "killed")

            async with Proxy(served.port, cut, disaster) as proxy:
                await read(script, bench.books, proxy)
                await eventually(lambda served=served: bench.served is not served or not proxy.over.is_set())
                await bench.settled()
                bench.check(proxy)

    on_bench(test, level)


async def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """``msmq serve``, killed in the middle of each PDU and between any two, by turns, at every level."""
    random, began = Random(SEED), time.monotonic()

    lengths: dict[tuple[str, AuthLevel], int] = {}
    points: list[tuple[str, AuthLevel, Cut]] = []
    done = 0
    while done < KILLS:
        victim = Victim(tmp_path / str(done), min(KILLS_EACH, KILLS - done))
        if not lengths:
            lengths = await victim.lengths()
        for _ in range(victim.kills):
            if not points:  # each point once before any comes again
                points = [
                    (name, level, cut)
                    for (name, level), length in lengths.items()
                    for cut in cuts_of(length, (0.0, 0.5, 1.0))
                ]
                random.shuffle(points)
            await victim.die(*points.pop())
        done += victim.kills
        assert victim.books.told
        tell(f"{done} of {KILLS} kills", began)


class Victim:
    """One store, with the books of the readers whose server dies."""

    def __init__(self, path: Path, kills: int) -> None:
        self.kills = kills
        self.port = free_port()
        users = path.with_name("users")
        if not users.exists():
            AccountFile(users).add("alice", PASSWORD)
        config = f'log_level = "warning"\n[rpc]\nport = {self.port}\nendpoint_mapper_port = 0\nminimum_level = "none"\n'
        config += f'accounts = "{users}"\n'
        self.process = Process(path, "ALICE", ALICE, 0, config=config)
        self.process.make_queue("orders", security=EVERYBODY)
        name = f"DIRECT=TCP:{ALICE}\\private$\\orders"
        self.scripts = {
            (script, level): call for level in LEVELS for script, call in Scripts(name, level).all.items()
        }
        self.books = Books()
        mail = Mail(Door.MANAGER, name, SEED)
        with self.process.opened() as node:
            for number in range(3 * (kills + len(self.scripts)) + LOW):
                draft = any_message(mail, number)
                node.post(draft)
                self.books.add(draft)

    async def lengths(self) -> dict[tuple[str, AuthLevel], int]:
        """How many PDUs each conversation has when nothing happens."""
        found = {}
        await self.process.start()
        for key, script in self.scripts.items():
            async with Proxy(self.port, address=ALICE) as proxy:
                assert await read(script, self.books, proxy)
                found[key] = proxy.pdus
        await self.process.kill()
        self.books.check(self.process.bodies("orders"), len(self.books.sent))
        return found

    async def die(self, name: str, level: AuthLevel, cut: Cut) -> None:
        """Be killed at a point of a conversation, and have nothing to answer for."""
        await self.process.start()
        dead = asyncio.Event()

        async def kill() -> None:
            await self.process.kill()
            dead.set()

        async with Proxy(self.port, cut, kill, address=ALICE) as proxy:
            await read(self.scripts[name, level], self.books, proxy)
            if not proxy.over.is_set():  # a shorter conversation than the first: calls in flight share PDUs
                proxy.over.set()  # what still comes is not the moment to kill it a second time
                await kill()
            await asyncio.wait_for(dead.wait(), PATIENCE_S)
        self.books.check(self.process.bodies("orders"), proxy.ends)
