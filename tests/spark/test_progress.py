"""How far a stream is behind: what the source tells of each batch, and what is read out of the progress of a query."""

from __future__ import annotations

import json
from array import array

from msmq.client.queue import QueueIdentity, Waiting
from msmq.spark.doors import Host
from msmq.spark.offsets import FleetOffset, Offset
from msmq.spark.planner import Read
from msmq.spark.progress import Lag, lag_of, latest_with_lag

HERE = QueueIdentity("guid", "queue", "now")


def test_what_lies_behind_a_batch() -> None:
    end = FleetOffset({"a": Offset().reading("q", HERE, [5], ())})
    waiting = {"q": Waiting(2, 300, 90, array("Q", [7])), "empty": Waiting(0, 0, 0, array("Q"))}
    said = latest_with_lag(end, {"a": (Host("A", "guid"), waiting, {"q": Read(5, 600)})}, 100.5)
    latest = FleetOffset.parse(said).parts["a"]
    assert (latest.lanes("q"), latest.lanes("empty")) == ({0: 7}, {})
    assert end.parts["a"].lanes("q") == {0: 5}
    progress: dict[str, object] = {
        "sources": [{"latestOffset": json.dumps(said)}, {"latestOffset": None}, {"latestOffset": "5"}]
    }
    assert lag_of(progress | {"durationMs": {"triggerExecution": 2_000}})[0][-2:] == (2.5, 300.0)
    assert lag_of(progress) == [
        Lag("A", "guid", "q", 2, 300, 10.5, 5, 600),
        Lag("A", "guid", "empty", 0, 0, 0.0, 0, 0),
    ]
