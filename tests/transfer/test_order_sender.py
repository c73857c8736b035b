"""Exactly once, in order: the sending side (MS-MQQB 3.1.1.5, 3.1.5.6, 3.1.6.5, 3.1.7.1.3)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.transfer.final_ack import FinalAcks, Tracked
from msmq.transfer.order_sender import (
    MAX_SEQUENCE_NUMBER,
    OrderSender,
    Place,
    Released,
    Sequences,
    first_sequence_id,
    placed,
    placed_run,
)
from msmq.transfer.timers import TimerSettings
from msmq.wire.identifiers import SequenceInfo, TxSequenceID
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import OrderAckBody
from tests.transfer import support
from tests.transfer.support import OURS, START_MS, THEIRS
from tests.wire import builders

INSTALLED_S = 1_000
TABLE = TimerSettings().resend_timer_table_s
FIRST_ID = TxSequenceID(INSTALLED_S, 1).number


def sequences() -> Sequences[str]:
    return Sequences(first_sequence_id(INSTALLED_S))


def sender(ids: Sequences[str] | None = None) -> OrderSender[str]:
    return OrderSender(ids or sequences(), TABLE, START_MS)


def sent(stream: OrderSender[str], *tokens: str) -> list[Place]:
    """Number and send some messages."""
    places = []
    for token in tokens:
        place = stream.assign(token)
        assert place is not None
        stream.sent(place.tx_sequence_number, START_MS)
        places.append(place)
    return places


def stored_by_next_hop(stream: OrderSender[str], *numbers: int) -> None:
    for number in numbers:
        assert stream.received_session_ack(number) == Released([], [])


# Places


@pytest.mark.spec(
    "MQQB-3.1.7.1.3-a",
    "MQQB-3.1.1.3.1-p",
    "MQQB-3.1.1.5-c",
)
def test_the_first_sending_gives_a_message_its_place() -> None:
    stream = sender()
    assert sent(stream, "a", "b", "c") == [
        Place(FIRST_ID, 1, 0),
        Place(FIRST_ID, 2, 1),
        Place(FIRST_ID, 3, 2),
    ]
    statistics = stream.statistics(0)
    assert statistics.eod_no_ack_count == 3
    assert statistics.eod_first_non_ack == SequenceInfo(FIRST_ID, 1, 0)
    assert statistics.eod_last_non_ack == SequenceInfo(FIRST_ID, 3, 2)
    assert statistics.eod_next_seq == SequenceInfo(FIRST_ID, 4, 3)
    assert stream.deadline_ms == START_MS + 30_000
    stream.sent(2, START_MS + 1_000)  # again
    assert stream.statistics(0).eod_no_ack_count == 3
    assert stream.deadline_ms == START_MS + 30_000


def test_a_place_may_be_given_before_the_message_is_sent() -> None:
    """With the message's own commit, so that sending it needs no other."""
    stream = sender()
    for token in "abc":
        stream.assign(token)
    assert stream.statistics(0).eod_no_ack_count == 0
    assert stream.deadline_ms is None
    stream.sent(1, START_MS)
    assert stream.statistics(0).eod_no_ack_count == 1
    # What was not sent cannot have arrived.
    assert stream.order_ack(FIRST_ID, 2, START_MS) is None
    assert len(stream) == 3


@pytest.mark.spec("MQQB-3.1.7.1.3-b", "MQMQ-2.2.20.5-k")
def test_a_resent_message_bridges_what_has_expired() -> None:
    stream = sender()
    sent(stream, "a", "b", "c")
    stream.remove(2)
    assert stream.place(3) == Place(FIRST_ID, 3, 1)
    assert stream.place(1) == Place(FIRST_ID, 1, 0)
    (later,) = sent(stream, "d")
    assert later == Place(FIRST_ID, 4, 3)


@pytest.mark.spec("MQQB-3.1.7.1.3-c")
def test_without_a_message_before_it_the_previous_number_is_zero() -> None:
    stream = sender()
    sent(stream, "a", "b", "c")
    stored_by_next_hop(stream, 1)
    stream.order_ack(FIRST_ID, 1, START_MS)
    assert stream.place(2) == Place(FIRST_ID, 2, 0)
    stream.remove(2)
    assert stream.place(3) == Place(FIRST_ID, 3, 0)


