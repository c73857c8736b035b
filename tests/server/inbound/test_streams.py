"""Streams into one queue: one for each sender, and for each name that it has for the queue."""

from __future__ import annotations

from pathlib import Path

from tests.server.inbound.test_arrivals import place
from tests.server.support import ALICE, BOB, Peer, eventually, name_of, neighbourhood

BY_ADDRESS = name_of(BOB)
BY_NAME = f"DIRECT=OS:{BOB}\\private$\\orders"
WHEREVER = "OS:anything\\private$\\orders"


async def test_a_queue_with_two_names_gets_both_sequences_whole(tmp_path: Path) -> None:
    """Whichever sequence has the higher number, and whichever comes first."""
    async with neighbourhood(tmp_path) as here:
        bob = await here.node(BOB)
        bob.queue(transactional=True)
        await bob.stop()
        alice = await here.node(ALICE)
        for number in range(6):
            name, other = (BY_ADDRESS, b"address") if number % 2 else (BY_NAME, b"name")
            alice.send_together(name, b"%d %s" % (number, other))
        await bob.start()
        await eventually(lambda: len(bob.find().positions) == 6)
        await bob.crash()  # what was remembered of both streams is remembered after it
        await bob.start()
        for name, other in ((BY_ADDRESS, b"address"), (BY_NAME, b"name")):
            alice.send_together(name, b"6 " + other)
        await eventually(lambda: len(bob.find().positions) == 8)
        bodies = bob.bodies(bob.find())
        for ending, expected in (
            (b"name", [b"0", b"2", b"4", b"6"]),
            (b"address", [b"1", b"3", b"5", b"6"]),
        ):
            assert [body.split()[0] for body in bodies if body.endswith(ending)] == expected
        for name in (BY_ADDRESS, BY_NAME):
            queue = alice.core.outgoing[name.lower()]
            await eventually(lambda queue=queue: not len(queue.positions))  # type: ignore[misc]


async def test_letters_make_no_other_name(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        peer.send(peer.message(b"1", transaction=place(1)))
        peer.send(peer.message(b"2", WHEREVER.upper(), transaction=place(2)))
        peer.send(peer.message(b"again", WHEREVER.lower(), transaction=place(1)))
        peer.send(peer.message(b"3", transaction=place(3)))
        await eventually(lambda: len(orders.positions) == 3)
        assert alice.bodies(orders) == [b"1", b"2", b"3"]
        ((_, info),) = orders.incoming.items()
        assert (info.format_name, info.sequence_number) == (f"DIRECT={WHEREVER}", 3)
        await peer.close()


async def test_streams_of_a_queue_that_is_no_more_are_dropped(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        peer.send(peer.message(b"1", transaction=place(2, 0)))
        await eventually(lambda: len(orders.positions) == 1)
        await peer.close()
        alice.manager.queues.delete(orders)
        await alice.restart()
        again = alice.queue(transactional=True)
        other = Peer()
        await other.connect(ALICE, here.port)
        other.send(other.message(b"2", transaction=place(1)))
        await eventually(lambda: len(again.positions) == 1)
        await other.close()


async def test_a_stream_goes_with_its_queue(tmp_path: Path) -> None:
    """A server that gets answers in queues of their own, one after the other, does not remember them all."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        kept = alice.queue("kept", transactional=True)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        peer.send(peer.message(b"1", "OS:anything\\private$\\kept", transaction=place(1)))
        await eventually(lambda: len(kept.positions) == 1)
        streams, values = len(alice.daemon.arrivals._receiver.streams()), len(alice.core.ledger._values)
        for number in range(3):
            name = f"answer{number}"
            queue = alice.queue(name, transactional=True)
            peer.send(peer.message(b"1", f"OS:anything\\private$\\{name}", transaction=place(1)))
            await eventually(lambda queue=queue: len(queue.positions) == 1)
            alice.manager.queues.delete(queue)
        await eventually(lambda: len(alice.daemon.arrivals._receiver.streams()) == streams)
        assert len(alice.core.ledger._values) == values
        peer.send(peer.message(b"again", "OS:anything\\private$\\kept", transaction=place(1)))
        peer.send(peer.message(b"2", "OS:anything\\private$\\kept", transaction=place(2)))
        await eventually(lambda: alice.bodies(kept) == [b"1", b"2"])
        await peer.close()
