"""The directory in memory, where the tests of the queue manager do not go."""

from __future__ import annotations

from msmq.manager.directory import DirectoryResult, ObjectClass, queue_object
from msmq.manager.model import QueueManagerRecord, QueueType, Site
from msmq.manager.queues.queue import Queue
from msmq.security.access import Token
from msmq.security.sid import Sid
from msmq.testing.directory import MemoryDirectory

NOT_CONNECTED = DirectoryResult.DIRECTORY_NOT_CONNECTED
QUEUE = ObjectClass.QUEUE
SOMEBODY = Sid.parse("S-1-5-21-1-2-3-1000")

item = queue_object(Queue(0, "HOST\\q", QueueType.PUBLIC, identifier=b"q" * 16))


def test_it_can_be_taken_away() -> None:
    directory = MemoryDirectory()
    directory.connected = False
    assert directory.create(item, None, None) == (NOT_CONNECTED, None)
    assert directory.delete(item, None) is directory.write(item, None, None) is NOT_CONNECTED
    assert directory.read(QUEUE, None, None) == (NOT_CONNECTED, None)
    assert directory.read_begin(QUEUE, None, None, None) == (NOT_CONNECTED, None)
    assert directory.read_next(1) == (NOT_CONNECTED, None)
    assert directory.resolve_distribution_list(b"l" * 16, None) == (NOT_CONNECTED, ())
    assert directory.objects == []


def test_it_names_and_dates_what_is_created() -> None:
    now = 100.0
    directory = MemoryDirectory(lambda: now)
    result, identifier = directory.create(item, None, None)
    assert result is DirectoryResult.SUCCESS
    made = directory.find(QUEUE, pathname="HOST\\q")
    assert made is not None
    assert made.identifier == identifier != item.identifier
    assert made.attributes["full_path"] == "CN=HOST_q,OU=msmq,DC=test"
    assert made.attributes["directory_path"] == "LDAP://CN=HOST_q,OU=msmq,DC=test"
    assert directory.create(item, None, None) == (DirectoryResult.OBJECT_ALREADY_EXISTS, None)
    now = 200.0
    made.attributes["label"] = "as it lies there"
    change = queue_object(Queue(0, "HOST\\q", QueueType.PUBLIC, identifier=made.identifier, label="new"))
    assert directory.write(change, None, None) is DirectoryResult.SUCCESS
    assert (made.attributes["create_time"], made.attributes["modify_time"]) == (100, 200)
    assert made.attributes["label"] == "new"
    assert made.attributes["full_path"], "which nobody but the directory sets"


def test_it_knows_who_may_change_something() -> None:
    directory = MemoryDirectory()
    somebody = Token.authenticated(SOMEBODY)
    directory.writers = set()
    assert directory.create(item, None, somebody) == (DirectoryResult.GENERIC_ERROR, None)
    directory.writers = {SOMEBODY}
    assert directory.create(item, None, somebody)[0] is DirectoryResult.SUCCESS


def test_it_remembers_what_it_was_asked() -> None:
    directory = MemoryDirectory()
    directory.put(Site(b"s" * 16, "Berlin"))
    directory.put(QueueManagerRecord(b"m" * 16, "HOST"))
    directory.read(ObjectClass.SITE, None, None)
    directory.read(ObjectClass.QUEUE_MANAGER, None, ("computer_name",))
    assert directory.asked("read") == [ObjectClass.SITE, ObjectClass.QUEUE_MANAGER]
    missing = directory.read(ObjectClass.SITE, None, ("colour",))
    assert missing == (DirectoryResult.ATTRIBUTE_NOT_FOUND, None)
