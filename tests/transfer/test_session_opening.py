"""Opening a session (MS-MQQB 3.1.5.2.3, 3.1.5.3, 3.1.5.4): packets, answers, refusals, time-outs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.transfer.events import Answered, Closed, Established
from msmq.transfer.order_receiver import OrderReceiver
from msmq.transfer.ping import PingResponder
from msmq.transfer.session import Session
from msmq.transfer.states import CloseReason, Role, State
from msmq.transfer.timers import TimerSettings
from msmq.wire.classes import MessageClass
from msmq.wire.headers import NULL_GUID
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import (
    ConnectionParameters,
    EstablishConnection,
    FinalAckBody,
    OrderAckBody,
    Ping,
    build_order_message,
)
from tests.transfer import support
from tests.transfer.support import FOREIGN, OURS, START_MS, THEIRS, Pair
from tests.wire import messages

CUTTERS = [support.whole, support.byte_by_byte, support.at_random]


def request(server: bytes | None = THEIRS, client: bytes = OURS) -> EstablishConnection:
    return EstablishConnection.request(client, server, 77)


def offer(recoverable_ms: int = 500, ack_ms: int = 20_000, window: int = 64) -> bytes:
    return ConnectionParameters.of(recoverable_ms, ack_ms, window).encode()


def establish_of(session: Session[Any]) -> EstablishConnection:
    (packet,) = support.packets(session.data_to_send())
    assert isinstance(packet, EstablishConnection)
    return packet


def parameters_of(session: Session[Any]) -> ConnectionParameters:
    (packet,) = support.packets(session.data_to_send())
    assert isinstance(packet, ConnectionParameters)
    return packet


# The whole exchange


@pytest.mark.spec("MQQB-2.2.3-c", "MQQB-3.1.3.2-l")
@pytest.mark.parametrize("cut", CUTTERS)
def test_four_packets_open_a_session(cut: support.Cutter) -> None:
    pair = Pair(cut)
    assert pair.right.state is State.WAITING_EC_MSG
    pair.run()
    assert pair.left.state is pair.right.state is State.OPEN
    assert pair.kinds() == [
        "left EstablishConnection",
        "right EstablishConnection",
        "left ConnectionParameters",
        "right ConnectionParameters",
    ]
    assert pair.events["left"] == [Answered(THEIRS), Established(THEIRS, 64, 20_000, 500)]
    assert pair.events["right"] == [Established(OURS, 64, 20_000, 500)]


# The initiator


@pytest.mark.spec("MQQB-3.1.1.1.1.1-a", "MQQB-3.1.5.2.3-b")
@pytest.mark.parametrize("pinged", [False, True])
@pytest.mark.parametrize("remote", [THEIRS, None], ids=["by guid", "direct"])
def test_the_request(remote: bytes | None, pinged: bool) -> None:
    session = support.initiator(START_MS, remote, pinged=pinged)
    assert session.state is State.WAITING_ECR_MSG
    (data,) = session.data_to_send()
    expected = (
        bytes.fromhex("10 00 0b00 4c494f52 3c020000 ffffffff")  # BaseHeader: IN, priority 3, 572 bytes
        + bytes.fromhex("0000 0200")  # InternalHeader: PT 2, CS 0
        + OURS
        + (remote or NULL_GUID)
        + START_MS.to_bytes(4, "little")
        + bytes([0x10, 0x02 | (not pinged)])  # RE; OS, and SE unless a ping was sent
        + bytes(2)
        + b"Z" * 512
    )
    assert data == expected


@pytest.mark.spec("MQQB-3.1.1.1.1.1-b", "MQQB-3.1.5.3.2-a", "MQQB-3.1.5.3.2-d")
def test_a_response_is_answered_with_parameters() -> None:
    session = support.initiator(ack_wait_timeout_ms=30_000, window=48)
    asked = establish_of(session)
    events = session.receive_data(asked.response(THEIRS).encode(), START_MS + 187)
    assert session.state is State.WAITING_CPR_MSG
    assert events == [Answered(THEIRS)]
    (data,) = session.data_to_send()
    assert data == (
        bytes.fromhex("10 00 0b00 4c494f52 20000000 ffffffff")
        + bytes.fromhex("0000 0300")  # PT 3, CS 0
        + (1496).to_bytes(4, "little")
        + (30_000).to_bytes(4, "little")
        + bytes(2)
        + (48).to_bytes(2, "little")
    )


@pytest.mark.spec("MQQB-3.1.5.3.2-c", "MQQB-3.1.1.3.1-ab")
@pytest.mark.parametrize(
    ("round_trip_ms", "timeout_ms"), [(1, 500), (187, 1496), (14_999, 119_992), (60_000, 120_000)]
)
@pytest.mark.parametrize("start_ms", [START_MS, 0xFFFFFFFF - 100], ids=["plain", "wrapping"])
def test_the_recoverable_timeout_is_eight_round_trips(
    start_ms: int, round_trip_ms: int, timeout_ms: int
) -> None:
    session = support.initiator(start_ms)
    asked = establish_of(session)
    session.receive_data(asked.response(THEIRS).encode(), start_ms + round_trip_ms)
    assert session.recoverable_ack_timeout_ms == timeout_ms
    assert parameters_of(session).header.recoverable_ack_timeout_ms == timeout_ms


@pytest.mark.spec("MQQB-3.1.1.1.1.1-c", "MQQB-3.1.5.3.2-b")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(request().response(THEIRS, refuse=True), id="CS"),
        pytest.param(request(client=FOREIGN).response(THEIRS), id="another client"),
        pytest.param(request(server=FOREIGN).response(FOREIGN), id="another server"),
    ],
)
def test_an_unsuitable_response_closes(answer: EstablishConnection) -> None:
    session = support.initiator()
    session.data_to_send()
    closing = support.only_closing(session.receive_data(answer.encode(), START_MS))
    assert closing.reason is CloseReason.NOT_ADMITTED
    assert session.state is State.CLOSED
    assert session.data_to_send() == []
    assert session.next_deadline_ms is None


@pytest.mark.spec("MQQB-3.1.5.3.2-b")
def test_an_answer_from_nobody_closes() -> None:
    session = support.initiator(remote=None)
    answer = establish_of(session).response(FOREIGN)
    answer.header.server_guid = bytes(16)
    closing = support.only_closing(session.receive_data(answer.encode(), START_MS))
    assert closing.reason is CloseReason.NOT_ADMITTED


@pytest.mark.spec("MQQB-3.1.1.3.1-b", "MQQB-3.1.1.3.1-a")
def test_a_direct_session_learns_whom_it_reached() -> None:
    session = support.initiator(remote=None)
    asked = establish_of(session)
    session.receive_data(asked.response(FOREIGN).encode(), START_MS)
    assert session.state is State.WAITING_CPR_MSG
    assert session.remote_guid == FOREIGN
    other = support.acceptor()
    other.receive_data(request(None).encode(), START_MS)
    assert other.remote_guid == OURS
    assert support.open_initiator().remote_guid == THEIRS


@pytest.mark.spec("MQQB-3.1.1.1.1.1-d")
def test_the_answered_parameters_open_the_session() -> None:
    session = support.initiator()
    session.receive_data(establish_of(session).response(THEIRS).encode(), START_MS)
    session.data_to_send()
    events = session.receive_data(offer(window=32), START_MS)
    assert session.state is State.OPEN
    assert events == [Established(THEIRS, 32, 20_000, 500)]
    assert session.data_to_send() == []


@pytest.mark.spec("MQQB-3.1.1.3.1-v")
@pytest.mark.parametrize("window", [1, 4, 64, 0xFFFF])
def test_the_peers_window_is_kept(window: int) -> None:
    assert support.open_initiator(peer_window=window).received_window_size == window
    assert support.open_acceptor(peer_window=window).received_window_size == window
    assert support.acceptor().received_window_size == 0, "as long as nobody has said"
    session = support.open_initiator(peer_window=window)
    session.disconnected(START_MS)
    session.connected(START_MS)
    assert session.received_window_size == 0, "the next connection begins anew"


@pytest.mark.spec("MQQB-2.2.2.1-e")
@pytest.mark.parametrize("open_session", [support.open_acceptor, support.open_initiator])
def test_a_window_of_zero_lets_one_message_through(open_session: Any) -> None:
    session = open_session(peer_window=0)
    assert session.received_window_size == 0
    assert session.room == 1
    assert session.send(support.packet(1), 1, START_MS)
    assert session.room == 0
    assert support.settled(session.receive_data(support.ack(1), START_MS)) == [1]
    assert session.room == 1


# The acceptor


@pytest.mark.spec("MQQB-3.1.1.1.1.2-a")
def test_an_accepted_connection_waits_for_the_request() -> None:
    session = support.acceptor()
    assert session.state is State.WAITING_EC_MSG
    assert session.data_to_send() == []


@pytest.mark.spec("MQQB-3.1.1.1.1.2-b", "MQQB-3.1.5.3.1-a", "MQQB-3.1.5.3.1-d")
def test_a_request_is_answered() -> None:
    session = support.acceptor()
    assert session.receive_data(request().encode(), START_MS + 5_000) == []
    assert session.state is State.WAITING_CP_MSG
    assert session.remote_guid == OURS
    (data,) = session.data_to_send()
    assert len(data) == 572
    assert session.next_deadline_ms == START_MS + 65_000


@pytest.mark.spec("MQQB-3.1.1.1.1.2-c", "MQQB-3.1.5.3.1-b", "MQQB-3.1.5.3.1-e")
@pytest.mark.parametrize("why", ["quota", "foreign"])
def test_who_is_not_admitted_gets_a_refusal_and_the_session_closes(why: str) -> None:
    session = support.acceptor(admit=lambda asked: why != "quota")
    asked = request(FOREIGN if why == "foreign" else THEIRS)
    closing = support.only_closing(session.receive_data(asked.encode() + offer(), START_MS))
    assert closing.reason is CloseReason.REFUSED
    assert session.state is State.CLOSED
    answer = establish_of(session)
    assert answer.internal.connection_refused
    assert answer.header.client_guid == OURS


@pytest.mark.spec("MQQB-3.1.1.1.1.2-d", "MQQB-3.1.5.4.1-a", "MQQB-3.1.5.4.1-b", "MQQB-3.1.5.4.1-c")
def test_parameters_are_adopted_and_answered() -> None:
    session = support.acceptor(window=32)
    session.receive_data(request().encode(), START_MS)
    session.data_to_send()
    events = session.receive_data(offer(1496, 120_000, 64), START_MS + 59_000)
    assert events == [Established(OURS, 64, 120_000, 1496)]
    assert session.state is State.OPEN
    (data,) = session.data_to_send()
    assert data == (
        bytes.fromhex("10 00 0b00 4c494f52 20000000 ffffffff 0000 0300")
        + (1496).to_bytes(4, "little")
        + (120_000).to_bytes(4, "little")
        + bytes(2)
        + (32).to_bytes(2, "little")  # our own window
    )
    assert (session.ack_wait_timeout_ms, session.received_window_size) == (120_000, 64)
    assert session.handle_timer(START_MS + 120_000) == []  # the initialization timer has stopped
    session.send(support.packet(), "token", START_MS + 120_000)
    assert session.outbox.deadline_ms == START_MS + 120_000 + 120_000
    session.receive_data(support.packet(recoverable=True), START_MS + 121_000)
    session.stored(1, 1, START_MS + 121_000)
    assert session.receipts.deadline_ms == START_MS + 121_000 + 1496
    while session.send(support.packet(), "more", START_MS + 122_000):
        pass
    assert session.outbox.unacked == 32  # the smaller of both windows


@pytest.mark.spec("MQQB-3.1.5.4.1-a")
def test_a_smaller_window_than_ours_is_adopted() -> None:
    session = support.open_acceptor(window=32, peer_window=5)
    while session.send(support.packet(), "token", START_MS):
        pass
    assert session.outbox.unacked == session.received_window_size == 5


@pytest.mark.spec("MQQB-3.1.1.3.1-aa")
def test_who_decides_how_long_to_wait_for_acknowledgments() -> None:
    assert support.open_initiator().ack_wait_timeout_ms == 20_000
    assert support.open_acceptor(ack_timeout_ms=45_000).ack_wait_timeout_ms == 45_000


@pytest.mark.spec("MQQB-3.1.1.3.1-u", "MQQB-3.1.3.2-h", "MQMQ-6-j")
def test_a_fresh_session() -> None:
    session = support.acceptor()
    assert not session.active
    assert not session.outbox.heard
    assert not session.direct
    assert not session.direct_format
    asked = support.initiator()
    asked.receive_data(establish_of(asked).response(THEIRS).encode(), START_MS)
    assert parameters_of(asked).header.window_size == 64
    small = support.initiator(window=8)  # MaxUnackedPacket
    small.receive_data(establish_of(small).response(THEIRS).encode(), START_MS)
    assert parameters_of(small).header.window_size == 8


@pytest.mark.spec("MQQB-3.1.3.2-i")
def test_the_times_of_a_fresh_session() -> None:
    session = support.acceptor(round_trip_delay_ms=300)
    assert session.ack_wait_timeout_ms == 20_300
    assert session.recoverable_ack_timeout_ms == 0xFFFFFFFF
    timers = TimerSettings()
    assert (timers.order_ack_timeout_ms, timers.maximum_order_ack_delay_s) == (500, 10)
    # LastOrderAckSendTime is now: a stream that began just now may put its OrderAck off for ten seconds.
    receiver: OrderReceiver[str] = OrderReceiver(timers, {}, START_MS)
    first = TransactionHeader(0, 5, 1, 0)
    receiver.advance((OURS, "queue"), first, "link", START_MS, 0)
    for elapsed_ms, deadline_ms in ((400, 900), (9_999, 10_499), (10_000, 10_499)):
        receiver.judge_all((OURS, "queue"), [first], "link", START_MS + elapsed_ms, 0)
        assert receiver.next_deadline_ms == START_MS + deadline_ms


@pytest.mark.spec("MQQB-3.1.3.2-a")
def test_counters_begin_at_zero_and_messages_at_one() -> None:
    session = support.open_acceptor()
    receipts, outbox = session.receipts, session.outbox
    assert (outbox.sent, outbox.recoverable_sent, outbox.unacked) == (0, 0, 0)
    assert (receipts.received, receipts.recoverable_received, receipts.unacked) == (0, 0, 0)
    assert (receipts.recoverable_flags, receipts.last_acked_recoverable) == (0, 0)
    session.send(support.packet(recoverable=True), "token", START_MS)
    assert (outbox.sent, outbox.recoverable_sent) == (1, 1)
    session.receive_data(support.packet(recoverable=True), START_MS)
    assert (receipts.received, receipts.recoverable_received) == (1, 1)


def test_a_session_admits_itself_to_nothing_before_it_is_connected() -> None:
    session: Session[str] = Session(Role.INITIATOR, support.config(), START_MS)
    assert session.state is State.CLOSED
    assert session.next_deadline_ms is None
    assert not session.send(support.packet(), "token", START_MS)
    assert session.receive_data(request().encode(), START_MS) == []
    assert session.handle_timer(START_MS + 10**9) == []
    assert session.close(START_MS) == []


# Time-outs of the opening


@pytest.mark.spec("MQQB-3.1.1.1.1.1-e", "MQQB-3.1.6.6-a", "MQQB-3.1.2.1-a")
@pytest.mark.parametrize("progress", ["asked", "answered", "accepted", "requested"])
def test_an_opening_that_takes_too_long_is_given_up(progress: str) -> None:
    if progress in ("asked", "answered"):
        session = support.initiator()
        since = START_MS  # the initiator's timer runs from its request on
        if progress == "answered":
            session.receive_data(establish_of(session).response(THEIRS).encode(), START_MS + 100)
    else:
        session = support.acceptor()
        since = START_MS
        if progress == "requested":
            since = START_MS + 100
            session.receive_data(request().encode(), since)
    assert session.next_deadline_ms == since + 60_000
    assert session.handle_timer(since + 59_999) == []
    closing = support.only_closing(session.handle_timer(since + 60_000))
    assert closing.reason is CloseReason.INITIALIZATION_EXPIRED
    assert session.state is State.CLOSED
    assert session.next_deadline_ms is None


@pytest.mark.spec("MQQB-3.1.1.1.1.2-e", "MQQB-3.1.5.10-a")
def test_a_silent_client_is_cut() -> None:
    for silent_after in (b"", request().encode()):
        session = support.acceptor()
        session.receive_data(silent_after, START_MS)
        assert session.handle_timer(START_MS + 59_999) == []
        support.only_closing(session.handle_timer(START_MS + 60_000))


@pytest.mark.spec("MQQB-3.1.2.1-b")
def test_each_session_has_its_own_initialization_timer() -> None:
    first, second = support.acceptor(START_MS), support.acceptor(START_MS + 10_000)
    support.only_closing(first.handle_timer(START_MS + 60_000))
    assert second.handle_timer(START_MS + 69_999) == []
    support.only_closing(second.handle_timer(START_MS + 70_000))


@pytest.mark.spec("MQQB-3.1.5.2.3-a")
def test_the_initialization_timer_begins_anew_with_each_request() -> None:
    session = support.initiator()
    session.disconnected(START_MS + 30_000)
    assert session.next_deadline_ms is None
    session.connected(START_MS + 40_000, THEIRS)
    assert session.next_deadline_ms == START_MS + 100_000


def test_timers_follow_the_settings() -> None:
    session = support.acceptor(session_initialization_ms=1_000, round_trip_delay_ms=50)
    assert session.next_deadline_ms == START_MS + 1_100


# Wrong packets, wrong moments


@pytest.mark.spec("MQQB-3.1.5.3-a")
@pytest.mark.parametrize(
    "session", [support.open_acceptor(), support.open_initiator()], ids=["acceptor", "initiator"]
)
def test_a_second_establish_connection_closes(session: Session[Any]) -> None:
    closing = support.only_closing(session.receive_data(request().encode(), START_MS))
    assert closing.reason is CloseReason.OUT_OF_PLACE
    assert session.data_to_send() == []


@pytest.mark.spec("MQQB-3.1.5.4-a")
@pytest.mark.parametrize("make", [support.acceptor, support.initiator, support.open_acceptor])
def test_parameters_at_the_wrong_moment_close(make: Any) -> None:
    session = make()
    closing = support.only_closing(session.receive_data(offer(), START_MS))
    assert closing.reason is CloseReason.OUT_OF_PLACE


def half_open() -> Session[Any]:
    session = support.acceptor()
    session.receive_data(request().encode(), START_MS)
    return session


def answered() -> Session[Any]:
    session = support.initiator()
    session.receive_data(establish_of(session).response(THEIRS).encode(), START_MS)
    return session


@pytest.mark.spec("MQQB-2.1.1-d", "MQQB-3.1.5.8-a")
@pytest.mark.parametrize("make", [support.acceptor, half_open, support.initiator, answered])
def test_messages_before_the_session_is_open_close_it(make: Any) -> None:
    session = make()
    assert not session.send(support.packet(), "token", START_MS)  # we do not, either
    session.data_to_send()
    events = session.receive_data(support.packet(1), START_MS)
    assert support.only_closing(events).reason is CloseReason.OUT_OF_PLACE
    assert support.received(events) == []


@pytest.mark.spec("MQQB-3.1.5.5-a")
@pytest.mark.parametrize("make", [support.acceptor, half_open, support.initiator, answered])
def test_acknowledgments_before_the_session_is_open_close_it(make: Any) -> None:
    session = make()
    closing = support.only_closing(session.receive_data(support.ack(), START_MS))
    assert closing.reason is CloseReason.OUT_OF_PLACE


def order_message(message_class: int) -> bytes:
    final = message_class != MessageClass.ORDER_ACK
    body = FinalAckBody(5, 8, 7, THEIRS, 99) if final else OrderAckBody.of(5, 8)
    return build_order_message(
        body, message_class, source=OURS, destination=THEIRS, message_id=1, sent_time=0
    ).data


@pytest.mark.spec("MQQB-3.1.5.6-a", "MQQB-3.1.5.7-a")
@pytest.mark.parametrize("message_class", [MessageClass.ORDER_ACK, MessageClass.ACK_RECEIVE])
@pytest.mark.parametrize("make", [support.acceptor, half_open, support.initiator, answered])
def test_order_acknowledgments_before_the_session_is_open_close_it(make: Any, message_class: int) -> None:
    events = make().receive_data(order_message(message_class), START_MS)
    assert support.only_closing(events).reason is CloseReason.OUT_OF_PLACE
    assert support.received(support.open_acceptor().receive_data(order_message(message_class), START_MS)) == [
        1
    ]


@pytest.mark.spec("MQQB-3.1.5.1.1-a", "MQQB-3.1.5.1.1-b", "MQQB-3.1.5.1.1-c")
def test_internal_packets_are_told_apart_by_their_type() -> None:
    """Each kind is taken for what it is where it belongs, whatever its other bits say."""
    session = support.acceptor()
    asked = bytearray(request().encode())
    assert (asked[2] & 8, asked[18] & 0xF) == (8, 2)
    assert session.receive_data(bytes(asked), START_MS) == []
    assert session.state is State.WAITING_CP_MSG
    offered = bytearray(offer())
    assert (offered[2] & 8, offered[18] & 0xF) == (8, 3)
    assert [type(event) for event in session.receive_data(bytes(offered), START_MS)] == [Established]
    session.send(support.packet(1), "one", START_MS)
    told = bytearray(support.ack(1))
    assert (told[2] & 0x18, told[18] & 0xF) == (0x18, 1)
    assert support.settled(session.receive_data(bytes(told), START_MS)) == ["one"]
    told[2] &= ~0x10  # without SH
    closing = support.only_closing(session.receive_data(bytes(told), START_MS))
    assert closing.reason is CloseReason.MALFORMED


@pytest.mark.spec("MQQB-3.1.5.1.1-h")
def test_a_ping_means_nothing_to_a_session_and_a_session_nothing_to_ping() -> None:
    ping = Ping.request(1, OURS).encode()
    for make in (support.acceptor, support.open_acceptor):
        events = make().receive_data(ping, START_MS)
        assert support.only_closing(events).reason is CloseReason.MALFORMED
    responder = PingResponder(THEIRS, enabled=True)
    assert responder.answer(request().encode(), 0) is None
    assert responder.answer(support.ack(), 0) is None


GOOD = [request().encode(), offer(), support.packet(1), support.packet(2, recoverable=True), support.ack()]


@pytest.mark.spec("MQQB-3.1.5.1.3-a")
@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, len(GOOD) - 1),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=4),
    st.integers(-40, 40),
    st.binary(max_size=60),
    st.integers(1, 700),
)
def test_damaged_packets_close_and_nothing_escapes(
    place: int, changes: list[tuple[int, int]], length: int, rest: bytes, piece: int
) -> None:
    """A stream with one damaged packet: bytes changed, cut short or grown, and followed by noise."""
    stream = list(GOOD)
    damaged = bytearray(stream[place])
    for offset, value in changes:
        damaged[offset % len(damaged)] = value
    damaged = damaged[:length] if length < 0 else damaged + bytes(length)
    stream[place] = bytes(damaged)
    data = b"".join(stream) + rest
    session = support.acceptor()
    events: list[Any] = []
    for start in range(0, len(data), piece):
        events += session.receive_data(data[start : start + piece], START_MS)
    closings = support.found(events, Closed)
    assert len(closings) == (session.state is State.CLOSED)
    support.packets(session.data_to_send())


@pytest.mark.spec("MQQB-3.1.5.1.3-a")
def test_a_packet_that_names_no_destination_closes() -> None:
    wrong = bytearray(support.packet(1))
    wrong[61] = wrong[61] & ~0x1C | 0x04  # Flags.DQ 1
    closing = support.only_closing(support.open_acceptor().receive_data(bytes(wrong), START_MS))
    assert closing.reason is CloseReason.MALFORMED


@pytest.mark.spec("MQQB-3.1.5.1.2-a", "MQQB-3.1.5.1.2-b")
@pytest.mark.parametrize("offset", [0, 4, 5, 6, 7])
@pytest.mark.parametrize("cut", CUTTERS)
def test_a_wrong_version_or_signature_closes_without_an_answer(cut: support.Cutter, offset: int) -> None:
    good = support.acceptor()
    for piece in cut(request().encode()):
        assert good.receive_data(piece, START_MS) == []
    session = support.acceptor()
    data = bytearray(request().encode())
    data[offset] ^= 1
    events = [event for piece in cut(bytes(data)) for event in session.receive_data(piece, START_MS)]
    closing = support.only_closing(events)
    assert closing.reason is CloseReason.MALFORMED
    assert closing.detail
    assert session.data_to_send() == []


def test_what_arrives_before_a_malformed_packet_is_handed_over() -> None:
    session = support.open_acceptor()
    events = session.receive_data(support.packet(1) + support.packet(2) + bytes(40), START_MS)
    assert support.received(events) == [1, 2]
    assert support.only_closing(events).reason is CloseReason.MALFORMED
    assert session.receive_data(support.packet(3), START_MS) == []


def test_a_message_of_another_protocol_closes() -> None:
    """Flags.AH on a message that is otherwise in order, the headers it announces included."""
    data = messages.message(**messages.srmp_headers()).data
    assert UserMessage.decode(data).user.sent_by_http
    events = support.open_acceptor().receive_data(data, START_MS)
    assert support.only_closing(events).reason is CloseReason.MALFORMED


def test_the_owner_may_find_a_message_malformed() -> None:
    session = support.open_acceptor()
    closing = support.only_closing(session.close(START_MS, malformed="an OrderAck of 35 bytes"))
    assert (closing.reason, closing.detail) == (CloseReason.MALFORMED, "an OrderAck of 35 bytes")


@pytest.mark.parametrize("make", [support.acceptor, half_open, support.initiator, answered])
def test_a_stranger_cannot_make_us_wait_for_a_large_message(make: Any) -> None:
    session = make()
    large = bytearray(support.packet(1))
    large[8:12] = (0x400000).to_bytes(4, "little")  # PacketSize
    for n in range(19):
        assert session.receive_data(bytes(large[n : n + 1]), START_MS) == []
    closing = support.only_closing(session.receive_data(bytes(large[19:20]), START_MS))
    assert closing.reason is CloseReason.OUT_OF_PLACE
