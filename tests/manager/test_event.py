"""An event reserves once, writes together, and answers when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import AccessDeniedError, MessageStorageFailedError
from msmq.manager.answers import Answers
from msmq.manager.event import Event
from tests.manager.support import Host


class Room:
    """A store that says what it was asked for, and whether it has any room."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.appended = 0
        self.asked: list[tuple[int, int, bool]] = []

    def reserve(self, size: int, records: int = 1, *, freeing: bool = False) -> None:
        self.asked.append((size, records, freeing))
        if self.full and not freeing:
            raise MessageStorageFailedError("full")


def event_on(room: Any) -> Event:
    return Event(room, Answers())


def test_only_the_outermost_event_reserves() -> None:
    room = Room()
    event = event_on(room)
    with event.begin(100, 2), event.begin(50, 1), event.begin(10, 1, freeing=True):
        pass
    assert room.asked == [(100, 2, False)]
    with event.begin(7, 1):
        pass
    assert room.asked[1:] == [(7, 1, False)], "the next event reserves again"


def test_without_room_an_event_does_not_begin() -> None:
    with pytest.raises(MessageStorageFailedError), event_on(Room(full=True)).begin(100, 1):
        pytest.fail("it began")


def test_what_frees_room_goes_on_and_lets_nothing_in_that_takes_some() -> None:
    room = Room(full=True)
    event = event_on(room)
    with event.begin(0, 1, freeing=True):
        with event.begin(0, 1, freeing=True):
            pass
        with pytest.raises(MessageStorageFailedError), event.begin(100, 1):
            pytest.fail("it took what is kept back")


def test_readers_are_answered_when_the_event_is_over() -> None:
    host = Host()
    queue = host.queue()
    reader = host.reader(queue)
    reader.receive(timeout_s=10)
    with host.manager.core.event():
        host.send(queue, b"now")
        assert reader.results == []
    assert reader.bodies == [b"now"]


def test_what_can_be_done_otherwise_begins_with_room_or_not_at_all() -> None:
    room = Room()
    event = event_on(room)
    alone = event.begin_with_room(100, 2)
    assert alone is not None
    with alone:
        assert event.begin_with_room(60, 1) is event, "a part of it"
        assert event.begin_with_room(60, 1) is None, "nothing is reserved for it"
    with event.begin(100, 2):
        assert event.begin_with_room(60, 1) is event, "the event that it is part of has reserved so much"
        assert event.begin_with_room(60, 1) is None, "but not twice"
    assert room.asked == [(100, 2, False), (100, 2, False)]
    room.full = True
    assert event.begin_with_room(50, 1) is None
    with event.begin(10, 1, freeing=True):
        assert event.begin_with_room(5, 1) is None, "what frees room is not for what takes some"


@pytest.mark.parametrize(
    ("error", "written", "internal"),
    [
        (AssertionError("ours"), 0, True),
        (KeyError("ours"), 1, True),
        (AccessDeniedError("the caller's"), 0, False),
        (MessageStorageFailedError("before anything was written"), 0, False),
        (MessageStorageFailedError("in the middle"), 1, True),
    ],
)
def test_the_owner_is_told_of_an_error_that_leaves_half_an_event_behind(
    error: Exception, written: int, internal: bool
) -> None:
    room = Room()
    event = event_on(room)
    told: list[BaseException] = []
    event.failed = told.append

    def work() -> None:
        with event.begin(10, 2), event.begin(1, 1):
            room.appended += written
            raise error

    with pytest.raises(type(error)):
        work()
    assert told == [error] * internal, "once, when the outermost event is over"
