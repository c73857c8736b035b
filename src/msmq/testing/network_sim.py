"""Test whole queue managers on networks, disks and clocks that fail: the guarantees of delivery, checked at every step.

A run depends on its seed alone. Two or three hosts exchange messages of all kinds, directly or through a routing
server, while connections break between any two bytes, hosts lose sight of each other, processes are killed, machines
lose power in the middle of a write, disks fill up, fail and damage messages, clocks jump, and queue managers meet
internal errors, which end them. Then the trouble ends, time passes, everything is received, and the following must
hold:

- a transactional message is received exactly once, in order, or not at all, and then its sender knows;
- a recoverable message that its sender was told is kept arrives;
- an express message arrives once if no host was restarted;
- each message that was to be followed ends in one place, and what its sender is told is true;
- buffers and windows stay within their bounds, and nothing is remembered for ever.

Applications receive messages one by one, in transactions or not, or they hold many, acknowledge some together, reject
others and disconnect, or receive some in a transaction and take their time; others browse the queues, purge them, or
delete one and create another.

Some runs are calm: nothing fails, and no timer for resending runs out. In these everything must arrive by itself.
Otherwise the resending could hide that one part of a daemon made another part wait.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Final

from msmq.server.config import Config
from msmq.testing.faults import Faults
from msmq.testing.network import SimulatedNetwork
from msmq.testing.network_book import Book, Broken, Ends, Kind, Sent, number_in
from msmq.testing.network_host import (
    ACKS,
    DESTINATIONS,
    MAIL,
    ORDERS,
    NetworkHost,
)
from msmq.testing.network_names import Workgroup
from msmq.testing.network_readers import Reader
from msmq.testing.replicated import ReplicatedSimulatedDisk
from msmq.transfer.timers import TimerSettings

TIMERS: Final = TimerSettings(
    session_initialization_ms=3_000,
    session_cleanup_ms=30_000,
    session_retry_connect_ms=300,
    ack_wait_timeout_ms=1_000,
    resend_timeouts_short_s=1,
    resend_timeouts_medium_s=2,
    resend_timeouts_long_s=3,
    resend_timeouts_final_s=5,
    order_ack_timeout_ms=50,
    maximum_order_ack_delay_s=1,
)
"""Short times, so that a run has few idle seconds."""
NOTHING_AGAIN: Final = replace(
    TIMERS,
    ack_wait_multiplier=3_600,
    direct_ack_wait_multiplier=3_600,
    resend_timeouts_short_s=3_600,
    resend_timeouts_medium_s=3_600,
    resend_timeouts_long_s=3_600,
    resend_timeouts_final_s=3_600,
)
"""The timers of a calm run."""

NAMES: Final = {"ALICE": "10.0.0.1", "BOB": "10.0.0.2", "CAROL": "10.0.0.3"}
ROUNDS: Final = 45
CALM: Final = 10
"""Seeds that this number divides make a calm run."""
ROUTED: Final = 3
"""With seeds that this number divides, messages are routed."""
REPLICATED: Final = 4
"""With seeds that this number divides, hosts have instances that share a log on a simulated cluster."""
TWO_NAMES: Final = 2
"""With seeds that this number divides, unrouted messages name their queues in two ways."""
BY_NUMBER: Final = 5
"""With seeds that this number divides, some unrouted messages have an administration queue given by a number, which
names nothing."""
_END_S: Final = 200.0
_SLOW_S: Final = 0.1
_CALM_END_S: Final = 40.0
_MOST_STEPS = 60_000
_SMALL, _LARGE = 40, 6_000


class NetworkSimulation:
    """Some hosts, their traffic and their trouble."""

    def __init__(
        self, seed: int, *, routed: bool = False, calm: bool = False, replicated: bool = False
    ) -> None:
        """``routed``: Alice and Carol reach each other only through Bob. ``calm``: nothing fails. ``replicated``: each
        host has instances that share a log, and another one takes over whenever one fails."""
        self.rng = rng = Random(seed)
        self.network = SimulatedNetwork(
            rng,
            latency_s=rng.choice(((0.0005, 0.002), (0.001, 0.05), (0.0, 0.3))),
            write_buffer_bytes=rng.choice((512, 4_096, 1 << 16)),
        )
        self.network.whole_pieces = rng.choice((1.0, 0.7, 0.2))
        self.network.datagram_loss = 0.0 if calm else rng.choice((0.0, 0.3))
        self.book = Book()
        self.numbers = 0
        self.faults: Counter[str] = Counter()
        self.internal_errors = Faults(asyncio._get_running_loop)
        self._crashes_before = self._errors_before = 0
        """How many crashes and internal errors there were when the last internal error was planned."""
        self.trace: list[str] = []
        pings = rng.random() < 0.3
        self.config = Config(
            port=1801,
            ping_port=3527,
            enable_ping_service=pings,
            ping_before_connecting=pings,
            window_size=rng.choice((1, 3, 16, 64)),
            max_unstored_bytes=rng.choice((1_000, 8 << 20)),
            timers=NOTHING_AGAIN if calm else TIMERS,
        )
        self._end_s = _CALM_END_S if calm else _END_S
        self.workgroup = Workgroup(NAMES, "BOB") if routed else None
        self._two_names = not routed and seed % TWO_NAMES == 0
        self._by_number = not routed and seed % BY_NUMBER == 0
        names = list(NAMES)[: 3 if routed else rng.choice((2, 2, 3))]
        self.hosts = [
            NetworkHost(
                self.network,
                self.book,
                rng,
                name,
                NAMES[name],
                self.config,
                self.workgroup,
                ReplicatedSimulatedDisk(rng) if replicated else None,
            )
            for name in names
        ]
        self._by_address = {host.address: host for host in self.hosts}
        self._waits_for_disks = not calm
        """True if some hosts wait for their disks in place. In a calm run no host does."""
        self._set_pace(self.network.working_s)
        self._steps: dict[Callable[[], None], float] = {
            self.send: 12,
            self.receive: 4,
            self.fetch: 1.2,
            self.settle: 1.6,
            self.leave: 0.3,
            self.work: 1.2,
            self.end_work: 0.8,
            self.look: 0.5,
        }
        if not calm:
            self._steps |= self._trouble()
        if replicated and not calm:
            self._steps[self.fail_over] = 1
        elif not calm:
            self._steps[self.damage] = 0.8

    def _trouble(self) -> dict[Callable[[], None], float]:
        """Return what may go wrong, with weights."""
        return {
            self.purge: 0.4,
            self.make_queue_anew: 0.3,
            self.cut: 3,
            self.block: 1.5,
            self.heal: 2,
            self.kill: 0.7,
            self.lose_power: 0.7,
            self.lose_power_soon: 1.2,
            self.stop: 0.5,
            self.start: 3,
            self.fill_disk: 0.6,
            self.free_disk: 1,
            self.fail_disk: 0.2,
            self.fail_inside: 0.8,
            self.set_clock: 0.8,
            self.slow_down: 0.5,
        }

    # Time

    def run_for(self, seconds: float) -> None:
        """Let things happen for a while."""
        until = self.network.now + seconds
        while (loop := self.network.step(until)) is not None:
            self._by_address[loop.address].look()
            if self.network.steps > _MOST_STEPS:
                raise Broken("there is no end to it")

    def round(self) -> None:
        """Do one random step, then let things happen for a moment."""
        step = self.rng.choices(list(self._steps), list(self._steps.values()))[0]
        self.trace.append(f"{self.network.now:.4f} {step.__name__}")
        self.faults[step.__name__] += 1
        for host in self.hosts:
            host.make_queues()  # one may have been deleted, and the disk too full for a new one
        step()
        self.run_for(self.rng.choice((0.0, 0.002, 0.05, 0.3, 1.0)) * self.rng.random())
        self.check_bounds()

    def _running(self) -> NetworkHost | None:
        running = [host for host in self.hosts if host.runs]
        return self.rng.choice(running) if running else None

    # Traffic

    def send(self) -> None:
        source = self._running()
        if source is None:
            return
        rng = self.rng
        target = rng.choice([host for host in self.hosts if host is not source])
        kind = rng.choice((Kind.EXPRESS, Kind.RECOVERABLE, Kind.TRANSACTIONAL, Kind.TRANSACTIONAL))
        count = rng.choice((1, 1, 2, 4, 4, 20))
        first = self.numbers + 1
        self.numbers += count
        messages = [
            self._message(number, first, kind, source, target) for number in range(first, first + count)
        ]
        sizes = [rng.choice((_SMALL, _SMALL, 300, _LARGE)) for _ in messages]
        source.send(messages, sizes, commit=kind is not Kind.TRANSACTIONAL or rng.random() < 0.9)

    def _message(self, number: int, group: int, kind: Kind, source: NetworkHost, target: NetworkHost) -> Sent:
        rng = self.rng
        name = ORDERS if kind is Kind.TRANSACTIONAL else MAIL
        sent = Sent(number, kind, source.address, (target.address, name), group)
        if self.workgroup is not None:
            sent.by_way_of = self.workgroup.between(source.address, target.address)
        elif self._two_names:
            sent.by_computer_name = rng.random() < 0.5
        if rng.random() < 0.25:
            sent.time_to_reach_queue_s = rng.choice((1, 2, 5))
        if rng.random() < 0.2:
            sent.time_to_be_received_s = rng.choice((1, 3, 8))
        sent.positive_journaling = rng.random() < 0.3
        sent.negative_journaling = rng.random() < 0.4
        sent.acknowledgments = rng.choice((0, 0, 0x5, 0xE, 0xF))
        sent.answered_at_target = rng.random() < 0.2
        sent.answered_nowhere = self._by_number and rng.random() < 0.3
        return sent

    def receive(self) -> None:
        host = self._running()
        if host is None:
            return
        in_transaction = self.rng.random() < 0.5
        commit = self.rng.random() < 0.8
        for _ in range(self.rng.randint(1, 5)):
            if not host.runs or not host.receive(
                self.rng.choice(DESTINATIONS), in_transaction=in_transaction, commit=commit
            ):
                break

    def fetch(self) -> None:
        """Let an application that holds messages ask for more, even if it has not settled what it has."""
        host, rng = self._running(), self.rng
        if host is None:
            return
        if not host.readers or rng.random() < 0.3:
            host.connect(rng.choice(DESTINATIONS), rng.choice((0, 0, 300, 2_000)))
        most, wait = rng.choice((1, 3, 20)), rng.random() < 0.5
        host.with_reader(lambda reader: reader.fetch(most, wait=wait))

    def settle(self) -> None:
        """Let an application acknowledge or reject a group of messages, in any order."""
        host = self._running()
        if host is not None:
            host.with_reader(self._settle)

    def _settle(self, reader: Reader) -> None:
        rng, held = self.rng, sorted(reader.held)
        group = rng.sample(held, rng.choice((len(held), rng.randint(0, len(held)))))
        if group and rng.random() < 0.8:
            reader.acknowledge(group)
        elif group:
            reader.reject(group)

    def leave(self) -> None:
        """Let an application disconnect without warning, perhaps while it holds messages."""
        host = self._running()
        if host is not None and host.readers:
            host.leave([self.rng.choice(host.readers)])

    def work(self) -> None:
        """Let an application receive in a transaction, which goes on."""
        host = self._running()
        if host is not None:
            host.work(self.rng.choice(DESTINATIONS), self.rng.choice((1, 3, 20)))

    def end_work(self) -> None:
        host = self._running()
        if host is not None and host.works:
            host.end_work(self.rng.choice(host.works), commit=self.rng.random() < 0.6)

    def look(self) -> None:
        host = self._running()
        if host is not None:
            host.look_into(self.rng.choice(DESTINATIONS), whole=self.rng.random() < 0.5)

    # Trouble

    def purge(self) -> None:
        host = self._running()
        if host is not None:
            host.purge(self.rng.choice(DESTINATIONS))

    def make_queue_anew(self) -> None:
        """Delete a queue and create it again; only the one without transactions, as a new queue would not know the
        streams of the old."""
        host = self._running()
        if host is not None:
            host.make_anew(MAIL)

    def cut(self) -> None:
        if self.network.connections:
            transport = self.rng.choice(list(self.network.connections))
            self.network.cut(transport, both=self.rng.random() < 0.7)

    def block(self) -> None:
        one, other = self.rng.sample([host.address for host in self.hosts], 2)
        self.network.block(one, other)
        if self.rng.random() < 0.6:
            self.network.block(other, one)

    def heal(self) -> None:
        self.network.heal()

    def kill(self) -> None:
        host = self._running()
        if host is not None:
            host.kill()

    def lose_power(self) -> None:
        host = self._running()
        if host is not None:
            host.lose_power()

    def lose_power_soon(self) -> None:
        """Let the power fail in the middle of one of the next writes of a host."""
        self.rng.choice(self.hosts).disk.crash_at(self.rng.randint(1, 12))

    def stop(self) -> None:
        host = self._running()
        if host is not None:
            host.stop()

    def start(self) -> None:
        for host in self.hosts:
            if host.loop is None:
                host.start()

    def fill_disk(self) -> None:
        host = self.rng.choice(self.hosts)
        host.disk.capacity = host.disk.used_bytes + self.rng.choice((0, 4_096, 40_000))
        host.was_full = True

    def free_disk(self) -> None:
        for host in self.hosts:
            host.disk.capacity = None

    def fail_disk(self) -> None:
        self.rng.choice(self.hosts).disk.failing_syncs = 1

    def damage(self) -> None:
        """Let a disk damage a message."""
        host = self._running()
        if host is not None:
            host.damage()

    def fail_over(self) -> None:
        """Give the database of a host another primary, now or in the middle of the next commit."""
        disk = self.rng.choice(self.hosts).disk
        assert isinstance(disk, ReplicatedSimulatedDisk)
        if self.rng.random() < 0.5:
            disk.fail_over()
        else:
            disk.failing_syncs = 1

    def fail_inside(self) -> None:
        """Let a function meet an internal error soon, on whichever host calls it."""
        self.check_that_it_ended()
        self._crashes_before = sum(host.crashes for host in self.hosts)
        self._errors_before = self.internal_errors.raised
        self.internal_errors.arm(int(2 ** self.rng.uniform(0, 12)))

    def set_clock(self) -> None:
        self.rng.choice(self.hosts).clock_offset += self.rng.choice((-3_600.0, -5.0, -1.5, 1.5, 5.0, 60.0))

    def slow_down(self) -> None:
        self._set_pace((0.1, 0.4) if self.rng.random() < 0.5 else (0.0, 0.005))

    def _set_pace(self, working_s: tuple[float, float]) -> None:
        """Set how long disks take, wherever they are."""
        self.network.working_s = working_s
        for number, host in enumerate(self.hosts):
            if isinstance(host.disk, ReplicatedSimulatedDisk):
                host.disk.cluster.on_the_way_s = working_s
            else:
                quick = working_s[1] < _SLOW_S and number % 2 == 0
                host.disk.is_quick = quick and self._waits_for_disks

    # What must hold.

    def check_bounds(self) -> None:
        """Check that memory is bounded by the windows, whatever the traffic."""
        window, written = self.config.window_size, self.network.write_buffer_bytes
        for transport in self.network.connections:
            if transport.most_buffered > written + (window + 8) * (_LARGE + 2_000):
                raise Broken(f"{transport.most_buffered} bytes wait in a connection")
        for host in self.hosts:
            if host.runs:
                for link in host.daemon.outgoing.links.values():
                    connection = link._connection
                    if connection is not None and connection.session.outbox.unacked > window:
                        raise Broken(f"{host}: {connection.session.outbox.unacked} messages are on their way")

    def check_that_it_ended(self) -> None:
        """Check that some host has crashed since it met an internal error; nobody may have kept that for himself."""
        crashes = sum(host.crashes for host in self.hosts)
        if self.internal_errors.raised > self._errors_before and crashes == self._crashes_before:
            raise Broken(f"a queue manager goes on after an internal error in {self.internal_errors.place}")

    def end(self) -> None:
        """End all trouble, wait until everything has come to its end, and check the book."""
        self.internal_errors.disarm()
        self.network.heal()
        self._set_pace((0.0, 0.005))
        self.network.datagram_loss = 0.0
        self.network.latency_s = (0.0005, 0.01)
        self.network.whole_pieces = 1.0
        deadline = self.network.now + self._end_s
        while True:
            for host in self.hosts:
                host.disk.capacity = None
                host.disk.failing_syncs = 0
                host.disk.spare_power()
            self.start()
            for host in self.hosts:
                if host.runs:
                    host.make_queues()
                    host.leave(host.readers)
                    for work in list(host.works):
                        host.end_work(work, commit=self.rng.random() < 0.5)
            self.run_for(0.4)
            for host in self.hosts:
                for name in DESTINATIONS:
                    while host.runs and host.receive(name):
                        pass
            if all(host.runs and host.settled for host in self.hosts):
                break
            if self.network.now > deadline:
                raise Broken(f"not settled: {[(host, host.runs and host.settled) for host in self.hosts]}")
        self.run_for(1.5)
        self.check_that_it_ended()
        for host in self.hosts:
            for what, count in host.leftovers().items():
                if count:
                    raise Broken(f"{host} still remembers {count} {what}")
        self.book.check(self._ends())

    def _ends(self) -> Ends:
        ends = Ends()
        for host in self.hosts:
            core = host.daemon.manager.core
            for queue in (core.dead_letter_queue, core.transactional_dead_letter_queue):
                assert queue is not None
                ends.dead.update(map(number_in, host.packets(queue)))
            assert core.journal_queue is not None
            ends.journaled.update(map(number_in, host.packets(core.journal_queue)))
            for packet in host.packets(host.queue(ACKS)):
                number = self.book.identifiers[packet.properties.correlation_id]
                ends.told.setdefault(number, Counter())[packet.properties.message_class] += 1
        return ends


def run(seed: int, rounds: int = ROUNDS) -> NetworkSimulation:
    """Run a simulation that depends on ``seed`` alone."""
    simulation = NetworkSimulation(
        seed, routed=seed % ROUTED == 0, calm=seed % CALM == 0, replicated=seed % REPLICATED == 0
    )
    try:
        for _ in range(rounds):
            simulation.round()
        simulation.end()
    finally:
        simulation.internal_errors.disarm()
        simulation.network.close()
    return simulation


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m msmq.testing.network_sim", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds; 0 goes on until stopped")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="things that happen with each seed")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    totals: Counter[str] = Counter()
    seed = options.seed
    with suppress(KeyboardInterrupt):
        while not options.seeds or seed < options.seed + options.seeds:
            try:
                ended = run(seed, options.rounds)
            except Exception:
                command = (
                    f"python -m msmq.testing.network_sim --seed {seed} --seeds 1 --rounds {options.rounds}"
                )
                sys.stderr.write(f"\nseed {seed}; replay with: {command}\n")
                raise
            totals["steps"] += ended.network.steps
            totals["messages"] += len(ended.book.sent)
            totals["arrivals"] += ended.book.arrivals
            totals["crashes"] += sum(host.crashes for host in ended.hosts)
            disks = [host.disk for host in ended.hosts if isinstance(host.disk, ReplicatedSimulatedDisk)]
            totals["take-overs"] += sum(disk.takeovers for disk in disks)
            totals["fail-overs"] += sum(disk.cluster.failovers for disk in disks)
            totals["batches behind others"] += sum(disk.cluster.pipelined for disk in disks)
            totals["unanswered"] += sum(disk.cluster.broken for disk in disks)
            totals["late"] += sum(disk.cluster.late for disk in disks)
            totals["internal errors"] += ended.internal_errors.raised
            figures = ", ".join(f"{count} {what}" for what, count in totals.items())
            sys.stderr.write(f"\rseed {seed}: {figures}, {time.monotonic() - began:.0f} s ")
            seed += 1
    sys.stderr.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