def test_the_place_is_written_into_the_packet() -> None:
    packet = support.packet(1, transaction=TransactionHeader(flags=0x14))
    written = placed(packet, Place(FIRST_ID, 7, 5))
    header = UserMessage.decode(written).transaction
    assert header == TransactionHeader(0x14, FIRST_ID, 7, 5)
    assert placed(written, Place(0, 1, 0)) == placed(packet, Place(0, 1, 0))


@pytest.mark.parametrize("names", ["alike", "different"])
def test_many_places_are_written_as_one_after_another(names: str) -> None:
    """Packets of different sizes."""
    packets = []
    for number in range(1, 6):
        user = builders.user_header("OS:host\\" + "q" * (1 if names == "alike" else number), recoverable=True)
        header = TransactionHeader(flags=0x10 * number)
        packets.append(builders.build(user=user, transaction=header, body=bytes(7 * number)).data)
    expected, previous = [], 3
    for number, packet in enumerate(packets, 8):
        expected.append(placed(packet, Place(FIRST_ID, number, previous)))
        written = UserMessage.decode(expected[-1]).transaction
        assert written == TransactionHeader(0x10 * (number - 7), FIRST_ID, number, previous)
        previous = number
    assert placed_run(packets, Place(FIRST_ID, 8, 3)) == b"".join(expected)


def test_numbers_run_out() -> None:
    ids = sequences()
    stream = OrderSender(ids, TABLE, START_MS, (FIRST_ID, MAX_SEQUENCE_NUMBER - 1))
    stream.readmit("a", (FIRST_ID, MAX_SEQUENCE_NUMBER - 1))
    assert stream.assign("b") == (FIRST_ID, MAX_SEQUENCE_NUMBER, MAX_SEQUENCE_NUMBER - 1)
    assert stream.assign("c") is None
    stream.sent(MAX_SEQUENCE_NUMBER, START_MS)
    stored_by_next_hop(stream, MAX_SEQUENCE_NUMBER - 1, MAX_SEQUENCE_NUMBER)
    assert stream.order_ack(FIRST_ID, MAX_SEQUENCE_NUMBER, START_MS) == Released(["a", "b"], [])
    place = stream.assign("c")
    assert place is not None
    assert place.tx_sequence_number == 1


# Sequences


@pytest.mark.spec("MQQB-3.1.1.5-d", "MQQB-3.1.5.6-i", "MQQB-2.2.4-b")
def test_a_new_sequence_when_all_is_acknowledged() -> None:
    stream = sender()
    sent(stream, "a", "b")
    stored_by_next_hop(stream, 1, 2)
    assert stream.order_ack(FIRST_ID, 2, START_MS) == Released(["a", "b"], [])
    assert len(stream) == 0
    (place,) = sent(stream, "c")
    assert TxSequenceID.from_number(place.tx_sequence_id) == (INSTALLED_S, 2)
    assert place[1:] == (1, 0)


@pytest.mark.spec("MQQB-3.1.1.3.1-an", "MQQB-3.1.1.3.1-m", "MQQB-3.1.1.3.1-n")
def test_one_allocator_for_all_queues() -> None:
    ids = sequences()
    first, second = sender(ids), sender(ids)
    (one,), (two,) = sent(first, "a"), sent(second, "b")
    assert TxSequenceID.from_number(one.tx_sequence_id) == (INSTALLED_S, 1)
    assert two.tx_sequence_id > one.tx_sequence_id
    for stream in (first, second):
        stored_by_next_hop(stream, 1)
    answer = ids.order_ack(OrderAckBody.of(two.tx_sequence_id, 1), START_MS)
    assert answer == (second, Released(["b"], []))
    assert (len(first), len(second)) == (1, 0)
    # After a restart, from the id that was stored, nothing is used again.
    restarted: Sequences[str] = Sequences(ids.last_id)
    (three,) = sent(sender(restarted), "c")
    assert three.tx_sequence_id > two.tx_sequence_id
    second_answer = ids.order_ack(OrderAckBody.of(three.tx_sequence_id, 1), START_MS)
    assert second_answer is None
    ids.release(first)
    assert ids.order_ack(OrderAckBody.of(one.tx_sequence_id, 1), START_MS) is None


