"""The store against its model, with crashes at every write and every sync."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from msmq.store import Store, StoreOptions
from msmq.store.segment import Chunk
from msmq.store.space import Space
from msmq.testing import PowerLoss, SimulatedDisk, store_sim
from msmq.testing.disk import _File
from msmq.testing.store_sim import StoreSimulation, run

SIZES = st.sampled_from([0, 1, 40, 200, 1000, 3000, 9000])


class StoreMachine(RuleBasedStateMachine):
    """Hypothesis chooses the steps and, with ``crash_in``, the operation at which the power goes."""

    @initialize(seed=st.integers(0, 2**32), capacity=st.sampled_from([None, None, 65536]))
    def start(self, seed: int, capacity: int | None) -> None:
        options = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=8192)
        self.simulation = StoreSimulation(Random(seed), options, capacity)

    def attempt(self, step: str, *arguments: object) -> None:
        try:
            getattr(self.simulation, step)(*arguments)
        except PowerLoss:
            self.simulation.crash()

    @rule(operation=st.integers(1, 12))
    def crash_in(self, operation: int) -> None:
        self.simulation.disk.crash_at(operation)

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=6))
    def put(self, sizes: list[int]) -> None:
        self.attempt("put", sizes)

    @rule(size=SIZES)
    def update(self, size: int) -> None:
        self.attempt("update", size)

    @rule(count=st.integers(1, 10))
    def delete(self, count: int) -> None:
        self.attempt("delete", count)

    @rule(label=st.integers(1, 9))
    def label(self, label: int) -> None:
        self.attempt("label", label)

    @rule()
    def commit(self) -> None:
        self.attempt("commit")

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=3))
    def commit_and_put(self, sizes: list[int]) -> None:
        self.attempt("commit", lambda: self.simulation.put(sizes))

    @rule(budget=st.sampled_from([100, 2000, 20000]))
    def clean(self, budget: int) -> None:
        self.attempt("clean", budget)

    @rule(step=st.sampled_from(["compact", "close", "kill", "crash", "fail_sync", "damage"]))
    def rarely(self, step: str) -> None:
        self.attempt(step)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.check()

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.crash()
            self.simulation.check()


TestStoreMachine = pytest.mark.slow(StoreMachine.TestCase)
TestStoreMachine.settings = settings(
    max_examples=120, stateful_step_count=80, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("seed", range(25))
def test_without_damage(seed: int) -> None:
    assert run(seed, 400).crashes > 5


@pytest.mark.parametrize("seed", range(100, 125))
def test_with_damage(seed: int) -> None:
    run(seed, 400, damaging=True)


def test_a_run_depends_on_its_seed_alone() -> None:
    first, second, other = run(7, 200, damaging=True), run(7, 200, damaging=True), run(8, 200, damaging=True)
    assert first.disk.operations == second.disk.operations != other.disk.operations
    assert first.confirmed == second.confirmed
    assert first.damaged == second.damaged


def test_the_command_runs_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[int, int, bool]] = []
    monkeypatch.setattr(store_sim, "run", lambda seed, steps, damaging: runs.append((seed, steps, damaging)))
    store_sim.main(["5", "30"])
    assert runs == [(5, 30, False), (5, 30, True)]


# --- the simulation notices a store that cheats -------------------------------------------------------------------


def caught() -> bool:
    """Whether one of twenty runs ends as a run with a bad store should."""
    return any(map(fails, range(20)))


def fails(seed: int) -> bool:
    try:
        run(seed, 300)
    except KeyError:
        return True  # a record of a segment that is gone
    except Exception as error:
        return bool(re.search("lost or invented|checksum|durable before", str(error)))
    return False


def test_a_store_that_does_not_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_File, "fdatasync", lambda self: None)
    assert caught()


def test_a_store_that_does_not_sync_names_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDisk, "sync_directory", lambda self: None)
    assert caught()


def test_a_store_that_confirms_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "durable", property(lambda self: self.appended))
    assert caught()


def test_a_store_that_divides_commits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Chunk.close
    monkeypatch.setattr(
        Chunk,
        "close",
        lambda self, store_id, sequence, end, continued: close(
            self, store_id, sequence, end, continued=False
        ),
    )
    assert caught()


def test_a_store_that_deletes_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    free = Space.free_oldest
    monkeypatch.setattr(Space, "free_oldest", lambda self, durable, most: free(self, None, most))
    assert caught()
