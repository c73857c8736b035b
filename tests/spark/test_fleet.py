"""Several queue managers as one, without Spark: a position for each, and one that is away keeps nobody else."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from msmq.client.problems import ServerNotAvailableError
from msmq.client.queue import QueueIdentity, Survey
from msmq.errors import QueueNotFoundError
from msmq.spark import fleet as fleets
from msmq.spark.fleet import Fleet, FleetPlanner, UnreachableError
from msmq.spark.offsets import FleetOffset, Offset
from msmq.spark.options import Access, OptionError, SourceOptions
from tests.spark.support import eventually
from tests.spark.test_claims import FakeDoor


class Remote(FakeDoor):
    """A server with the queue ``q``, which may be away."""

    def __init__(self, name: str, *lookup_ids: int) -> None:
        super().__init__(q=lookup_ids)
        self.identity = QueueIdentity(name, "guid")
        self.away = False
        self.consumers: list[str] = []

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
        if self.away:
            raise ServerNotAvailableError("nobody answers")
        if queue not in self.left:
            raise QueueNotFoundError
        found = [i for i in sorted(self.left[queue]) if any(after < i <= upto for after, upto in spans)]
        chosen = found[: most_messages or len(found)]
        return Survey(array("Q", chosen), array("Q"), len(chosen), self.identity)

    def hold(self, queue: str, holder: str) -> None:
        self.consumers.append(queue)


Remotes = dict[str, Remote]


@pytest.fixture
def remotes(monkeypatch: pytest.MonkeyPatch) -> Remotes:
    """The servers a and b."""
    made = {"a": Remote("A", 1, 2, 3), "b": Remote("B", 1, 2)}

    def open_door(access: Access) -> FakeDoor:
        found = made[str(access.server)]
        if found.away:
            raise ServerNotAvailableError("nobody answers")
        return found

    monkeypatch.setattr(fleets, "open_door", open_door)
    return made


@pytest.fixture
def planners() -> Iterator[list[FleetPlanner]]:
    made: list[FleetPlanner] = []
    yield made
    for planner in made:
        planner.fleet.close()


def plan(planners: list[FleetPlanner], servers: str = "a,b", **options: str) -> FleetPlanner:
    given = SourceOptions.of({"servers": servers, "queue": "q", "timeout": "5", **options})
    fleet = Fleet(given.accesses, fail_on_unreachable=given.fail_on_unreachable)
    planners.append(FleetPlanner(given, fleet))
    return planners[-1]


def found(planner: FleetPlanner, start: FleetOffset, end: FleetOffset) -> dict[str, list[int]]:
    return {part.server: list(part.lookup_ids) for part in planner.between(start, end, exact=True)}


NOWHERE = FleetOffset()


def test_each_server_has_its_own_position(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    planner = plan(planners)
    end = planner.latest(NOWHERE)
    assert {name: part.lanes("q") for name, part in end.parts.items()} == {"a": {0: 3}, "b": {0: 2}}
    assert found(planner, NOWHERE, end) == {"a": [1, 2, 3], "b": [1, 2]}
    remotes["b"].left["q"].add(9)
    later = planner.latest(end)
    assert found(planner, end, later) == {"b": [9]}
    assert {part.server: list(part.lookup_ids) for part in planner.now(end)} == {"a": [], "b": [9]}
    assert remotes["a"].consumers == [], "nobody consumes"


def test_a_limit_is_shared(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    planner = plan(planners)
    end = planner.latest(NOWHERE, None, 2)
    assert found(planner, NOWHERE, end) == {"a": [1], "b": [1]}


def test_whoever_consumes_says_so(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    end = plan(planners, mode="consume").latest(NOWHERE)
    assert [remotes[name].consumers for name in "ab"] == [["q"], ["q"]]
    plan(planners, mode="consume").between(NOWHERE, end, exact=True)
    assert [remotes[name].consumers for name in "ab"] == [["q", "q"], ["q", "q"]], "who repeats a batch too"


def test_one_that_is_away_keeps_nobody_else(
    remotes: Remotes, planners: list[FleetPlanner], caplog: pytest.LogCaptureFixture
) -> None:
    remotes["b"].away = True
    with pytest.raises(ServerNotAvailableError):
        plan(planners).latest(NOWHERE)
    planner = plan(planners, failOnUnreachable="false")
    end = planner.latest(NOWHERE)
    assert found(planner, NOWHERE, end) == {"a": [1, 2, 3]}
    assert "b is away, and is read when it is back" in caplog.text
    remotes["b"].away = False
    later = planner.latest(end)
    assert found(planner, end, later) == {"b": [1, 2]}, "from its beginning"
    remotes["b"].away = True
    assert planner.latest(later) == later
    with pytest.raises(UnreachableError, match="has messages of b, which does not answer"):
        planner.between(end, later, exact=True)


def test_one_that_is_slow_is_waited_for(
    remotes: Remotes, planners: list[FleetPlanner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer takes longer than others usually wait: it would never be read."""
    monkeypatch.setattr(fleets, "_PATIENCE_S", 0.1)
    planner = plan(planners, "b", failOnUnreachable="false")
    end, survey = planner.latest(NOWHERE), remotes["b"].survey

    def slowly(queue: str, *arguments: Any, **options: Any) -> Survey:
        time.sleep(0.5)
        return survey(queue, *arguments, **options)

    monkeypatch.setattr(remotes["b"], "survey", slowly)
    remotes["b"].left["q"].add(9)
    eventually(lambda: planner.latest(end) != end)


