"""What the driver plans, without Spark and without a queue manager."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import pytest

from msmq.client.queue import QueueIdentity, Survey
from msmq.spark.offsets import Offset
from msmq.spark.options import SourceOptions
from msmq.spark.planner import MessagesPartition, Planner, divide
from tests.spark.test_claims import FakeDoor


def test_a_pattern_that_matches_nothing_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    planner = Planner(SourceOptions.of({"queuePattern": r"private\$\\orders"}), FakeDoor())
    for _ in range(2):
        assert planner.latest(Offset()) == Offset()
    (record,) = caplog.records
    assert r"queuePattern=private\$\\orders" in record.getMessage()
    assert r"HOST\private$\orders" in record.getMessage()


def test_a_position_in_another_queue_is_none() -> None:
    """A table up to a position that was written for another queue has none of the new messages."""
    door = FakeDoor(q=[1, 2, 3])
    end = Offset({"q": {0: 3}}, {"q": door.identity})
    planner = Planner(SourceOptions.of({"queue": "q"}), door)
    assert [list(part.lookup_ids) for part in planner.between(Offset(), end, exact=False)] == [[1, 2, 3]]
    door.identity = door.identity._replace(queue_manager="another")
    assert planner.between(Offset(), end, exact=False) == []


class SizedDoor(FakeDoor):
    """Knows what each message takes, and keeps the limits of a survey as a queue manager does."""

    def __init__(self, size: int, **queues: Iterable[int]) -> None:
        super().__init__(**queues)
        self._size = size

    def survey(
        self,
        queue: str,
        spans: Sequence[tuple[int, int]],
        most_messages: int = 0,
        most_bytes: int = 0,
        *,
        known: QueueIdentity | None = None,
        seen: int = 0,
    ) -> Survey:
        found = [i for i in sorted(self.left[queue]) if any(after < i <= upto for after, upto in spans)]
        room = max(most_bytes // self._size, 1) if most_bytes else len(found)
        chosen = found[: min(room, most_messages or len(found))]
        return Survey(array("Q", chosen), array("Q"), len(chosen) * self._size, self.identity)


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("limits", "a", "b"),
    [
        ({}, 31, 1),  # what one does not need goes to the other: 128 MiB are 32 messages
        ({"maxBytesPerTrigger": "9000000"}, 1, 1),
        ({"maxBytesPerTrigger": "1"}, 1, 0),
        ({"maxMessagesPerTrigger": "20"}, 19, 1),
        ({"maxMessagesPerTrigger": "20", "maxBytesPerTrigger": "50000000"}, 11, 1),
    ],
)
def test_a_batch_has_a_limit_in_bytes_and_uses_it(limits: dict[str, str], a: int, b: int) -> None:
    door = SizedDoor(4 * MEGABYTE + 100_000, a=range(1, 151), b=[1])
    options = SourceOptions.of({"queues": "a,b", **limits})
    end = Planner(options, door).latest(Offset(), None, options.max_messages, options.max_bytes)
    assert (end.lanes("a").get(0, 0), end.lanes("b").get(0, 0)) == (a, b)


def test_without_a_limit_everything_is_planned() -> None:
    door = SizedDoor(4 * MEGABYTE, a=range(1, 151))
    assert Planner(SourceOptions.of({"queue": "a"}), door).latest(Offset()).lanes("a") == {0: 150}


def divided(*parts: tuple[int, int], **options: str) -> list[int]:
    """How many messages tasks have, of queues with so many messages of a size each."""
    given = [MessagesPartition("", "q", None, array("Q", range(n)), size=n * size) for n, size in parts]
    made = divide(SourceOptions.of({"queue": "q", **options}), given)
    assert sum(len(part.lookup_ids) for part in made) == sum(count for count, _ in parts)
    return [len(part.lookup_ids) for part in made]


def test_messages_are_divided_by_what_they_are_worth() -> None:
    """Not by the processors of this computer: the cluster has others."""
    assert divided((10_000, 100)) == [10_000]
    assert divided((40_000, 100)) == [16_384, 16_384, 7_232]
    assert divided((10, 4 * MEGABYTE), (3, 1)) == [4, 4, 2, 3]
    assert divided((2, 100 * MEGABYTE)) == [1, 1]
    assert divided((0, 1)) == []
    assert divided((10, 1), minPartitions="3") == [4, 4, 2]
    assert divided((40_000, 1), minPartitions="2") == [16_384, 16_384, 7_232]
    assert divided((40_000, 1), partitions="2") == [20_000, 20_000]
