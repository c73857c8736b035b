"""Session acknowledgments (MS-MQQB 3.1.1.4, 3.1.1.6.1, 3.1.5.5, 3.1.5.8.7): both sides, counter by counter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.transfer.acknowledgment import LARGE_BYTES, MAX_UNSTORED, MiscountError, Outbox, Receipts, Window
from msmq.wire.optional_headers import SessionHeader
from tests.transfer import support
from tests.transfer.support import START_MS
from tests.wire import builders


def receipts(window: int = 64) -> Receipts:
    return Receipts(window, 20_000, 500)


def outbox(window: int = 64) -> Outbox[int]:
    return Outbox(Window(window, 30_000), 20_000)


def sent(kinds: str, window: int = 64) -> Outbox[int]:
    """An outbox with one message per letter, express or recoverable; tokens count from 1."""
    box = outbox(window)
    for token, kind in enumerate(kinds, start=1):
        box.record(token, kind == "r", START_MS)
    return box


def acked(box: Outbox[int], counted: int = 0, base: int = 0, flags: int = 0, window: int = 64) -> list[int]:
    return box.acknowledge(SessionHeader(counted, base, flags, window_size=window), START_MS)


def header(side: Receipts, *, sent: int = 0, recoverable: int = 0, window: int = 64) -> SessionHeader:
    return side.header(sent, recoverable, window, START_MS)


# What was sent


@pytest.mark.spec(
    "MQQB-3.1.1.3.1-f", "MQQB-3.1.7.1.3-e", "MQMQ-2.2.20.4-c", "MQMQ-2.2.20.4-d", "MQQB-3.1.1.3.1-ae"
)
def test_numbers_of_sent_messages() -> None:
    box = outbox()
    counts = []
    for kind in "errereerr":
        box.record(box.sent + 1, kind == "r", START_MS)
        counts.append((box.sent, box.recoverable_sent, box.unacked))
    assert counts == [
        (1, 0, 1),
        (2, 1, 2),
        (3, 2, 3),
        (4, 2, 4),
        (5, 3, 5),
        (6, 3, 6),
        (7, 3, 7),
        (8, 4, 8),
        (9, 5, 9),
    ]
    # The third message has number 3: this is what settles it.
    assert acked(sent("eee"), 3) == [1, 2, 3]
    assert acked(sent("eee"), 2) == [1, 2]
    # The fifth recoverable message has recoverable number 5.
    assert acked(box, 9, base=5, flags=1)[-1] == 9


@pytest.mark.spec("MQQB-3.1.7.1-a")
def test_the_65th_message_waits_for_an_acknowledgment() -> None:
    session = support.open_acceptor()
    for token in range(64):
        assert session.send(support.packet(token), token, START_MS)
    assert not session.send(support.packet(64), 64, START_MS)
    assert len(support.packets(session.data_to_send())) == 64
    session.receive_data(support.ack(1), START_MS)
    assert session.send(support.packet(64), 64, START_MS)
    assert not session.send(support.packet(65), 65, START_MS)


@pytest.mark.spec("MQQB-3.1.5.5.1-a")
def test_an_acknowledgment_opens_the_window() -> None:
    box = sent("erere")
    acked(box, 3)
    assert box.unacked == 2
    acked(box, 3)
    assert box.unacked == 2
    acked(box, 5)
    assert box.unacked == 0


@pytest.mark.spec("MQQB-3.1.5.5.1-c", "MQQB-3.1.5.5.1-d", "MQQB-3.1.5.5.1-b")
def test_an_acknowledgment_touches_only_what_was_sent_and_makes_room_for_what_was_not() -> None:
    """The owner keeps unsent messages; the session sends each of its own once."""
    session = support.open_acceptor(peer_window=5)
    waiting = list(range(15))
    while session.send(support.packet(waiting[0]), waiting[0], START_MS):
        waiting.pop(0)
    assert waiting == list(range(5, 15))
    session.data_to_send()
    events = session.receive_data(support.ack(1, window=5), START_MS)
    assert support.settled(events) == [0]
    assert session.data_to_send() == []  # nothing is sent twice
    assert session.room == 1
    assert session.send(support.packet(waiting[0]), waiting.pop(0), START_MS)
    assert support.numbers(support.packets(session.data_to_send())) == [5]  # type: ignore[arg-type]
    assert len(waiting) == 9


@pytest.mark.spec("MQQB-3.1.5.5.2-a", "MQQB-3.1.1.6.1-a", "MQMQ-2.2.20.4-e")
def test_express_messages_are_done_when_counted() -> None:
    box = sent("erere")
    assert acked(box, 4) == [1, 3]
    assert box.unsettled() == [2, 4, 5]


@pytest.mark.spec("MQQB-3.1.1.1.1.5-a", "MQQB-3.1.5.5.3-b", "MQQB-3.1.1.6.1-b")
def test_recoverable_messages_are_done_when_stored() -> None:
    box = sent("rrr")
    assert acked(box, 3) == []
    assert box.unsettled() == [1, 2, 3]
    assert box.awaiting
    assert acked(box, 3, base=1, flags=0b11) == [1, 2]
    assert acked(box, 3, base=3, flags=0b1) == [3]
    assert not box.awaiting
    # A header without a recoverable part says nothing about recoverable messages.
    mixed = sent("er")
    assert acked(mixed, 2) == [1]
    assert mixed.unsettled() == [2]


@pytest.mark.spec("MQQB-3.1.5.5.3-a")
def test_everything_up_to_the_number_is_stored() -> None:
    box = sent("rrrr")
    assert acked(box, 4, base=3) == [1, 2, 3]
    assert box.unsettled() == [4]


@pytest.mark.spec("MQQB-3.1.5.5.3-c")
def test_bits_name_what_is_stored() -> None:
    box = sent("rrrrrrrr")
    assert acked(box, 8, base=3, flags=0b1) == [1, 2, 3]
    assert acked(box, 8, base=4, flags=0b1011) == [4, 5, 7]
    assert box.unsettled() == [6, 8]
    assert acked(box, 8, base=4, flags=0b1011) == []  # said again, it means nothing new


def test_numbers_that_were_never_sent_mean_nothing() -> None:
    box = sent("rr")
    assert acked(box, base=3, flags=0xFFFFFFFF) == []
    assert acked(box, base=0, flags=0b1110) == [1, 2]
    assert acked(box, base=0xFFFF) == []


@pytest.mark.parametrize("counted", [3, 100, 0xFFFF])
def test_more_than_was_sent_cannot_be_counted(counted: int) -> None:
    box = sent("ee")
    with pytest.raises(MiscountError):
        acked(box, counted)
    assert box.unsettled() == [1, 2]


def test_a_peer_that_stores_nothing_gets_no_more() -> None:
    box = outbox()
    for token in range(MAX_UNSTORED):
        assert box.room
        box.record(token, 1, START_MS)
        acked(box, (token + 1) & 0xFFFF)
    assert box.room == 0
    assert acked(box, MAX_UNSTORED & 0xFFFF, base=1, flags=0b11) == [0, 1]
    assert box.room == 2


# What was received


@pytest.mark.spec("MQQB-3.1.1.3.1-g", "MQQB-3.1.1.3.1-h")
def test_numbers_of_received_messages() -> None:
    side = receipts()
    for kind in "ererr":
        side.count(kind == "r", START_MS)
    assert (side.received, side.recoverable_received, side.unacked) == (5, 3, 5)
    assert header(side).ack_sequence_number == 5
    session = support.open_acceptor()
    session.receive_data(support.packet(recoverable=True) * 3, START_MS)
    assert session.receive_data(support.ack(sent=3, recoverable_sent=3), START_MS) == []
    support.only_closing(session.receive_data(support.ack(sent=3, recoverable_sent=2), START_MS))


@pytest.mark.spec(
    "MQQB-3.1.1.3.1-j", "MQQB-3.1.5.8.7-f", "MQQB-3.1.1.3.1-i", "MQMQ-2.2.20.4-f", "MQMQ-2.2.20.4-g"
)
def test_a_bit_for_each_stored_message() -> None:
    side = receipts()
    for number in (1, 2, 3):
        side.count(1, START_MS)
        side.stored(number, 1, START_MS)
        assert side.recoverable_flags == (1 << number) - 1
    told = header(side)
    assert (told.recoverable_msg_ack_seq_number, told.recoverable_msg_ack_flags) == (1, 0b111)
    assert side.last_acked_recoverable == 3
    side.count(1, START_MS)
    side.stored(4, 1, START_MS)
    assert side.recoverable_flags == 0b1  # counted from the last acknowledgment on
    assert header(side).recoverable_msg_ack_seq_number == 4


@pytest.mark.spec("MQQB-3.1.1.6.1-c", "MQMQ-2.2.20.4-f")
def test_nothing_stored_is_said_with_zeros() -> None:
    side = receipts()
    side.count(0, START_MS)
    told = header(side)
    assert (told.recoverable_msg_ack_seq_number, told.recoverable_msg_ack_flags) == (0, 0)
    side.count(1, START_MS)
    side.stored(1, 1, START_MS)
    header(side)
    side.count(0, START_MS)
    told = header(side)
    assert (told.recoverable_msg_ack_seq_number, told.recoverable_msg_ack_flags) == (0, 0)


def test_no_bit_leaves_before_the_message_is_stored() -> None:
    side = receipts()
    for _ in range(3):
        side.count(1, START_MS)
    assert header(side).recoverable_msg_ack_flags == 0
    side.stored(2, 2, START_MS)
    # 2 and 3 are stored, 1 is not: to name 2 would tell the sender that 1 is stored as well.
    assert header(side).recoverable_msg_ack_seq_number == 0
    side.stored(1, 1, START_MS)
    told = header(side)
    assert (told.recoverable_msg_ack_seq_number, told.recoverable_msg_ack_flags) == (1, 0b111)
    with pytest.raises(AssertionError):
        side.stored(4, 1, START_MS)


@pytest.mark.spec("MQMQ-2.2.20.4-g")
def test_a_gap_is_closed_by_a_later_acknowledgment() -> None:
    side = receipts()
    for _ in range(8):
        side.count(1, START_MS)
    side.stored(1, 5, START_MS)
    header(side)
    side.stored(6, 1, START_MS)
    side.stored(8, 1, START_MS)
    told = header(side)
    assert (told.recoverable_msg_ack_seq_number, told.recoverable_msg_ack_flags) == (6, 0b101)
    assert not side.pending
    side.stored(7, 1, START_MS)
    told = header(side)
    assert (told.recoverable_msg_ack_seq_number, told.recoverable_msg_ack_flags) == (7, 0b11)


def test_a_store_that_answers_late_is_acknowledged_soon_after() -> None:
    side = receipts()
    side.count(1, START_MS)
    header(side)  # the count went out, the bit could not
    assert side.deadline_ms is None
    side.stored(1, 1, START_MS + 3_000)
    assert side.deadline_ms == START_MS + 3_500


def test_express_messages_are_acknowledged_in_half_the_time_that_their_sender_waits() -> None:
    side = receipts()
    side.count(0, START_MS)
    side.count(0, START_MS + 9_000)
    assert side.deadline_ms == START_MS + 10_000


def test_a_recoverable_message_never_makes_an_acknowledgment_later() -> None:
    side = receipts()
    side.count(0, START_MS)
    side.count(1, START_MS + 9_800)
    assert side.deadline_ms == START_MS + 10_000


def test_what_a_word_of_flags_leaves_over_is_told_soon() -> None:
    side = receipts(window=1_000)
    side.count(1, START_MS, 33)
    side.stored(1, 33, START_MS)
    assert header(side).recoverable_msg_ack_flags == 0xFFFFFFFF
    assert side.deadline_ms == START_MS + 500
    assert header(side).recoverable_msg_ack_flags == 1


@pytest.mark.spec("MQQB-3.1.5.8.7-a", "MQQB-3.1.5.8.7-b", "MQQB-3.1.5.8.7-c")
def test_a_full_word_of_flags_leaves_at_once() -> None:
    """The 33rd message does not have to wait for a timer, nor for half a window of this size."""
    session = support.open_acceptor(window=1_000, peer_window=1_000)
    session.send(support.packet(recoverable=True), "ours", START_MS)
    session.data_to_send()
    for number in range(1, 34):
        session.receive_data(support.packet(number, recoverable=True), START_MS)
        session.stored(number, 1, START_MS)
        if number < 32:
            assert session.data_to_send() == []
    (data,) = session.data_to_send()
    assert data == bytes.fromhex(
        "10 00 1b00 4c494f52 24000000 ffffffff"  # IN, SH
        "0000 0100"  # PT 1
        "2000"  # AckSequenceNumber 32
        "0100"  # RecoverableMsgAckSeqNumber
        "ffffffff"  # RecoverableMsgAckFlags
        "0100"  # UserMsgSequenceNumber
        "0100"  # RecoverableMsgSeqNumber
        "e803"  # WindowSize
        "0000"
    )
    assert session.receipts.last_acked_recoverable == 32
    assert session.receipts.recoverable_flags == 0b1  # the 33rd, from bit 0 on
    session.handle_timer(START_MS + 500)
    (told,) = support.headers(session.data_to_send())
    assert (told.recoverable_msg_ack_seq_number, told.recoverable_msg_ack_flags) == (33, 0b1)


def test_a_large_commit_is_told_in_as_many_words_as_it_needs() -> None:
    session = support.open_acceptor(window=1_000, peer_window=1_000)
    session.receive_data(support.packet(recoverable=True) * 100, START_MS)
    session.stored(1, 100, START_MS)
    told = support.headers(session.data_to_send())
    assert [each.recoverable_msg_ack_seq_number for each in told] == [1, 33, 65]
    assert {each.recoverable_msg_ack_flags for each in told} == {0xFFFFFFFF}
    session.handle_timer(START_MS + 500)
    (rest,) = support.headers(session.data_to_send())
    assert (rest.recoverable_msg_ack_seq_number, rest.recoverable_msg_ack_flags) == (97, 0b1111)


@pytest.mark.spec("MQQB-3.1.1.6.1-d")
@pytest.mark.parametrize(("window", "half"), [(64, 32), (5, 2), (1, 1)])
def test_half_a_window_is_acknowledged_at_once(window: int, half: int) -> None:
    session = support.open_acceptor(window=window)
    for number in range(1, half + 1):
        assert session.data_to_send() == []
        session.receive_data(support.packet(number), START_MS)
    (told,) = support.headers(session.data_to_send())
    assert told.ack_sequence_number == half


@pytest.mark.parametrize("recoverable", [True, False])
def test_large_messages_are_acknowledged_one_by_one(recoverable: bool) -> None:
    """Otherwise their sender would have to keep half a window of them."""
    session = support.open_acceptor()
    large = builders.build(user=builders.user_header(recoverable=recoverable), body=bytes(LARGE_BYTES)).data
    for number in range(1, 4):
        session.receive_data(support.packet(), START_MS)
        session.receive_data(large, START_MS)
        if recoverable:
            assert session.data_to_send() == [], "it is not stored"
            session.stored(number, 1, START_MS)
        (told,) = support.headers(session.data_to_send())
        assert told.ack_sequence_number == 2 * number
        assert told.recoverable_msg_ack_seq_number == (number if recoverable else 0)


def test_what_is_stored_late_is_told_with_the_next_large_message() -> None:
    side = receipts()
    for _ in range(2):
        side.count(1, START_MS, size=LARGE_BYTES)
    side.stored(1, 1, START_MS)
    assert side.due
    assert header(side).recoverable_msg_ack_seq_number == 1
    side.stored(2, 1, START_MS)
    assert not side.due
    side.count(1, START_MS, size=LARGE_BYTES)
    assert side.due


@pytest.mark.spec("MQQB-3.1.1.3.1-z")
@pytest.mark.parametrize("data", [support.packet(1), support.ack()], ids=["message", "acknowledgment"])
def test_any_packet_shows_that_the_peer_lives(data: bytes) -> None:
    session = support.open_acceptor()
    session.outbox.heard = False
    session.receive_data(data[:-1], START_MS)
    assert not session.outbox.heard
    session.receive_data(data[-1:], START_MS)
    assert session.outbox.heard


# Both together


@given(
    st.lists(st.sampled_from("er"), min_size=1, max_size=120),
    st.integers(0, 70_000),
    st.lists(st.integers(0, 40), min_size=1, max_size=40),
)
def test_what_one_side_stores_the_other_forgets(kinds: list[str], before: int, progress: list[int]) -> None:
    """From any point of a long session: nothing is settled early, twice or never."""
    box, side = outbox(1_000), receipts(1_000)
    box.sent = box.acked = side.received = before
    box.recoverable_sent = side.recoverable_received = side.last_acked_recoverable = before
    numbers: dict[int, int] = {}
    for token, kind in enumerate(kinds):
        box.record(token, kind == "r", START_MS)
        side.count(kind == "r", START_MS)
        if kind == "r":
            numbers[token] = box.recoverable_sent
    unstored = list(numbers.values())
    stored: set[int] = set()
    settled: list[int] = []
    for step in [*progress, *([0] * len(kinds))]:
        if unstored:
            number = unstored.pop(step % len(unstored))
            side.stored(number, 1, START_MS)
            stored.add(number)
        told = side.header(0, 0, 64, START_MS)
        for token in box.acknowledge(told, START_MS):
            assert token not in settled
            assert kinds[token] == "e" or numbers[token] in stored
            settled.append(token)
    assert sorted(settled) == list(range(len(kinds)))
    assert box.unsettled() == []


def test_windows_never_close_for_good() -> None:
    window = Window(0, 30_000)
    assert window.size == 1
    window = Window(64, 30_000)
    window.reduce(0, START_MS)
    assert window.size == 1
    window.grow(START_MS + 29_999)
    assert window.size == 1
    for n in range(1, 8):
        window.grow(START_MS + 30_000 * n)
    assert (window.size, window.deadline_ms) == (64, None)
