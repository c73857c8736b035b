"""Many messages at once: into a queue, out of it, and what is left to the usual way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from msmq.errors import InsufficientResourcesError, MessageStorageFailedError
from msmq.manager.initialization import Settings
from msmq.manager.ledger import Kind
from msmq.manager.model import UNLIMITED
from msmq.manager.positions import START
from msmq.manager.prompt import PromptReading
from msmq.manager.queue import Queue
from msmq.manager.stored import StoredMessage
from msmq.manager.transit import INTAKE_BYTES
from msmq.wire.message import UserMessage
from msmq.wire.runs import Run, Shape
from tests.manager.support import NOON, Host, Spy, message

ALL = 1 << 20


def take(host: Host, queue: Queue, *messages: StoredMessage) -> None:
    size = sum(each.size + INTAKE_BYTES for each in messages)
    with host.manager.core.event(size, 3 * len(messages)):
        insert = host.manager.transit.intake(queue)
        for each in messages:
            insert(each)


def bodies(host: Host, queue: Queue) -> list[bytes]:
    return [bytes(host.manager.core.load(queue, entry).packet.body) for entry in queue.positions]


@pytest.mark.parametrize("recoverable", [False, True], ids=["express", "recoverable"])
def test_what_goes_in_is_what_the_usual_way_makes(recoverable: bool) -> None:
    """The same places, sizes and records, by priority and in order; and the same after a restart."""
    host = Host()
    usual, quick = host.queue("usual"), host.queue("quick")
    given = [(b"%d" % number, number % 3) for number in range(9)]
    for body, priority in given:
        message_of = message(body, priority=priority, recoverable=recoverable)
        host.manager.placing.insert(usual, message_of)
    take(
        host, quick, *(message(body, priority=priority, recoverable=recoverable) for body, priority in given)
    )
    assert (
        bodies(host, quick) == bodies(host, usual) == [b"2", b"5", b"8", b"1", b"4", b"7", b"0", b"3", b"6"]
    )
    assert quick.total_bytes == usual.total_bytes
    core = host.manager.core
    assert core.total_bytes == 2 * quick.total_bytes
    assert core.express_bytes == (0 if recoverable else core.total_bytes)
    host.restart()
    again = host.manager.core.by_path[quick.pathname.lower()]
    assert bodies(host, again) == (bodies(host, host.manager.core.by_path[usual.pathname.lower()]))
    assert len(again.positions) == (9 if recoverable else 0)


@pytest.mark.parametrize("kind", ["express", "recoverable", "transactional"])
def test_a_run_goes_in_as_its_messages_do(kind: str) -> None:
    """The same places, sizes, marks and bytes; read in every way; and the same after a restart."""
    host = Host()
    transit, core = host.manager.transit, host.manager.core
    core.unsubscribe(host.spy)
    transactional, recoverable = kind == "transactional", kind != "express"
    queues = [host.queue(name, transactional=transactional) for name in ("single", "together")]
    made = [
        message(bytes(size), priority=5, recoverable=recoverable, transactional=transactional)
        for size in (3, 900, 3, 14)
    ]
    run = run_of(made)
    assert transit.takes(queues[1], run)
    take(host, queues[0], *made)
    with core.event(run.size + INTAKE_BYTES * len(run), 3 * len(run)):
        lookup_ids = transit.take_in(queues[1], run)
    first, second = (
        [(entry.size, entry.state, entry.marks, bool(entry.address)) for entry in queue.positions]
        for queue in queues
    )
    assert first == second
    assert [entry.lookup_id for entry in queues[1].positions] == list(lookup_ids)
    assert {each >> 56 for each in lookup_ids} == {0 if transactional else 2}
    assert core.express_bytes == (0 if recoverable else core.total_bytes)
    for queue in queues:
        held = [core.load(queue, entry) for entry in queue.positions]
        assert [each.packet.data for each in held] == [each.packet.data for each in made]
        assert {each.arrival_time for each in held} == {core.now_s}
        waiting = transit.waiting(queue, START, ALL, ALL)
        assert waiting is not None
        assert waiting.packets == list(run.packets)
        prompt = PromptReading(host.manager.placing).peek(host.open(queue))
        assert prompt is not None
        assert prompt.packet.data == made[0].packet.data
    reader = host.reader(queues[1])
    for each in made:
        found = reader.receive(timeout_s=0)
        assert found is not None
        assert found.message is not None
        assert found.message.packet.data == each.packet.data
    assert (queues[1].volatile, queues[1].total_bytes) == ({}, 0)
    assert core.total_bytes == queues[0].total_bytes
    host.restart()
    left = host.manager.core.by_path[queues[0].pathname.lower()]
    assert len(left.positions) == (len(made) if recoverable else 0)


def run_of(messages: list[StoredMessage]) -> Run:
    if not messages[0].packet.transactional:
        sample = UserMessage.decode(messages[0].packet.data)
        shape = Shape.of(sample)
        assert shape is not None
        run = shape.run([each.packet.data for each in messages])
        assert run is not None
        assert len(run) == len(messages)
        return run
    # All of them have the first number, which a queue does not look at.
    ids = range(1, len(messages) + 1)
    return Run(messages[0].packet, [each.packet.data for each in messages], [NOON] * len(messages), ids, 1)


def test_runs_that_have_to_go_one_by_one() -> None:
    host = Host()
    transit, core = host.manager.transit, host.manager.core
    core.unsubscribe(host.spy)
    queue = host.queue()
    run = run_of([message(b"x"), message(b"y")])
    assert transit.takes(queue, run)
    queue.quota_kb = 0
    assert not transit.takes(queue, run)
    queue.quota_kb = UNLIMITED
    core.record.queue_manager_quota_kb = 0
    assert not transit.takes(queue, run)
    core.record.queue_manager_quota_kb = UNLIMITED
    core.express_limit_bytes = run.size - 1
    assert not transit.takes(queue, run)
    core.express_limit_bytes += 1
    assert transit.takes(queue, run)
    core.throttled = True
    assert not transit.takes(queue, run)
    core.throttled = False
    assert not transit.takes(queue, run_of([message(b"x", time_to_be_received_s=9)]))
    host.reader(queue).receive(timeout_s=10)
    assert not transit.takes(queue, run), "somebody waits for one of them"
    other = host.queue("other")
    host.manager.subscribe(Spy(host))
    assert not transit.takes(other, run), "somebody wants to hear of each"


def test_readers_who_wait_are_served() -> None:
    host = Host()
    queue = host.queue()
    reader = host.reader(queue)
    assert reader.receive(timeout_s=10) is None
    take(host, queue, message(b"first"), message(b"second"))
    assert reader.bodies == [b"first"]
    assert bodies(host, queue) == [b"second"]


def test_what_expires_is_watched() -> None:
    host = Host()
    queue = host.queue()
    take(host, queue, message(b"short", time_to_be_received_s=10), message(b"long"))
    host.advance(11)
    assert bodies(host, queue) == [b"long"]


def test_subscribers_hear_of_what_is_available() -> None:
    host = Host()
    queue = host.queue()
    spy = Spy(host)
    host.manager.subscribe(spy)
    take(host, queue, message(b"1"), message(b"2", recoverable=True))
    assert spy.available == [b"1", b"2"]


def test_express_messages_have_their_limit() -> None:
    host = Host(settings=Settings(express_limit_bytes=1_000))
    queue = host.queue()
    with pytest.raises(InsufficientResourcesError):
        take(host, queue, message(bytes(600)), message(bytes(600)))
    assert len(queue.positions) == 1


def test_what_waits_is_read_together() -> None:
    host = Host()
    queue = host.queue()
    take(host, queue, *(message(b"%d" % number, recoverable=number % 2 == 1) for number in range(6)))
    transit = host.manager.transit
    found = transit.waiting(queue, START, 4, ALL)
    assert found is not None
    assert [packet[-4:-3] for packet in found.packets] == [b"0", b"1", b"2", b"3"]
    rest = transit.waiting(queue, found.lookup_ids[-1], 4, ALL)
    assert rest is not None
    assert len(rest.packets) == 2
    assert found.packets + rest.packets == [
        host.manager.core.load(queue, entry).packet.data for entry in queue.positions
    ]
    assert list(found.lookup_ids + rest.lookup_ids) == [entry.lookup_id for entry in queue.positions]
    assert transit.waiting(queue, rest.lookup_ids[-1], 4, ALL) is None
    assert found.first(3).packets == found.packets[:3]


def test_one_read_has_a_bounded_size_but_never_nothing() -> None:
    host = Host()
    queue = host.queue()
    take(host, queue, *(message(bytes(1_000)) for _ in range(5)))
    for limit, count in ((2_500, 2), (1, 1)):
        found = host.manager.transit.waiting(queue, START, 5, limit)
        assert found is not None
        assert len(found.packets) == len(found.lookup_ids) == len(found.marks) == len(found.plain) == count


def test_local_attributes_stand_in_front_of_a_packet() -> None:
    host = Host()
    queue = host.queue()
    take(host, queue, message(b"1", recoverable=True), message(b"2", recoverable=True, source_address="::1"))
    found = host.manager.transit.waiting(queue, START, 5, ALL)
    assert found is not None
    assert list(found.plain) == [True, False]
    assert found.packets == [host.manager.core.load(queue, entry).packet.data for entry in queue.positions]


@pytest.mark.parametrize("recoverable", [False, True], ids=["express", "recoverable"])
def test_what_is_forgotten_is_gone_for_good(recoverable: bool) -> None:
    host = Host()
    queue = host.queue()
    take(host, queue, *(message(b"%d" % number, recoverable=recoverable) for number in range(5)))
    found = host.manager.transit.waiting(queue, START, 3, ALL)
    assert found is not None
    gone = found.lookup_ids
    host.manager.transit.forget(queue, [*gone, gone[0]])  # once more does no harm
    assert bodies(host, queue) == [b"3", b"4"]
    core = host.manager.core
    assert core.total_bytes == queue.total_bytes
    assert core.express_bytes == (0 if recoverable else queue.total_bytes)
    if recoverable:
        host.restart()
        assert bodies(host, host.manager.core.by_path[queue.pathname.lower()]) == [b"3", b"4"]


def test_damaged_messages_are_passed_over() -> None:
    """Even when everything that was read together is damaged, what follows is found."""
    host = Host()
    queue = host.queue()
    take(host, queue, *(message(b"%d" % number, recoverable=True) for number in range(4)))
    host.manager.core.ledger.store.commit()
    read, read_many = host.store.read, host.store.read_many
    broken = [entry.address for entry in queue.positions][:2]

    def failing(address: int, size: int | None = None) -> bytes:
        if address in broken:
            raise MessageStorageFailedError("damaged")
        return read(address, size)

    def failing_many(records: Sequence[tuple[int, int]], skipped: int = 0) -> list[bytes]:
        return [failing(address, size)[skipped:] for address, size in records]

    host.store.read, host.store.read_many = failing, failing_many  # type: ignore[method-assign]
    found = host.manager.transit.waiting(queue, START, 2, ALL)
    assert found is not None
    assert [packet[-4:-3] for packet in found.packets] == [b"2", b"3"]
    host.store.read, host.store.read_many = read, read_many  # type: ignore[method-assign]
    assert bodies(host, queue) == [b"2", b"3"]
    assert len(host.manager.core.lost_records) == 2


@pytest.mark.parametrize("recoverable", [False, True], ids=["express", "recoverable"])
def test_the_packet_at_a_place(recoverable: bool) -> None:
    host = Host()
    queue = host.queue()
    given = message(b"x", recoverable=recoverable, source_address="10.0.0.1")
    take(host, queue, given)
    (entry,) = queue.positions
    assert host.manager.transit.packet(queue, entry) == given.packet.data


def restart_damaged(host: Host, found: bytes, offset: int) -> None:
    """Stop, damage the record in whose payload something stands, and start."""
    host.manager.stop()
    host.store.close()
    contents = {name: host.disk.durable_content(name) for name in host.disk.names() if name.endswith(".log")}
    (segment,) = [name for name, content in contents.items() if content.count(found) == 1]
    host.disk.flip(segment, contents[segment].index(found) + offset)
    host.start()


def test_a_damaged_record_of_deletions_brings_its_messages_back() -> None:
    """Nobody knows any more that they were gone; operators are told, and what other records say holds."""
    host = Host()
    queue = host.queue()
    take(host, queue, *(message(b"%d" % number, recoverable=True) for number in range(6)))
    entries = list(queue.positions)
    host.manager.transit.forget(queue, [entry.lookup_id for entry in entries[:3]])
    host.manager.transit.forget(queue, [entry.lookup_id for entry in entries[3:5]])
    host.store.commit()
    gone = b"".join(entry.lookup_id.to_bytes(8, "little") for entry in entries[:3])
    restart_damaged(host, gone, 9)
    again = host.manager.core.by_path[queue.pathname.lower()]
    assert bodies(host, again) == [b"0", b"1", b"2", b"5"]
    (lost,) = host.manager.core.lost_records
    assert lost.kind is Kind.DELETE_ALL
    host.manager.transit.forget(again, [entry.lookup_id for entry in again.positions])
    host.restart()
    assert bodies(host, host.manager.core.by_path[queue.pathname.lower()]) == []


def test_damage_among_messages_that_came_together_costs_what_it_hits() -> None:
    host = Host()
    core = host.manager.core
    core.unsubscribe(host.spy)
    queue = host.queue()
    run = run_of([message(b"body %02d" % number, recoverable=True) for number in range(20)])
    with core.event(run.size + INTAKE_BYTES * len(run), 3 * len(run)):
        host.manager.transit.take_in(queue, run)
    assert bodies(host, queue) == [b"body %02d" % number for number in range(20)]
    host.store.commit()
    restart_damaged(host, b"body 07", 2)
    again = host.manager.core.by_path[queue.pathname.lower()]
    found = host.manager.transit.waiting(again, START, 20, ALL)
    assert found is not None
    expected = [b"body %02d" % number for number in range(20) if number != 7]
    assert [bytes(UserMessage.decode(packet).body) for packet in found.packets] == expected
    assert bodies(host, again) == expected
