"""Queues and their objects brought together again; the states in between are walked at random in test_lifecycles."""

from __future__ import annotations

import pytest

from msmq.errors import DsError, IllegalOperationError, QueueNotFoundError
from msmq.manager.differences import Choice, Kind
from msmq.manager.directory import DirectoryObject, ObjectClass, queue_object
from msmq.manager.model import QueueType
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from tests.manager.domain import DomainHost, guid


def kinds(host: DomainHost) -> list[Kind]:
    return [each.kind for each in host.manager.mending.differences()]


def theirs(host: DomainHost, path: str = "host\\theirs", *, transactional: bool = False) -> DirectoryObject:
    """A queue that somebody else made in the directory."""
    queue = Queue(0, path, QueueType.PUBLIC, guid(), label="theirs", transactional=transactional)
    return host.directory.put(queue_object(queue))


def test_a_queue_of_others_is_adopted_when_it_is_opened_by_its_name() -> None:
    host = DomainHost()
    item = theirs(host, transactional=True)
    assert kinds(host) == [Kind.ONLY_THERE]
    queue = host.manager.mending.adopt_by_identifier(item.identifier)
    assert queue is not None
    assert (queue.pathname, queue.label, queue.transactional) == ("HOST\\theirs", "theirs", True)
    assert kinds(host) == []
    host.restart()
    assert host.core.by_identifier[item.identifier].pathname == "HOST\\theirs"
    assert host.manager.mending.adopt_by_identifier(guid()) is None
    assert host.manager.mending.adopt_by_identifier(theirs(host, "other\\q").identifier) is None


def test_names_that_no_queue_can_have_are_left_and_told() -> None:
    host = DomainHost()
    (told,) = host.manager.mending.catch_up([theirs(host, "host\\a b")])
    assert "stays as it is" in told


def test_the_old_identifier_of_a_queue_still_means_it() -> None:
    host = DomainHost()
    queue = host.manager.queues.create(QueueRequest(".\\q"))
    before = queue.identifier
    host.directory.objects.remove(host.directory.find(ObjectClass.QUEUE, pathname=queue.pathname))
    assert kinds(host) == [Kind.ONLY_HERE]
    host.manager.mending.mend(".\\q", Choice.PUBLISH)
    assert kinds(host) == []
    host.restart()
    again = host.core.by_path["host\\q"]
    assert host.core.by_identifier[before] is host.core.by_identifier[again.identifier] is again
    host.manager.queues.delete(again)
    assert before not in host.core.by_identifier


def test_a_choice_that_does_not_fit_changes_nothing() -> None:
    host = DomainHost()
    queue = host.manager.queues.create(QueueRequest(".\\q"))
    mending = host.manager.mending
    with pytest.raises(IllegalOperationError, match="is here too"):
        mending.mend(".\\q", Choice.DELETE_THERE)
    with pytest.raises(QueueNotFoundError):
        mending.mend(".\\none", Choice.PUBLISH)
    with pytest.raises(DsError, match="directory repair"):
        mending.mend(".\\none", Choice.ADOPT)
    assert kinds(host) == []
    assert host.core.by_path["host\\q"] is queue