# OrderAck


@pytest.mark.spec("MQQB-3.1.5.6-g")
def test_an_order_ack_releases_what_the_next_hop_has_stored() -> None:
    stream = sender()
    sent(stream, "a", "b", "c", "d")
    stored_by_next_hop(stream, 1, 2, 4)
    assert stream.order_ack(FIRST_ID, 3, START_MS) == Released(["a", "b"], [])
    assert len(stream) == 2
    assert stream.received_session_ack(3) == Released(["c"], [])
    assert len(stream) == 1
    assert stream.place(4).previous_tx_sequence_number == 0


@pytest.mark.spec("MQQB-3.1.1.3.1.2-c", "MQQB-3.1.5.5.3-d")
def test_an_order_ack_may_come_before_the_session_ack() -> None:
    stream = sender()
    sent(stream, "a")
    assert stream.order_ack(FIRST_ID, 1, START_MS) == Released([], [])
    assert len(stream) == 1
    assert stream.received_session_ack(1) == Released(["a"], [])
    assert len(stream) == 0
    assert stream.received_session_ack(1) == Released([], [])


@pytest.mark.spec(
    "MQQB-3.1.1.6.2-d", "MQQB-3.1.5.5.3-e", "MQQB-3.1.5.5.5-d", "MQQB-3.1.1.6-a", "MQQB-3.1.1.1.1.7-a"
)
def test_a_session_ack_alone_releases_nothing() -> None:
    """With a session: the next hop stores the message, and still it stays, and is sent again with its number."""
    stream = sender()
    session = support.open_initiator()
    (place,) = sent(stream, "a")
    session.send(placed(support.packet(1, transaction=TransactionHeader()), place), 1, START_MS)
    events = session.receive_data(support.ack(1, base=1, flags=1), START_MS)
    assert support.settled(events) == [1]
    stored_by_next_hop(stream, 1)
    assert len(stream) == 1
    assert stream.handle_timer(START_MS + 29_999) == []
    assert stream.handle_timer(START_MS + 30_000) == ["a"]
    assert stream.place(1)[:2] == place[:2]
    # It was sent again: the old session acknowledgment does not count any more.
    assert stream.order_ack(FIRST_ID, 1, START_MS) == Released([], [])
    assert stream.received_session_ack(1) == Released(["a"], [])


@pytest.mark.spec("MQQB-3.1.5.6-b", "MQQB-3.1.5.6-e")
def test_what_an_order_ack_moves() -> None:
    stream = sender()
    sent(stream, "a", "b", "c")
    stored_by_next_hop(stream, 1, 2, 3)
    epoch_ms = 1_700_000_000_000
    stream.order_ack(FIRST_ID, 2, START_MS + 5_000)
    statistics = stream.statistics(epoch_ms)
    assert statistics.eod_last_ack == SequenceInfo(FIRST_ID, 2, 1)
    assert statistics.eod_last_ack_time == 1_700_000_000 + (START_MS + 5_000) // 1_000
    assert statistics.eod_last_ack_count == 1
    assert statistics.eod_no_ack_count == 1
    assert statistics.eod_first_non_ack == statistics.eod_last_non_ack == SequenceInfo(FIRST_ID, 3, 2)
    # A repeated or older one is counted, and moves nothing.
    for number in (2, 1):
        assert stream.order_ack(FIRST_ID, number, START_MS + 6_000) == Released([], [])
    statistics = stream.statistics(epoch_ms)
    assert statistics.eod_last_ack_count == 3
    assert statistics.eod_last_ack == SequenceInfo(FIRST_ID, 2, 1)
    assert statistics.eod_no_ack_count == 1


