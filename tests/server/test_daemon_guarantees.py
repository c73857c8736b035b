"""What each kind of message survives: cut lines, restarts, crashes (MS-MQQB 1.3.2.1)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from msmq.manager.model import OutgoingState
from msmq.store import Batch, Store
from msmq.wire.optional_headers import TransactionHeader
from tests.server.support import ALICE, BOB, Node, Peer, eventually, name_of, neighbourhood


@pytest.mark.spec("MQQB-1.3.2.1.1-a", "MQQB-3.1.1.1.1.3-a", "MQQB-3.1.6.1-c", "MQQB-3.1.7.1.6-b")
async def test_express_survives_the_line_but_not_the_process(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        for number in range(5):
            alice.send(name_of(BOB), b"%d" % number)
        await eventually(lambda: alice.outgoing(BOB).state is OutgoingState.WAITING)
        bob = await here.node(BOB)
        orders = bob.queue()
        await eventually(lambda: len(orders.positions) == 5)
        assert bob.bodies(orders) == [b"0", b"1", b"2", b"3", b"4"]
        # Cut the line while messages are on their way: they are kept, and sent again.
        assert len(alice.outgoing(BOB).positions) == 5, "they wait for the acknowledgment"
        alice.cut()
        await eventually(lambda: len(alice.own_connections) == 0)
        for number in range(5, 8):
            alice.send(name_of(BOB), b"%d" % number)
        await eventually(lambda: len(orders.positions) >= 8)
        assert bob.bodies(orders) == [b"%d" % number for number in range(8)]
        # And now the same with a restart of the sender.
        await bob.stop()
        alice.send(name_of(BOB), b"lost")
        alice.send(name_of(BOB), b"kept", recoverable=True)
        await alice.restart()
        assert alice.bodies(alice.outgoing(BOB)) == [b"kept"]
        await bob.start()
        await eventually(lambda: b"kept" in bob.bodies(bob.find()))
        assert b"lost" not in bob.bodies(bob.find())


@pytest.mark.spec("MQQB-3.1.1.3.1-af", "MQQB-3.1.4.1-a", "MQQB-6-d")
async def test_recoverable_messages_go_on_after_a_crash_of_the_sender(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        identifier = alice.core.record.identifier
        for body in (b"1", b"2", b"3"):
            alice.send(name_of(BOB), body, recoverable=True)
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()
        assert alice.core.record.identifier == identifier
        assert alice.bodies(alice.outgoing(BOB)) == [b"1", b"2", b"3"]
        bob = await here.node(BOB)
        orders = bob.queue()
        await eventually(lambda: len(orders.positions) == 3)
        assert bob.bodies(orders) == [b"1", b"2", b"3"]


async def test_a_recoverable_message_that_was_acknowledged_survives_the_receiver(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue()
        await bob.daemon.commit.drain()
        for number in range(40):
            alice.send(name_of(BOB), b"%d" % number, recoverable=True)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        await bob.crash()
        await bob.start()
        assert bob.bodies(bob.find()) == [b"%d" % number for number in range(40)]


@pytest.mark.spec(
    "MQQB-3.1.1.1.1.6-a", "MQQB-3.1.1.1.1.8-a", "MQQB-3.1.5.8.7-d", "MQQB-3.1.5.8.2-l", "MQQB-3.1.5.8.2-b"
)
@pytest.mark.parametrize("transactional", [False, True])
async def test_nothing_is_acknowledged_before_it_is_durable(tmp_path: Path, transactional: bool) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=transactional)
        await alice.daemon.commit.drain()
        commit, store = alice.daemon.commit, alice.daemon.store
        synced = watch_writes(store)
        commit._begin = lambda: None  # type: ignore[method-assign]  # nobody commits
        peer = Peer()
        await peer.connect(ALICE, here.port)
        (accepted,) = alice.daemon.listener.connections
        header = (
            TransactionHeader(tx_sequence_id=1 << 32 | 1, tx_sequence_number=1) if transactional else None
        )
        peer.send(peer.message(b"precious", recoverable=True, transaction=header), "precious")
        await eventually(lambda: len(orders.positions))
        receipts = accepted.session.receipts
        assert (receipts.received, receipts.recoverable_received) == (1, 1)
        await asyncio.sleep(0.8)  # longer than both timers
        assert peer.acknowledged == []
        assert peer.messages == []
        assert not synced
        # It never gets to the disk: there is no trace of it, and the sender has it still.
        await alice.crash()
        await eventually(peer.closed.is_set)
        await peer.close()
        await alice.start()
        assert alice.bodies(alice.find()) == []
        synced = watch_writes(alice.daemon.store)
        again = Peer()
        await again.connect(ALICE, here.port)
        again.send(again.message(b"precious", recoverable=True, transaction=header), "precious")
        await eventually(lambda: again.acknowledged)
        assert again.acknowledged == ["precious"]
        assert alice.bodies(alice.find()) == [b"precious"]
        assert synced
        await again.close()


def watch_writes(store: Store) -> list[int]:
    """Grows with each batch that is on the disk."""
    write, written = store.write, []

    def watched(batch: Batch) -> None:
        write(batch)
        written.append(1)

    store.write = watched  # type: ignore[method-assign]
    return written


async def traffic(here: Any, alice: Node, bob: Node, seed: int, crashing: bool) -> None:
    """A hundred transactional messages, while the line is cut or the hosts crash again and again."""
    random = Random(seed)
    numbers = iter(range(1, 101))
    sent = 0
    while sent < 100:
        count = min(random.randint(1, 8), 100 - sent)
        alice.send_together(name_of(BOB), *[b"%d" % next(numbers) for _ in range(count)])
        sent += count
        await alice.daemon.commit.drain()
        await asyncio.sleep(random.choice([0, 0.005, 0.05]))
        victim = random.choice([alice, bob])
        if crashing and random.random() < 0.3:
            await victim.crash()
            await victim.start()
        elif random.random() < 0.5:
            victim.cut()


@pytest.mark.spec("MQQB-1.3.2.1.3-a")
@pytest.mark.parametrize("seed", range(3))
async def test_transactional_messages_come_once_and_in_order(tmp_path: Path, seed: int) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue(transactional=True)
        await bob.daemon.commit.drain()
        undecided = alice.manager.transactions.create()
        alice.send(name_of(BOB), b"uncommitted", undecided)
        await traffic(here, alice, bob, seed, crashing=False)
        await eventually(lambda: len(bob.find().positions) >= 100)
        await eventually(lambda: len(alice.outgoing(BOB).positions) == 1)
        assert bob.bodies(bob.find()) == [b"%d" % number for number in range(1, 101)]
        alice.manager.transactions.abort(undecided.identifier)
        await asyncio.sleep(0.1)
        assert len(bob.find().positions) == 100


@pytest.mark.parametrize("seed", range(3))
async def test_even_when_both_sides_crash(tmp_path: Path, seed: int) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue(transactional=True)
        await bob.daemon.commit.drain()
        await traffic(here, alice, bob, seed, crashing=True)
        await eventually(lambda: len(bob.find().positions) >= 100)
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
        assert bob.bodies(bob.find()) == [b"%d" % number for number in range(1, 101)]
        # What a restart of both finds is the same: the sequence ended, its number is used up.
        last = alice.daemon.outgoing.sequences.last_id
        await alice.crash()
        await alice.start()
        assert alice.daemon.outgoing.sequences.last_id >= last
        assert not alice.daemon.outgoing._stored


async def test_a_place_is_never_given_twice(tmp_path: Path) -> None:
    """The first of two messages stays; what was given to the second, now expired, is not given to a third."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        alice.send_together(name_of(BOB), b"1", b"2", b"3")
        drain = next(iter(alice.daemon.outgoing.drains.values()))
        (first,) = drain.take(1)
        assert list(first.numbers) == [1]
        (second,) = drain.take(2)
        assert list(second.numbers) == [2, 3]
        for lookup_id in second.lookup_ids:
            drain.expire(lookup_id, alice.manager.mailbox.load(drain.queue, lookup_id))
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()
        alice.send_together(name_of(BOB), b"4")
        drain = next(iter(alice.daemon.outgoing.drains.values()))
        assert [list(run.numbers) for run in drain.take(9)] == [[1], [4]]


