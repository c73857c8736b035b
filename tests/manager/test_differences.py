"""Where a host and its directory disagree about queues."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.manager.differences import CHOICES, COMPARED, Kind, differences
from msmq.manager.directory import DirectoryObject, ObjectClass, queue_object
from msmq.manager.model import QueuePrivacyLevel, QueueType
from msmq.manager.queues.queue import Queue

GUID = bytes(range(16))


def queue(path: str = "HOST\\orders", **attributes: Any) -> DirectoryObject:
    made = Queue(17, path, QueueType.PUBLIC, GUID)
    for name, value in attributes.items():
        setattr(made, name, value)
    return queue_object(made)


def test_the_same_on_both_sides_is_no_difference() -> None:
    theirs = queue("host\\ORDERS", multicast_address="", create_time=5, security=b"others")
    assert differences([queue()], [theirs]) == []


def test_one_side_only() -> None:
    (here,) = differences([queue()], [])
    assert (here.kind, here.queue) == (Kind.ONLY_HERE, "HOST\\orders")
    (there,) = differences([], [queue()])
    assert (there.kind, there.choices) == (Kind.ONLY_THERE, ("adopt", "delete-there"))


def test_another_queue_of_the_same_name() -> None:
    other = queue()
    other.attributes["identifier"] = bytes(16)
    (found,) = differences([queue(label="a")], [other])
    assert found.kind is Kind.OTHER_IDENTIFIER


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label", "theirs"), ("type", bytes([7] * 16)), ("journaling", True), ("quota_kb", 7),
        ("journal_quota_kb", 7), ("authentication", True), ("privacy_level", QueuePrivacyLevel.BODY),
        ("transactional", True), ("multicast_address", "234.1.1.1:80"), ("base_priority", 3),
    ],
)  # fmt: skip
def test_every_property_counts(name: str, value: Any) -> None:
    (found,) = differences([queue()], [queue(**{name: value})])
    assert found.kind is Kind.OTHER_VALUES
    assert found.detail.startswith(f"{name} is ")
    assert name in COMPARED


def test_something_can_be_done_about_every_kind() -> None:
    assert set(CHOICES) == set(Kind)
    assert queue().object_class is ObjectClass.QUEUE
