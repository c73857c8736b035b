"""How queues are stored in the ledger: as values JSON can hold, bytes as hexadecimal text."""

from __future__ import annotations

from typing import Any, Final

from msmq.manager.mailbox.retries import Retry
from msmq.manager.model import OutgoingState, QueuePrivacyLevel, QueueScope, QueueType
from msmq.manager.queues.queue import OutgoingQueue, Queue

_PLAIN: Final = (
    "pathname", "label", "qualified_pathname", "private_queue_number", "journaling", "quota_kb",
    "journal_quota_kb", "authentication", "transactional", "multicast_address", "base_priority",
    "create_time", "modify_time", "full_path", "directory_path",
)  # fmt: skip
_BYTES: Final = ("identifier", "type", "security")


def queue_record(queue: Queue) -> dict[str, Any]:
    """Everything persistent about a queue, its journal and its subqueues."""
    record: dict[str, Any] = {name: getattr(queue, name) for name in _PLAIN}
    record |= {name: getattr(queue, name).hex() for name in _BYTES}
    record |= {
        "queue_type": queue.queue_type.value,
        "privacy_level": int(queue.privacy_level),
        "scope": queue.scope.value,
        "retry": list(queue.retry),
        "former_identifiers": [identifier.hex() for identifier in queue.former_identifiers],
        "journal": queue.journal.number if queue.journal else None,
        "subqueues": {
            sub.pathname.rpartition(";")[2]: [sub.number, sub.create_time]
            for sub in queue.subqueue_collection.values()
        },
    }
    if isinstance(queue, OutgoingQueue):
        record |= {
            "destination_format_name": queue.destination_format_name,
            "multicast": queue.multicast,
            "destination_queue_manager": queue.destination_queue_manager.hex(),
            "receiver": queue.receiver.hex(),
            "incidental": queue.incidental,
            "cause": queue.cause,
            "locked": queue.state is OutgoingState.LOCKED,
            "on_hold": queue.state is OutgoingState.ON_HOLD,
        }
    return record


def queue_from_record(number: int, record: dict[str, Any]) -> Queue:
    """The queue, its journal and its subqueues, empty of messages."""
    kind = OutgoingQueue if "destination_format_name" in record else Queue
    queue = kind(number, record["pathname"], QueueType(record["queue_type"]))
    for name in _PLAIN:
        setattr(queue, name, record[name])
    for name in _BYTES:
        setattr(queue, name, bytes.fromhex(record[name]))
    queue.privacy_level = QueuePrivacyLevel(record["privacy_level"])
    queue.scope = QueueScope(record["scope"])
    queue.retry = Retry(*record.get("retry", ()))
    queue.former_identifiers = tuple(map(bytes.fromhex, record.get("former_identifiers", ())))
    if record["journal"] is not None:
        queue.journal = Queue(record["journal"], f"{queue.pathname};JOURNAL", QueueType.SYSTEM, parent=queue)
        queue.journal.transactional = queue.transactional
    for name, (sub_number, create_time) in record["subqueues"].items():
        sub = Queue(sub_number, f"{queue.pathname};{name}", queue.queue_type, parent=queue)
        sub.transactional = queue.transactional
        sub.create_time = sub.modify_time = create_time
        queue.subqueue_collection[name.lower()] = sub
    if isinstance(queue, OutgoingQueue):
        queue.destination_format_name = record["destination_format_name"]
        queue.multicast = record["multicast"]
        queue.destination_queue_manager = bytes.fromhex(record.get("destination_queue_manager", "00" * 16))
        queue.receiver = bytes.fromhex(record.get("receiver", "00" * 16))
        queue.incidental = record.get("incidental", False)
        queue.cause = record.get("cause", "")
        if record["locked"]:
            queue.state = OutgoingState.LOCKED
        elif record["on_hold"]:
            queue.state = OutgoingState.ON_HOLD
    return queue