def test_one_that_is_frozen_keeps_nobody_else(
    remotes: Remotes, planners: list[FleetPlanner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection stands, and nothing comes. It is not asked again while it thinks about the last question."""
    planner = plan(planners, failOnUnreachable="false")
    end = planner.latest(NOWHERE)
    frozen, asked, survey = Event(), list[str](), remotes["b"].survey

    def never(queue: str, *arguments: Any, **options: Any) -> Survey:
        asked.append(queue)
        assert frozen.wait(60)
        return survey(queue, *arguments, **options)

    monkeypatch.setattr(remotes["b"], "survey", never)
    for remote in remotes.values():
        remote.left["q"].add(9)
    later = planner.latest(end)
    assert found(planner, end, later) == {"a": [9]}
    assert planner.latest(later) == later
    assert planner.fleet.remove("b", "q", [1], remotes["b"].identity).elsewhere, "its claims wait too"
    assert asked == ["q"]
    frozen.set()
    (member,) = (each for each in planner.fleet.members if each.name == "b")
    eventually(lambda: not member.busy)
    assert found(planner, later, planner.latest(later)) == {"b": [9]}


def test_a_run_reads_what_was_there_when_it_began(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    remotes["b"].away = True
    planner = plan(planners, failOnUnreachable="false")
    target = planner.latest(NOWHERE)
    remotes["b"].away = False
    end = planner.latest(NOWHERE, target)
    assert found(planner, NOWHERE, end) == {"a": [1, 2, 3]}
    assert planner.latest(end, target) == end, "so that it comes to an end"


def test_a_queue_manager_is_known_by_another_address(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    end = plan(planners).latest(NOWHERE)
    remotes["c"] = remotes.pop("b")
    remotes["c"].left["q"].add(7)
    planner = plan(planners, "a,c")
    later = planner.latest(end)
    assert later.parts.keys() == {"a", "c"}
    assert found(planner, end, later) == {"c": [7]}
    remotes["d"] = remotes.pop("c")
    assert found(plan(planners, "a,d"), end, later) == {"d": [7]}, "a batch that was begun too"
    with pytest.raises(UnreachableError, match="has messages of c, which is not among the servers any more"):
        plan(planners, "a").between(end, later, exact=True)


def test_two_queue_managers_change_their_addresses(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    """Each goes on where it was: nothing comes again, and no batch that was begun reads from the other."""
    planner = plan(planners)
    begun = planner.latest(NOWHERE, None, 2)
    end = planner.latest(begun)
    remotes["a"], remotes["b"] = remotes["b"], remotes["a"]
    planner = plan(planners, failOnDataLoss="false")
    assert found(planner, begun, end) == {"b": [2, 3], "a": [2]}, "a batch that was begun"
    remotes["b"].left["q"].add(9)
    later = planner.latest(end)
    assert {name: part.lanes("q") for name, part in later.parts.items()} == {"a": {0: 2}, "b": {0: 9}}
    assert found(planner, end, later) == {"b": [9]}


def test_one_server_may_become_one_of_several(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    alone = FleetOffset({"": Offset().reading("q", remotes["a"].identity, [2], ())})
    planner = plan(planners)
    end = planner.latest(alone)
    assert found(planner, alone, end) == {"a": [3], "b": [1, 2]}


def test_the_same_queue_manager_twice(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    remotes["b"].identity = remotes["a"].identity
    with pytest.raises(OptionError, match="a and b are the same queue manager, HOST: name it once"):
        plan(planners).latest(NOWHERE)


def test_messages_are_removed_where_they_are(remotes: Remotes, planners: list[FleetPlanner]) -> None:
    fleet = plan(planners, failOnUnreachable="false").fleet
    identity = remotes["b"].identity
    assert fleet.remove("whatever it was called", "q", [1], identity).removed == 1
    assert (remotes["a"].left["q"], remotes["b"].left["q"]) == ({1, 2, 3}, {2})
    assert fleet.remove("a", "q", [1], QueueIdentity("C", "guid")).elsewhere
    remotes["b"].away = True
    fleet.each(lambda _, door: door.survey("q", ()))
    assert fleet.remove("b", "q", [2], identity).elsewhere, "until it is back"
    assert fleet.remove("a", "q", [1], None).removed == 1


def test_a_list_of_servers_in_a_file(remotes: Remotes, planners: list[FleetPlanner], tmp_path: Path) -> None:
    file = tmp_path / "servers"
    file.write_text("# north\na\n\n", encoding="utf-8")
    given = SourceOptions.of({"serversFile": str(file), "queue": "q"})
    planners.append(FleetPlanner(given, Fleet(given.accesses)))
    end = planners[0].latest(NOWHERE)
    assert end.parts.keys() == {"a"}
    file.write_text("a # as before\nb\n", encoding="utf-8")
    end = planners[0].latest(end)
    assert end.parts.keys() == {"a", "b"}
    file.unlink()
    assert planners[0].latest(end) == end, "while it is written anew"
