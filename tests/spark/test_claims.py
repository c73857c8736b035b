"""Claims: removed is exactly what a committed batch had, whenever somebody comes by."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from msmq.client.queue import QueueIdentity, Removal, Survey, Waiting
from msmq.errors import QueueNotFoundError
from msmq.spark.claims import Claims, name_of, packed
from msmq.spark.doors import Claim, Host
from msmq.spark.offsets import FleetOffset, Offset
from msmq.spark.options import SourceOptions
from msmq.spark.planner import MessagesPartition, divide
from msmq.spark.schema import Messages


class FakeDoor:
    """Keeps identifiers instead of messages."""

    def __init__(self, **queues: Iterable[int]) -> None:
        self.left = {name: set(ids) for name, ids in queues.items()}
        self.held: set[int] = set()
        self.identity = QueueIdentity("a", "")
        self.kept: dict[str, list[Claim]] = {}
        self.numbers = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @property
    def host(self) -> Host:
        return Host("HOST", self.identity.queue_manager)

    def queues(self, pattern: str) -> list[str]:
        return list(self.left)

    def spelt(self, queue: str) -> str:
        return queue

    def waiting(self, queue: str, spans: Sequence[tuple[int, int]]) -> Waiting:
        return Waiting(len(self.left[queue]), 0, 0, array("Q"))

    def hold(self, queue: str, holder: str) -> None:
        pass

    def claim(self, queue: str, label: str, body: bytes) -> None:
        self.kept.setdefault(queue, []).append(Claim(next(self.numbers), label, body))

    def claims(self, queue: str) -> list[Claim]:
        return list(self.kept.get(queue, []))

    def forget(self, queue: str, lookup_ids: Sequence[int]) -> None:
        self.kept[queue] = [claim for claim in self.kept.get(queue, []) if claim.lookup_id not in lookup_ids]

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
        return Survey(array("Q", sorted(self.left[queue])), array("Q"), 0, self.identity)

    def read(self, queue: str, after: int, upto: int) -> Iterator[Messages]:
        return iter(())

    def remove(self, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        if identity is not None and not identity.is_same(self.identity):
            return Removal(0, array("Q"), array("Q"), elsewhere=True)
        if queue not in self.left:
            raise QueueNotFoundError
        wanted = set(lookup_ids)
        gone = wanted & self.left[queue] - self.held
        self.left[queue] -= gone
        return Removal(len(gone), array("Q"), array("Q", wanted & self.held))


class One:
    """A fleet of one server."""

    def __init__(self, door: FakeDoor) -> None:
        self._door = door

    def remove(
        self, server: str, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None
    ) -> Removal:
        return self._door.remove(queue, lookup_ids, identity)


A = QueueIdentity("a", "")


def at(queues: dict[str, dict[int, int]], identity: QueueIdentity | None = None) -> FleetOffset:
    known = {} if identity is None else dict.fromkeys(queues, identity)
    return FleetOffset({"": Offset(queues, known)})


def part(queue: str, *lookup_ids: int, identity: QueueIdentity = A) -> MessagesPartition:
    return MessagesPartition("", queue, identity, array("Q", lookup_ids))


END = at({"q": {3: 9}})


def log(checkpoint: Path, number: int, *ends: FleetOffset, committed: bool) -> None:
    """What Spark writes."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *(json.dumps(end.value()) for end in ends)]
    (checkpoint / "offsets" / str(number)).write_text("\n".join(lines), encoding="utf-8")
    if committed:
        (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")


def test_nothing_is_removed_before_its_batch_is_committed(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=range(1, 20))
    claims.make(None, END, [part("q", 1, 2, 9)])
    assert claims.settle(One(door)) == 0, "there is no log at all"
    log(tmp_path, 0, END, committed=False)
    assert claims.settle(One(door)) == 0
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(One(door)) == 3
    assert door.left["q"] == set(range(1, 20)) - {1, 2, 9}, "exactly its own, and not what lies between"
    assert not claims.any()
    assert claims.settle(One(door)) == 0


def test_a_batch_is_known_by_its_end(tmp_path: Path) -> None:
    claims, door = Claims(f"file:{tmp_path}"), FakeDoor(q=range(10))
    later = at({"q": {3: 12}})
    claims.make(None, END, [part("q", 1)])
    claims.make(None, later, [part("q", 2)])
    log(tmp_path, 0, at({"other": {0: 1}}), END, committed=True)
    log(tmp_path, 1, at({"other": {0: 1}}), later, committed=False)
    assert claims.settle(One(door)) == 1
    assert claims.any()
    assert claims.settle_end(One(door), later) == 1, "Spark says so itself"
    assert not claims.any()


def test_what_somebody_holds_is_removed_the_next_time(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=[1, 2])
    door.held = {2}
    claims.make(None, END, [part("q", 1, 2)])
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(One(door)) == 1
    door.held = set()
    assert claims.settle(One(door)) == 1
    assert not claims.any()


def test_a_queue_that_was_deleted_is_no_trouble(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=[1])
    claims.make(None, END, [part("deleted", 1), part("q", 1)])
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(One(door)) == 1
    assert not claims.any()


def test_claims_of_another_queue_manager_are_left_to_it(tmp_path: Path) -> None:
    """Two sources of one query: the numbers are the same, the messages are not."""
    a, b = FakeDoor(q=[1, 2], only_here=[1]), FakeDoor(q=[1, 2])
    b.identity = QueueIdentity("b", "")
    of_a = at({"q": {0: 2}, "only_here": {0: 1}}, a.identity)
    of_b = at({"q": {0: 2}}, b.identity)
    assert of_a != of_b != at({"q": {0: 2}})
    claims = Claims(str(tmp_path))
    claims.make(None, of_a, [part("q", 1), part("only_here", 1)])
    claims.make(None, of_b, [part("q", 1, 2, identity=b.identity)])
    log(tmp_path, 0, of_a, of_b, committed=True)
    assert claims.settle(One(b)) == 2
    assert (a.left, b.left) == ({"q": {1, 2}, "only_here": {1}}, {"q": set()})
    assert claims.settle(One(b)) == 0
    assert claims.any(), "that of the other is still there"
    assert claims.settle(One(a)) == 2
    assert a.left == {"q": {2}, "only_here": set()}
    assert not claims.any()


def test_a_repeated_batch_claims_again(tmp_path: Path) -> None:
    claims, door = Claims(str(tmp_path)), FakeDoor(q=[1, 2, 3])
    claims.make(None, END, [part("q", 1, 2)])
    claims.make(None, END, [part("q", 1, 2, 3)])
    log(tmp_path, 0, END, committed=True)
    assert claims.settle(One(door)) == 3


def sized(queue: str, *ids: int, identity: QueueIdentity = A, size: int = 0) -> MessagesPartition:
    return MessagesPartition("", queue, identity, array("Q", ids), frozenset({2}) & {*ids}, size)


def test_a_repeated_batch_is_divided_as_before(tmp_path: Path) -> None:
    """One message expired and another was taken; those of a queue that is another now, or of an earlier release's
    claim, are not known."""
    claims, large = Claims(str(tmp_path)), 8 << 20
    claims.make(None, END, [sized("q", 1, 2, 3, 4, 5, size=5 * large), sized("r", 7, size=9)])
    now = [sized("q", 1, 4, 5, size=3 * large), sized("r", identity=QueueIdentity("a", "new"), size=0)]
    q, r = claims.begun(None, END, now)
    assert (list(q.lookup_ids), q.expiring, q.size) == ([1, 2, 3, 4, 5], frozenset({2}), 5 * large)
    options = SourceOptions.of({"queue": "q"})
    assert [list(part.lookup_ids) for part in divide(options, [q])] == [[1, 2], [3, 4], [5]]
    assert r is now[1]
    assert claims.begun(None, at({"q": {3: 99}}), now) == now, "another batch"
    line = {"server": "", "queue": "q", "identity": A._asdict(), "ids": packed(array("Q", [1, 2]))}
    (tmp_path / "msmq-claims" / name_of(END)).write_text(
        f"{END.json()}\n{json.dumps(line)}", encoding="utf-8"
    )
    assert claims.begun(None, END, now) == now


def test_a_half_written_claim_is_none(tmp_path: Path) -> None:
    (tmp_path / "msmq-claims").mkdir()
    (tmp_path / "msmq-claims" / "abc.new").write_text("half", encoding="utf-8")
    log(tmp_path, 0, END, committed=True)
    assert not Claims(str(tmp_path)).any()
    assert Claims(str(tmp_path)).settle(One(FakeDoor(q=[1]))) == 0


def test_a_checkpoint_of_another_query_is_noticed(tmp_path: Path) -> None:
    claims = Claims(str(tmp_path))
    assert not claims.belongs(END)
    log(tmp_path, 0, END, committed=True)
    assert claims.belongs(END)
    log(tmp_path, 1, at({"q": {3: 12}}), committed=False)
    assert not claims.belongs(END), "it is the last one that counts"