@pytest.mark.spec("MQQB-3.1.5.6-f")
def test_back_to_the_shortest_wait_when_all_is_acknowledged() -> None:
    stream = sender()
    sent(stream, "a")
    for seconds in (30, 60, 90):
        stream.handle_timer(START_MS + 1_000 * seconds)
    assert stream.statistics(0).eod_resend_interval_s == 300
    stored_by_next_hop(stream, 1)
    stream.order_ack(FIRST_ID, 1, START_MS + 100_000)
    statistics = stream.statistics(0)
    assert (statistics.eod_resend_interval_s, statistics.eod_resend_count) == (30, 0)
    assert (stream.deadline_ms, statistics.eod_resend_time) == (None, 0)


@pytest.mark.spec("MQQB-3.1.5.6-j")
def test_an_order_ack_of_another_sequence_changes_nothing() -> None:
    ids = sequences()
    stream = sender(ids)
    sent(stream, "a", "b")
    stored_by_next_hop(stream, 1, 2)
    old = OrderAckBody.of(FIRST_ID, 2)
    assert ids.order_ack(old, START_MS) is not None
    sent(stream, "c", "d")
    stored_by_next_hop(stream, 1, 2)
    before = stream.statistics(0)
    assert before.eod_last_ack == SequenceInfo(0, 0, 0)
    assert ids.order_ack(old, START_MS) is None
    assert stream.order_ack(FIRST_ID, 2, START_MS) is None
    assert stream.order_ack(stream.sequence_id, 3, START_MS) is None
    assert stream.statistics(0) == before
    assert len(stream) == 2


# Resending


@pytest.mark.spec("MQQB-3.1.2.6-a", "MQQB-3.1.6.5-a")
def test_without_an_order_ack_everything_is_sent_again() -> None:
    stream = sender()
    places = sent(stream, "a", "b", "c")
    epoch_ms = 1_700_000_000_000
    assert stream.statistics(epoch_ms).eod_resend_time == 1_700_000_000 + START_MS // 1_000 + 30
    stored_by_next_hop(stream, 1)
    assert stream.handle_timer(START_MS + 30_000) == ["a", "b", "c"]
    assert [stream.place(number) for number in (1, 2, 3)] == places


