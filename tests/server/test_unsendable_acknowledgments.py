"""Acknowledgments that cannot be written cost themselves and nothing else (MS-MQQB 3.1.7.15): the message they are
about is stored once, acknowledged to its session, and leaves its queue like any other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msmq.manager.core import Timers
from msmq.manager.queues.queue import Queue
from msmq.transfer.states import State
from msmq.wire.headers import NULL_GUID, PrivateQueueFormatName
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import DebugHeader
from tests.server.inbound.test_arrivals import place
from tests.server.support import ALICE, Neighbourhood, Node, Peer, eventually, neighbourhood

ALL = 0xF
SOMEBODY = bytes(range(0x60, 0x70))
ADMIN = f"TCP:{ALICE}\\private$\\adm"


def with_null_in_name(packet: UserMessage) -> UserMessage:
    """No queue manager writes such a name, so it is put into the finished packet."""
    return UserMessage.decode(packet.data.replace("?".encode("utf-16-le"), b"\0\0", 1))


def unchanged(packet: UserMessage) -> UserMessage:
    return packet


Change = Callable[[UserMessage], UserMessage]
FORMS: dict[str, tuple[dict[str, Any], Change]] = {
    "a public queue": ({"admin": SOMEBODY}, unchanged),
    "a private queue of the host of a direct name": ({"admin": 7}, unchanged),
    "a private queue of nobody": ({"admin": PrivateQueueFormatName(NULL_GUID, 7)}, unchanged),
    "a null in a direct name": ({"admin": f"TCP:{ALICE}\\private$\\a?m"}, with_null_in_name),
    "a source that is nobody": ({"admin": ADMIN, "source_queue_manager": NULL_GUID}, unchanged),
}


async def strangers(here: Neighbourhood, *, transactional: bool = False) -> tuple[Node, Queue, Queue, Peer]:
    alice = await here.node(ALICE)
    orders, admin = alice.queue(transactional=transactional), alice.queue("adm")
    peer = Peer()
    await peer.connect(ALICE, here.port)
    return alice, orders, admin, peer


@pytest.mark.spec("MQQB-3.1.7.15-a")
@pytest.mark.parametrize("transactional", [False, True], ids=["recoverable", "transactional"])
@pytest.mark.parametrize("form", FORMS)
async def test_the_message_is_stored_once_however_often_it_comes(
    tmp_path: Path, form: str, transactional: bool
) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, _, peer = await strangers(here, transactional=transactional)
        options, change = FORMS[form]
        number = place(1) if transactional else None
        packet = change(peer.message(b"x", acknowledge=ALL, recoverable=True, transaction=number, **options))
        for sending in range(3):
            peer.send(packet, f"x{sending}")
            await eventually(partial(peer.acknowledged.__contains__, f"x{sending}"))
            await peer.close()
            peer = Peer()
            await peer.connect(ALICE, here.port)
        # Another source has a sequence of its own.
        number = place(1 if "source" in form else 2) if transactional else None
        peer.send(peer.message(b"behind", recoverable=True, transaction=number, message_id=99))
        await eventually(lambda: alice.bodies(orders) == [b"x", b"behind"])
        assert peer.session.state is State.OPEN
        if form != "a source that is nobody":
            assert alice.manager.acknowledging.unsent == 1, "its arrival, which nobody could be told"
        await peer.close()


@pytest.mark.parametrize("how", ["received", "purged", "deleted"])
@pytest.mark.parametrize("transactional", [False, True], ids=["recoverable", "transactional"])
@pytest.mark.parametrize("form", FORMS)
async def test_the_message_leaves_its_queue(tmp_path: Path, form: str, transactional: bool, how: str) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, _, peer = await strangers(here, transactional=transactional)
        options, change = FORMS[form]
        number = place(1) if transactional else None
        asked = {"negative_journaling": 1, "positive_journaling": 1, **options}
        peer.send(change(peer.message(b"x", acknowledge=ALL, recoverable=True, transaction=number, **asked)))
        await eventually(lambda: len(orders.positions))
        if how == "received":
            assert alice.receive(orders) == b"x"
        elif how == "purged":
            alice.manager.queues.purge(orders)
        else:
            alice.manager.queues.delete(orders)
        assert not len(orders.positions)
        await alice.restart()
        if how != "deleted":
            assert alice.bodies(alice.find()) == []
        await peer.close()


@pytest.mark.parametrize("form", FORMS)
async def test_whatever_else_expires_goes_on_expiring(tmp_path: Path, form: str) -> None:
    async with neighbourhood(tmp_path) as here:
        alice, orders, admin, peer = await strangers(here)
        options, change = FORMS[form]
        peer.send(
            change(peer.message(b"x", acknowledge=0x8, recoverable=True, time_to_be_received_s=1, **options))
        )
        peer.send(peer.message(b"y", admin=ADMIN, acknowledge=0x8, time_to_be_received_s=2))
        await eventually(lambda: len(orders.positions) == 2)
        await eventually(lambda: not len(orders.positions))
        told = len(alice.packets(admin))
        assert told == (2 if form == "a source that is nobody" else 1), "those that can be told are"
        await peer.close()


@pytest.mark.parametrize("transactional", [False, True], ids=["recoverable", "transactional"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_refused_message_is_refused_once(tmp_path: Path, form: str, transactional: bool) -> None:
    """It names a queue that is not there: nobody can be told, and its session goes on."""
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        _, orders, _, peer = await strangers(here)
        options, change = FORMS[form]
        number = place(1) if transactional else None
        nowhere = "OS:anything\\private$\\nowhere"
        packet = peer.message(b"x", nowhere, acknowledge=ALL, recoverable=True, transaction=number, **options)
        peer.send(change(packet), "refused")
        peer.send(peer.message(b"behind"))
        await eventually(lambda: len(orders.positions) == 1)
        await eventually(lambda: "refused" in peer.acknowledged)
        await peer.close()


@pytest.mark.parametrize("transactional", [False, True], ids=["recoverable", "transactional"])
async def test_a_message_to_a_name_that_cannot_be_repeated(tmp_path: Path, transactional: bool) -> None:
    """An acknowledgment names the queue the message was for."""
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        alice, orders, admin, peer = await strangers(here)
        packet = peer.message(
            b"x",
            "OS:any?thing\\private$\\orders",
            admin=ADMIN,
            acknowledge=ALL,
            recoverable=True,
            transaction=place(1) if transactional else None,
        )
        peer.send(with_null_in_name(packet), "refused")
        peer.send(peer.message(b"behind"))
        await eventually(lambda: alice.bodies(orders) == [b"behind"])
        await eventually(lambda: "refused" in peer.acknowledged)
        assert alice.manager.acknowledging.unsent == 1
        assert alice.bodies(admin) == []
        await peer.close()


async def test_a_report_that_finds_no_queue(tmp_path: Path) -> None:
    """Report messages go to public queues, of which a workgroup has none."""
    async with neighbourhood(tmp_path, enable_report_messages=True) as here:
        alice, orders, _, peer = await strangers(here)
        packet = peer.message(b"traced", recoverable=True)
        base = packet.base
        base.traced = 1
        traced = UserMessage.build(
            base=base,
            user=packet.user,
            properties=packet.properties,
            body=b"traced",
            debug=DebugHeader(flags=1, queue_identifier=SOMEBODY),
        )
        peer.send(traced, "traced")
        peer.send(peer.message(b"behind"))
        await eventually(lambda: alice.bodies(orders) == [b"traced", b"behind"])
        await eventually(lambda: "traced" in peer.acknowledged)
        await peer.close()


async def test_an_application_that_names_a_public_admin_queue_has_sent(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        alice.send(
            f"DIRECT=OS:{orders.pathname}",
            b"x",
            admin="PUBLIC=00000000-0000-0000-0000-000000000001",
            acknowledge=ALL,
        )
        assert alice.receive(orders) == b"x"


def test_a_timer_that_fails_keeps_no_other_from_its_moment() -> None:
    timers, done = Timers(), []

    def fail() -> None:
        raise ValueError("a fault of ours")

    timers.start(1, fail)
    timers.start(2, lambda: done.append("second"))
    with pytest.raises(ValueError, match="a fault of ours"):
        timers.run(2)  # which ends the process
    timers.run(2)
    assert done == ["second"]
