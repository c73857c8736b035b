"""The client without an event loop: same names, same results."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import msmq
from msmq.client import sync
from msmq.client.connection import Connection
from msmq.client.cursor import Cursor
from msmq.client.queue import Queue
from msmq.client.receiver import Receiver
from msmq.errors import IoTimeoutError
from tests.api.support import QUEUE, address, daemon


@contextmanager
def connected(directory: Path) -> Iterator[msmq.SyncConnection]:
    """A daemon in a thread, as its client has no loop."""
    found: list[str] = []
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with daemon(directory) as running:
            found.append(address(running))
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(120)
        with msmq.connect_sync(found[0]) as mq:
            yield mq
    finally:
        stop.set()
        thread.join()


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("ours", "theirs", "without"),
    [
        (
            sync.SyncConnection,
            Connection,
            {"call", "elsewhere", "joined", "stream", "server_stream", "sender", "patience", "took"},
        ),
        (
            sync.SyncQueue,
            Queue,
            {"hold", "hold_by_id", "hold_wanted", "receive_wanted", "consumer", "processing"},
        ),
        (
            sync.SyncCursor,
            Cursor,
            {
                "hold",
                "hold_by_id",
                "keep",
                "release",
                "leave",
                "hold_wanted",
                "look_at",
                "look_for",
                "take_wanted",
            },
        ),
        (sync.SyncReceiver, Receiver, {"close", "left_over", "take_back", "leave"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_the_same_names(ours: type, theirs: type, without: set[str]) -> None:
    assert public(theirs) - without <= public(ours)


def test_messages(tmp_path: Path) -> None:
    with connected(tmp_path) as mq:
        queue = mq.create_queue(QUEUE)
        queue.send("one", label="l")
        assert queue.peek().text == "one"
        assert queue.receive(60).text == "one"
        with pytest.raises(IoTimeoutError):
            queue.receive(0)
        queue.send_many(range(10))
        for message in queue:
            if message.value == 2:
                message.reject("odd")
                break
            message.acknowledge()
        with queue.receiver(prefetch=5) as receiver:
            found = [receiver.receive(60) for _ in range(3)]
            receiver.acknowledge(*found[:2])
            receiver.reject(found[2])
        assert [message.value for message in queue.browse()] == [5, 6, 7, 8, 9]
        with queue.cursor(receive=True) as cursor:
            assert cursor.next().value == 5
            assert cursor.current().value == 5
            assert cursor.take().value == 5
            assert [message.value for message in cursor.next_many(2)] == [6, 7]
            cursor.restart()
            assert [message.value for message in cursor] == [6, 7, 8, 9]
        assert queue.lookup(seek=msmq.Seek.LAST).value == 9
        assert queue.move([queue.peek()], f"{QUEUE};odd") == 1
        assert queue.subqueue("odd").receive(60).value == 2
        assert next(queue.watch()).value == 7
        assert queue.purge() == 3
        assert list(queue.journal.browse()) == []


def fail_inside(mq: msmq.SyncConnection, first: sync.SyncQueue, second: sync.SyncQueue) -> None:
    with mq.transaction() as tx:
        second.receive(60, transaction=tx)
        first.send("never", transaction=tx)
        raise ZeroDivisionError


def test_transactions(tmp_path: Path) -> None:
    with connected(tmp_path) as mq:
        first = mq.create_queue(".\\private$\\a", transactional=True)
        second = mq.create_queue(".\\private$\\b", transactional=True)
        first.send("x")
        with mq.transaction() as tx:
            tx.send(second, tx.receive(first, 60).body)
        with pytest.raises(ZeroDivisionError):
            fail_inside(mq, first, second)
        assert [info.messages for info in mq.queues()] == [0, 1]


def test_administration(tmp_path: Path) -> None:
    with connected(tmp_path) as mq:
        queue = mq.create_queue(QUEUE)
        assert mq.queue_exists(queue)
        assert mq.set_queue(queue, label="new").label == mq.queue_info(QUEUE).label == "new"
        entries = mq.security(queue).entries
        assert mq.set_security(queue, entries=list(entries)).entries == entries
        assert mq.security().owner
        labels = [given.id for given in mq.properties(queue) if given.name == "PROPID_Q_LABEL"]
        assert labels == [108]
        assert "PROPID_QM_PATHNAME" in {given.name for given in mq.properties()}
        far = mq.queue("DIRECT=TCP:127.0.0.9\\private$\\far")
        far.send("x")
        assert mq.pause_outgoing(far).state == "OnHold"
        mq.resume_outgoing(far)
        assert mq.purge_outgoing(far) == 1
        assert len(mq.outgoing_queues()) == 1
        assert mq.manager().computer_name == "HOST"
        assert mq.set_manager(quota_kb=77).quota_kb == 77
        assert mq.set_online(True).online
        certificate, _ = mq.renew_internal_certificate()
        assert mq.certificates() == [certificate]
        mq.remove_certificate(certificate.digest)
        assert len(list(mq.statistics(0.1, 2))) == 2
        assert [letter.text for letter in mq.dead_letters.browse()] == ["x"]  # what was purged on its way
        for empty in (mq.transactional_dead_letters, mq.journal):
            assert list(empty.browse()) == []
        mq.delete_queue(queue)


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(msmq.ServerNotAvailableError), msmq.connect_sync(f"unix:{tmp_path}/x", timeout=0.2):
        pass
