"""Windows of a session: how much may be under way, and who holds whom back."""

from __future__ import annotations

import pytest

from msmq.transfer.events import MessagesAcknowledged, WindowOpened
from msmq.wire.packets import SessionAck
from tests.transfer import support
from tests.transfer.support import START_MS, fields, opened

CUTTERS = [support.whole, support.byte_by_byte, support.at_random]
HEADER_FIELDS = (
    "ack_sequence_number",
    "recoverable_msg_ack_seq_number",
    "recoverable_msg_ack_flags",
    "user_msg_sequence_number",
    "recoverable_msg_seq_number",
    "window_size",
)


# Windows (3.1.7.1, 3.1.7.13; MS-MQMQ notes 15 to 17)


@pytest.mark.spec("MQQB-3.1.1.3.1-w")
@pytest.mark.parametrize(
    ("ours", "theirs", "effective"), [(64, 4, 4), (4, 64, 4), (64, 64, 64), (64, 200, 64)]
)
def test_the_smaller_window_counts(ours: int, theirs: int, effective: int) -> None:
    session = support.open_acceptor(window=ours, peer_window=theirs)
    sent = 0
    while session.send(support.packet(sent), sent, START_MS):
        sent += 1
    assert sent == session.outbox.unacked == effective
    session.receive_data(support.ack(1, window=theirs), START_MS)
    assert session.room == 1


def test_room_is_told_though_nothing_is_stored_yet() -> None:
    """Or the sender would wait for the disk of the receiver where the window lets it go on."""
    session = support.open_acceptor(window=2, peer_window=2)
    for number in (1, 2):
        session.send(support.packet(number, recoverable=True), number, START_MS)
    assert session.room == 0
    assert session.receive_data(support.ack(2, window=2), START_MS) == [WindowOpened()]
    assert session.room == 2
    assert session.receive_data(support.ack(2, window=2), START_MS) == [], "it says nothing new"
    assert session.receive_data(support.ack(2, base=1, flags=3, window=2), START_MS) == [
        MessagesAcknowledged([1, 2])
    ]


@pytest.mark.spec("MQQB-3.1.3.2-g")
def test_a_thousand_waiting_messages_drain_after_a_reconnect() -> None:
    pair = opened()
    waiting = list(range(1_000))
    while waiting:
        before = len(waiting)
        while waiting and pair.left.send(support.packet(waiting[0]), waiting[0], pair.now_ms):
            waiting.pop(0)
        pair.run()
        assert len(waiting) < before, "stalled"
    pair.wait(10_000)
    assert support.received(pair.events["right"]) == list(range(1_000))
    assert support.settled(pair.events["left"]) == list(range(1_000))


@pytest.mark.spec("MQQB-3.1.7.13-c", "MQMQ-6-i")
def test_a_reduced_window_is_obeyed_and_grows_back() -> None:
    session = support.open_acceptor()
    session.receive_data(support.ack(window=1), START_MS)
    assert session.room == 1
    now = START_MS
    for expected in (2, 4, 8, 16, 32, 64):
        now += 29_999
        assert session.handle_timer(now) == []
        assert session.room == expected // 2
        now += 1
        assert session.next_deadline_ms is not None
        assert session.next_deadline_ms <= now
        session.active = True
        assert session.handle_timer(now) == [WindowOpened()]
        assert session.room == expected
    session.active = True
    session.handle_timer(now + 30_000)
    assert session.room == 64


def test_a_window_reduced_again_stays_small() -> None:
    session = support.open_acceptor()
    session.receive_data(support.ack(window=8), START_MS)
    session.handle_timer(START_MS + 30_000)
    assert session.room == 16
    session.receive_data(support.ack(window=8), START_MS + 31_000)
    assert session.room == 8
    session.receive_data(support.ack(window=64), START_MS + 32_000)
    assert session.room == 8


@pytest.mark.spec("MQQB-3.1.7.13-a")
def test_a_pause_acknowledges_and_holds_the_peer_back() -> None:
    session = support.open_acceptor()
    session.send(support.packet(1, recoverable=True), 1, START_MS)
    session.receive_data(support.packet(1) + support.packet(2, recoverable=True), START_MS)
    session.stored(1, 1, START_MS)
    session.data_to_send()
    session.pause(START_MS + 100)
    (data,) = session.data_to_send()
    assert SessionAck.decode(data).encode() == data
    assert fields(SessionAck.decode(data).session) == (2, 1, 0b1, 1, 1, 1)
    receipts = session.receipts
    assert (receipts.deadline_ms, receipts.unacked, receipts.recoverable_flags) == (None, 0, 0)
    assert receipts.last_acked_recoverable == 1
    assert not session.active


