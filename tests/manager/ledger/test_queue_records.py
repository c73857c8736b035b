"""Queues as the ledger keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from msmq.manager.ledger.queue_records import queue_from_record, queue_record
from msmq.manager.model import OutgoingState, QueuePrivacyLevel
from msmq.manager.queues.queue import OutgoingQueue, Queue
from tests.manager.support import SEND, Host

KEPT = (
    "pathname", "queue_type", "identifier", "label", "type", "qualified_pathname", "private_queue_number", "journaling",
    "quota_kb", "journal_quota_kb", "authentication", "privacy_level", "transactional", "multicast_address", "security",
    "base_priority", "create_time", "modify_time", "full_path", "directory_path", "scope",
)  # fmt: skip


def kept(queue: Queue) -> dict[str, Any]:
    return {name: getattr(queue, name) for name in KEPT}


def through_json(queue: Queue) -> Queue:
    return queue_from_record(queue.number, json.loads(json.dumps(queue_record(queue))))


def test_a_queue_comes_back_with_its_journal_and_its_subqueues() -> None:
    host = Host()
    queue = host.queue(
        label="Aufträge",
        journaling=True,
        quota_kb=7,
        transactional=True,
        privacy_level=QueuePrivacyLevel.BODY,
        type=bytes(range(16)),
    )
    sub = host.manager.queues.subqueue(queue, "Parked")
    again = through_json(queue)
    assert kept(again) == kept(queue)
    assert queue.journal is not None
    assert again.journal is not None
    assert again.journal.number == queue.journal.number
    assert again.journal.parent is again
    assert again.subqueue_collection["parked"].number == sub.number
    assert again.subqueue_collection["parked"].transactional


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (OutgoingState.LOCKED, OutgoingState.LOCKED),
        (OutgoingState.ON_HOLD, OutgoingState.ON_HOLD),
        (OutgoingState.CONNECTED, OutgoingState.INACTIVE),
    ],
)
def test_of_an_outgoing_queues_state_only_what_somebody_decided_is_kept(
    state: OutgoingState, expected: OutgoingState
) -> None:
    host = Host()
    queue = host.manager.queues.open("DIRECT=TCP:10.0.0.9\\PRIVATE$\\q", SEND).queue
    assert isinstance(queue, OutgoingQueue)
    queue.state = state
    again = through_json(queue)
    assert isinstance(again, OutgoingQueue)
    assert again.destination_format_name == "DIRECT=TCP:10.0.0.9\\PRIVATE$\\q"
    assert again.state is expected
