"""An open session (MS-MQQB 3.1.5.5, 3.1.5.8.4, 3.1.5.9, 3.1.6): traffic, timers, closing, coming back."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.transfer.events import Closed, MessagesReceived, RetryDue
from msmq.transfer.session import Session
from msmq.transfer.states import CloseReason, State
from msmq.transfer.timers import TimerSettings
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader
from tests.transfer import support
from tests.transfer.support import START_MS, THEIRS, fields, opened

CUTTERS = [support.whole, support.byte_by_byte, support.at_random]


# Traffic


@pytest.mark.spec("MQQB-3.1.1.4-a", "MQQB-3.1.1.1.1.1-f", "MQQB-3.1.1.4-b")
@pytest.mark.parametrize("cut", CUTTERS)
def test_messages_flow_in_both_directions_and_both_sides_count_the_same(cut: support.Cutter) -> None:
    pair = opened(cut=cut)
    for number in range(1, 31):
        assert pair.left.send(
            support.packet(number, recoverable=number % 3 == 0), ("left", number), pair.now_ms
        )
        assert pair.right.send(
            support.packet(number, recoverable=number % 5 == 0), ("right", number), pair.now_ms
        )
        pair.run()
    pair.wait(20_000)
    for sender, target in ((pair.left, pair.right), (pair.right, pair.left)):
        assert sender.state is State.OPEN
        assert sender.outbox.sent == target.receipts.received == 30
        assert sender.outbox.recoverable_sent == target.receipts.recoverable_received
        assert not sender.outbox.awaiting
    assert support.received(pair.events["right"]) == list(range(1, 31))
    assert support.received(pair.events["left"]) == list(range(1, 31))
    assert sorted(support.settled(pair.events["left"])) == [("left", number) for number in range(1, 31)]
    assert sorted(support.settled(pair.events["right"])) == [("right", number) for number in range(1, 31)]


@pytest.mark.spec("MQQB-3.1.1.7.2-a")
def test_three_express_messages_one_acknowledgment_and_a_silent_end() -> None:
    pair = opened()
    del pair.trace[:]
    for number in (1, 2, 3):
        pair.left.send(support.packet(number), number, pair.now_ms)
        pair.run()
    pair.wait(9_999)
    assert pair.kinds() == ["left UserMessage"] * 3
    pair.wait(1)
    assert pair.kinds() == ["left UserMessage"] * 3 + ["right SessionAck"]
    assert support.settled(pair.events["left"]) == [1, 2, 3]
    pair.wait(700_000)
    assert len(pair.trace) == 4  # no packet says good-bye
    for name in ("left", "right"):
        assert support.only_closing(pair.events[name]).reason is CloseReason.IDLE


@pytest.mark.spec("MQQB-1.3.5.1-b")
def test_an_acknowledgment_is_about_its_own_session() -> None:
    first, second = support.open_acceptor(), support.open_acceptor()
    first.receive_data(support.packet(1) * 5, START_MS)
    second.receive_data(support.packet(1) * 2, START_MS)
    for session, count in ((first, 5), (second, 2)):
        session.handle_timer(START_MS + 10_000)
        (header,) = support.headers(session.data_to_send())
        assert header.ack_sequence_number == count


@pytest.mark.slow
@pytest.mark.spec("MQQB-3.1.1.3.1-l", "MQMQ-2.2.20.4-l")
@pytest.mark.parametrize("recoverable", [False, True], ids=["express", "recoverable"])
def test_seventy_thousand_messages(recoverable: bool) -> None:
    """Counters wrap on the wire; the session neither stalls nor loses its place."""
    session = support.open_acceptor()
    peer = support.open_initiator()
    packet = support.packet(recoverable=recoverable)
    sent = done = 0
    while done < 70_000:
        while peer.send(packet, sent, START_MS):
            sent += 1
        events = session.receive_data(b"".join(peer.data_to_send()), START_MS)
        for event in support.found(events, MessagesReceived):
            assert event.recoverables == (len(event.messages) if recoverable else 0)
            session.stored(event.first_recoverable, event.recoverables, START_MS)
        settled = support.settled(peer.receive_data(b"".join(session.data_to_send()), START_MS))
        assert settled == list(range(done, done + len(settled)))
        assert settled, "stalled"
        done += len(settled)
    assert session.state is peer.state is State.OPEN
    assert session.receipts.received == sent > 0xFFFF


# Counting each other (3.1.5.5.5)


@pytest.mark.spec("MQQB-3.1.5.5.5-a", "MQMQ-2.2.20.4-i")
@pytest.mark.parametrize(
    "wrong", [{"sent": 2}, {"sent": 0}, {"recoverable_sent": 0}, {"recoverable_sent": 2}]
)
def test_a_wrong_count_closes(wrong: dict[str, int]) -> None:
    session = support.open_acceptor()
    session.send(support.packet(7), "express", START_MS)
    session.send(support.packet(8, recoverable=True), "recoverable", START_MS)
    session.receive_data(support.packet(1, recoverable=True), START_MS)
    counts = {"sent": 1, "recoverable_sent": 1, **wrong}
    events = session.receive_data(support.ack(1, **counts), START_MS)
    closing = support.only_closing(events)
    assert closing.reason is CloseReason.MISCOUNTED
    assert support.settled(events) == ["express"]
    assert closing.returned == ["recoverable"]


@pytest.mark.spec("MQQB-3.1.5.5.5-b", "MQMQ-2.2.20.4-h", "MQMQ-6-h")
def test_the_message_with_the_wrong_count_is_delivered_before_the_session_closes() -> None:
    message = (
        UserMessage.decode(support.packet(5)).with_session(SessionHeader(user_msg_sequence_number=7)).data
    )
    session = support.open_acceptor()
    events = session.receive_data(message, START_MS)
    assert support.received(events) == [5]
    assert support.only_closing(events).reason is CloseReason.MISCOUNTED
    tolerant = support.open_acceptor(tolerate=True)
    events = tolerant.receive_data(message, START_MS)
    assert support.received(events) == [5]
    assert tolerant.state is State.OPEN


def test_a_wrong_recoverable_count_is_never_tolerated() -> None:
    session = support.open_acceptor(tolerate=True)
    support.only_closing(session.receive_data(support.ack(recoverable_sent=1), START_MS))


def test_an_acknowledgment_of_what_was_never_sent_closes() -> None:
    session = support.open_acceptor()
    session.send(support.packet(1), "one", START_MS)
    closing = support.only_closing(session.receive_data(support.ack(2), START_MS))
    assert closing.reason is CloseReason.MISCOUNTED
    assert closing.returned == ["one"]


# SessionHeaders on messages (3.1.5.8.4, 3.1.7.11)


@pytest.mark.spec("MQQB-3.1.7.11-b")
@pytest.mark.parametrize(("percent", "carries"), [(50, False), (75, False), (80, True)])
def test_a_message_carries_the_acknowledgment_that_is_nearly_due(percent: int, carries: bool) -> None:
    session = support.open_acceptor()
    session.receive_data(support.packet(1), START_MS)
    session.send(support.packet(2), "reply", START_MS + 100 * percent)
    (message,) = support.packets(session.data_to_send())
    assert isinstance(message, UserMessage)
    assert bool(message.base.has_session_header) is (message.session is not None) is carries


def test_no_header_where_there_is_nothing_to_acknowledge() -> None:
    session = support.open_acceptor()
    session.send(support.packet(2), "message", START_MS + 100_000)
    assert session.data_to_send() == [support.packet(2)]


@pytest.mark.spec(
    "MQQB-3.1.7.11-c", "MQQB-3.1.7.1.3-f", "MQQB-3.1.7.1.3-g", "MQQB-3.1.1.3.1-k", "MQQB-3.1.5.8.4-b"
)
def test_a_carried_acknowledgment_says_what_is_true_when_it_leaves() -> None:
    session = support.open_acceptor(window=32)
    session.send(support.packet(1, recoverable=True), 1, START_MS)
    session.data_to_send()
    session.receive_data(support.packet(1) + support.packet(2, recoverable=True) * 3, START_MS)
    session.stored(1, 2, START_MS)
    session.send(support.packet(2, recoverable=True), 2, START_MS + 400)
    (data,) = session.data_to_send()
    carried = UserMessage.decode(data)
    assert carried.session is not None
    # Four received; recoverables 1 and 2 stored; two sent, the carrier included.
    assert fields(carried.session) == (4, 1, 0b11, 2, 2, 32)
    assert (session.receipts.unacked, session.receipts.recoverable_flags) == (0, 0)
    assert session.receipts.last_acked_recoverable == 2
    assert session.receipts.deadline_ms is None
    session.handle_timer(START_MS + 15_000)
    assert support.headers(session.data_to_send()) == []  # no acknowledgment of its own follows
    # The peer counts the carrier before it compares.
    peer = support.open_initiator(START_MS)
    for number in range(4):
        peer.send(support.packet(number, recoverable=number > 0), number, START_MS)
    events = peer.receive_data(support.packet(1, recoverable=True) + data, START_MS)
    assert peer.state is State.OPEN
    assert support.settled(events) == [0, 1, 2]


@pytest.mark.spec("MQQB-3.1.5.8.4-a", "MQQB-3.1.5.1-a")
def test_a_carried_acknowledgment_is_taken_like_any_other() -> None:
    session = support.open_acceptor()
    for token in (1, 2, 3):
        session.send(support.packet(token), token, START_MS)
    session.outbox.heard = False
    carrier = UserMessage.decode(support.packet(9)).with_session(SessionHeader(2, user_msg_sequence_number=1))
    events = session.receive_data(carrier.data, START_MS)
    assert support.settled(events) == [1, 2]
    assert support.received(events) == [9]
    assert session.outbox.heard
    session.outbox.heard = False
    session.receive_data(support.ack(3, sent=1), START_MS)
    assert session.outbox.heard


def test_a_header_of_another_session_is_taken_off() -> None:
    """A message that is passed on keeps everything but the acknowledgment it arrived with."""
    plain = support.packet(3, recoverable=True)
    arrived = UserMessage.decode(plain).with_session(SessionHeader(9, 8, 7, 6, 5)).data
    session = support.open_acceptor()
    session.send(arrived, "transit", START_MS)
    assert session.data_to_send() == [plain]


# Session Ack Send Timer (3.1.2.5, 3.1.6.4)


@pytest.mark.spec("MQQB-3.1.2.5-a", "MQQB-3.1.5.8.7-e", "MQQB-3.1.5.8.2-e")
@pytest.mark.parametrize(("recoverable", "after_ms"), [(False, 10_000), (True, 700)])
def test_a_lone_message_is_acknowledged_in_its_time(recoverable: bool, after_ms: int) -> None:
    session = support.open_acceptor(recoverable_timeout_ms=700)
    session.receive_data(support.packet(1, recoverable=recoverable), START_MS)
    session.stored(1, int(recoverable), START_MS)
    assert session.next_deadline_ms == START_MS + after_ms
    session.handle_timer(START_MS + after_ms - 1)
    assert session.data_to_send() == []
    session.handle_timer(START_MS + after_ms)
    assert len(support.headers(session.data_to_send())) == 1
    assert session.receipts.deadline_ms is None
    session.receive_data(support.packet(2, recoverable=recoverable), START_MS + 60_000)
    assert session.receipts.deadline_ms == START_MS + 60_000 + after_ms


def test_a_recoverable_message_shortens_the_wait_of_an_express_one() -> None:
    session = support.open_acceptor()
    session.receive_data(support.packet(1), START_MS)
    session.receive_data(support.packet(2, recoverable=True), START_MS + 1_000)
    assert session.next_deadline_ms == START_MS + 1_500


@pytest.mark.spec("MQQB-3.1.6.4-a", "MQQB-3.1.6.4-b")
def test_the_acknowledgment_and_what_it_resets() -> None:
    session = support.open_acceptor(window=40)
    session.send(support.packet(1, recoverable=True), 1, START_MS)
    session.send(support.packet(2), 2, START_MS)
    session.receive_data(support.packet(1), START_MS)
    session.receive_data(support.packet(2, recoverable=True) * 2, START_MS)
    session.stored(1, 2, START_MS)
    session.data_to_send()
    session.handle_timer(START_MS + 500)
    (data,) = session.data_to_send()
    assert data == bytes.fromhex(
        "10 00 1b00 4c494f52 24000000 ffffffff"  # IN, SH, priority 3; 36 bytes
        "0000 0100"  # PT 1
        "0300"  # AckSequenceNumber
        "0100"  # RecoverableMsgAckSeqNumber
        "03000000"  # RecoverableMsgAckFlags
        "0200"  # UserMsgSequenceNumber
        "0100"  # RecoverableMsgSeqNumber
        "2800"  # WindowSize
        "0000"
    )
    receipts = session.receipts
    assert (receipts.unacked, receipts.recoverable_flags, receipts.last_acked_recoverable) == (0, 0, 2)


@pytest.mark.spec("MQQB-3.1.6.4-c")
def test_an_idle_session_is_quiet() -> None:
    session = support.open_acceptor()
    session.receive_data(support.packet(1), START_MS)
    session.handle_timer(START_MS + 10_000)
    session.data_to_send()
    for minutes in range(1, 5):
        session.handle_timer(START_MS + 60_000 * minutes)
    assert session.data_to_send() == []


# Session Ack Wait Timer (3.1.2.4, 3.1.6.3)


@pytest.mark.spec("MQQB-3.1.2.4-a", "MQQB-3.1.6.3-b", "MQQB-3.1.6.3-c", "MQQB-3.1.7.1.3-h")
@pytest.mark.parametrize("make", [support.open_acceptor, support.open_initiator])
def test_a_peer_that_acknowledges_nothing_is_left(make: Any) -> None:
    session: Session[Any] = make()
    assert session.outbox.deadline_ms is None
    assert not session.active
    session.send(support.packet(1), "one", START_MS)
    session.send(support.packet(2, recoverable=True), "two", START_MS + 1_000)
    assert session.active
    assert session.outbox.awaiting
    assert session.outbox.deadline_ms == START_MS + 20_000
    # The peer was heard during the opening: one more interval.
    assert session.handle_timer(START_MS + 20_000) == []
    assert not session.outbox.heard
    closing = support.only_closing(session.handle_timer(START_MS + 40_000))
    assert closing.reason is CloseReason.UNACKNOWLEDGED
    assert closing.returned == ["one", "two"]


@pytest.mark.spec("MQQB-3.1.2.4-b")
def test_a_direct_session_waits_twice_as_long() -> None:
    for session in (support.open_initiator(remote=None), support.open_acceptor(server=None)):
        session.send(support.packet(1), "one", START_MS)
        assert session.outbox.deadline_ms == START_MS + 40_000


@pytest.mark.spec("MQQB-3.1.6.3-a")
def test_the_timer_stops_when_nothing_waits() -> None:
    session = support.open_acceptor()
    session.send(support.packet(1), "one", START_MS)
    session.receive_data(support.ack(1), START_MS + 10_000)
    assert session.outbox.deadline_ms is not None
    assert session.outbox.heard
    session.handle_timer(START_MS + 20_000)
    assert session.outbox.deadline_ms is None
    assert not session.outbox.heard


@pytest.mark.spec("MQQB-3.1.5.5.5-c")
def test_a_partial_acknowledgment_gives_the_rest_more_time() -> None:
    session = support.open_acceptor()
    session.send(support.packet(1), 1, START_MS)
    session.send(support.packet(2), 2, START_MS)
    session.receive_data(support.ack(1), START_MS + 15_000)
    assert session.outbox.deadline_ms == START_MS + 35_000


# Session Cleanup Timer (3.1.2.2, 3.1.6.2)


@pytest.mark.spec(
    "MQQB-3.1.2.2-a", "MQQB-3.1.6.2-a", "MQQB-3.1.1.3.1-y", "MQQB-3.1.1.1.1.2-f", "MQQB-3.1.5.8.2-f"
)
def test_an_idle_session_is_closed() -> None:
    """Every interval with a message, sent or received, keeps it; one without ends it."""
    session = support.open_acceptor()
    session.receive_data(support.packet(1), START_MS + 1_000)
    assert session.active
    assert support.found(session.handle_timer(START_MS + 300_000), Closed) == []
    assert not session.active
    session.send(support.packet(2), "two", START_MS + 310_000)
    assert session.active
    session.receive_data(support.ack(1, sent=1), START_MS + 311_000)
    assert support.found(session.handle_timer(START_MS + 600_000), Closed) == []
    closing = support.only_closing(session.handle_timer(START_MS + 900_000))
    assert closing.reason is CloseReason.IDLE
    assert session.state is State.CLOSED
    # An acceptor's session ends here: nothing brings it back.
    assert session.next_deadline_ms is None
    with pytest.raises(AssertionError):
        session.reconnect_later(START_MS + 900_000)


@pytest.mark.spec("MQQB-3.1.1.1.1.1-g")
@pytest.mark.parametrize("cause", ["protocol error", "idle", "unacknowledged"])
def test_what_ends_an_open_session_of_an_initiator(cause: str) -> None:
    session = support.open_initiator()
    if cause == "protocol error":
        events = session.receive_data(b"\xff" * 40, START_MS)
    elif cause == "idle":
        events = session.handle_timer(START_MS + 300_000)
    else:
        session.send(support.packet(1), 1, START_MS)
        session.handle_timer(START_MS + 20_000)
        events = session.handle_timer(START_MS + 40_000)
    support.only_closing(events)
    assert session.state is State.CLOSED


@pytest.mark.spec("MQQB-3.1.3.2-b")
def test_the_timers_of_a_fresh_session() -> None:
    session = support.open_initiator()
    assert session.outbox.deadline_ms is None
    assert session.receipts.deadline_ms is None
    assert session.next_deadline_ms == START_MS + 300_000  # Session Cleanup
    waiting = support.initiator()
    waiting.disconnected(START_MS)
    waiting.reconnect_later(START_MS)
    assert waiting.next_deadline_ms == START_MS + 5_000


# Closing and coming back (3.1.5.9, 3.1.6.1)


@pytest.mark.spec("MQQB-3.1.7.3-a")
@pytest.mark.parametrize(
    "make", [support.acceptor, support.open_acceptor, support.initiator, support.open_initiator]
)
def test_a_lost_transport_closes_the_session(make: Any) -> None:
    session = make()
    session.data_to_send()
    closing = support.only_closing(session.disconnected(START_MS))
    assert closing.reason is CloseReason.DISCONNECTED
    assert session.state is State.CLOSED
    assert session.data_to_send() == []
    assert session.disconnected(START_MS) == []


@pytest.mark.spec("MQQB-3.1.1.1.1.1-h", "MQQB-3.1.5.9-b", "MQQB-3.1.1.1.1.1-i", "MQQB-3.1.2.3-a")
def test_an_initiator_with_messages_left_comes_back() -> None:
    session = support.open_initiator()
    session.send(support.packet(1), 1, START_MS)
    closing = support.only_closing(session.disconnected(START_MS))
    assert closing.returned == [1]
    session.reconnect_later(START_MS)
    assert session.state is State.WAITING_RECONNECT
    assert session.next_deadline_ms == START_MS + 5_000
    assert session.handle_timer(START_MS + 4_999) == []
    assert session.handle_timer(START_MS + 5_000) == [RetryDue()]
    assert session.next_deadline_ms is None
    # The peer refuses the connection: again in five seconds.
    session.reconnect_later(START_MS + 5_100)
    assert session.handle_timer(START_MS + 10_100) == [RetryDue()]
    session.connected(START_MS + 10_200, THEIRS)
    support.complete(session, START_MS + 10_200)
    assert session.state is State.OPEN
    # With nothing left to deliver it simply ends.
    nothing = support.open_initiator()
    assert support.only_closing(nothing.disconnected(START_MS)).returned == []
    assert nothing.state is State.CLOSED
    assert nothing.next_deadline_ms is None


@pytest.mark.spec("MQQB-3.1.5.9-a")
def test_nothing_of_a_closed_session_is_left_running() -> None:
    session = support.open_acceptor()
    session.receive_data(support.packet(1, recoverable=True), START_MS)
    session.send(support.packet(1), 1, START_MS)
    session.receive_data(support.ack(sent=1, recoverable_sent=1, window=2), START_MS)
    session.data_to_send()
    session.close(START_MS)
    assert session.state is State.CLOSED
    assert session.data_to_send() == [], "closing says nothing"
    assert session.next_deadline_ms is None
    assert session.handle_timer(START_MS + 10**8) == []


def test_a_waiting_initiator_may_be_stopped() -> None:
    session = support.open_initiator()
    session.disconnected(START_MS)
    session.reconnect_later(START_MS)
    assert support.only_closing(session.close(START_MS)).reason is CloseReason.STOPPED
    assert session.next_deadline_ms is None


@pytest.mark.spec("MQQB-3.1.1.1.1.3-b", "MQQB-3.1.3.2-d")
def test_what_was_not_acknowledged_is_sent_again_in_order() -> None:
    session = support.open_initiator()
    for number in range(1, 9):
        session.send(support.packet(number, recoverable=number in (2, 3, 6)), number, START_MS)
    session.data_to_send()
    # Five were counted, of the recoverable ones only the second is stored.
    session.receive_data(support.ack(5, base=1, flags=0b1), START_MS)
    closing = support.only_closing(session.disconnected(START_MS))
    assert closing.returned == [3, 6, 7, 8]
    session.connected(START_MS, THEIRS)
    support.complete(session, START_MS)
    for number in closing.returned:
        assert session.send(support.packet(number), number, START_MS)
    again = support.packets(session.data_to_send())
    assert support.numbers(each for each in again if isinstance(each, UserMessage)) == [3, 6, 7, 8]
    assert (session.outbox.sent, session.outbox.unacked) == (4, 4)


def test_the_store_may_answer_after_the_connection_has_changed() -> None:
    """A message of the old connection is not acknowledged on the new one, where numbers begin anew."""
    session = support.open_initiator()
    (event,) = support.found(
        session.receive_data(support.packet(1, recoverable=True) * 3, START_MS), MessagesReceived
    )
    session.disconnected(START_MS)
    session.connected(START_MS, THEIRS)
    support.complete(session, START_MS)
    session.stored(event.first_recoverable, event.recoverables, START_MS)
    assert session.receipts.recoverable_flags == 0
    (again,) = support.found(
        session.receive_data(support.packet(1, recoverable=True) * 2, START_MS), MessagesReceived
    )
    assert (again.first_recoverable, again.recoverables) == (4, 2)
    session.stored(again.first_recoverable, again.recoverables, START_MS)
    assert session.receipts.recoverable_flags == 0b11
    session.close(START_MS)
    session.stored(again.first_recoverable, again.recoverables, START_MS)  # too late, and harmless


def test_who_writes_too_slowly_is_shown_out() -> None:
    """Bytes that make no packet within the interval of clean-up keep no session open."""
    session = support.open_acceptor()
    now_ms = START_MS
    for byte in support.packet(1):
        now_ms += 30_000
        session.handle_timer(now_ms)
        if session.is_closed:
            break
        session.receive_data(bytes([byte]), now_ms)
    assert session.is_closed
    assert now_ms - START_MS <= 2 * TimerSettings().session_cleanup_ms
