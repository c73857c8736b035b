"""Cursors: what each event answers, where the cursor stands then, and that nothing else ever happens."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from msmq.errors import (
    IllegalCursorActionError,
    InvalidHandleError,
    IoTimeoutError,
    MessageAlreadyReceivedError,
    MessageNotFoundError,
)
from msmq.manager.mailbox.cursor import TRANSITIONS, WAIT_ENDS, Cursor, CursorState, Finding, Get, Outcome
from msmq.manager.mailbox.positions import END, START, PositionState
from msmq.manager.queues.queue import Queue
from tests.manager.support import MQ_OK, Host, body_of, position_of, status_of

UNREAD, READ = CursorState.UNREAD, CursorState.READ
WAIT_RECEIVE, WAIT_PEEK = CursorState.WAIT_RECEIVE, CursorState.WAIT_PEEK


# --- fresh cursors ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.1-a", "DMPR-3.2.7.1-a")
def test_a_fresh_cursor_stands_at_the_start_and_has_read_nothing(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a")
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert (cursor.place, cursor.state) == (START, UNREAD)
    assert cursor.descriptor is reader.descriptor
    assert reader.descriptor.cursors == {cursor.handle: cursor}


@pytest.mark.spec("DMPR-3.1.7.1.1-b")
def test_a_deleted_queue_has_no_cursors(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    host.manager.queues.delete(queue)
    assert host.reading.open_cursor(reader.descriptor) is None
    assert not reader.descriptor.cursors


@pytest.mark.spec("DMPR-3.2.1.2-a")
def test_cursor_handles_are_unique_on_the_whole_host(host: Host, queue: Queue) -> None:
    other = host.queue("other")
    readers = [host.reader(queue), host.reader(queue), host.reader(other)]
    cursors = [reader.cursor() for reader in readers for _ in range(3)]
    assert len({cursor.handle for cursor in cursors}) == 9
    assert [cursor.descriptor for cursor in cursors[::3]] == [reader.descriptor for reader in readers]
    host.fill(other, b"a")
    assert status_of(readers[2].peek(cursor=cursors[8])) == MQ_OK
    assert cursors[8].place == next(iter(other.positions)).lookup_id, "a position"
    assert cursors[0].place == START, "or a reserved entry"


# --- peek ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.2.7.2-a", "DMPR-3.2.7.2-b", "DMPR-3.2.7.2-d", "DMPR-3.1.7.1.15-c")
def test_peek_current_stays_on_its_message_until_that_is_gone(host: Host, queue: Queue) -> None:
    first, _ = host.fill(queue, b"a", b"b")
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert body_of(reader.peek(cursor=cursor)) == b"a"
    assert (cursor.place, cursor.state) == (first.lookup_id, READ)
    assert body_of(reader.peek(cursor=cursor)) == b"a"
    assert body_of(host.reader(queue).receive()) == b"a"
    assert status_of(reader.peek(cursor=cursor)) == MessageAlreadyReceivedError.code == 0xC00E001D
    assert (cursor.place, cursor.state) == (first.lookup_id, READ), "nothing has changed"


@pytest.mark.spec("DMPR-3.2.7.2-c")
def test_peek_current_waits_when_there_is_nothing(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert cursor.get(Get.PEEK, queue).outcome is Outcome.WAITING
    assert (cursor.place, cursor.state) == (START, WAIT_PEEK)


def test_a_message_peeked_while_locked_counts_as_received_when_peeked_again(host: Host, queue: Queue) -> None:
    """Only an available message is still there for a cursor that has read it (3.2.7.2-d)."""
    host.fill(queue, b"a", allow_peek_when_locked=True)
    host.reader(queue).begin()
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert body_of(reader.peek(cursor=cursor)) == b"a"
    assert status_of(reader.peek(cursor=cursor)) == MessageAlreadyReceivedError.code


# --- peek next ----------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.2.7.3-a", "DMPR-3.1.7.1.14-a")
def test_peek_next_goes_along_the_queue(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a", b"b", b"c")
    reader = host.reader(queue)
    cursor = reader.cursor()
    bodies = [body_of(reader.peek(cursor=cursor))]
    bodies += [body_of(reader.peek_next(cursor)) for _ in range(2)]
    assert bodies == [b"a", b"b", b"c"]
    assert cursor.state is READ
    assert host.contents(queue) == bodies, "nothing was taken"


@pytest.mark.spec("DMPR-3.2.7.3-b", "DMPR-3.1.7.1.14-c")
def test_peek_next_on_a_fresh_cursor_is_illegal(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a", b"b")
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert status_of(reader.peek_next(cursor)) == IllegalCursorActionError.code == 0xC00E001C
    assert (cursor.place, cursor.state) == (START, UNREAD)


@pytest.mark.spec("DMPR-3.2.7.3-c", "DMPR-3.1.1.11-f")
def test_peek_next_finds_the_successor_of_a_message_that_is_gone(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a", b"b", b"c", b"d", b"e")
    reader, other = host.reader(queue), host.reader(queue)
    cursor = reader.cursor()
    reader.peek(cursor=cursor)
    assert body_of(reader.peek_next(cursor)) == b"b"
    assert [body_of(other.receive()) for _ in range(3)] == [b"a", b"b", b"c"], "it stood on b"
    assert body_of(reader.peek_next(cursor)) == b"d"
    assert cursor.state is READ
    assert body_of(reader.peek_next(cursor)) == b"e"
    other.receive()
    other.receive()
    assert cursor.get(Get.PEEK_NEXT, queue).outcome is Outcome.WAITING
    assert cursor.state is WAIT_PEEK


def test_a_parked_cursor_outlives_thousands_of_messages(host: Host, queue: Queue) -> None:
    """The places around the cursor are freed and others come; it still knows where it stood."""
    host.fill(queue, *(b"%d" % number for number in range(2000)))
    reader, other = host.reader(queue), host.reader(queue)
    cursor = reader.cursor()
    reader.peek(cursor=cursor)
    for _ in range(1000):
        reader.peek_next(cursor)
    for _ in range(1900):
        other.receive()
    assert body_of(reader.peek_next(cursor)) == b"1900"
    host.send(queue, b"urgent", priority=7)
    assert body_of(reader.peek_next(cursor)) == b"1901", "what comes in front of it is not seen"


# --- receive ------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.2.7.4-a", "DMPR-3.2.7.4-b")
def test_cursor_receives_take_messages_in_order(host: Host, queue: Queue) -> None:
    host.fill(queue, b"low", priority=1)
    host.fill(queue, b"a", b"b")
    reader = host.reader(queue)
    cursor = reader.cursor()
    for body in (b"a", b"b", b"low"):
        result = reader.receive(cursor=cursor)
        assert body_of(result) == body
        assert (cursor.place, cursor.state) == (position_of(result).lookup_id, UNREAD)
    assert not queue.positions


@pytest.mark.spec("DMPR-3.2.7.4-c", "DMPR-3.1.7.1.10-e")
def test_a_cursor_receive_past_the_end_finds_nothing_or_waits(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a")
    reader = host.reader(queue)
    cursor = reader.cursor()
    reader.receive(cursor=cursor)
    place = cursor.place
    assert status_of(reader.receive(cursor=cursor)) == MessageNotFoundError.code == 0xC00E0088
    assert (cursor.place, cursor.state) == (place, UNREAD)
    assert reader.receive(5, cursor=cursor) is None, "blocks"
    assert (cursor.place, cursor.state) == (place, WAIT_RECEIVE)


@pytest.mark.spec("DMPR-3.2.7.4-d", "DMPR-3.1.7.1.10-c", "DMPR-3.1.7.1.10-d")
def test_a_cursor_receives_the_message_it_peeked(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a", b"b", b"c")
    reader = host.reader(queue)
    cursor = reader.cursor()
    reader.peek(cursor=cursor)
    reader.peek_next(cursor)
    assert body_of(reader.receive(cursor=cursor)) == b"b"
    assert cursor.state is UNREAD
    assert body_of(reader.peek(cursor=cursor)) == b"c"
    assert body_of(host.reader(queue).receive()) == b"a"
    assert body_of(host.reader(queue).receive()) == b"c"
    assert status_of(reader.receive(cursor=cursor)) == MessageAlreadyReceivedError.code == 0xC00E001D
    assert cursor.state is READ, "unchanged"


@pytest.mark.spec("DMPR-3.2.7.4-e")
def test_a_cursor_that_waits_refuses_a_second_read(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert reader.peek(10, cursor=cursor) is None
    for second in (reader.peek, reader.receive):
        assert status_of(second(5, cursor=cursor)) == IllegalCursorActionError.code
        assert cursor.state is WAIT_PEEK
    assert status_of(reader.peek_next(cursor)) == IllegalCursorActionError.code
    host.send(queue, b"a")
    assert reader.bodies[-1] == b"a", "the first read goes on as if nothing had been"
    assert cursor.state is READ


# --- after a wait -------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.2.7.5-a")
def test_a_message_that_was_waited_for_becomes_the_current_one(host: Host, queue: Queue) -> None:
    peeker, receiver = host.reader(queue), host.reader(queue)
    peeking, receiving = peeker.cursor(), receiver.cursor()
    assert peeker.peek(10, cursor=peeking) is None
    assert receiver.receive(10, cursor=receiving) is None
    assert (peeking.state, receiving.state) == (WAIT_PEEK, WAIT_RECEIVE)
    position = host.send(queue, b"a")
    assert (peeking.place, peeking.state) == (position.lookup_id, READ)
    assert (receiving.place, receiving.state) == (position.lookup_id, UNREAD)


@pytest.mark.spec("DMPR-3.2.7.6-a")
def test_a_peek_that_waited_in_vain_stays_and_a_receive_goes_to_the_end(host: Host, queue: Queue) -> None:
    first = host.send(queue, b"a")
    reader = host.reader(queue)
    peeking, receiving = reader.cursor(), reader.cursor()
    reader.peek(cursor=peeking)
    assert reader.peek_next(peeking, 5) is None
    host.advance(5)
    assert reader.statuses[-1] == IoTimeoutError.code
    assert (peeking.place, peeking.state) == (first.lookup_id, UNREAD)
    host.send(queue, b"b")
    assert body_of(reader.peek(cursor=peeking)) == b"b", "the next new message"

    host.reader(queue).receive()
    host.reader(queue).receive()
    assert reader.receive(5, cursor=receiving) is None
    host.advance(5)
    assert (receiving.place, receiving.state) == (END, UNREAD)


@pytest.mark.spec("DMPR-3.2.7.6-b", "DMPR-3.1.1.2-aa")
def test_behind_the_end_there_is_nothing_but_what_arrives_while_waiting(host: Host, queue: Queue) -> None:
    assert not queue.positions
    assert next(iter(queue.positions), END) == END, "the head of an empty list is its end"
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert cursor.place == START
    assert reader.receive(5, cursor=cursor) is None
    host.advance(5)
    assert cursor.place == END, "run off the list"
    host.send(queue, b"missed")
    assert status_of(reader.receive(cursor=cursor)) == MessageNotFoundError.code
    assert cursor.place == END
    assert reader.receive(5, cursor=cursor) is None
    host.send(queue, b"caught")
    assert reader.bodies[-1] == b"caught"
    assert host.contents(queue) == [b"missed"]


# --- closed cursors -----------------------------------------------------------------------------------------


def test_a_closed_or_foreign_cursor_reads_nothing(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a")
    reader, other = host.reader(queue), host.reader(queue)
    cursor = reader.cursor()
    assert status_of(other.peek(cursor=cursor)) == InvalidHandleError.code, "it belongs to another handle"
    host.reading.close_cursor(cursor)
    host.reading.close_cursor(cursor)
    for read in (reader.peek, reader.receive):
        assert status_of(read(cursor=cursor)) == InvalidHandleError.code
    assert status_of(reader.peek_next(cursor)) == InvalidHandleError.code
    assert host.contents(queue) == [b"a"]


# --- the machine --------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.2.1.2-b")
@pytest.mark.parametrize(
    ("calls", "state"),
    [
        ([], UNREAD),
        (["peek"], READ),
        (["peek", "peek"], READ),
        (["peek", "peek_next"], READ),
        (["receive"], UNREAD),
        (["peek", "receive"], UNREAD),
        (["peek", "peek_next", "peek_next"], WAIT_PEEK),
        (["receive", "receive", "peek"], WAIT_PEEK),
        (["receive", "receive", "receive"], WAIT_RECEIVE),
        (["peek", "peek_next", "peek_next", "timeout"], UNREAD),
        (["receive", "receive", "receive", "timeout"], UNREAD),
        (["peek", "peek_next", "peek_next", "message"], READ),
        (["receive", "receive", "receive", "message"], UNREAD),
    ],
)
def test_the_state_after_each_call(host: Host, queue: Queue, calls: list[str], state: CursorState) -> None:
    host.fill(queue, b"a", b"b")
    reader = host.reader(queue)
    cursor = reader.cursor()
    steps = {
        "peek": lambda: reader.peek(5, cursor=cursor),
        "peek_next": lambda: reader.peek_next(cursor, 5),
        "receive": lambda: reader.receive(5, cursor=cursor),
        "timeout": lambda: host.advance(5),
        "message": lambda: host.send(queue, b"c"),
    }
    for call in calls:
        steps[call]()
    assert cursor.state is state


def test_every_state_but_waiting_has_an_answer_to_every_event() -> None:
    looked = {(event, state) for event, state, _ in TRANSITIONS}
    assert looked == {(event, state) for event in Get for state in (UNREAD, READ)}
    assert {finding for _, _, finding in TRANSITIONS} == set(Finding)
    for outcome, state in TRANSITIONS.values():
        assert (outcome is Outcome.WAITING) == (state in WAIT_ENDS)


ALLOWED = {
    # event, state before -> states after; everything that is not here may change nothing
    ("peek", UNREAD): {READ, WAIT_PEEK, UNREAD},  # UNREAD: it waited no time at all
    ("peek", READ): {READ},
    ("peek_next", UNREAD): {UNREAD},
    ("peek_next", READ): {READ, WAIT_PEEK, UNREAD},
    ("receive", UNREAD): {UNREAD, WAIT_RECEIVE},
    ("receive", READ): {READ, UNREAD},
    ("message", WAIT_PEEK): {READ, WAIT_PEEK},
    ("message", WAIT_RECEIVE): {UNREAD, WAIT_RECEIVE},
    ("timeout", WAIT_PEEK): {UNREAD, WAIT_PEEK},
    ("timeout", WAIT_RECEIVE): {UNREAD, WAIT_RECEIVE},
}


class CursorMachine(RuleBasedStateMachine):
    """Cursors over a queue where everything happens that can happen to its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.queue = self.host.queue()
        self.reader = self.host.reader(self.queue)
        self.other = self.host.reader(self.queue)
        self.number = 0
        self.begun: list[int] = []
        self.cursors: list[Cursor] = []
        self.before: dict[int, tuple[CursorState, int]] = {}
        self.event = "other"
        self.asked: Cursor | None = None

    @initialize(count=st.integers(1, 3))
    def open_cursors(self, count: int) -> None:
        self.cursors = [self.reader.cursor() for _ in range(count)]
        self._note("other")

    def _note(self, event: str, asked: Cursor | None = None) -> None:
        self.event, self.asked = event, asked
        self.before = {cursor.handle: (cursor.state, cursor.place) for cursor in self.cursors}

    def _draw(self, data: st.DataObject) -> Cursor:
        return data.draw(st.sampled_from(self.cursors))

    @rule(data=st.data(), timeout_s=st.sampled_from([0, 3, 9]))
    def peek(self, data: st.DataObject, timeout_s: int) -> None:
        cursor = self._draw(data)
        self._note("peek", cursor)
        self.reader.peek(timeout_s, cursor=cursor)

    @rule(data=st.data(), timeout_s=st.sampled_from([0, 3, 9]))
    def peek_next(self, data: st.DataObject, timeout_s: int) -> None:
        cursor = self._draw(data)
        self._note("peek_next", cursor)
        self.reader.peek_next(cursor, timeout_s)

    @rule(data=st.data(), timeout_s=st.sampled_from([0, 3, 9]))
    def receive(self, data: st.DataObject, timeout_s: int) -> None:
        cursor = self._draw(data)
        self._note("receive", cursor)
        self.reader.receive(timeout_s, cursor=cursor)

    @rule(priority=st.integers(2, 4), peekable=st.booleans())
    def arrive(self, priority: int, peekable: bool) -> None:
        self._note("message")
        self.number += 1
        self.host.send(self.queue, b"%d" % self.number, priority=priority, allow_peek_when_locked=peekable)

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds: int) -> None:
        self._note("timeout")
        self.host.advance(seconds)

    @rule()
    def take(self) -> None:
        self._note("other")
        self.other.receive()

    @rule()
    def begin(self) -> None:
        self._note("other")
        result = self.other.begin()
        if status_of(result) == MQ_OK:
            self.begun.append(position_of(result).lookup_id)

    @precondition(lambda self: self.begun)
    @rule(data=st.data(), keep=st.booleans())
    def end(self, data: st.DataObject, keep: bool) -> None:
        self._note("other" if keep else "message")
        lookup_id = self.begun.pop(data.draw(st.integers(0, len(self.begun) - 1)))
        self.other.end(self.queue.position(lookup_id), keep=keep)

    @rule()
    def purge(self) -> None:
        self._note("other")
        self.host.manager.queues.purge(self.queue)

    @invariant()
    def only_allowed_transitions(self) -> None:
        for cursor in self.cursors:
            before, place = self.before[cursor.handle]
            concerned = self.asked in (None, cursor)
            after = ALLOWED.get((self.event, before), {before}) if concerned else {before}
            assert cursor.state in after, f"{self.event}: {before} -> {cursor.state}"
            if self.event == "other" or not concerned:
                assert cursor.place == place, "nobody moves a cursor but its own reads"

    @invariant()
    def states_mean_what_they_say(self) -> None:
        waiting = [reader.cursor for reader in self.queue.waiting]
        for cursor in self.cursors:
            assert waiting.count(cursor) == cursor.waits
            assert cursor.state is not READ or cursor.place not in (START, END)
        deletable = {reader.cursor: reader.destructive_read for reader in self.queue.waiting}
        for cursor, destructive in deletable.items():
            assert cursor is not None
            assert cursor.state is (WAIT_RECEIVE if destructive else WAIT_PEEK)

    @invariant()
    def held_messages_are_those_that_were_begun(self) -> None:
        held = [
            entry.lookup_id for entry in self.queue.positions if entry.state is not PositionState.AVAILABLE
        ]
        assert sorted(self.begun) == held


@pytest.mark.spec("DMPR-3.2.1.1-a")
class TestCursorMachine(CursorMachine.TestCase):
    """Random sequences of everything that can happen to a queue while cursors stand in it."""

    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
