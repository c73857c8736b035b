"""What failed, in groups: dead letters and what error queues hold, by reason, destination and exception."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from msmq.client import ReceivedMessage
from msmq.client.connection import Connection
from msmq.errors import MsmqError
from msmq.web.messages import find
from msmq.web.shapes import headers_of

DEAD_LETTERS: Final = (".\\deadletter$", ".\\xactdeadletter$")
MOST_LOOKED_AT: Final = 200_000
_STEP: Final = 1_000
_MOST_GROUPS: Final = 1_000
_FAILED_QUEUE: Final = re.compile(r"^([^@\\/]+)@([A-Za-z0-9._-]+)$")


@dataclass(slots=True)
class Group:
    """Messages that failed in the same way."""

    queue: str
    reason: str
    destination: str
    exception: str
    class_name: str
    messages: int = 0
    bytes: int = 0
    oldest: str = ""
    newest: str = ""
    labels: list[str] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        self.messages += 1
        self.bytes += row["size"]
        arrived = row["arrived_time"]
        self.oldest = min(self.oldest or arrived, arrived)
        self.newest = max(self.newest, arrived)
        if row["label"] not in self.labels and len(self.labels) < 3:
            self.labels.append(row["label"])


def key_of(row: dict[str, Any]) -> tuple[str, str, str]:
    """What makes a group: reason, destination, exception."""
    return row["dead_letter_reason"], row["destination"], row["exception"]


async def rows(
    mq: Connection,
    queue: str,
    given: dict[str, Any],
    most: int = MOST_LOOKED_AT,
) -> AsyncIterator[dict[str, Any]]:
    """The messages of a queue that suit, read a part at a time."""
    given, looked_at = dict(given), 0
    while looked_at < most:
        found = await find(mq, queue, given, _STEP)
        looked_at += found["looked_at"]
        for each in found["items"]:
            yield each
        if found["end"] or not found["looked_at"]:
            return
        given["after"] = found["last"]


async def groups(mq: Connection, queues: tuple[str, ...]) -> tuple[list[Group], bool]:
    """What failed, the largest group first; and whether there was more than anybody looks through."""
    found: dict[tuple[str, ...], Group] = {}
    whole = True
    for queue in queues:
        looked_at = 0
        async for row in rows(mq, queue, {}):
            looked_at += 1
            reason, destination, exception = key_of(row)
            key = queue, reason, destination, exception
            if key not in found and len(found) >= _MOST_GROUPS:
                whole = False
                continue
            group = found.setdefault(key, Group(queue, reason, destination, exception, row["class"]))
            group.add(row)
        whole = whole and looked_at < MOST_LOOKED_AT
    return sorted(found.values(), key=lambda group: -group.messages), whole


def home_of(message: ReceivedMessage, computer: str) -> str:
    """Where a message that failed belongs: to the queue that NServiceBus or Rebus noted, or else where it was sent."""
    headers = headers_of(message.extension)
    noted = headers.get("NServiceBus.FailedQ") or headers.get("rbs2-source-queue") or ""
    known = _FAILED_QUEUE.match(noted.strip())
    if known is not None:
        name, host = known.groups()
        here = host.casefold() in (computer.casefold(), "localhost")
        return f".\\private$\\{name}" if here else f"DIRECT=OS:{host}\\private$\\{name}"
    return message.destination


async def dead_letter_counts(mq: Connection) -> dict[str, int]:
    """How many dead letters there are for each reason."""
    counted: dict[str, int] = {}
    for queue in DEAD_LETTERS:
        try:
            async for row in rows(mq, queue, {}):
                counted[row["class"]] = counted.get(row["class"], 0) + 1
        except MsmqError:
            continue  # not everybody may look into them
    return counted
