"""FinalAck at the sender (MS-MQQB 3.1.5.7)."""

from __future__ import annotations

import pytest

from msmq.transfer.final_ack import Fate, FinalAcks, Settled, wants_final_ack
from msmq.transfer.order_sender import OrderSender, Place, Released, Sequences, placed
from msmq.transfer.timers import TimerSettings
from msmq.wire.classes import MessageClass
from msmq.wire.message import UserMessage
from msmq.wire.packets import FinalAckBody
from tests.transfer import support
from tests.transfer.support import FOREIGN, OURS, START_MS

READ = MessageClass.ACK_RECEIVE
PURGED = MessageClass.NACK_Q_PURGED


def body(number: int, source: bytes = OURS) -> FinalAckBody:
    return FinalAckBody(1, number, number - 1, source, number)


def tracking(*, positive: bool = False, negative: bool = False, parked: bool) -> FinalAcks[str]:
    final: FinalAcks[str] = FinalAcks(OURS)
    wanted = support.journaled(7, positive=positive, negative=negative, final_ack=True)
    assert final.track(wanted, "a", parked=parked) is not None
    return final


@pytest.mark.parametrize(
    ("positive", "negative", "answer", "fate"),
    [
        (True, False, READ, Fate.JOURNAL),
        (True, True, READ, Fate.JOURNAL),
        (False, True, PURGED, Fate.DEAD_LETTER),
        (True, True, PURGED, Fate.DEAD_LETTER),
        (False, True, READ, Fate.FORGET),
        (True, False, PURGED, Fate.FORGET),
        (False, False, READ, Fate.FORGET),
    ],
)
def test_the_fate_of_a_parked_message(
    positive: bool, negative: bool, answer: MessageClass, fate: Fate
) -> None:
    final = tracking(positive=positive, negative=negative, parked=True)
    assert final.receive(body(7), answer) == Settled("a", fate, True)
    assert len(final) == 0
    assert final.receive(body(7), answer) is None


@pytest.mark.spec("MQQB-3.1.5.7-b")
def test_the_message_is_found_by_its_id_and_ours() -> None:
    final = tracking(positive=True, parked=True)
    assert final.receive(body(8), READ) is None
    assert final.receive(body(7, FOREIGN), READ) is None
    assert len(final) == 1
    in_queue = tracking(positive=True, parked=False)
    assert in_queue.receive(body(7), READ) == Settled("a", Fate.JOURNAL, False)


@pytest.mark.spec("MQQB-3.1.5.7-e")
@pytest.mark.parametrize("parked", [True, False], ids=["after OrderAck", "before OrderAck"])
@pytest.mark.parametrize(("positive", "answer"), [(True, PURGED), (False, READ)])
def test_an_answer_nobody_asked_for_leaves_nothing_behind(
    positive: bool, answer: MessageClass, parked: bool
) -> None:
    final: FinalAcks[str] = FinalAcks(OURS)
    ids: Sequences[str] = Sequences(0)
    stream = OrderSender(ids, TimerSettings().resend_timer_table_s, START_MS)
    wanted = support.journaled(7, positive=positive, negative=not positive)
    stream.assign("a", final.track(wanted, "a"))
    stream.sent(1, START_MS)
    stream.received_session_ack(1)
    if parked:
        assert stream.order_ack(1, 1, START_MS) == Released([], ["a"])
        assert final.receive(body(7), answer) == Settled("a", Fate.FORGET, True)
    else:
        # It says what the OrderAck would. To wait for that one would mean to remember this one over a crash.
        assert final.receive(body(7), answer) == Settled("a", Fate.FORGET, False)
        stream.remove(1)
        assert stream.order_ack(1, 1, START_MS) == Released([], [])
    assert (len(final), len(stream)) == (0, 0)


def test_a_message_that_ends_otherwise_is_forgotten() -> None:
    final = tracking(positive=True, parked=False)
    final.forget(7)
    final.forget(7)
    assert final.receive(body(7), READ) is None


def test_a_message_that_nobody_can_read_is_forgotten_by_its_token() -> None:
    final = tracking(positive=True, parked=False)
    final.forget_token("b")
    assert final.find(body(7)) == "a"
    final.forget_token("a")
    assert final.find(body(7)) is None


def test_who_wants_a_final_ack() -> None:
    assert not wants_final_ack(support.journaled(1))
    assert wants_final_ack(support.journaled(1, positive=True))
    assert wants_final_ack(support.journaled(1, negative=True))
    assert wants_final_ack(support.journaled(1, final_ack=True))
    express = UserMessage.decode(support.packet(1))
    express.user.positive_journaling = 1
    assert not wants_final_ack(express)  # no transaction, no order, no final acknowledgment


@pytest.mark.spec("MQQB-3.1.7.17-f")
def test_the_body_of_a_final_ack_comes_from_the_packet() -> None:
    """What a receiver sends about a packet is what the sender finds its message by."""
    message = UserMessage.decode(placed(support.journaled(7, positive=True).data, Place(5, 8, 6)))
    sent = FinalAckBody.of(message)
    assert sent == FinalAckBody(5, 8, 6, OURS, 7)
    final = tracking(positive=True, parked=True)
    assert final.receive(sent, READ) == Settled("a", Fate.JOURNAL, True)
