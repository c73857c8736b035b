"""What becomes of messages, and who is told: acknowledgments, journals, dead letters (MS-MQQB 1.3.4, 1.3.5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from msmq.manager.model import QueuePrivacyLevel
from msmq.manager.queues.queue import Queue
from msmq.security.access import default_queue_manager_descriptor
from msmq.security.sid import ADMINISTRATORS
from msmq.store import StoreFullError
from msmq.store.layout import RECORD_SIZE
from msmq.transfer.states import State
from msmq.wire.classes import MessageClass
from msmq.wire.headers import INFINITE
from msmq.wire.multi_queue import MQFElement, MultiQueueFormatHeader
from msmq.wire.optional_headers import SecurityHeader, TransactionHeader
from msmq.wire.packets import FinalAckBody, build_order_message
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    Node,
    Peer,
    eventually,
    name_of,
    neighbourhood,
)

FULL_REACH, FULL_RECEIVE = 0x5, 0xE
NEGATIVE = 0x4
SEQUENCE = 1 << 32 | 7


def classes(node: Node, queue: Queue) -> list[int]:
    return [packet.properties.message_class for packet in node.packets(queue)]


def place(number: int, previous: int | None = None) -> TransactionHeader:
    return TransactionHeader(
        tx_sequence_id=SEQUENCE,
        tx_sequence_number=number,
        previous_tx_sequence_number=number - 1 if previous is None else previous,
    )


# --- administration acknowledgments ------------------------------------------------------------------------


@pytest.mark.spec(
    "MQQB-1.3.5.2-a", "MQQB-1.3.5.2-b", "MQQB-3.1.5.8.10-a", "MQQB-3.1.5.11-a", "MQQB-3.1.5.1.1-g"
)
@pytest.mark.parametrize("recoverable", [False, True])
async def test_an_acknowledgment_goes_to_the_host_of_the_admin_queue(
    tmp_path: Path, recoverable: bool
) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob, carol = [await here.node(address) for address in (ALICE, BOB, CAROL)]
        orders, admin = bob.queue(), carol.queue("adm")
        packet = alice.send(
            name_of(BOB),
            b"body",
            recoverable=recoverable,
            admin=name_of(CAROL, "adm"),
            acknowledge=FULL_REACH,
        )
        await eventually(lambda: len(admin.positions))
        (ack,) = carol.packets(admin)
        assert ack.properties.message_class == MessageClass.ACK_REACH_QUEUE == 2
        assert ack.recoverable == recoverable
        assert ack.properties.correlation_id == packet.identifier.encode()
        assert ack.body == b""
        (accepted,) = [c for c in carol.daemon.listener.connections if c.is_open]
        assert accepted.peer == BOB
        assert accepted._transport is not None
        assert accepted._transport.get_extra_info("sockname")[:2] == (CAROL, here.port)
        assert len(orders.positions) == 1


async def test_the_way_back_is_the_session_that_is_there(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        bob.queue()
        admin = alice.queue("adm")
        alice.send(name_of(BOB), b"x", admin=name_of(ALICE, "adm"), acknowledge=FULL_REACH)
        await eventually(lambda: len(admin.positions))
        assert not alice.daemon.listener.connections
        assert not bob.own_connections


@pytest.mark.spec("MQQB-3.1.1.1.1.4-d")
async def test_arrival_receipt_and_its_failure(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders, admin = bob.queue(), alice.queue("adm")
        options = {"admin": name_of(ALICE, "adm"), "acknowledge": 0xF}
        alice.send(name_of(BOB), b"read", **options)
        await eventually(lambda: classes(alice, admin) == [0x0002])
        bob.receive(orders)
        await eventually(lambda: classes(alice, admin) == [0x0002, 0x4000])
        alice.send(name_of(BOB), b"purged", **options)
        await eventually(lambda: len(orders.positions))
        bob.manager.queues.purge(orders)
        await eventually(lambda: classes(alice, admin) == [0x0002, 0x4000, 0x0002, 0xC001])


@pytest.mark.spec(
    "MQMQ-2.2.18.1.6-g",
    "MQQB-3.1.1.3-r",
    "MQQB-3.1.7.15-c",
    "MQQB-5.1-c",
    "MQQB-3.1.5.8.2-g",
    "MQQB-3.1.5.8.2-m",
)
@pytest.mark.parametrize("insecure", [False, True])
async def test_a_queue_that_is_not_there(tmp_path: Path, insecure: bool) -> None:
    async with neighbourhood(tmp_path, send_insecure_nacks=insecure) as here:
        alice = await here.node(ALICE)
        admin = alice.queue("adm")
        peer = Peer()
        await peer.connect(ALICE, here.port)
        admin_name = f"TCP:{ALICE}\\private$\\adm"
        plain = peer.message(
            b"x", "OS:a\\private$\\none", recoverable=True, admin=admin_name, acknowledge=NEGATIVE
        )
        together = peer.message(
            b"y", "OS:a\\private$\\none", transaction=place(1), admin=admin_name, acknowledge=NEGATIVE
        )
        peer.send(plain)
        peer.send(together)
        await eventually(lambda: peer.final_acks)
        assert peer.final_acks == [0x8000]
        orders = alice.queue()
        peer.send(peer.message(b"z", hop_count=3))
        await eventually(lambda: len(orders.positions))
        assert alice.packets(orders)[0].user.hop_count == 3, "it has arrived, not passed through"
        await eventually(lambda: peer.order_acks)
        assert peer.order_acks[0].tx_sequence_number == 1, "its sequence goes on"
        await eventually(lambda: len(peer.acknowledged) >= 2)
        assert peer.session.state is State.OPEN
        assert classes(alice, admin) == ([0x8000, 0x8000] if insecure else [])
        if insecure:
            assert alice.bodies(admin) == [b"x", b"y"]
        await peer.close()


@pytest.mark.spec("MQQB-1.3.3-a", "MQQB-3.1.5.8.2-h", "MQQB-3.1.5.8.2-i", "MQQB-3.1.5.8.2-n")
async def test_messages_and_queues_of_different_kinds(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        plain, together, admin = (
            alice.queue("plain"),
            alice.queue("together", transactional=True),
            alice.queue("adm"),
        )
        options: dict[str, Any] = {
            "admin": f"TCP:{ALICE}\\private$\\adm",
            "acknowledge": NEGATIVE,
            "recoverable": True,
        }
        peer = Peer()
        await peer.connect(ALICE, here.port)
        peer.send(peer.message(b"1", "OS:a\\private$\\plain", transaction=place(1), **options), "tx")
        await eventually(lambda: peer.final_acks)
        peer.send(peer.message(b"2", "OS:a\\private$\\together", **options), "plain")
        await eventually(lambda: len(peer.acknowledged) == 2)
        assert classes(alice, admin) == [0x8009, 0x800A]
        assert peer.final_acks == [0x8009]
        assert not len(plain.positions)
        assert not len(together.positions)
        assert peer.session.state is State.OPEN
        await peer.close()


# --- transactional refusals --------------------------------------------------------------------------------


@pytest.mark.spec(
    "MQQB-3.1.5.8.2-o",
    "MQQB-2.2.5-b",
    "MQQB-3.1.5.4.2-c",
    "MQQB-2.2.5-g",
    "MQQB-3.1.1.1.1.8-b",
    "MQQB-3.1.1.1.1.8-c",
)
async def test_a_refused_message_does_not_hold_up_the_next_one(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        peer.send(peer.message(b"1", transaction=place(1), positive_journaling=1))
        await eventually(lambda: peer.order_acks)  # how soon: tests/transfer/test_order_receiver.py
        assert (peer.order_acks[0].tx_sequence_id, peer.order_acks[0].tx_sequence_number) == (SEQUENCE, 1)
        assert peer.final_acks == []
        orders.authentication = True
        peer.send(peer.message(b"2", transaction=place(2)))
        await eventually(lambda: peer.final_acks == [0x8006])
        orders.authentication = False
        second = peer.message(b"2", transaction=place(2))
        peer.send(second)  # a duplicate is not refused a second time
        peer.send(peer.message(b"4", transaction=place(4)))  # neither is one that came too early
        peer.send(peer.message(b"3", transaction=place(3), negative_journaling=1))
        await eventually(lambda: len(orders.positions) == 2)
        assert alice.bodies(orders) == [b"1", b"3"]
        await eventually(lambda: peer.order_acks[-1].tx_sequence_number == 3)
        assert peer.final_acks == [0x8006]
        alice.receive(orders)
        await eventually(lambda: peer.final_acks == [0x8006, 0x4000])
        await peer.close()


def refusing(alice: Node, orders: Queue, how: str) -> SecurityHeader | None:
    if how == "deny":
        orders.security = default_queue_manager_descriptor(ADMINISTRATORS, ADMINISTRATORS).encode()
    elif how == "private":
        orders.privacy_level = QueuePrivacyLevel.BODY
    elif how == "encrypted":
        header = SecurityHeader(encryption_key=bytes(16))
        header.body_encrypted = 1
        return header
    elif how == "full":
        orders.quota_kb = 0
    return None


@pytest.mark.parametrize(
    ("how", "message_class"),
    [("deny", 0x8004), ("private", 0x8007), ("encrypted", 0x8007), ("full", 0x8003)],
)
async def test_other_refusals(tmp_path: Path, how: str, message_class: int) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        security = refusing(alice, orders, how)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        peer.send(peer.message(b"1", transaction=place(1), security=security))
        await eventually(lambda: peer.final_acks)
        assert peer.final_acks == [message_class]
        assert not len(orders.positions)
        await eventually(lambda: peer.acknowledged)
        await peer.close()


@pytest.mark.spec("MQQB-3.1.5.8.8-b")
async def test_a_full_queue(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders, admin = alice.queue(quota_kb=1), alice.queue("adm")
        peer = Peer()
        await peer.connect(ALICE, here.port)
        options: dict[str, Any] = {"admin": f"TCP:{ALICE}\\private$\\adm", "acknowledge": NEGATIVE}
        peer.send(peer.message(bytes(2_000), recoverable=True, **options))
        peer.send(peer.message(b"N" * 2_000, recoverable=True, negative_journaling=1, **options))
        await eventually(lambda: len(peer.acknowledged) == 2)
        assert classes(alice, admin) == [0x8003, 0x8003]
        assert alice.bodies(alice.core.dead_letter_queue) == [b"N" * 2_000]
        assert alice.reasons(alice.core.dead_letter_queue) == [0x8003]
        orders.transactional = True
        peer.send(peer.message(bytes(2_000), transaction=place(1), negative_journaling=1, **options))
        await eventually(lambda: peer.final_acks == [0x8003])
        assert len(alice.core.dead_letter_queue.positions) == 1  # type: ignore[union-attr]
        assert not len(orders.positions)
        await peer.close()


@pytest.mark.spec(
    "MQMQ-2.3.2.10-a", "MQQB-3.1.5.8.8-c", "DMPR-3.1.7.2.5-a", "DMPR-3.1.7.2.6-a", "DMPR-3.1.1.1-x"
)
@pytest.mark.parametrize("throttled", [False, True], ids=["no quota", "no disk"])
async def test_a_full_host_closes_the_session(
    tmp_path: Path, throttled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the quota of its queue manager, or by a disk that takes nothing more for a while."""
    async with neighbourhood(tmp_path) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        assert not bob.core.throttled
        if throttled:
            monkeypatch.setattr(bob.daemon.store, "write", no_room)
            bob.queue("other")
            bob.daemon.commit.request()
            await eventually(lambda: bob.core.throttled)
        else:
            bob.core.record.queue_manager_quota_kb = 1
        alice.send(name_of(BOB), bytes(2_000), recoverable=True)
        alice.send(name_of(BOB), bytes(2_000))
        queue = alice.outgoing(BOB)
        await eventually(lambda: len(queue.connection_history) > 6)  # it tries again and again
        assert len(queue.positions) == 2
        assert not len(orders.positions)
        if throttled:
            monkeypatch.undo()
        else:
            bob.core.record.queue_manager_quota_kb = 1_000
        await eventually(lambda: len(orders.positions) == 2)
        assert not bob.core.throttled


