"""The lag of a stream: what the source tells Spark about each batch, and how to read it from a query's progress.

The progress of a query shows where its batch ended (``endOffset``) and where, according to the source, everything ends
(``latestOffset``, the JSON of a position). The source adds under ``lag`` what lies between the two, for each server and
queue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msmq.client.queue import QueueIdentity, Waiting
from msmq.spark.offsets import FleetOffset

if TYPE_CHECKING:
    from msmq.spark.doors import Host
    from msmq.spark.planner import Read

_Found = Mapping[str, "tuple[Host, dict[str, Waiting], dict[str, Read]]"]


class Lag(NamedTuple):
    """How far a stream is behind in one queue."""

    server: str
    """The name of the computer."""
    queue_manager: str
    queue: str
    messages: int
    """The messages that wait after the batch."""
    bytes: int
    oldest_s: float
    """How long the oldest of them has waited, in seconds; 0 if there is none, or by remote read."""
    batch_messages: int
    """The messages of the batch."""
    batch_bytes: int
    messages_per_s: float = 0.0
    """The speed of the batch, from its plan to its commit."""
    bytes_per_s: float = 0.0


def latest_with_lag(end: FleetOffset, found: _Found, now_s: float) -> dict[str, Any]:
    """Return the position at the end of everything, with what lies between it and the end of a batch."""
    latest, lags = end, []
    for server, (host, queues, planned) in found.items():
        position = end.of(server, host.queue_manager)
        for queue, waiting in queues.items():
            identity = position.identity(queue) or QueueIdentity(host.queue_manager, "")
            position = position.reading(queue, identity, waiting.ends, ())
            oldest = max(now_s - waiting.oldest_time, 0.0) if waiting.oldest_time else 0.0
            read = planned.get(queue)
            batch = (read.messages, read.bytes) if read else (0, 0)
            lag = Lag(*host, queue, waiting.messages, waiting.bytes, round(oldest, 3), *batch)
            lags.append({name: said for name, said in lag._asdict().items() if not name.endswith("_per_s")})
        latest = latest.at({server: position})
    return {**latest.value(), "lag": lags}


def lag_of(progress: Mapping[str, Any]) -> list[Lag]:
    """Read the lag of every queue from a query's progress (``query.lastProgress``)."""
    found: list[Lag] = []
    took_s = ((progress.get("durationMs") or {}).get("triggerExecution") or 0) / 1_000
    for source in progress["sources"]:
        said = source.get("latestOffset")
        value = json.loads(said) if isinstance(said, str) else said
        if isinstance(value, Mapping):
            found += [_timed(Lag(**each), took_s) for each in value.get("lag", ())]
    return found


def _timed(lag: Lag, took_s: float) -> Lag:
    if not took_s:
        return lag
    messages, size = lag.batch_messages / took_s, lag.batch_bytes / took_s
    return lag._replace(messages_per_s=round(messages, 1), bytes_per_s=round(size, 1))
