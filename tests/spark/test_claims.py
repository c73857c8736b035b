"""Claims: removed is exactly what a committed batch had, whenever somebody comes by."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msmq.client.queue import QueueIdentity, Removal, Survey
from msmq.errors import QueueNotFoundError
from msmq.spark.claims import Claims
from msmq.spark.offsets import Offset
from msmq.spark.schema import Messages


class FakeDoor:
    """Keeps identifiers instead of messages."""

    def __init__(self, **queues: Iterable[int]) -> None:
        self.left = {name: set(ids) for name, ids in queues.items()}
        self.held: set[int] = set()
        self.identity = QueueIdentity("a", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def queues(self, pattern: str) -> list[str]:
        return list(self.left)

    def survey(
        self, queue: str, spans: Sequence[tuple[int, int]], most_messages: int = 0, most_bytes: int = 0
    ) -> Survey:
        return Survey(array("Q", sorted(self.left[queue])), array("Q"), 0, self.identity)

    def read(self, queue: str, after: int, upto: int) -> Iterator[Messages]:
        return iter(())

    def remove(self, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        if identity not in (None, self.identity):
            return Removal(0, array("Q"), array("Q"), elsewhere=True)
        if queue not in self.left:
            raise QueueNotFoundError
        wanted = set(lookup_ids)
        gone = wanted & self.left[queue] - self.held
        self.left[queue] -= gone
        return Removal(len(gone), array("Q"), array("Q", wanted & self.held))


END = Offset({"q": {3: 9}})


def log(checkpoint: Path, number: int, *ends: Offset, committed: bool) -> None:
    """What Spark writes."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *(json.dumps(end.value()) for end in ends)]
    (checkpoint / "offsets" / str(number)).write_text("\n".join(lines), encoding="utf-8")
    if committed:
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")


def test_nothing_is_removed_before_its_batch_is_committed(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=range(1, 20))
    claims.make(END, {"q": array("Q", [1, 2, 9])})
    assert claims.settle(door) == 0, "there is no log at all"
    log(tmp_path, 0, END, committed=False)
    assert claims.settle(door) == 0
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(door) == 3
    assert door.left["q"] == set(range(1, 20)) - {1, 2, 9}, "exactly its own, and not what lies between"
    assert not claims.any()
    assert claims.settle(door) == 0


def test_a_batch_is_known_by_its_end(tmp_path: Path) -> None:
    claims, door = Claims(f"file:{tmp_path}"), FakeDoor(q=range(10))
    later = Offset({"q": {3: 12}})
    claims.make(END, {"q": array("Q", [1])})
    claims.make(later, {"q": array("Q", [2])})
    log(tmp_path, 0, Offset({"other": {0: 1}}), END, committed=True)
    log(tmp_path, 1, Offset({"other": {0: 1}}), later, committed=False)
    assert claims.settle(door) == 1
    assert claims.any()
    assert claims.settle_end(door, later) == 1, "Spark says so itself"
    assert not claims.any()


def test_what_somebody_holds_is_removed_the_next_time(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=[1, 2])
    door.held = {2}
    claims.make(END, {"q": array("Q", [1, 2])})
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(door) == 1
    door.held = set()
    assert claims.settle(door) == 1
    assert not claims.any()


def test_a_queue_that_was_deleted_is_no_trouble(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=[1])
    claims.make(END, {"deleted": array("Q", [1]), "q": array("Q", [1])})
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(door) == 1
    assert not claims.any()


def test_claims_of_another_queue_manager_are_left_to_it(tmp_path: Path) -> None:
    """Two sources of one query: the numbers are the same, the messages are not."""
    a, b = FakeDoor(q=[1, 2], only_here=[1]), FakeDoor(q=[1, 2])
    b.identity = QueueIdentity("b", "")
    of_a = Offset({"q": {0: 2}, "only_here": {0: 1}}, {"q": a.identity, "only_here": a.identity})
    of_b = Offset({"q": {0: 2}}, {"q": b.identity})
    assert of_a != of_b != Offset({"q": {0: 2}})
    claims = Claims(str(tmp_path))
    claims.make(of_a, {"q": array("Q", [1]), "only_here": array("Q", [1])})
    claims.make(of_b, {"q": array("Q", [1, 2])})
    log(tmp_path, 0, of_a, of_b, committed=True)
    assert claims.settle(b) == 2
    assert (a.left, b.left) == ({"q": {1, 2}, "only_here": {1}}, {"q": set()})
    assert claims.settle(b) == 0
    assert claims.any(), "that of the other is still there"
    assert claims.settle(a) == 2
    assert a.left == {"q": {2}, "only_here": set()}
    assert not claims.any()


def test_a_repeated_batch_claims_again(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=[1, 2, 3])
    claims.make(END, {"q": array("Q", [1, 2])})
    claims.make(END, {"q": array("Q", [1, 2, 3])})
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(door) == 3


def test_a_half_written_claim_is_none(tmp_path: Path) -> None:
    (tmp_path / "msmq-claims").mkdir()
    (tmp_path / "msmq-claims" / "abc.new").write_text("half", encoding="utf-8")
    log(tmp_path, 0, END, committed=True)
    assert not Claims(str(tmp_path)).any()
    assert Claims(str(tmp_path)).settle(FakeDoor(q=[1])) == 0


def test_a_checkpoint_of_another_query_is_noticed(tmp_path: Path) -> None:
    claims = Claims(str(tmp_path))
    assert not claims.belongs(END)
    log(tmp_path, 0, END, committed=True)
    assert claims.belongs(END)
    log(tmp_path, 1, Offset({"q": {3: 12}}), committed=False)
    assert not claims.belongs(END), "it is the last one that counts"
