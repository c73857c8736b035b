"""The simulator's readers: they see what the model has, and leave what it expects."""

from __future__ import annotations

from random import Random

import pytest

from msmq.manager.mailbox.retries import Retries
from msmq.testing.manager_sim import ManagerSimulation


def busy(seed: int) -> ManagerSimulation:
    simulation = ManagerSimulation(Random(seed))
    for name in ["create_queue", "create_queue", *12 * ["send"], *4 * ["send_batch"], "commit"]:
        simulation.perform(name)
    return simulation


@pytest.mark.parametrize("end", ["acknowledge", "reject", "disconnect"])
def test_messages_are_held_and_settled(end: str) -> None:
    """As often as it takes until something was held and was settled."""
    for seed in range(20):
        simulation = busy(seed)
        for _ in range(3):
            simulation.perform("prefetch")
        before = set(simulation.held)
        assert all(held.reader is not None for held in simulation.held.values())
        simulation.perform(end)
        simulation.perform("commit")
        simulation.perform("hear")
        if before > set(simulation.held):
            return
    pytest.fail("nothing was settled")


def rejecting(seed: int, rounds: int = 12) -> tuple[ManagerSimulation, set[str]]:
    """Readers that reject again and again; what became of their messages."""
    simulation, seen = busy(seed), set[str]()
    for _ in range(rounds):
        for name in ("connect", "prefetch", "reject", "commit"):
            held = dict(simulation.held)
            simulation.perform(name)
            if name == "reject":
                moved = [
                    one
                    for one in held.keys() - simulation.held.keys()
                    if ";" in simulation._message(one).place
                ]
                poisonous = {each.retry.poison_subqueue for each in simulation.readers}
                seen |= {"poison"} if moved and poisonous - {""} else set()
                seen |= {"pause"} if simulation.paused else set()
        if simulation.paused:
            simulation.perform("wait")
            seen |= {"over"} if not simulation.paused else set()
    return simulation, seen


def test_readers_have_policies_for_what_they_reject() -> None:
    """Pauses begin and end, and poison goes to its subqueue, in some of the runs."""
    seen: set[str] = set()
    for seed in range(30):
        seen |= rejecting(seed)[1]
        if len(seen) == 3:
            break
    assert seen == {"poison", "pause", "over"}


@pytest.mark.parametrize("mistake", ["too late", "no pause", "pauses without end"])
def test_policies_that_are_not_kept_are_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pause = Retries._pause
    if mistake == "too late":
        monkeypatch.setattr(Retries, "_take_away", lambda own, queue, poison, policy: set())
    elif mistake == "no pause":
        monkeypatch.setattr(
            Retries, "_pause", lambda own, queue, ids, delay_ms: own._mailbox.release(queue, ids)
        )
    else:
        monkeypatch.setattr(
            Retries, "_pause", lambda own, queue, ids, delay_ms: pause(own, queue, ids, 10**9)
        )
    with pytest.raises(AssertionError):
        list(map(rejecting, range(30)))


def test_looking_changes_nothing() -> None:
    for seed in range(5):
        simulation = busy(seed)
        before = dict(simulation.current.messages)
        for _ in range(5):
            simulation.perform("read_span")
        assert simulation.current.messages == before


def test_a_cursor_may_take_what_it_stands_on() -> None:
    simulation = busy(3)
    before = len(simulation.current.messages | simulation.express)
    for _ in range(40):
        simulation.perform("look_through")
    assert len(simulation._everything()) != before


def test_deliveries_are_compared_with_the_model() -> None:
    for seed in range(20):
        simulation = busy(seed)
        simulation.perform("prefetch")
        if simulation.held and not simulation.express.keys() & simulation.held.keys():
            break
    lookup_id = min(simulation.held)
    item = simulation.current.messages[lookup_id]
    simulation.current.messages[lookup_id] = item._replace(text=b"something else")
    simulation.commit()
    with pytest.raises(AssertionError, match="another message's body"):
        simulation.hear()