def no_room(_: object) -> None:
    raise StoreFullError("There is no room.")


@pytest.mark.parametrize(
    ("how", "transactional", "message_class"),
    [("kind", True, 0x8009), ("kind", False, 0x800A), ("deny", True, 0x8004), ("deny", False, 0x8004)],
)
async def test_a_full_host_refuses_what_it_would_never_take(
    tmp_path: Path, how: str, transactional: bool, message_class: int
) -> None:
    """Kind and access come before room: the sender of such a message must not come back with it until there is some
    (3.1.5.8.2). What could be taken waits, as ever."""
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        admin = bob.queue("adm")
        orders = alice.queue(transactional=transactional != (how == "kind"))
        fitting = alice.queue("fitting")
        refusing(alice, orders, how)
        alice.core.record.queue_manager_quota_kb = 1
        peer = Peer()
        await peer.connect(ALICE, here.port)
        large = bytes(2_000)  # which acknowledgments do not bring back, so that there is room for them
        options: dict[str, Any] = {"admin": f"TCP:{BOB}\\private$\\adm", "acknowledge": NEGATIVE}
        if transactional:
            peer.send(peer.message(b"never", transaction=place(1), extension=large, **options))
            await eventually(lambda: peer.final_acks == [message_class])
            await eventually(lambda: peer.order_acks)
        else:
            peer.send(peer.message(b"never", recoverable=True, extension=large, **options))
        await eventually(lambda: len(peer.acknowledged) == 1)
        await eventually(lambda: classes(bob, admin) == [message_class])
        assert peer.session.state is State.OPEN
        peer.send(peer.message(b"later", "OS:a\\private$\\fitting", recoverable=True, extension=large))
        await eventually(lambda: peer.closed.is_set())
        assert len(peer.acknowledged) == 1
        assert not len(orders.positions) + len(fitting.positions)
        await peer.close()