@pytest.mark.spec("MQQB-3.1.5.6-d", "MQQB-3.1.6.5-b")
def test_the_waits_grow_with_each_time_out_and_shrink_with_progress() -> None:
    stream = sender()
    sent(stream, "a", "b")
    waits = []
    before = START_MS
    for _ in range(12):
        assert stream.deadline_ms is not None
        waits.append((stream.deadline_ms - before) // 1_000)
        before = stream.deadline_ms
        assert stream.handle_timer(before) == ["a", "b"]
    assert waits == [30] * 3 + [300] * 3 + [1_800] * 3 + [21_600] * 3
    assert stream.statistics(0).eod_no_ack_count == 2
    stored_by_next_hop(stream, 1)
    stream.order_ack(FIRST_ID, 1, before)
    assert stream.deadline_ms == before + 30_000
    assert stream.handle_timer(before + 30_000) == ["b"]


@pytest.mark.spec("MQQB-3.1.1.3-t")
def test_the_waits_can_be_set() -> None:
    settings = TimerSettings(
        resend_timeouts_short_s=1,
        resend_timeouts_medium_s=2,
        resend_timeouts_long_s=3,
        resend_timeouts_final_s=4,
    )
    stream = OrderSender(sequences(), settings.resend_timer_table_s, START_MS)
    sent(stream, "a")
    waits = []
    for _ in range(11):
        assert stream.deadline_ms is not None
        waits.append(stream.deadline_ms)
        stream.handle_timer(stream.deadline_ms)
    assert waits[0] == START_MS + 1_000
    growing = [(b - a) // 1_000 for a, b in pairwise(waits)]
    assert growing == [1] * 2 + [2] * 3 + [3] * 3 + [4] * 2


def test_only_what_was_sent_is_sent_again() -> None:
    stream = sender()
    sent(stream, "a")
    stream.assign("unsent")
    assert stream.handle_timer(START_MS + 30_000) == ["a"]


@pytest.mark.spec("MQQB-3.1.3.2-m", "MQQB-3.1.1.5-a")
def test_a_new_session_changes_no_number() -> None:
    """A session counts from one again, a sequence goes on."""
    session = support.open_initiator()
    session.send(support.packet(1), 1, START_MS)
    session.disconnected(START_MS)
    session.connected(START_MS, THEIRS)
    assert session.outbox.sent == 0
    stream = sender()
    places = sent(stream, "a", "b", "c")
    stored_by_next_hop(stream, 2, 3)
    stream.order_ack(FIRST_ID, 1, START_MS)
    stream.handle_timer(START_MS + 30_000)
    released, again = stream.session_lost()
    assert released == Released(["a"], [])  # acknowledged end to end; who needs the next hop
    assert again == ["b", "c"]
    assert stream.deadline_ms is None
    assert stream.statistics(0).eod_resend_interval_s == 30
    for number in (2, 3):
        assert stream.place(number)[:2] == places[number - 1][:2]
        stream.sent(number, START_MS + 50_000)
    assert stream.deadline_ms == START_MS + 80_000
    (place,) = sent(stream, "d")
    assert place == Place(FIRST_ID, 4, 3)


# Surviving


@pytest.mark.spec("MQQB-3.1.7.1.3-d", "MQQB-3.1.3.2-c")
def test_after_a_restart_the_places_are_the_same() -> None:
    """What the caller stored before sending: the places, the last one given, the last id."""
    ids = sequences()
    places = sent(sender(ids), "a", "b", "c")
    restarted: Sequences[str] = Sequences(ids.last_id)
    stream = OrderSender(restarted, TABLE, START_MS, places[-1][:2])
    for token, place in zip("abc", places, strict=True):
        assert stream.readmit(token, place[:2]) is None
    assert [stream.place(number) for number in (1, 2, 3)] == places
    statistics = stream.statistics(0)
    assert statistics.eod_last_ack.seq_no == statistics.eod_last_ack_count == 0
    assert statistics.eod_last_ack_time == START_MS // 1_000
    assert (statistics.eod_resend_count, statistics.eod_resend_interval_s) == (0, 30)
    assert statistics.eod_resend_time == 0
    assert statistics.eod_no_ack_count == 3
    assert sent(stream, "d") == [Place(FIRST_ID, 4, 3)]
    stored_by_next_hop(stream, 1, 2, 3, 4)
    answer = restarted.order_ack(OrderAckBody.of(FIRST_ID, 4), START_MS)
    assert answer == (stream, Released(["a", "b", "c", "d"], []))


def test_a_number_is_not_given_twice_though_its_message_has_expired() -> None:
    stream = OrderSender(sequences(), TABLE, START_MS, (FIRST_ID, 3))
    stream.readmit("b", (FIRST_ID, 2))
    assert stream.place(2).previous_tx_sequence_number == 0
    assert stream.order_ack(FIRST_ID, 3, START_MS) is not None  # the third had arrived
    place = stream.assign("d")
    assert place == Place(FIRST_ID, 4, 2)


def test_a_message_of_an_earlier_sequence_was_done_before_the_crash() -> None:
    stream = OrderSender(sequences(), TABLE, START_MS, (FIRST_ID + 1, 1))
    tracked = Tracked(7, "journaled", True, False)
    assert stream.readmit("old", (FIRST_ID, 9)) == Released(["old"], [])
    assert stream.readmit("journaled", (FIRST_ID, 10), tracked) == Released([], ["journaled"])
    assert stream.readmit("new", (FIRST_ID + 1, 1)) is None
    assert len(stream) == 1


# Parking


@pytest.mark.spec("MQQB-3.1.1.1.1.7-b")
@pytest.mark.parametrize(
    ("positive", "negative", "final_ack"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_a_journaled_message_is_parked(positive: bool, negative: bool, final_ack: bool) -> None:
    final: FinalAcks[str] = FinalAcks(OURS)
    stream = sender()
    wanted = support.journaled(1, positive=positive, negative=negative, final_ack=final_ack)
    stream.assign("a", final.track(wanted, "a"))
    stream.assign("b", final.track(support.journaled(2), "b"))
    for number in (1, 2):
        stream.sent(number, START_MS)
    stored_by_next_hop(stream, 1, 2)
    assert stream.order_ack(FIRST_ID, 2, START_MS) == Released(["b"], ["a"])
    assert len(stream) == 0


def test_removing_the_last_unacknowledged_message_stops_the_timer() -> None:
    stream = sender()
    sent(stream, "a", "b")
    stream.remove(1)
    assert stream.deadline_ms is not None
    stream.remove(2)
    stream.remove(2)
    assert stream.deadline_ms is None
    (place,) = sent(stream, "c")
    assert place == Place(FIRST_ID + 1, 1, 0)


def test_a_message_that_goes_after_its_order_ack_leaves_the_timer_to_the_others() -> None:
    stream = sender()
    sent(stream, "a", "b")
    stream.order_ack(FIRST_ID, 1, START_MS)
    stream.remove(1)
    assert stream.deadline_ms is not None
    assert stream.handle_timer(stream.deadline_ms) == ["b"]


def test_the_message_at_a_place() -> None:
    ids = sequences()
    stream = sender(ids)
    (first, second) = sent(stream, "a", "b")
    assert ids.find(first.tx_sequence_id, 1) == (stream, "a")
    assert ids.find(second.tx_sequence_id, 2) == (stream, "b")
    stream.remove(1)
    assert ids.find(first.tx_sequence_id, 1) is None
    assert ids.find(first.tx_sequence_id + 1, 2) is None


def test_whether_a_message_may_have_left() -> None:
    stream = sender()
    sent(stream, "a")
    place = stream.assign("b")
    assert place is not None
    assert [stream.was_sent(number) for number in (1, 2)] == [True, False]


def test_many_messages_get_places_like_one_after_another() -> None:
    one_by_one, together = sender(sequences()), sender(sequences())
    places = [one_by_one.assign(token) for token in "abcd"]
    assert together.assign_run("abcd") == places[0]
    for number in range(1, 5):
        assert together.place(number) == one_by_one.place(number)
        one_by_one.sent(number, START_MS)
    together.sent_run(1, 3, START_MS)
    together.sent_run(2, 3, START_MS)  # two of them once more
    assert together.statistics(0) == one_by_one.statistics(0)
    for stream in (one_by_one, together):
        assert stream.order_ack(stream.sequence_id, 3, START_MS) == ([], [])
        assert stream.received_session_acks([range(1, 4), range(2, 5)]) == (["a", "b", "c"], [])
        assert stream.statistics(0).eod_no_ack_count == len(stream) == 1


def test_the_numbers_of_a_sequence_come_to_an_end() -> None:
    stream = sender(sequences())
    stream.assign("a")
    stream._last_number = MAX_SEQUENCE_NUMBER - 2
    assert stream.room == 2
    assert stream.assign_run("bc") == Place(FIRST_ID, MAX_SEQUENCE_NUMBER - 1, 1)
    assert stream.room == 0
    assert stream.assign("d") is None


@given(
    st.integers(0, 12),
    st.integers(0, 12),
    st.sets(st.integers(1, 12)),
    st.lists(st.integers(1, 13), max_size=12),
)
def test_removing_many_is_removing_each(
    sent_through: int, acked: int, tracked: set[int], removed: list[int]
) -> None:
    def stream_of_twelve() -> OrderSender[str]:
        stream, final_acks = sender(), FinalAcks[str](OURS)
        for number in range(1, 13):
            follow = final_acks.follow(number, 0, str(number)) if number in tracked else None
            stream.assign(str(number), follow)
        if sent_through:
            stream.sent_run(1, sent_through, START_MS)
        stream.order_ack(FIRST_ID, acked, START_MS + 1)
        return stream

    together, singly = stream_of_twelve(), stream_of_twelve()
    together.remove_all(removed)
    for number in removed:
        singly.remove(number)
    assert together.statistics(0) == singly.statistics(0)
    assert together.deadline_ms == singly.deadline_ms
    assert len(together) == len(singly) == 12 - len(set(removed) - {13})
    ends = [each.received_session_acks([range(1, 13)]) for each in (together, singly)]
    assert ends[0] == ends[1]
    assert together.session_lost() == singly.session_lost()
