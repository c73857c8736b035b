"""Exactly once, in order: the receiving side (MS-MQQB 3.1.1.6.2, 3.1.5.1.1, 3.1.5.8.6, 3.1.6.9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.transfer.order_receiver import (
    MANY,
    OrderReceiver,
    Progress,
    Stream,
    Verdict,
    judge,
    order_acknowledgment,
)
from msmq.transfer.order_sender import OrderSender, Released, Sequences
from msmq.transfer.timers import TimerSettings
from msmq.wire.classes import MessageClass
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, QueueReference, UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader, TransactionHeader
from msmq.wire.packets import FinalAckBody, OrderAckBody, build_order_message
from tests.transfer import support
from tests.transfer.support import OURS, START_MS, THEIRS

ORDERS: Stream = (THEIRS, "orders")
BILLS: Stream = (THEIRS, "bills")
TIME_S = 1_700_000_000


def header(sequence: int, number: int, previous: int) -> TransactionHeader:
    return TransactionHeader(0, sequence, number, previous)


class Receiver(OrderReceiver[str]):
    """An OrderReceiver whose owner stores what it takes at once, unless told otherwise."""

    def __init__(self, stored: dict[Stream, Progress] | None = None) -> None:
        super().__init__(TimerSettings(), stored or {}, START_MS)

    def arrive(
        self,
        sequence: int,
        number: int,
        previous: int | None = None,
        *,
        stream: Stream = ORDERS,
        now_ms: int = START_MS,
        durable: bool = True,
    ) -> Verdict:
        given = header(sequence, number, number - 1 if previous is None else previous)
        verdict = judge(self.progress(stream), given)
        accepted = self.judge_all(stream, [given], "link", now_ms, TIME_S)
        assert accepted == ([0] if verdict is Verdict.ACCEPTED else [])
        if accepted:
            progress = self.advance(stream, given, "link", now_ms, TIME_S)
            if durable:
                self.durable(stream, progress)
        return verdict

    def acks(self, now_ms: int) -> list[tuple[int, int]]:
        return [(due.body.tx_sequence_id, due.body.tx_sequence_number) for due in self.handle_timer(now_ms)]


# The decision


@pytest.mark.spec("MQQB-3.1.5.8.6-c")
def test_the_next_of_a_sequence_is_accepted() -> None:
    progress = Progress(5, 2)
    assert judge(progress, header(5, 3, 2)) is Verdict.ACCEPTED
    assert judge(progress, header(5, 4, 3)) is Verdict.OUT_OF_ORDER
    assert judge(progress, header(5, 2, 1)) is Verdict.DUPLICATE
    assert judge(progress, header(5, 1, 0)) is Verdict.DUPLICATE


@pytest.mark.spec("MQQB-3.1.5.8.6-d")
def test_a_new_sequence_begins_with_nothing_before_it() -> None:
    progress = Progress(5, 9)
    assert judge(progress, header(6, 1, 0)) is Verdict.ACCEPTED
    assert judge(progress, header(6, 2, 1)) is Verdict.OUT_OF_ORDER
    assert judge(progress, header(4, 1, 0)) is Verdict.DUPLICATE


@pytest.mark.spec("MQQB-3.1.1.5-b")
def test_a_gap_is_bridged_by_the_previous_number() -> None:
    assert judge(Progress(5, 1), header(5, 3, 1)) is Verdict.ACCEPTED
    assert judge(Progress(5, 1), header(5, 3, 0)) is Verdict.ACCEPTED
    assert judge(Progress(5, 1), header(5, 3, 2)) is Verdict.OUT_OF_ORDER


u64 = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)


@given(u64, u32, u64, st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 2))
def test_a_message_is_accepted_by_one_of_two_rules(
    known: int, last: int, sequence: int, number: int, previous: int
) -> None:
    same = sequence == known and number > last and previous <= last
    new = sequence > known and previous == 0
    verdict = judge(Progress(known, last), header(sequence, number, previous))
    assert (verdict is Verdict.ACCEPTED) is (same or new)


# The state of a stream


@pytest.mark.spec(
    "MQQB-3.1.5.8.6-e", "MQQB-3.1.5.8.6-f", "MQQB-3.1.5.8.6-g", "MQQB-3.1.1.3.1-o", "MQQB-3.1.5.8.6-h"
)
def test_what_an_arrival_changes() -> None:
    receiver = Receiver({ORDERS: Progress(5, 2, 0, TIME_S - 100)})
    for rejected in (1, 2):
        assert receiver.arrive(5, 4) is Verdict.OUT_OF_ORDER
        assert receiver.progress(ORDERS) == Progress(5, 2, rejected, TIME_S)
    assert receiver.arrive(5, 3) is Verdict.ACCEPTED
    assert receiver.progress(ORDERS) == Progress(5, 3, 0, TIME_S)


@pytest.mark.spec("MQQB-3.1.5.8.6-i")
def test_a_message_out_of_order_moves_nothing() -> None:
    receiver = Receiver({ORDERS: Progress(5, 2)})
    assert receiver.arrive(5, 4) is Verdict.OUT_OF_ORDER
    assert receiver.arrive(6, 2) is Verdict.OUT_OF_ORDER
    assert receiver.arrive(5, 3) is Verdict.ACCEPTED
    assert receiver.arrive(5, 4) is Verdict.ACCEPTED


@pytest.mark.spec("MQQB-3.1.1.3.1-q", "MQQB-3.1.1.3.1-r")
def test_a_restarted_receiver_knows_what_it_has() -> None:
    before = Receiver()
    for number in (1, 2, 3):
        before.arrive(5, number)
    after = Receiver({ORDERS: before.progress(ORDERS)})
    assert after.arrive(4, 1) is Verdict.DUPLICATE
    assert after.arrive(5, 3) is Verdict.DUPLICATE
    assert after.arrive(5, 4) is Verdict.ACCEPTED
    assert Receiver().progress(ORDERS) == Progress(0, 0, 0, 0)


@pytest.mark.spec("MQQB-3.1.1.3.1-am")
def test_two_queues_do_not_disturb_each_other() -> None:
    receiver = Receiver()
    for number in range(1, 20):
        assert receiver.arrive(10, number, stream=ORDERS) is Verdict.ACCEPTED
        assert receiver.arrive(11, number, stream=BILLS) is Verdict.ACCEPTED
    assert receiver.progress(ORDERS) == Progress(10, 19, 0, TIME_S)
    assert receiver.progress(BILLS) == Progress(11, 19, 0, TIME_S)
    assert sorted(receiver.acks(START_MS + 500)) == [(10, 19), (11, 19)]


def test_a_refused_message_advances_and_one_without_room_does_not() -> None:
    """The owner decides: it advances what it takes or refuses for good, and leaves alone what should come again."""
    receiver = Receiver({ORDERS: Progress(5, 2)})
    given = header(5, 3, 2)
    assert receiver.judge_all(ORDERS, [given], "link", START_MS, TIME_S) == [0]
    assert receiver.judge_all(ORDERS, [given], "link", START_MS, TIME_S) == [0]  # no room; it comes again
    progress = receiver.advance(ORDERS, given, "link", START_MS, TIME_S)
    assert progress == Progress(5, 3, 0, TIME_S)
    receiver.durable(ORDERS, progress)
    assert receiver.arrive(5, 4) is Verdict.ACCEPTED


def test_messages_that_arrive_together_are_judged_one_behind_the_other() -> None:
    receiver = Receiver({ORDERS: Progress(5, 2)})
    given = [
        header(5, 2, 1),  # a duplicate of what was there
        header(5, 3, 2),
        header(5, 5, 4),  # too early
        header(5, 4, 3),
        header(5, 3, 2),  # a duplicate of one of them
        header(6, 1, 0),
        header(5, 5, 4),  # of a sequence that is over by now
        header(6, 2, 1),
    ]
    assert receiver.judge_all(ORDERS, given, "link", START_MS, TIME_S) == [1, 3, 5, 7]
    assert receiver.progress(ORDERS) == Progress(5, 2, 4, TIME_S), "nothing was taken yet"
    progress = receiver.advance(ORDERS, given[-1], "link", START_MS, TIME_S, 4)
    assert progress == receiver.progress(ORDERS) == Progress(6, 2, 0, TIME_S)


def test_strangers_cost_nothing() -> None:
    receiver = Receiver()
    for n in range(100):
        stream = (n.to_bytes(16, "little"), "orders")
        assert receiver.arrive(5, 2, stream=stream) is Verdict.OUT_OF_ORDER
    assert len(receiver.handle_timer(START_MS + 500)) == 100, "each is answered once"
    assert receiver.next_deadline_ms is None
    assert receiver._streams == {}


# OrderAck


@pytest.mark.spec("MQQB-3.1.1.3.1-ai", "MQQB-3.1.1.3.1-aj", "MQQB-3.1.6.9-a", "MQQB-3.1.1.1.1.8-b")
def test_an_order_ack_half_a_second_after_a_lone_message() -> None:
    receiver = Receiver()
    receiver.arrive(5, 1)
    assert receiver.next_deadline_ms == START_MS + 500
    assert receiver.handle_timer(START_MS + 499) == []
    (due,) = receiver.handle_timer(START_MS + 500)
    assert due == (ORDERS, "link", OrderAckBody.of(5, 1))
    assert receiver.next_deadline_ms is None
    assert receiver._streams[ORDERS].last_ack_ms == START_MS + 500
    receiver.arrive(5, 2, now_ms=START_MS + 1_000)
    assert receiver.acks(START_MS + 2_000) == [(5, 2)]
    # The sender may not have heard it, and asks again.
    assert receiver.arrive(5, 2, now_ms=START_MS + 31_000) is Verdict.DUPLICATE
    assert receiver.acks(START_MS + 31_500) == [(5, 2)]


@pytest.mark.spec("MQQB-3.1.5.8.6-b")
def test_every_arrival_schedules_one() -> None:
    receiver = Receiver({ORDERS: Progress(5, 2)})
    now = START_MS
    for number, verdict in ((2, Verdict.DUPLICATE), (4, Verdict.OUT_OF_ORDER), (3, Verdict.ACCEPTED)):
        now += 10_000
        assert receiver.arrive(5, number, now_ms=now) is verdict
        assert receiver.next_deadline_ms == now + 500
        assert receiver.acks(now + 500) == [(5, max(number, 2) if verdict is Verdict.ACCEPTED else 2)]
    # One that waits is put off by the next message.
    receiver.arrive(5, 4, now_ms=now + 1_000)
    receiver.arrive(5, 5, now_ms=now + 1_400)
    assert receiver.next_deadline_ms == now + 1_900


@pytest.mark.spec("MQQB-3.1.5.8.6-b")
def test_a_stream_whose_beginning_is_missing_gets_one_too() -> None:
    receiver = Receiver()
    assert receiver.arrive(5, 3) is Verdict.OUT_OF_ORDER
    assert receiver.progress(ORDERS).reject_count == 1
    (due,) = receiver.handle_timer(START_MS + 500)
    assert due == (ORDERS, "link", OrderAckBody(5, 0, 0))
    assert not receiver._streams, "whoever sends such messages fills no memory"
    assert receiver.next_deadline_ms is None
    receiver.arrive(7, 2, now_ms=START_MS + 1_000)
    assert receiver.arrive(5, 1, now_ms=START_MS + 1_100) is Verdict.ACCEPTED, "nothing was believed of 7"
    assert receiver.acks(START_MS + 1_600) == [(5, 1)]


@pytest.mark.spec("MQQB-3.1.2.7-a", "MQQB-3.1.1.3.1-ak")
def test_a_steady_stream_cannot_put_it_off_for_ever() -> None:
    receiver = Receiver()
    sent_at = []
    now = START_MS
    for number in range(1, 400):
        now += 100
        receiver.arrive(5, number, now_ms=now)
        if receiver.handle_timer(now):
            sent_at.append(now)
    waits = [b - a for a, b in zip([START_MS, *sent_at], sent_at, strict=False)]
    assert len(waits) == 3
    assert all(10_000 <= wait <= 10_500 for wait in waits)


@pytest.mark.spec("MQQB-3.1.1.6.2-a", "MQQB-2.2.4.1-c")
def test_it_names_the_highest_number_in_order() -> None:
    receiver = Receiver()
    for number in (1, 2, 4):
        receiver.arrive(5, number)
    assert receiver.acks(START_MS + 500) == [(5, 2)]


@pytest.mark.spec("MQQB-3.1.1.6.2-b", "MQQB-3.1.1.6.2-c", "MQQB-3.1.7.17-c", "MQQB-3.1.7.17-d")
def test_one_for_many() -> None:
    receiver = Receiver({ORDERS: Progress(5, 5)})
    for number in (6, 7, 8):
        receiver.arrive(5, number, now_ms=START_MS + 10 * number)
    (due,) = receiver.handle_timer(START_MS + 600)
    assert due.body == OrderAckBody(5, 8, 7)
    # The sender knows this id: it is its own.
    ids: Sequences[int] = Sequences(4)
    stream = OrderSender(ids, TimerSettings().resend_timer_table_s, START_MS)
    for number in range(1, 9):
        stream.assign(number)
        stream.sent(number, START_MS)
        stream.received_session_ack(number)
    assert ids.order_ack(due.body, START_MS) == (stream, Released(list(range(1, 9)), []))


def test_it_tells_what_is_durable_and_nothing_else() -> None:
    receiver = Receiver()
    receiver.arrive(5, 1, durable=False)
    receiver.arrive(5, 2, durable=False)
    assert receiver.acks(START_MS + 500) == []
    receiver.durable(ORDERS, Progress(5, 1))
    assert receiver.acks(START_MS + 1_000) == [(5, 1)]
    receiver.durable(ORDERS, Progress(5, 2))
    receiver.durable(ORDERS, Progress(5, 1))  # late news is no news
    assert receiver.acks(START_MS + 1_500) == [(5, 2)]
    assert receiver.next_deadline_ms is None


def test_a_forgotten_stream_is_a_new_one() -> None:
    receiver = Receiver()
    receiver.arrive(5, 1)
    assert receiver.arrive(5, 2) is Verdict.ACCEPTED
    assert receiver.acks(START_MS + 500) == [(5, 2)]
    receiver.durable(BILLS, Progress(9, 1))  # of a stream that is not there any more
    assert receiver.progress(BILLS) == Progress()
    receiver.forget(ORDERS)
    assert receiver.progress(ORDERS) == Progress()
    assert receiver.arrive(5, 2, previous=1) is Verdict.OUT_OF_ORDER


def test_refusals_are_written_before_they_are_answered_and_once() -> None:
    receiver = Receiver()
    receiver.arrive(5, 1)
    assert receiver.take_rejected(ORDERS) is None
    receiver.arrive(5, 1)
    receiver.arrive(5, 3)
    assert receiver.take_rejected(ORDERS) == Progress(5, 1, 2, TIME_S)
    assert receiver.take_rejected(ORDERS) is None
    receiver.arrive(5, 1)
    receiver.arrive(5, 2)
    assert receiver.take_rejected(ORDERS) is None, "the message that was taken brought its own state"
    assert receiver.advance(ORDERS, header(5, 3, 2), "link", START_MS, TIME_S, rejected=2).reject_count == 2
    receiver.arrive(7, 4, stream=BILLS)
    receiver.handle_timer(START_MS + 500)
    assert receiver.take_rejected(BILLS) is None, "nothing is remembered of a stream without a beginning"
    assert receiver.streams() == [ORDERS]


def test_the_first_to_arrive_is_the_first_to_be_told() -> None:
    receiver = Receiver({BILLS: Progress(9, 1)})
    receiver.arrive(9, 1, stream=BILLS, now_ms=START_MS + 100)
    receiver.arrive(5, 1, now_ms=START_MS + 200)
    assert receiver.next_deadline_ms == START_MS + 600
    receiver.arrive(9, 1, stream=BILLS, now_ms=START_MS + 300)  # put off
    assert receiver.next_deadline_ms == START_MS + 700
    assert receiver.acks(START_MS + 700) == [(5, 1)]
    assert receiver.next_deadline_ms == START_MS + 800


# Which messages are acknowledgments (3.1.5.1.1)


def order_message(body: OrderAckBody | FinalAckBody, message_class: int) -> UserMessage:
    return build_order_message(
        body, message_class, source=THEIRS, destination=OURS, message_id=1, sent_time=TIME_S
    )


ORDER_ACK = order_message(OrderAckBody.of(5, 8), MessageClass.ORDER_ACK)
FINAL_BODY = FinalAckBody(5, 8, 7, OURS, 99)


def plain(
    message_class: int,
    destination: int | str,
    *,
    label: str = "QM Ordering Ack",
    body: bytes = bytes(36),
) -> UserMessage:
    user = UserHeader(THEIRS, OURS if isinstance(destination, int) else bytes(16))
    user.destination_queue = destination
    user.destination_reference = (
        QueueReference.DIRECT if isinstance(destination, str) else QueueReference.PRIVATE_ON_DESTINATION
    )
    properties = MessagePropertiesHeader(message_class=message_class)
    return UserMessage.build(
        base=BaseHeader(flags=0), user=user, properties=properties, label=label, body=body
    )


@pytest.mark.spec("MQQB-3.1.5.1.1-d")
def test_order_acks_are_recognized() -> None:
    assert order_acknowledgment(ORDER_ACK) == OrderAckBody(5, 8, 7)
    carrier = ORDER_ACK.with_session(SessionHeader())
    assert order_acknowledgment(carrier) == OrderAckBody(5, 8, 7)
    direct = plain(
        MessageClass.ORDER_ACK, "TCP:10.0.0.5\\PRIVATE$\\order_queue$", body=OrderAckBody.of(5, 8).encode()
    )
    assert order_acknowledgment(direct) == OrderAckBody(5, 8, 7)
    assert order_acknowledgment(plain(MessageClass.ORDER_ACK, 9)) is None
    assert order_acknowledgment(plain(MessageClass.ORDER_ACK, 4, label="An order")) is None
    assert order_acknowledgment(plain(MessageClass.ORDER_ACK, 4, label="QM Ordering Acks")) is None
    assert order_acknowledgment(plain(MessageClass.ORDER_ACK, 4, label="QM Ordering Ac")) is None
    assert order_acknowledgment(plain(MessageClass.ORDER_ACK, 4, label="")) is None
    with pytest.raises(DecodeError):
        order_acknowledgment(plain(MessageClass.ORDER_ACK, 4, body=bytes(35)))


@pytest.mark.spec("MQQB-3.1.5.1.1-e")
@pytest.mark.parametrize("message_class", [0x4000, 0x8000, 0x8001, 0x8002, 0x8005, 0xC001, 0xC004])
def test_final_acks_are_recognized(message_class: int) -> None:
    assert order_acknowledgment(order_message(FINAL_BODY, message_class)) == FINAL_BODY
    assert order_acknowledgment(plain(message_class, 9)) is None


@pytest.mark.spec("MQQB-3.1.5.1.1-f")
def test_messages_are_messages() -> None:
    session = support.open_acceptor()
    events = session.receive_data(support.packet(3), START_MS)
    assert support.received(events) == [3]
    assert order_acknowledgment(UserMessage.decode(support.packet(3))) is None


@pytest.mark.spec("MQQB-3.1.5.6-l", "MQQB-3.1.1.3.1-e", "MQQB-3.1.7.1-c")
def test_acknowledgments_travel_and_count_like_messages() -> None:
    """OrderAck (express), FinalAck (recoverable), an administration acknowledgment and a report."""
    pair = support.Pair()
    pair.run()
    answers = [
        ORDER_ACK,
        order_message(FINAL_BODY, MessageClass.ACK_RECEIVE),
        plain(MessageClass.ACK_REACH_QUEUE, 9, label="", body=b""),
        plain(MessageClass.REPORT, 9, label="", body=b""),
    ]
    for token, answer in enumerate(answers):
        assert pair.right.send(answer.data, token, pair.now_ms)
    assert (pair.right.outbox.sent, pair.right.outbox.recoverable_sent) == (4, 1)
    pair.run()
    pair.wait(10_000)
    assert (pair.left.receipts.received, pair.left.receipts.recoverable_received) == (4, 1)
    assert sorted(support.settled(pair.events["right"])) == [0, 1, 2, 3]
    pair.left.send(support.packet(1), "reply", pair.now_ms)
    pair.run()
    pair.wait(10_000)
    assert pair.left.state.name == pair.right.state.name == "OPEN"


def test_after_many_messages_an_order_ack_does_not_wait() -> None:
    receiver = Receiver()
    for number in range(1, MANY):
        receiver.arrive(7, number)
        assert receiver.many_taken(ORDERS, START_MS) is None
    receiver.arrive(7, MANY, durable=False)
    due = receiver.many_taken(ORDERS, START_MS + 5)
    assert due is not None
    assert (due.stream, due.link, due.body.tx_sequence_number) == (ORDERS, "link", MANY - 1), (
        "what is durable"
    )
    assert receiver.many_taken(ORDERS, START_MS + 5) is None
    assert receiver.next_deadline_ms is not None, "the rest has its timer"
    assert receiver.many_taken(BILLS, START_MS) is None
