"""Calls without an event loop that are left by an exception: nobody goes on in their place."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import msmq
from msmq.client import loop, sync
from msmq.client.loop import Loop, _Call, _Handover
from msmq.client.queue import Seek
from msmq.client.sync import SyncConnection, SyncQueue
from msmq.errors import IoTimeoutError, MessageNotFoundError
from tests.cli.support import Live, serving

QUEUE = ".\\private$\\q"


class Left(Exception):  # noqa: N818  # it is no error
    """What a signal raises."""


@contextmanager
def alarm(after_s: float) -> Iterator[None]:
    def leave(number: int, frame: FrameType | None) -> None:
        raise Left

    before = signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("host")) as running:
        yield running


@pytest.fixture
def mq(live: Live) -> Iterator[SyncConnection]:
    with msmq.connect_sync(live.socket) as connection:
        for name, transactional in ((QUEUE, False), (f"{QUEUE}x", True)):
            connection.create_queue(name, transactional=transactional)
        yield connection
        connection.delete_queue(QUEUE)
        connection.delete_queue(f"{QUEUE}x")


def rest(mq: SyncConnection, queue: str) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(mq.queue(queue).receive(0 if found else 0.3).body)
        except IoTimeoutError:
            return found


def in_transaction(mq: SyncConnection) -> None:
    with mq.transaction() as tx:
        tx.receive(f"{QUEUE}x")


def by_receiver(mq: SyncConnection) -> None:
    with mq.queue(QUEUE).receiver() as receiver:
        receiver.receive()


@pytest.mark.parametrize(
    ("call", "queue"),
    [
        (lambda mq: mq.queue(QUEUE).receive(), QUEUE),
        (by_receiver, QUEUE),
        (lambda mq: next(iter(mq.queue(QUEUE))), QUEUE),
        (in_transaction, f"{QUEUE}x"),
    ],
    ids=["receive", "receiver", "loop", "transaction"],
)
def test_what_comes_later_is_for_others(
    mq: SyncConnection, call: Callable[[SyncConnection], Any], queue: str
) -> None:
    for number in range(5):
        with pytest.raises(Left), alarm(0.05):
            call(mq)
        mq.queue(queue).send(b"%d" % number)
        assert rest(mq, queue) == [b"%d" % number]


def test_a_receiver_goes_on_where_it_was_left(mq: SyncConnection) -> None:
    with mq.queue(QUEUE).receiver(prefetch=1) as receiver:
        with pytest.raises(Left), alarm(0.05):
            receiver.receive()
        mq.queue(QUEUE).send(b"late")
        message = receiver.receive(10)
        assert message.body == b"late"
        message.acknowledge()
    assert rest(mq, QUEUE) == []


def receive(queue: SyncQueue) -> bytes:
    message = queue.receive(0)
    return message.body


def lookup(queue: SyncQueue) -> bytes:
    message = queue.lookup(seek=Seek.FIRST, receive=True)
    return message.body


TAKING = [receive, lookup]


@pytest.mark.filterwarnings("ignore:.*was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("take", TAKING, ids=lambda take: take.__name__)
def test_signals_at_any_time_lose_nothing(mq: SyncConnection, take: Callable[[SyncQueue], bytes]) -> None:
    """At any time within the client, that is: no call can help what happens between its return and the next line."""

    def leave(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename in (sync.__file__, loop.__file__):
                raise Left
            frame = frame.f_back

    queue = mq.queue(QUEUE)
    count = 200
    for number in range(count):
        queue.send(b"%d" % number)
    found: list[bytes] = []
    before = signal.signal(signal.SIGALRM, leave)
    left = 0
    try:
        for number in range(count):
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + number % 50 * 0.0001)
            try:
                while True:
                    found.append(take(queue))
            except Left:
                left += 1
            except (IoTimeoutError, MessageNotFoundError):
                continue
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    found += rest(mq, QUEUE)
    assert left
    assert len(set(found)) == count


def test_what_a_call_gave_is_given_back_when_nobody_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coroutine came to its end, and the exception came before its caller woke up."""
    given = Loop()
    returned: list[str] = []

    async def gives() -> str:
        return "given"

    def result(self: Any) -> Any:
        self._ended.wait()
        raise KeyboardInterrupt

    def shown(what: str) -> str:
        raise KeyboardInterrupt

    kept: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(_Call, "result", result)
        with pytest.raises(KeyboardInterrupt):
            given.take(gives(), returned.append, kept.append)
    given.call(lambda: None)
    assert returned == ["given"]
    with pytest.raises(KeyboardInterrupt):
        given.take(gives(), returned.append, kept.append, shown)
    given.call(lambda: None)
    assert (returned, kept) == (["given", "given"], [])
    assert given.take(gives(), returned.append, kept.append) == "given"
    given.call(lambda: None)
    assert (returned, kept) == (["given", "given"], ["given"])
    given.close()


def test_what_came_after_the_program_had_left_is_given_back() -> None:
    """The loop looks before the program has said whether it has the message, and the message comes late."""
    told: list[tuple[str, str]] = []

    def handover() -> _Handover[str]:
        return _Handover(lambda what: told.append(("back", what)), lambda what: told.append(("kept", what)))

    late, early = handover(), handover()
    late.arrived = False
    assert late.settle()
    late.offer("late")
    early.offer("early")
    assert not early.settle()
    assert told == [("back", "late")]
    early.arrived = True
    assert early.settle()
    assert early.settle()
    assert told == [("back", "late"), ("kept", "early")]


def test_control_c(live: Live, tmp_path: Path, mq: SyncConnection) -> None:
    """A program that catches it and waits; a message that comes then stays for others."""
    program = textwrap.dedent(f"""
        import sys, time, msmq
        mq = msmq.connect_sync({live.socket!r})
        print("ready", flush=True)
        try:
            mq.queue({QUEUE!r}).receive()
        except KeyboardInterrupt:
            print("left", flush=True)
            sys.stdin.readline()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        while not any(q.open_handles for q in mq.queues() if q.path.endswith("\\q")):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"left\n"
        mq.queue(QUEUE).send(b"for others")
        assert rest(mq, QUEUE) == [b"for others"]
        process.stdin.close()
    assert process.returncode == 0
