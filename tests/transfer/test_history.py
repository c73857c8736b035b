"""MessageIDHistoryTable (MS-MQQB 3.1.1.3, 3.1.5.8.1, 3.1.6.7)."""

from __future__ import annotations

from collections import OrderedDict
from random import Random

import pytest

from msmq.transfer.events import MessagesReceived
from msmq.transfer.history import DEFAULT_SIZE, MessageIdHistory, message_identifier
from msmq.transfer.timers import TimerSettings
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from tests.transfer import support
from tests.transfer.support import FOREIGN, THEIRS, Pair
from tests.wire import builders

NOW_S = 1_700_000_000
HALF_HOUR_S = 1_800


def history(size: int = DEFAULT_SIZE, stored: list[tuple[bytes, int]] | None = None) -> MessageIdHistory:
    return MessageIdHistory(TimerSettings().message_id_history_cleanup_ms, NOW_S, size, stored or [])


def message(number: int, source: bytes = THEIRS) -> UserMessage:
    user = builders.user_header()
    user.source_queue_manager = source
    user.message_id = number
    return UserMessage.build(base=BaseHeader(), user=user, properties=MessagePropertiesHeader())


def take(table: MessageIdHistory, number: int, now_s: int = NOW_S, source: bytes = THEIRS) -> bool:
    """A message arrives; gives whether it is delivered."""
    identifier = message_identifier(message(number, source))
    if table.seen(identifier, now_s):
        return False
    table.record(identifier, now_s)
    return True


@pytest.mark.spec("MQQB-3.1.1.3-o")
def test_an_entry_is_source_number_and_time() -> None:
    table = history()
    take(table, 77)
    assert list(table) == [(MessageIdentifier(THEIRS, 77).encode(), NOW_S)]
    assert message(77).identifier.encode() == message_identifier(message(77))


@pytest.mark.spec("MQQB-3.1.5.8.1-b")
def test_a_duplicate_is_discarded_and_remembered_anew() -> None:
    table = history()
    assert take(table, 1)
    assert take(table, 2, NOW_S + 1)
    assert not take(table, 1, NOW_S + 100)
    assert [time_s for _, time_s in table] == [NOW_S + 1, NOW_S + 100]


@pytest.mark.spec("MQQB-3.1.5.8.1-c")
def test_the_same_number_of_two_senders_is_no_duplicate() -> None:
    table = history()
    assert take(table, 1, source=THEIRS)
    assert take(table, 1, source=FOREIGN)
    assert not take(table, 1, source=FOREIGN)


@pytest.mark.spec("MQQB-3.1.5.8.1-d")
def test_a_duplicate_counts_and_is_acknowledged_on_its_session() -> None:
    """The acknowledgment was lost with the first session; the second one settles the message."""
    table = history()
    delivered = []

    def deliver(pair: Pair) -> None:
        for event in support.found(pair.events["right"], MessagesReceived):
            for arrived in event.messages.messages:
                if not table.seen(message_identifier(arrived), NOW_S):
                    table.record(message_identifier(arrived), NOW_S)
                    delivered.append(arrived.user.message_id)
            pair.right.stored(event.first_recoverable, event.recoverables, pair.now_ms)

    first = Pair(durable=False)
    first.run()
    first.left.send(support.packet(5, recoverable=True), 5, first.now_ms)
    first.run()
    deliver(first)
    (closing,) = first.left.disconnected(first.now_ms)
    assert closing.returned == [5]  # type: ignore[union-attr]
    second = Pair(durable=False)
    second.run()
    second.left.send(support.packet(5, recoverable=True), 5, second.now_ms)
    second.run()
    deliver(second)
    assert second.right.receipts.recoverable_received == 1
    second.wait(500)
    assert support.settled(second.events["left"]) == [5]
    assert not second.left.outbox.awaiting
    assert delivered == [5]


@pytest.mark.spec("MQQB-3.1.1.3-n", "MQQB-3.1.5.8.2-d")
def test_the_oldest_entry_makes_room() -> None:
    table = history()
    for number in range(10_000):
        take(table, number)
    assert len(table) == 10_000
    assert take(table, 10_000)
    assert len(table) == 10_000
    assert take(table, 0)  # forgotten
    assert not take(table, 2)


def test_many_are_recorded_as_they_are_one_by_one() -> None:
    one_by_one, together = history(10), history(10)
    for first, count in ((0, 4), (4, 3), (7, 9), (16, 1), (17, 25)):
        numbers = range(first, first + count)
        assert list(together.fresh(THEIRS, numbers, range(count), NOW_S + first)) == list(range(count))
        together.record_all(THEIRS, numbers, NOW_S + first)
        for number in numbers:
            assert take(one_by_one, number, NOW_S + first)
        assert list(together) == list(one_by_one)
        assert len(together) == len(one_by_one) == len(list(together))
        assert together.deadline_s == one_by_one.deadline_s
        assert list(together.fresh(FOREIGN, numbers, range(count), NOW_S)) == list(range(count))