async def test_messages_of_concurrent_transactions_are_resent_in_the_order_of_their_numbers(
    tmp_path: Path,
) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        transactions = alice.manager.transactions
        early, late = transactions.create(), transactions.create()
        alice.send(name_of(BOB), b"early", early)
        alice.send(name_of(BOB), b"late", late)
        transactions.commit(late.identifier)
        drain = next(iter(alice.daemon.outgoing.drains.values()))
        (first,) = drain.take(9)
        bodies = [
            bytes(alice.manager.mailbox.load(drain.queue, each).packet.body) for each in first.lookup_ids
        ]
        assert bodies == [b"late"]
        transactions.commit(early.identifier)
        assert [run.number for run in drain.take(9)] == [2]
        drain.session_lost()
        (both,) = drain.take(9)
        assert list(both.numbers) == [1, 2]
        bodies = [
            bytes(alice.manager.mailbox.load(drain.queue, each).packet.body) for each in both.lookup_ids
        ]
        assert bodies == [b"late", b"early"]
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()
        bob = await here.node(BOB)
        orders = bob.queue(transactional=True)
        await eventually(lambda: len(orders.positions) == 2)
        assert bob.bodies(orders) == [b"late", b"early"]


@pytest.mark.spec("MQQB-3.1.1.3-p", "MQQB-3.1.7.1.1-a")
async def test_message_identifiers_are_not_used_again(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        numbers = [alice.send(name_of(BOB), recoverable=True).user.message_id for _ in range(3)]
        assert numbers == list(range(numbers[0], numbers[0] + 3))
        await alice.daemon.commit.drain()
        await alice.crash()
        await alice.start()
        assert alice.send(name_of(BOB)).user.message_id > numbers[-1]
        await alice.restart()
        assert alice.send(name_of(BOB)).user.message_id > numbers[-1] + 1


@pytest.mark.spec("MQQB-6-b", "MQQB-3.1.5.8.2-p")
async def test_a_burst_does_not_wait_for_timers(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE, window_size=64), await here.node(BOB, window_size=64)
        orders = bob.queue()
        for number in range(1_024):
            alice.send(name_of(BOB), b"%d" % number)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await eventually(lambda: len(orders.positions) == 1_024)
        assert loop.time() - begun < 5
        await eventually(lambda: not len(alice.outgoing(BOB).positions))
