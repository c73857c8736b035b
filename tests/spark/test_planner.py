"""What the driver plans, without Spark and without a queue manager."""

from __future__ import annotations

import pytest

from msmq.spark.offsets import Offset
from msmq.spark.options import SourceOptions
from msmq.spark.source import _Planner
from tests.spark.test_claims import FakeDoor


def test_a_pattern_that_matches_nothing_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    planner = _Planner(SourceOptions.of({"queuePattern": r"private\$\\orders"}), FakeDoor())
    for _ in range(2):
        assert planner.latest(Offset()) == Offset()
    (record,) = caplog.records
    assert r"queuePattern=private\$\\orders" in record.getMessage()
    assert r"HOST\private$\orders" in record.getMessage()


def test_a_position_in_another_queue_is_none() -> None:
    """A table up to a position that was written for another queue has none of the new messages."""
    door = FakeDoor(q=[1, 2, 3])
    end = Offset({"q": {0: 3}}, {"q": door.identity})
    planner = _Planner(SourceOptions.of({"queue": "q"}), door)
    assert [list(part.lookup_ids) for part in planner.between(Offset(), end, exact=False)] == [[1, 2, 3]]
    door.identity = door.identity._replace(queue_manager="another")
    assert planner.between(Offset(), end, exact=False) == []
