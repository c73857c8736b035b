"""The public queues of a queue manager that is not running, read from its store. Nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path

from msmq.manager.directory import DirectoryObject, queue_object
from msmq.manager.ledger.attributes import VALUE
from msmq.manager.ledger.ledger import Kind
from msmq.manager.ledger.queue_records import queue_from_record
from msmq.manager.model import QueueType
from msmq.store.browse import records, segments
from msmq.store.scan import Damage

_DIGEST = 16


def stored_queues(directory: Path) -> tuple[bytes, list[DirectoryObject]]:
    """The identifier of the queue manager, empty if it has never started, and its public queues.

    Raises:
        StoreError: there is no store, or a queue manager runs on it.
    """
    values: dict[bytes, bytes] = {}
    for segment in segments(directory):
        for record in records(segment, (Kind.VALUE, Kind.DROP), with_payload=lambda kind: kind == Kind.VALUE):
            if isinstance(record, Damage):
                continue
            digest = bytes(record.head[:_DIGEST])
            if record.kind == Kind.DROP:
                values.pop(digest, None)
            elif record.payload is not None:
                values[digest] = record.payload
    identifier, found = b"", []
    for payload in values.values():
        key, value = json.loads(payload)
        kind, _, number = key.partition("/")
        if key == VALUE:
            identifier = bytes.fromhex(value["identifier"])
        elif kind == "queue" and value["queue_type"] == QueueType.PUBLIC.value:
            found.append(queue_object(queue_from_record(int(number), value)))
    return identifier, found
