"""Real processes, a real cluster, and somebody who breaks them: the books of a queue.

``python -m tests.ha.jepsen --minutes 10`` (``make jepsen MINUTES=10``) goes on for as long as it is told. Three
PostgreSQL servers under Patroni, their etcd and two instances of a queue manager are killed, frozen, cut off from each
other and told to change places in random order, and their clocks are set wrong, while senders and a receiver work with
transactions and a sender without. Another queue manager, which is killed too, sends to the same queue over port 1801,
by an address that leads to whoever leads. In the end everything is received, and:

- nothing that was acknowledged is lost;
- nothing is received that was never sent, or whose transaction was given up;
- nothing transactional is received twice;
- what a sender has sent comes in its order;
- no row in the log is of an older epoch than the one before it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msmq
from msmq.errors import IoTimeoutError, MsmqError
from tests import ready
from tests.ha.clocks import Clock
from tests.ha.cuts import Line, Wiring
from tests.ha.patroni import Cluster, Member, new_patroni
from tests.ha.postgres import DATABASE, end_in_order, programs, run
from tests.ha.processes import DEFAULTS, Process
from tests.server.support import ALICE, BOB, CAROL, DORA, free_port
from tests.server.test_daemon_processes import Process as Host

ORDERS, MAIL = ".\\private$\\orders", ".\\private$\\mail"
_PATIENT_S = 120.0
_LAST_S = 600.0
_SENDERS = 2
_GIVEN_UP = 0.05
"""So many transactions of the receiver are rolled back."""
_BREATH_S = 0.04
"""Between two transactions of a sender: what is tried here is not how many fit."""
_FAR_SENDER = 100
_ADDRESSES = {"a": BOB, "b": CAROL}
_FLOATING = DORA
_SKEWS_S = (-3600, -30, -3, 3, 30, 3600)
_TIMERS = "[timers]\nsession_retry_connect_ms = 300\norder_ack_timeout_ms = 200\n"


@dataclass
class Book:
    """What was tried, promised and seen in one queue. Messages are (sender, number)."""

    attempted: set[tuple[int, int]] = field(default_factory=set)
    acknowledged: set[tuple[int, int]] = field(default_factory=set)
    given_up: set[tuple[int, int]] = field(default_factory=set)
    received: list[tuple[int, int]] = field(default_factory=list)
    perhaps_received: set[tuple[int, int]] = field(default_factory=set)
    """Received in a transaction of which nobody knows how it ended."""

    def balance(self) -> dict[str, int]:
        seen = set(self.received)
        times = Counter(self.received)
        return {
            "attempted": len(self.attempted),
            "acknowledged": len(self.acknowledged),
            "received": len(self.received),
            "lost": len(self.acknowledged - seen - self.perhaps_received),
            "uncertain": len((self.acknowledged & self.perhaps_received) - seen),
            "unexpected": len(seen - self.attempted) + len(seen & self.given_up),
            "duplicated": sum(count - 1 for count in times.values()),
            "recovered": len(seen - self.acknowledged),
            "out of order": self._out_of_order(),
        }

    def _out_of_order(self) -> int:
        last: dict[int, int] = {}
        count = 0
        for sender, number in self.received:
            count += number < last.get(sender, -1)
            last[sender] = max(number, last.get(sender, -1))
        return count


class _RolledBackError(Exception):
    """A receiver rolls its transaction back."""


class Applications:
    """Senders and a receiver that never give up."""

    def __init__(self, address: str, far: str, rng: Random) -> None:
        self._address = address
        self._far = far
        """Of the queue manager that is another host."""
        self._rng = rng
        self.orders, self.mail = Book(), Book()
        self.ended = False
        """Nothing more is sent."""
        self.done = False
        """Nothing more is to be received."""
        self.longest_pause_s = 0.0

    async def send(self, sender: int) -> None:
        """In transactions of one or several messages."""
        await self._send(sender, self._address, ORDERS)

    async def send_from_afar(self) -> None:
        """The same on another host: acknowledged when it has them, and then it has to bring them."""
        await self._send(_FAR_SENDER, self._far, f"DIRECT=TCP:{_FLOATING}\\private$\\orders")

    async def all_have_left(self) -> None:
        """Wait until the other host has brought what it was given; it keeps them until they are received."""
        async with asyncio.timeout(_LAST_S), msmq.connect(self._far, timeout=_PATIENT_S) as mq:
            while any(queue.messages > queue.unreceived for queue in await mq.outgoing_queues()):
                await asyncio.sleep(0.2)

    async def _send(self, sender: int, address: str, name: str) -> None:
        number = 0
        async with msmq.connect(address, timeout=_PATIENT_S) as mq:
            queue = mq.queue(name)
            while not self.ended:
                group = [(sender, number + index) for index in range(self._rng.choice((1, 1, 3, 10)))]
                number += len(group)
                self.orders.attempted.update(group)
                committing = False
                try:
                    async with mq.transaction() as transaction:
                        for message in group:
                            await queue.send(json.dumps(message).encode(), transaction=transaction)
                        committing = True
                    self.orders.acknowledged.update(group)
                except MsmqError:
                    if not committing:
                        self.orders.given_up.update(group)
                await asyncio.sleep(_BREATH_S)

    async def send_mail(self) -> None:
        """Without transactions, many under way at once."""
        number = 0
        async with msmq.connect(self._address, timeout=_PATIENT_S) as mq:
            queue = mq.queue(MAIL)

            async def one(message: tuple[int, int]) -> None:
                self.mail.attempted.add(message)
                with suppress(MsmqError):
                    await queue.send(msmq.Message(json.dumps(message).encode()))
                    self.mail.acknowledged.add(message)

            while not self.ended:
                began = time.monotonic()
                await asyncio.gather(*(one((0, number + index)) for index in range(8)))
                self.longest_pause_s = max(self.longest_pause_s, time.monotonic() - began)
                number += 8
                await asyncio.sleep(_BREATH_S)

    async def receive_orders(self) -> None:
        """In transactions, until nothing more is to come and the queue says that it is empty."""
        book = self.orders
        async with msmq.connect(self._address, timeout=_PATIENT_S) as mq:
            while not (self.done and await self._is_empty(mq, ORDERS)):
                taken: list[tuple[int, int]] = []
                committing = False
                try:
                    async with mq.transaction() as transaction:
                        await self._take(mq.queue(ORDERS), transaction, taken)
                        if self._rng.random() < _GIVEN_UP:
                            raise _RolledBackError
                        committing = True
                    book.received += taken
                except _RolledBackError:
                    pass  # what was taken comes again
                except MsmqError:
                    if committing:
                        book.perhaps_received.update(taken)
                    await asyncio.sleep(0.05)

    async def _take(
        self, queue: msmq.Queue, transaction: msmq.Transaction, taken: list[tuple[int, int]]
    ) -> None:
        """A few messages, or as many as there are."""
        with suppress(IoTimeoutError):
            for _ in range(5):
                message = await queue.receive(timeout=0.2, transaction=transaction)
                taken.append(tuple(json.loads(message.body)))

    async def _is_empty(self, mq: msmq.Connection, name: str) -> bool:
        """As the queue manager says; False while nobody answers."""
        try:
            return (await mq.queue_info(name)).messages == 0
        except MsmqError:
            return False

    async def receive_mail(self) -> None:
        """What is there in the end. One that was received and whose acknowledgment got lost comes again."""
        async with msmq.connect(self._address, timeout=_PATIENT_S) as mq:
            while not await self._is_empty(mq, MAIL):
                with suppress(MsmqError):
                    async with mq.queue(MAIL).receiver(prefetch=256) as receiver:
                        confirmed = []
                        with suppress(IoTimeoutError):
                            while True:
                                message = await receiver.receive(2)
                                self.mail.received.append(tuple(json.loads(message.body)))
                                confirmed.append(receiver.acknowledge(message))
                        await asyncio.gather(*confirmed)


class Trouble:
    """What happens to the processes."""

    def __init__(
        self,
        cluster: Cluster,
        managers: list[Process],
        far: Host,
        lines: dict[str, list[Line]],
        rng: Random,
    ) -> None:
        self.cluster = cluster
        self.managers = managers
        self.far = far
        self._lines = lines
        """Those of each queue manager to the databases."""
        self.faults: Counter[str] = Counter()
        self._rng = rng
        self._kinds: dict[Callable[[], Awaitable[None]], float] = {
            self.kill_leader: 3,
            self.freeze_leader: 2,
            self.cut_leader: 2,
            self.cut_some_lines: 2,
            self.kill_primary: 2,
            self.freeze_primary: 2,
            self.kill_patroni: 1,
            self.freeze_patroni: 1,
            self.cut_primary_off: 2,
            self.cut_primary_from_etcd: 1,
            self.set_clocks_wrong: 2,
            self.kill_the_other_host: 1,
            self.switch_over: 1,
            self.fence: 1,
        }

    async def one(self) -> None:
        kind = self._rng.choices(list(self._kinds), list(self._kinds.values()))[0]
        self.faults[kind.__name__] += 1
        await kind()

    async def _leader(self) -> Process:
        for manager in self.managers:
            if await manager.probe("leader") == 200:
                return manager
        return self._rng.choice(self.managers)

    async def _primary(self) -> Member:
        return await asyncio.to_thread(lambda: self.cluster.primary) or self._rng.choice(self.cluster.members)

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.choice((0.5, 2, 6, 9)))

    async def kill_leader(self) -> None:
        leader = await self._leader()
        leader.signal(signal.SIGKILL)
        await leader.process.wait()
        await leader.start()

    async def freeze_leader(self) -> None:
        leader = await self._leader()
        leader.signal(signal.SIGSTOP)
        await self._pause()
        leader.signal(signal.SIGCONT)

    async def cut_leader(self) -> None:
        """The leader reaches no database."""
        lines = self._lines[(await self._leader()).name]
        await self._cut(lines)

    async def cut_some_lines(self) -> None:
        """Whoever reaches which database."""
        every = [line for lines in self._lines.values() for line in lines]
        await self._cut(self._rng.sample(every, self._rng.randint(1, len(every) - 1)))

    async def _cut(self, lines: list[Line]) -> None:
        for line in lines:
            line.cut()
        await self._pause()
        for line in lines:
            line.mend()

    async def kill_primary(self) -> None:
        (await self._primary()).signal_server(signal.SIGKILL)

    async def freeze_primary(self) -> None:
        member = await self._primary()
        member.signal_server(signal.SIGSTOP)
        await self._pause()
        member.signal_server(signal.SIGCONT)

    async def kill_patroni(self) -> None:
        member = await self._primary()
        member.signal_patroni(signal.SIGKILL)
        await asyncio.sleep(1)
        member.look_after()

    async def freeze_patroni(self) -> None:
        member = await self._primary()
        member.signal_patroni(signal.SIGSTOP)
        await self._pause()
        member.signal_patroni(signal.SIGCONT)

    async def cut_primary_off(self) -> None:
        """No other server reaches the primary: nobody confirms its commits."""
        await self._cut([(await self._primary()).entrance])

    async def cut_primary_from_etcd(self) -> None:
        """Its Patroni cannot say that it is the primary, and others may want to be."""
        await self._cut((await self._primary()).etcd_lines)

    async def set_clocks_wrong(self) -> None:
        """Of a queue manager and of a server, which stay wrong until they are set again."""
        for clock in (self._rng.choice(self.managers).clock, self._rng.choice(self.cluster.members).clock):
            assert clock is not None
            clock.set(self._rng.choice(_SKEWS_S))

    async def kill_the_other_host(self) -> None:
        self.far.process.kill()
        await self.far.process.wait()
        await self.far.start()

    async def _ha(self, *words: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *(ready.msmq(), "ha", *words, "--store", self.cluster.address),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await process.wait()  # it may find nobody who leads

    async def switch_over(self) -> None:
        await self._ha("switchover")

    async def fence(self) -> None:
        await self._ha("fence", "--yes")

    def heal(self) -> None:
        """All but the clocks, with which everything has to go well."""
        for manager in self.managers:
            manager.signal(signal.SIGCONT)
        for member in self.cluster.members:
            member.signal_patroni(signal.SIGCONT)
            member.signal_server(signal.SIGCONT)
            member.look_after()


def _epochs_go_back(cluster: Cluster) -> str:
    primary = cluster.wait()
    statement = (
        "SELECT count(*) FROM (SELECT epoch, lag(epoch) OVER (ORDER BY number) AS before FROM msmq.log) AS rows "
        "WHERE epoch < before"
    )
    command = (programs() / "psql", "-qAtX", "-h", primary.data, "-p", primary.port, "-U", "postgres")
    return run(*command, "-d", DATABASE, "-c", statement).stdout.strip()


@dataclass
class Outcome:
    """What came of a run."""

    faults: Counter[str]
    orders: dict[str, int]
    mail: dict[str, int]
    from_afar: int
    """Orders that were brought by the other host."""
    epochs_go_back: str
    longest_pause_s: float

    @property
    def problems(self) -> list[str]:
        found = [
            f"orders: {what}"
            for what in ("lost", "unexpected", "duplicated", "out of order")
            if self.orders[what]
        ]
        found += [f"mail: {what}" for what in ("lost", "unexpected") if self.mail[what]]
        return found + ([] if self.epochs_go_back == "0" else ["a row of an older epoch follows a newer one"])

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(self.faults.items()))
        return (
            f"{sum(self.faults.values())} faults: {faults}\norders: {self.orders}\nmail: {self.mail}\n"
            f"over port 1801: {self.from_afar} orders; longest wait for an answer: {self.longest_pause_s:.1f} s"
        )


async def play(cluster: Cluster, directory: Path, seconds: float, seed: int) -> Outcome:
    """Let things go wrong for so long, then let everything come to its end."""
    rng = Random(seed)
    port, wiring = free_port(), cluster.wiring
    lines = {name: [wiring.line(member.port) for member in cluster.members] for name in _ADDRESSES}
    managers = []
    for name, own in lines.items():
        store = cluster.address_by([line.port for line in own])
        managers.append(
            Process(
                directory,
                name,
                store,
                "msmq",
                _TIMERS,
                settings=DEFAULTS,
                address=_ADDRESSES[name],
                port=port,
                clock=Clock(directory, name),
            )
        )
        await managers[-1].start()
    _let_float(wiring, managers, port)
    far = Host(directory, "FAR", ALICE, port, config=_TIMERS, api=f"unix:{directory / 'far.sock'}")
    await far.start()
    address = ",".join(f"unix:{manager.socket}" for manager in managers)
    try:
        async with msmq.connect(address, timeout=_PATIENT_S) as mq:
            await mq.create_queue(ORDERS, transactional=True)
            await mq.create_queue(MAIL)
        applications = Applications(address, far.api, rng)
        trouble = Trouble(cluster, managers, far, lines, rng)
        senders = [asyncio.create_task(applications.send(number)) for number in range(_SENDERS)]
        senders.append(asyncio.create_task(applications.send_mail()))
        senders.append(asyncio.create_task(applications.send_from_afar()))
        receiver = asyncio.create_task(applications.receive_orders())
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await trouble.one()
            await asyncio.sleep(rng.uniform(0.5, 5))
        trouble.heal()
        await asyncio.to_thread(cluster.wait)
        applications.ended = True
        await asyncio.gather(*senders)
        await applications.all_have_left()
        applications.done = True
        async with asyncio.timeout(_LAST_S):
            await receiver
            await applications.receive_mail()
        return Outcome(
            trouble.faults,
            applications.orders.balance(),
            applications.mail.balance(),
            sum(sender == _FAR_SENDER for sender, _ in applications.orders.received),
            await asyncio.to_thread(_epochs_go_back, cluster),
            applications.longest_pause_s,
        )
    finally:
        for manager in managers:
            manager.signal(signal.SIGCONT)
            manager.signal(signal.SIGKILL)
            await manager.process.wait()
        far.process.kill()
        await far.process.wait()


def _let_float(wiring: Wiring, managers: list[Process], port: int) -> None:
    """Have an address lead to the instance that leads, as keepalived would by asking the same question."""

    async def leader() -> tuple[str, int] | None:
        for manager in managers:
            if await manager.probe("leader") == 200:
                return manager.address, port
        return None

    wiring.line_to(leader, _FLOATING, port)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ha.jepsen", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory() as directory, new_patroni() as cluster:
        outcome = asyncio.run(play(cluster, Path(directory), options.minutes * 60, options.seed))
        print(outcome)
        for problem in outcome.problems:
            print(f"WRONG: {problem}")
        if outcome.problems:
            for log in sorted(Path(directory).glob("*.log")):
                print(f"== {log.name}\n{log.read_text()[-4000:]}")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