def test_of_many_only_the_new_ones_are_fresh() -> None:
    table = history(10)
    table.record_all(THEIRS, range(1, 5), NOW_S)
    numbers = [7, 2, 8, 7, 4, 9, 2]
    assert table.fresh(THEIRS, numbers, range(7), NOW_S + 3) == [0, 2, 5], "each once"
    assert table.fresh(THEIRS, numbers, range(3, 5), NOW_S + 3) == [3]
    assert table.fresh(FOREIGN, numbers, range(7), NOW_S + 3) == [0, 1, 2, 4, 5]
    times = {MessageIdentifier.decode(identifier).ordinal: time_s for identifier, time_s in table}
    assert times == {1: NOW_S, 3: NOW_S, 2: NOW_S + 3, 4: NOW_S + 3}, "duplicates are remembered anew"
    assert len(table) == 4, "what is fresh is recorded when it was taken"


@pytest.mark.parametrize("seed", range(20))
def test_it_is_an_ordered_table_whatever_comes(seed: int) -> None:
    """Runs, single messages, duplicates and the timer, against a plain model."""
    rng = Random(seed)
    table = history(size := rng.choice((3, 20, 5_000)))
    model: OrderedDict[bytes, int] = OrderedDict()
    now_s, fresh = NOW_S, 0
    for _ in range(300):
        now_s += rng.choice((0, 0, 1, 200, 1_000))
        source = rng.choice((THEIRS, FOREIGN))
        if rng.random() < 0.3 and model:
            identifier = rng.choice(list(model))
            assert table.seen(identifier, now_s)
            model[identifier] = now_s
            model.move_to_end(identifier)
        elif rng.random() < 0.1:
            if table.deadline_s is not None and now_s >= table.deadline_s:
                while model and next(iter(model.values())) < now_s - HALF_HOUR_S:
                    model.popitem(last=False)
            table.handle_timer(now_s)
        else:
            numbers = range(fresh, fresh + rng.choice((1, 2, 7, 600)))
            fresh = numbers[-1] + rng.choice((1, 5))
            assert len(table.fresh(source, numbers, range(len(numbers)), now_s)) == len(numbers)
            table.record_all(source, numbers, now_s)
            for number in numbers:
                model[MessageIdentifier(source, number).encode()] = now_s
                if len(model) > size:
                    model.popitem(last=False)
        assert list(table) == list(model.items())
        assert len(table) == len(model)
    table.handle_timer(now_s + 10 * HALF_HOUR_S)
    assert (list(table), len(table), table.deadline_s) == ([], 0, None)


def test_what_comes_again_and_again_takes_no_memory() -> None:
    table = history(size=1_000)
    table.record_all(THEIRS, range(1_000), NOW_S)
    for turn in range(20):
        for number in range(turn % 7, 1_000, 7):
            assert not take(table, number, NOW_S + turn)
    assert len(table) == 1_000
    kept = sum(len(group.numbers) for group in table._groups)
    assert kept <= 2 * 1_000
    assert len(table._groups) <= 1_000


@pytest.mark.spec("MQQB-3.1.2.8-a", "MQQB-3.1.6.7-a", "MQQB-3.1.5.8.2-d")
def test_old_entries_vanish() -> None:
    table = history()
    assert table.deadline_s is None
    take(table, 1)
    assert table.deadline_s == NOW_S + HALF_HOUR_S
    take(table, 2, NOW_S + 1)
    take(table, 3, NOW_S + 1_000)
    table.handle_timer(NOW_S + HALF_HOUR_S - 1)
    assert len(table) == 3
    take(table, 1, NOW_S + 1_200)  # seen again: young again
    table.handle_timer(NOW_S + HALF_HOUR_S + 2)
    assert [int.from_bytes(each[16:], "little") for each, _ in table] == [3, 1]
    assert table.deadline_s == NOW_S + 2 * HALF_HOUR_S + 2
    table.handle_timer(NOW_S + 3 * HALF_HOUR_S)
    assert len(table) == 0
    assert table.deadline_s is None
    take(table, 4, NOW_S + 10**6)
    assert table.deadline_s == NOW_S + 10**6 + HALF_HOUR_S


@pytest.mark.spec("MQQB-3.1.1.3-m", "MQQB-3.1.3.1-b")
def test_what_was_stored_survives() -> None:
    table = history()
    take(table, 1)
    take(table, 2, NOW_S + 5)
    again = history(stored=list(reversed(list(table))))
    assert not take(again, 1, NOW_S + 60)
    assert again.deadline_s == NOW_S + HALF_HOUR_S
    assert history().deadline_s is None
    assert len(history(size=1, stored=list(table))) == 1
