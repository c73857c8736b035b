"""Timers, and numbers that never repeat."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from msmq.errors import InsufficientResourcesError
from msmq.manager.core import Subscriber, Timers
from msmq.manager.queues.queue import Queue
from tests.manager.support import Host


def test_timers_run_in_order_when_their_moment_has_come() -> None:
    timers = Timers()
    ran: list[str] = []
    timers.start(3, lambda: ran.append("late"))
    timers.start(1, lambda: ran.append("early"))
    cancelled = timers.start(2, lambda: ran.append("never"))
    cancelled.cancelled = True
    assert timers.next_deadline == 1
    assert timers.run(0.5) == 0
    assert timers.run(2) == 1
    assert timers.next_deadline == 3, "the cancelled one is passed over"
    assert timers.run(10) == 1
    assert ran == ["early", "late"]
    assert timers.next_deadline is None


def test_a_timer_may_start_another() -> None:
    timers = Timers()
    ran: list[int] = []

    def again() -> None:
        ran.append(len(ran))
        if len(ran) < 3:
            timers.start(len(ran), again)

    timers.start(0, again)
    for number in range(3):
        assert timers.run(5) == 1, "others have their turn in between"
        assert ran == [*range(number + 1)]
    assert timers.run(5) == 0


@pytest.mark.spec("DMPR-3.1.1.1-aj")
def test_sequential_numbers_go_on_above_everything_given_out_before_a_crash() -> None:
    host = Host()
    queue = host.queue()
    before = host.send(queue, b"1", recoverable=True).lookup_id & (1 << 56) - 1
    host.kill()
    after = host.send(host.find(), b"2", recoverable=True).lookup_id & (1 << 56) - 1
    assert after > before


def test_many_sequential_numbers_at_once() -> None:
    host = Host()
    core = host.manager.core
    given: list[int] = []
    for count in (1, 1, 5, 1 << 16, 3, 1 << 17, 1):
        given += core.next_sequential_ids(count)
    assert given == list(range(given[0], given[0] + len(given)))
    core.ledger.store.commit()  # type: ignore[attr-defined]  # the limits are in it
    host.kill()
    assert host.manager.core.next_sequential_ids(1)[0] > given[-1]


def test_express_messages_have_a_limit_that_says_what_to_do() -> None:
    host = Host()
    queue = host.queue()
    host.manager.core.express_limit_bytes = 1000
    host.send(queue, b"x" * 500)
    with pytest.raises(InsufficientResourcesError, match="express_limit_bytes"):
        host.send(queue, b"x" * 500)
    host.reader(queue).receive()
    host.send(queue, b"x" * 500)


def test_only_those_who_listen_are_told() -> None:
    class Deaf(Subscriber):
        pass

    class Listening(Subscriber):
        def messages_available(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
            """Hear of it."""

    core = Host().manager.core
    before = list(core.told_available), list(core.told_arrived), list(core.told_deleted)
    deaf, listening = Deaf(), Listening()
    for each in (deaf, listening):
        core.subscribe(each)
    assert core.told_available == [*before[0], listening.messages_available]
    assert (core.told_arrived, core.told_deleted) == before[1:]
    assert deaf in core.subscribers