@pytest.mark.parametrize("size", [100, 100_000])
async def test_room_is_reserved_for_whatever_follows(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a disk that fills up in the middle of an event ends the process."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        alice.queue()
        alice.queue("together", transactional=True)
        alice.queue("adm")
        store, begin = alice.daemon.store, alice.core.event
        spent: list[tuple[int, int]] = []

        @contextmanager
        def event(size: int = 0, records: int = 0, *, freeing: bool = False) -> Iterator[None]:
            outermost = not alice.core.events._depth
            with begin(size, records, freeing=freeing):
                start = store._tail
                yield
                if outermost and records:
                    spent.append((store._tail - start, size + records * RECORD_SIZE))

        monkeypatch.setattr(alice.core, "event", event)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        several: list[MQFElement] = [f"TCP:127.0.0.99\\private$\\{number}" for number in range(40)]
        numbers = count(1)
        lists = (None, [f"TCP:{ALICE}\\private$\\adm"], several)
        forms = list(product((False, True), (False, True), lists, ("orders", "together")))
        for late, kept, listed, queue in forms:
            message = peer.message(
                bytes(size),
                f"OS:a\\private$\\{queue}",
                recoverable=True,
                transaction=place(next(numbers)) if queue == "together" else None,
                admin=f"TCP:{ALICE}\\private$\\adm",
                acknowledge=0xF,
                negative_journaling=kept,
                positive_journaling=kept,
                time_to_be_received_s=0 if late else INFINITE,
                multi_queue=None if listed is None else MultiQueueFormatHeader.of([], listed),
            )
            before = len(spent)
            peer.send(message)
            await eventually(partial(lambda before: len(spent) > before, before))
        await eventually(lambda: len(peer.acknowledged) == len(forms))
        assert max(used for used, _ in spent) > 2 * size
        assert [each for each in spent if each[0] > each[1]] == []
        await peer.close()


@pytest.mark.spec("MQQB-3.1.5.8-c", "MQQB-3.1.5.8.8-d")
async def test_a_message_that_comes_too_late(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders, admin = alice.queue(transactional=True), alice.queue("adm")
        plain = alice.queue("plain")
        peer = Peer()
        await peer.connect(ALICE, here.port)
        options: dict[str, Any] = {"admin": f"TCP:{ALICE}\\private$\\adm", "acknowledge": NEGATIVE}
        for message in (
            peer.message(b"1", transaction=place(1), sent_time=1_000, **options),
            peer.message(b"2", "OS:a\\private$\\plain", recoverable=True, sent_time=1_000, **options),
        ):
            data = bytearray(message.data)
            data[12:16] = (60).to_bytes(4, "little")  # BaseHeader.TimeToReachQueue
            peer.send(type(message).decode(bytes(data)))
        await eventually(lambda: len(peer.acknowledged) == 2)
        assert classes(alice, admin) == [0x8002, 0x8002]
        await eventually(lambda: peer.final_acks == [0x8002])
        await eventually(lambda: peer.order_acks)
        assert not len(orders.positions) + len(plain.positions)
        peer.send(peer.message(b"3", transaction=place(2)))
        await eventually(lambda: alice.bodies(orders) == [b"3"])
        await peer.close()


@pytest.mark.spec("MQQB-3.1.5.8.2-k")
async def test_too_many_hops(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        admin = alice.queue("adm")
        peer = Peer()
        await peer.connect(ALICE, here.port)
        options: dict[str, Any] = {"admin": f"TCP:{ALICE}\\private$\\adm", "acknowledge": NEGATIVE}
        peer.send(peer.message(b"x", 9, recoverable=True, hop_count=0x1D, **options))
        await eventually(lambda: peer.acknowledged)
        assert classes(alice, admin) == [0x8005]
        assert not alice.core.outgoing
        await peer.close()


@pytest.mark.spec("MQQB-1.3.3.1-a")
async def test_the_order_queue_is_not_for_applications(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        core = alice.core
        for queue in (core.dead_letter_queue, core.transactional_dead_letter_queue, core.journal_queue):
            assert queue is not None
        order_queue = core.by_private_number[4]
        peer = Peer()
        await peer.connect(ALICE, here.port, remote=core.record.identifier)
        peer.send(peer.message(b"x", f"TCP:{ALICE}\\PRIVATE$\\order_queue$", recoverable=True))
        peer.send(peer.message(b"x", 4, recoverable=True, queue_manager_address=core.record.identifier))
        body = FinalAckBody(SEQUENCE, 1, 0, core.record.identifier, 77)
        own = core.record.identifier
        acknowledgment = build_order_message(
            body, 0x4000, source=peer.guid, destination=own, message_id=5, sent_time=0
        )
        peer.send(acknowledgment)
        await eventually(lambda: len(peer.acknowledged) == 3)
        assert not len(order_queue.positions)
        await peer.close()


@pytest.mark.spec("MQQB-3.1.5.8.10-b")
@pytest.mark.parametrize("name", ["order_queue$", "notify_queue$", "admin_queue$"])
async def test_nobody_is_told_about_queues_that_are_internal(tmp_path: Path, name: str) -> None:
    """Whatever becomes of a message there; one to a queue of an application is answered."""
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice = await here.node(ALICE)
        alice.queue()
        admin = alice.queue("adm")
        peer = Peer()
        await peer.connect(ALICE, here.port)
        options: dict[str, Any] = {"admin": f"OS:{ALICE}\\private$\\adm", "acknowledge": 0xF}
        peer.send(peer.message(b"", f"OS:{ALICE}\\private$\\{name}", **options))
        last = peer.message(b"", f"OS:{ALICE}\\private$\\orders", **options)
        peer.send(last)
        await eventually(lambda: len(admin.positions))
        (ack,) = alice.packets(admin)
        assert ack.properties.correlation_id == last.identifier.encode()
        assert ack.properties.message_class == MessageClass.ACK_REACH_QUEUE
        await peer.close()
