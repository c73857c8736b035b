"""Messages that expire: kept by the second, and forgotten when they leave."""

from __future__ import annotations

from tests.manager.support import Host


def test_messages_that_leave_do_not_pile_up() -> None:
    """A day to be received, and every message is received at once."""
    host = Host()
    queue, timers = host.queue(), host.manager.core.timers
    reader = host.reader(queue)
    for number in range(5000):
        host.now += 1 if number % 10 == 0 else 0
        host.send(queue, b"x", time_to_be_received_s=86_400)
        reader.receive()
    assert len(host.manager.mailbox.expiries) <= 1025
    assert len(timers) < 50, "a queue has one timer, whatever the times of its messages"


def test_messages_of_a_queue_share_a_timer() -> None:
    host = Host()
    queue = host.queue()
    before = len(host.manager.core.timers)
    host.fill(queue, *[b"x"] * 2000, time_to_be_received_s=60)
    host.fill(queue, *[b"x"] * 1000, time_to_be_received_s=70)
    assert len(host.manager.core.timers) == before + 1
    assert len(host.manager.mailbox.expiries) == 3000
    host.advance(60)
    assert len(queue.positions) == len(host.manager.mailbox.expiries) == 1000
    host.advance(10)
    assert len(queue.positions) == len(host.manager.mailbox.expiries) == 0


def test_who_expires_sooner_than_all_others_is_not_late() -> None:
    host = Host()
    queue = host.queue()
    for seconds in (300, 200, 100, 400):
        host.send(queue, b"%d" % seconds, time_to_be_received_s=seconds)
    for left in (3, 2, 1, 0):
        host.advance(99)
        assert len(queue.positions) == left + 1
        host.advance(1)
        assert len(queue.positions) == left


def test_seconds_that_have_gone_by_together_expire_together() -> None:
    host = Host()
    queue = host.queue()
    for seconds in range(1, 20):
        host.send(queue, b"x", time_to_be_received_s=seconds)
    host.now += 15
    host.manager.run_timers()
    assert len(queue.positions) == len(host.manager.mailbox.expiries) == 4


def test_sweeping_forgets_nothing_that_is_there() -> None:
    host = Host()
    queue = host.queue()
    kept = host.send(queue, b"kept", time_to_be_received_s=100, priority=0)
    reader = host.reader(queue)
    for _ in range(3000):
        host.send(queue, b"x", time_to_be_received_s=50)
        reader.receive()
    last = host.send(queue, b"last", time_to_be_received_s=100)
    host.advance(99)
    assert {entry.lookup_id for entry in queue.positions} == {kept.lookup_id, last.lookup_id}
    host.advance(1)
    assert len(queue.positions) == 0


def test_a_deleted_queue_takes_its_timers_along() -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"a", b"b", time_to_be_received_s=60)
    host.manager.queues.delete(queue)
    assert len(host.manager.mailbox.expiries) == 0
    host.advance(100)
    assert host.manager.core.timers.failures == 0
