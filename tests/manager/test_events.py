"""The events of the queue manager as an interface (MS-MQDMPR 3.1.7): all there, told once, and none too many."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.manager.core import Subscriber
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryObject,
    DirectoryResult,
    ObjectClass,
    by_identifier,
)
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.delivery import Sending
from msmq.manager.messages.drafts import Posting
from msmq.manager.messages.readers import Reading
from msmq.manager.messages.serialize import deserialize, serialize
from msmq.manager.messages.transactions import Transactions
from msmq.manager.model import OutgoingState
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.manager.queues.queues import QueueRequest, Queues
from msmq.manager.queues.resolution import Naming
from msmq.testing.directory import MemoryDirectory
from msmq.wire.message import UserMessage
from tests.manager.support import SEND, Host

# 3.1.7.1.1 to .34: what carries each event, its inputs, and whether it gives something back. Those of the dispatch
# collection (.28, .29, .34) are not there: ruling D22.
EVENTS: list[tuple[str, Callable[..., Any], list[str], bool]] = [
    ("Open Cursor", Reading.open_cursor, ["descriptor"], True),
    ("Close Cursor", Reading.close_cursor, ["cursor"], False),
    ("Create Queue", Queues.create, ["request", "caller"], True),
    ("Delete Queue", Queues.delete, ["queue", "caller"], True),
    ("Open Queue", Queues.open, ["format_name", "access", "share_mode", "caller"], True),
    ("Close Queue", Queues.close, ["descriptor"], False),
    ("Purge Queue", Queues.purge, ["queue", "caller"], True),
    ("Create Transaction", Transactions.create, ["identifier"], True),
    ("Enqueue Message", Sending.enqueue, ["queue", "batch", "transaction"], True),
    ("Dequeue Message", Reading.dequeue, ["descriptor", "timeout_s", "transaction", "cursor", "tag"], False),
    ("Dequeue Message Begin", Reading.dequeue_begin, ["descriptor", "timeout_s", "cursor", "tag"], False),
    ("Dequeue Message End", Reading.dequeue_end, ["descriptor", "position", "delete_message"], False),
    (
        "Read Message By Lookup Identifier",
        Reading.read_by_lookup_id,
        ["descriptor", "lookup_id", "action", "peek", "two_phase_read", "transaction"],
        True,
    ),
    ("Peek Next Message", Reading.peek_next, ["descriptor", "timeout_s", "cursor"], False),
    ("Peek Message", Reading.peek, ["descriptor", "timeout_s", "cursor"], False),
    ("Move Message", QueueManager.move_message, ["position", "target", "transaction"], False),
    ("Cancel Waiting Message Read Request", Reading.cancel, ["descriptor", "tag"], True),
    ("Create Directory Object", DirectoryEvents.create, ["item", "attributes"], True),
    ("Delete Directory Object", DirectoryEvents.delete, ["item"], True),
    ("Read Directory", DirectoryEvents.read, ["object_class", "conditions", "attributes"], True),
    ("Read Directory Begin", DirectoryEvents.read_begin, ["object_class", "conditions", "attributes"], True),
    ("Read Directory Next", DirectoryEvents.read_next, ["query"], True),
    ("Read Directory End", DirectoryEvents.read_end, ["query"], True),
    ("Write Directory", DirectoryEvents.write, ["item", "attributes"], True),
    ("Check Directory Online", DirectoryEvents.check_online, [], False),
    ("Get Queue Path", Naming.queue_path, ["text"], True),
    ("Enqueue Message To An Open Queue", Posting.send, ["descriptor", "message", "transaction"], True),
    ("Construct a UserMessage Packet", UserMessage.build, ["user", "properties"], True),
    ("Deserialize Message From Buffer", deserialize, ["packet"], True),
    ("Serialize Message to Buffer", serialize, ["message"], True),
    ("Set Queue Defaults", QueueRequest, ["pathname"], True),
]


@pytest.mark.spec("DMPR-3.1.7.1-a")
def test_every_event_is_there() -> None:
    assert len(EVENTS) == 31
    wrong = []
    for name, call, inputs, gives in EVENTS:
        signature = inspect.signature(call)
        missing = [given for given in inputs if given not in signature.parameters]
        answers = inspect.isclass(call) or signature.return_annotation not in ("None", None)
        if missing or answers is not gives:
            wrong.append((name, missing, str(signature)))
    assert not wrong


# --- events others consume ---------------------------------------------------------------------------------


class Listening(Subscriber):
    """Remembers every call with its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    every_message = True

    def messages_available(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        self.calls.append(("available", (queue, *lookup_ids)))

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        self.calls.append(("deleted", (queue, *(message.lookup_id for message in messages), reason)))

    def pause_queue(self, queue: OutgoingQueue) -> None:
        self.calls.append(("pause", (queue, queue.state)))

    def resume_queue(self, queue: OutgoingQueue) -> None:
        self.calls.append(("resume", (queue, queue.state)))

    def flow_control(self, throttled: bool) -> None:
        self.calls.append(("flow", (throttled,)))


@pytest.mark.spec("DMPR-3.1.7.2-a", "DMPR-3.1.7.2.2-a")
def test_each_subscriber_hears_of_each_event_once() -> None:
    host = Host()
    listeners = [Listening(), Listening()]
    for listener in listeners:
        host.manager.subscribe(listener)
    orders = host.queue()
    position = host.send(orders, b"1")
    host.reader(orders).receive()
    away = host.manager.queues.open("DIRECT=TCP:10.0.0.1\\private$\\q", SEND).queue
    assert isinstance(away, OutgoingQueue)
    host.manager.pause_queue(away)
    host.manager.resume_queue(away)
    host.manager.begin_flow_control()
    host.manager.end_flow_control()
    late = host.send(orders, b"2", time_to_be_received_s=5)
    host.advance(10)
    expected = [
        ("available", (orders, position.lookup_id)),
        ("deleted", (orders, position.lookup_id, 0x4000)),
        ("pause", (away, OutgoingState.ON_HOLD)),
        ("resume", (away, OutgoingState.INACTIVE)),
        ("flow", (True,)),
        ("flow", (False,)),
        ("available", (orders, late.lookup_id)),
        ("deleted", (orders, late.lookup_id, 0xC002)),
    ]
    assert [listener.calls for listener in listeners] == [expected, expected]


# --- events nobody else may raise --------------------------------------------------------------------------

INTERNAL = {
    "msmq.manager.mailbox.seek",  # Seek Available Message Position, and with Id
    "msmq.manager.answers",
}
PROTOCOL_ROOMS = ["transfer", "server", "api", "remote_read", "rpc", "client", "cli"]
# Wait For New Message, the read timers, Waiting Message Read Satisfied, Release Next Reader, Expand Format Name: what
# carries them.
INTERNAL_CALLS = {"finish_wait", "next_readable", "previous_readable"}


@pytest.mark.spec("DMPR-3.1.7.3-a")
def test_protocols_do_not_raise_internal_events() -> None:
    found: Counter[str] = Counter()
    modules = 0
    for room in PROTOCOL_ROOMS:
        for path in sorted(Path(msmq.__file__).parent.joinpath(room).rglob("*.py")):
            modules += 1
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module in INTERNAL:
                    found[f"{path.name} imports {node.module}"] += 1
                if isinstance(node, ast.Attribute) and node.attr in INTERNAL_CALLS:
                    found[f"{path.name} uses {node.attr}"] += 1
    assert modules > 20
    assert not found


# --- the directory's answers -------------------------------------------------------------------------------

SEVEN = {
    "Success",
    "GenericError",
    "DirectoryNotConnected",
    "ObjectNotFound",
    "AttributeNotFound",
    "EndOfData",
    "ObjectAlreadyExists",
}


@pytest.mark.spec("DMPR-3.1.1.17-a")
@pytest.mark.parametrize("directory", ["none", "off", "on"])
def test_every_directory_event_answers_one_of_seven(directory: str) -> None:
    given = None if directory == "none" else MemoryDirectory()
    if given is not None:
        given.connected = directory == "on"
    events = DirectoryEvents(Host().manager.core, given)
    item = DirectoryObject(ObjectClass.SITE, {"name": "North"})
    conditions = by_identifier(b"X" * 16)
    created, identifier = events.create(item)
    answers: list[DirectoryResult] = [created, events.create(item)[0]]
    answers.append(events.read(ObjectClass.SITE, conditions, None)[0])
    begun, query = events.read_begin(ObjectClass.SITE, conditions, None)
    answers += [begun, events.read_next(query or 0)[0], events.read_end(query or 0)]
    answers.append(events.write(DirectoryObject(ObjectClass.SITE, {"identifier": b"X" * 16, "name": "N"})))
    answers += [events.delete(DirectoryObject(ObjectClass.SITE, {"identifier": b"X" * 16}))]
    assert {result.value for result in DirectoryResult} == SEVEN
    assert all(isinstance(answer, DirectoryResult) for answer in answers)
    assert (directory == "on") == (created is DirectoryResult.SUCCESS) == (identifier is not None)
    if directory == "off":
        del answers[4:6]  # about a query that never began
        assert set(answers) == {DirectoryResult.DIRECTORY_NOT_CONNECTED}
