"""What management shows of transactional streams (MS-MQMQ 2.3.12, MS-MQQB 3.1.5.6, 3.1.5.8.8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from msmq.server.alarm import now_ms
from msmq.server.outbound.link import Link
from msmq.server.outbound.settlement import Voice
from msmq.wire.classes import MessageClass
from msmq.wire.guid import NULL_GUID
from msmq.wire.identifiers import SequenceInfo
from msmq.wire.packets import OrderAckBody, build_order_message
from tests.server.inbound.test_arrivals import place
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    QUICK,
    Peer,
    eventually,
    name_of,
    neighbourhood,
    stream_from,
)

LAST_ACK, LAST_ACK_TIME, LAST_ACK_COUNT, FIRST_NON_ACK, LAST_NON_ACK, NEXT_SEQ = 13, 14, 15, 16, 17, 18
NO_READ_COUNT, NO_ACK_COUNT, RESEND_TIME, RESEND_INTERVAL, RESEND_COUNT = 19, 20, 21, 22, 23
SOURCES = 24


@pytest.mark.spec(
    "MQMQ-2.3.12.14-a", "MQMQ-2.3.12.15-a", "MQMQ-2.3.12.16-a", "MQMQ-2.3.12.17-a", "MQMQ-2.3.12.18-a",
    "MQMQ-2.3.12.19-a", "MQMQ-2.3.12.20-a", "MQMQ-2.3.12.21-a", "MQQB-3.1.1.3.1-t", "MQQB-3.1.1.3.1.1-a",
    "MQQB-3.1.5.6-k", "MQQB-3.1.1.2-a", "DMPR-3.1.1.4-b", "DMPR-3.1.1.4-c",
)  # fmt: skip
async def test_the_sending_side(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, timers=replace(QUICK, order_ack_timeout_ms=600)) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue(transactional=True)
        alice.send_together(name_of(BOB), b"1", b"2", b"3", positive_journaling_requested=True)
        queue = alice.outgoing(BOB)

        def shown(propid: int) -> object:
            alice.daemon.outgoing.refresh()
            return alice.management(queue, propid)

        await eventually(lambda: len(orders.positions) == 3)
        identifier = alice.daemon.outgoing.sequences.last_id
        assert shown(FIRST_NON_ACK) == SequenceInfo(identifier, 1, 0).encode()
        assert len(SequenceInfo(identifier, 1, 0).encode()) == 16
        assert shown(LAST_NON_ACK) == SequenceInfo(identifier, 3, 2).encode()
        assert shown(NEXT_SEQ) == SequenceInfo(identifier, 4, 3).encode()
        assert shown(NO_ACK_COUNT) == 3
        assert shown(NO_READ_COUNT) == 0
        assert shown(LAST_ACK_COUNT) == 0
        assert alice.core.now_s <= shown(RESEND_TIME) <= alice.core.now_s + 2  # type: ignore[operator]
        (drain,) = alice.daemon.outgoing.drains.values()
        drain._sender._last_ack_ms -= 100_000
        await eventually(lambda: shown(NO_ACK_COUNT) == 0)
        assert shown(LAST_ACK) == SequenceInfo(identifier, 3, 2).encode()
        assert abs(shown(LAST_ACK_TIME) - alice.core.now_s) <= 1  # type: ignore[operator]
        assert shown(LAST_ACK_COUNT) == 1
        assert shown(RESEND_TIME) == 0
        await eventually(lambda: shown(NO_READ_COUNT) == 3)
        peer = Peer(bob.core.record.identifier)
        await peer.connect(ALICE, here.port, remote=alice.core.record.identifier)
        for _ in range(2):
            peer.send(
                build_order_message(
                    OrderAckBody.of(identifier, 3),
                    MessageClass.ORDER_ACK,
                    source=peer.guid,
                    destination=alice.core.record.identifier,
                    message_id=1,
                    sent_time=0,
                )
            )
        await eventually(lambda: shown(LAST_ACK_COUNT) == 3)
        bob.receive(orders)
        await eventually(lambda: shown(NO_READ_COUNT) == 2)
        await peer.close()


@pytest.mark.spec("MQMQ-2.3.12.22-a", "MQMQ-2.3.12.23-a", "DMPR-3.1.1.4-c", "DMPR-3.1.1.4-d")
async def test_sending_again_and_again(tmp_path: Path) -> None:
    """Nobody sends OrderAcks: the intervals are those of the table, in which seconds stand for minutes here."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE, timers=replace(QUICK, resend_timeouts_short_s=30))
        alice.send_together(name_of(BOB), b"1")
        queue = alice.outgoing(BOB)
        (drain,) = alice.daemon.outgoing.drains.values()
        (chosen,) = drain.take(1)
        drain.sent(chosen, 1, now_ms())
        drain.refresh()
        intervals, counts = [], []
        now = now_ms()
        assert abs(alice.management(queue, RESEND_TIME) - alice.core.now_s - 30) <= 2
        for _ in range(12):
            intervals.append(alice.management(queue, RESEND_INTERVAL))
            counts.append(alice.management(queue, RESEND_COUNT))
            now += 30_000_000
            assert drain.handle_timer(now)
            drain.refresh()
            assert [again.number for again in drain.take(1)] == [1]
        assert intervals == [30] * 3 + [300] * 3 + [1800] * 3 + [21600] * 3
        assert counts == [*range(10), 9, 9]
        identifier = alice.daemon.outgoing.sequences.last_id
        queue.transfer_info.eod_last_ack_time = 0
        bob = Voice(BOB, NULL_GUID, NULL_GUID)
        alice.daemon.outgoing.order_ack(OrderAckBody.of(identifier, 1), bob)
        drain.refresh()
        assert abs(alice.management(queue, LAST_ACK_TIME) - alice.core.now_s) <= 2


@pytest.mark.spec("MQQB-3.1.5.8.8-e")
async def test_the_receiving_side(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue(transactional=True)
        peer = Peer()
        await peer.connect(ALICE, here.port)
        for number in (1, 2):
            peer.send(peer.message(b"x", transaction=place(number)))
        await eventually(lambda: len(orders.positions) == 2)
        peer.send(peer.message(b"x", transaction=place(2)))
        await eventually(lambda: stream_from(orders, peer.guid).reject_count == 1)
        shown = alice.management(orders, SOURCES)
        values = [column.value for column in shown]
        assert values[0][0] == "DIRECT=OS:anything\\private$\\orders"
        assert 2 in [column[0] for column in values], "the last number"
        assert 1 in [column[0] for column in values], "one was refused"
        await eventually(lambda: len(peer.acknowledged) == 3)
        await alice.crash()
        await alice.start()
        info = stream_from(alice.find(), peer.guid)
        assert (info.sequence_identifier, info.sequence_number) == (place(1).tx_sequence_id, 2)
        await peer.close()


async def test_what_a_closing_session_leaves_to_be_sent_goes_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a host that no link leads to yet (simulator seed 31503198)."""
    async with neighbourhood(tmp_path) as here:
        alice, bob, carol = [await here.node(address) for address in (ALICE, BOB, CAROL)]
        to_bob, to_carol = bob.queue(), carol.queue()
        alice.send(name_of(BOB), b"first")
        await eventually(lambda: bob.bodies(to_bob) == [b"first"])
        stop = Link.stop

        def stop_and_send(link: Link) -> None:
            stop(link)
            alice.send(name_of(CAROL), b"last", recoverable=True)

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Link, "stop", stop_and_send)
            await alice.stop()
        assert carol.bodies(to_carol) == []
        await alice.start()
        await eventually(lambda: carol.bodies(to_carol) == [b"last"])