def test_a_closed_session_does_not_pause() -> None:
    session = support.open_acceptor()
    session.send(support.packet(1), "one", START_MS)
    session.receive_data(support.packet(1, recoverable=True), START_MS)
    session.data_to_send()
    session.close(START_MS)
    assert session.next_deadline_ms is None  # all timers have stopped
    session.pause(START_MS)
    assert session.data_to_send() == []
    assert session.room == 0
    assert session.handle_timer(START_MS + 10**7) == []


def test_acknowledged_tokens_come_in_one_event() -> None:
    session = support.open_acceptor()
    for token in range(3):
        session.send(support.packet(token), token, START_MS)
    assert session.receive_data(support.ack(1) + support.ack(3), START_MS) == [
        MessagesAcknowledged([0, 1, 2])
    ]


class Numbers(tuple[int, ...]):
    """A token for several messages."""

    def part(self, start: int, stop: int) -> Numbers:
        return Numbers(self[start:stop])


@pytest.mark.parametrize(
    "express", ["11111111", "00000000", "01110010"], ids=["express", "recoverable", "mixed"]
)
def test_many_messages_are_sent_like_one_after_another(express: str) -> None:
    given = [support.packet(number, recoverable=sign == "0") for number, sign in enumerate(express, 1)]
    one_by_one, together = support.open_initiator(), support.open_initiator()
    for token, data in enumerate(given):
        assert one_by_one.send(data, token, START_MS)
    signs = bytes(map(int, express)) if "1" in express else None
    assert together.send_run(Numbers(range(8)), given, signs, START_MS) == 8
    assert b"".join(together.data_to_send()) == b"".join(one_by_one.data_to_send())
    counts = (8, express.count("0"), 8)
    for session in (one_by_one, together):
        assert (session.outbox.sent, session.outbox.recoverable_sent, session.outbox.unacked) == counts
    assert support.only_closing(one_by_one.disconnected(START_MS)).returned == list(range(8))
    returned = support.only_closing(together.disconnected(START_MS)).returned
    assert [number for numbers in returned for number in numbers] == list(range(8))


def test_many_messages_are_as_many_as_the_window_takes() -> None:
    given = [support.packet(number) for number in range(1, 9)]
    session = support.open_initiator(peer_window=5)
    assert session.send_run(Numbers(range(8)), given, bytes(8 * (1,)), START_MS) == 5
    assert session.send_run(Numbers(range(5, 8)), given[5:], bytes(3 * (1,)), START_MS) == 0
    assert session.send_run(Numbers(), [], b"", START_MS) == 0
    assert session.receive_data(support.ack(2), START_MS) == [MessagesAcknowledged([Numbers((0, 1))])]
    assert session.send_run(Numbers(range(5, 8)), given[5:], bytes(3 * (1,)), START_MS) == 2
    returned = support.only_closing(session.disconnected(START_MS)).returned
    assert returned == [Numbers((2, 3, 4)), Numbers((5, 6))]


@pytest.mark.parametrize("window", [3, 8], ids=["in part", "whole"])
def test_packets_that_are_joined_leave_in_place_of_the_others(window: int) -> None:
    given = [support.packet(number, recoverable=True) for number in range(1, 6)]
    changed = [support.packet(number + 50, recoverable=True) for number in range(1, 6)]
    session = support.open_initiator(peer_window=window)
    session.data_to_send()
    joined = bytearray().join(changed)
    sent = session.send_run(Numbers(range(5)), given, None, START_MS, joined)
    assert sent == min(window, 5)
    assert b"".join(session.data_to_send()) == b"".join(changed[:sent])


@pytest.mark.parametrize("join", [False, True], ids=["apart", "joined"])
def test_the_first_of_many_carries_what_is_nearly_due(join: bool) -> None:
    """The header counts the message that carries it and none that come behind it."""
    one_by_one, together = support.open_acceptor(), support.open_acceptor()
    given = [support.packet(number, recoverable=True) for number in range(1, 5)]
    for session in (one_by_one, together):
        session.receive_data(support.packet(9), START_MS)
        session.data_to_send()
    late_ms = START_MS + one_by_one.ack_wait_timeout_ms // 2 - 1
    for token, data in enumerate(given):
        one_by_one.send(data, token, late_ms)
    joined = bytearray().join(given) if join else None
    assert together.send_run(Numbers(range(4)), given, None, late_ms, joined) == 4
    sent = b"".join(together.data_to_send())
    assert len(sent) > len(b"".join(given))
    assert sent == b"".join(one_by_one.data_to_send())
