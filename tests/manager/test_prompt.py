"""Prompt reads do what the events do, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.errors import MessageStorageFailedError
from msmq.manager.model import MessageSeekAction
from msmq.manager.positions import START, PositionState
from msmq.manager.prompt import PromptReading
from msmq.manager.queue import OpenQueueDescriptor, ReadResult
from tests.manager.support import PEEK, SEND, Host


def prompt(host: Host) -> PromptReading:
    return PromptReading(host.manager.placing)


def lookups(descriptor: OpenQueueDescriptor) -> list[int]:
    assert descriptor.queue is not None
    return [entry.lookup_id for entry in descriptor.queue.positions]


@pytest.mark.parametrize("recoverable", [False, True], ids=["express", "recoverable"])
def test_a_receive_in_two_phases(recoverable: bool) -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"one", b"two", recoverable=recoverable)
    reads, descriptor = prompt(host), host.open(queue)
    first = reads.begin(descriptor)
    assert first is not None
    assert first.packet.body == b"one"
    assert queue.position(first.lookup_id).state is PositionState.LOCKED
    second = reads.begin(descriptor)
    assert second is not None
    assert second.packet.body == b"two"
    assert reads.begin(descriptor) is None  # whoever wants to wait asks the event
    assert reads.keep(descriptor, second.lookup_id, second)
    assert reads.keep(descriptor, first.lookup_id)  # read once more
    assert not reads.keep(descriptor, first.lookup_id, first)
    assert host.contents(queue) == []
    assert not descriptor.begun
    host.restart()
    assert host.contents(host.find()) == []


def test_only_who_began_a_read_can_end_it() -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"one")
    reads, descriptor, other = prompt(host), host.open(queue), host.open(queue)
    message = reads.begin(descriptor)
    assert message is not None
    assert not reads.keep(other, message.lookup_id, message)
    assert not reads.keep(descriptor, message.lookup_id + 1)
    host.manager.queues.purge(queue)
    assert not reads.keep(descriptor, message.lookup_id, message)  # the purge has the last word
    assert host.contents(queue) == [b"one"]


def test_what_is_left_to_the_events() -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"one")
    reads = prompt(host)
    assert reads.begin(host.open(queue, PEEK)) is None
    assert reads.begin(host.open(queue, SEND)) is None
    assert reads.peek(host.open(queue, SEND)) is None
    closed = host.open(queue)
    closed.queue = None
    assert reads.begin(closed) is None
    assert reads.peek(closed) is None
    host.send(queue, b"two", allow_peek_when_locked=True)
    assert reads.peek(host.open(queue)) is None
    assert [entry.state for entry in queue.positions] == [PositionState.AVAILABLE] * 2


def test_a_message_that_the_disk_has_damaged_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"one", b"two", b"three", recoverable=True)
    host.store.commit()
    reads, descriptor = prompt(host), host.open(queue)
    load = host.manager.core.load
    places = lookups(descriptor)
    bad = {places[0]}

    def damaged(of: object, entry: object) -> object:
        if entry.lookup_id in bad:  # type: ignore[attr-defined]
            raise MessageStorageFailedError("damaged")
        return load(of, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(host.manager.core, "load", damaged)
    seen = reads.peek(descriptor)
    assert seen is not None
    assert seen.packet.body == b"two"
    bad.add(places[1])
    taken = reads.begin(descriptor)
    assert taken is not None
    assert taken.packet.body == b"three"
    assert lookups(descriptor) == [places[2]]
    assert len(host.manager.core.lost_records) == 2


def test_an_end_that_the_store_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"one", recoverable=True)
    reads, descriptor = prompt(host), host.open(queue)
    message = reads.begin(descriptor)
    assert message is not None

    def refuse(*_: object, **__: object) -> None:
        raise MessageStorageFailedError("full")

    with monkeypatch.context() as patch:
        patch.setattr(host.manager.placing, "delete", refuse)
        with pytest.raises(MessageStorageFailedError):
            reads.keep(descriptor, message.lookup_id, message)
    assert host.contents(queue) == [b"one"]
    assert reads.keep(descriptor, message.lookup_id, message)
    assert host.contents(queue) == []


class Side:
    """A host that is read by events or, wherever it can be, promptly."""

    def __init__(self, *, promptly: bool, journaling: bool) -> None:
        self.host = Host()
        self.queue = self.host.queue(journaling=journaling)
        self.descriptor = self.host.open(self.queue)
        self.reads = prompt(self.host) if promptly else None

    def do(self, step: str, number: int, begun: int, recoverable: bool) -> int | None:
        """Make one step; gives the message that was read. ``begun`` is one that was begun before."""
        host, places = self.host, lookups(self.descriptor)
        match step:
            case "send":
                host.send(self.queue, bytes((number,)), recoverable=recoverable, priority=number)
            case "purge":
                host.manager.queues.purge(self.queue)
            case "begin":
                return self._begin()
            case "keep" | "return" if begun in self.descriptor.begun:
                self._end(begun, keep=step == "keep")
            case "peek":
                return self._peek(START)
            case "next" if places:
                return self._peek(places[number % len(places)])
        return None

    def _begin(self) -> int | None:
        found = self.reads.begin(self.descriptor) if self.reads is not None else None
        if found is not None:
            return found.lookup_id
        results: list[ReadResult] = []
        self.host.reading.dequeue_begin(self.descriptor, results.append, timeout_s=0)
        return _id_of(results[0])

    def _end(self, begun: int, *, keep: bool) -> None:
        if keep and self.reads is not None and self.reads.keep(self.descriptor, begun):
            return
        position = self.queue.position(begun)
        self.host.reading.dequeue_end(self.descriptor, position, delete_message=keep)

    def _peek(self, behind: int) -> int | None:
        found = self.reads.peek(self.descriptor, behind) if self.reads is not None else None
        if found is not None:
            return found.lookup_id
        if behind == START:
            results: list[ReadResult] = []
            self.host.reading.peek(self.descriptor, results.append, timeout_s=0)
            return _id_of(results[0])
        return _id_of(
            self.host.reading.read_by_lookup_id(
                self.descriptor, behind, MessageSeekAction.NEXT, peek=True, from_gone=True
            )
        )

    @property
    def state(self) -> object:
        """Everything that anybody could see."""
        journal = self.queue.journal
        return (
            [(entry.lookup_id, entry.state) for entry in self.queue.positions],
            self.descriptor.begun,
            self.host.spy.deleted,
            self.host.contents(journal) if journal is not None else None,
        )


def _id_of(result: ReadResult) -> int | None:
    return result.message.lookup_id if result.message is not None else None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "begin", "keep", "return", "peek", "next", "purge"]),
        st.integers(0, 7),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.booleans(), st.booleans())
def test_the_same_as_the_events(steps: list[tuple[str, int]], recoverable: bool, journaling: bool) -> None:
    """Two hosts see the same; nobody can tell apart which of them is read promptly."""
    sides = [Side(promptly=promptly, journaling=journaling) for promptly in (False, True)]
    begun: list[int] = []
    for step, number in steps:
        one = begun[number % len(begun)] if begun else 0
        found, same = (side.do(step, number, one, recoverable) for side in sides)
        assert found == same, step
        assert sides[0].state == sides[1].state, step
        if step == "begin" and found is not None:
            begun.append(found)
