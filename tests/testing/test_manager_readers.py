"""The simulator's readers: they see what the model has, and leave what it expects."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from msmq.manager.mailbox import mailbox
from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.retries import Retries
from msmq.manager.messages.readers import Reading
from msmq.manager.queues.queue import Queue
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
                    for one, item in (simulation.current.messages | simulation.express).items()
                    if one in held.keys() - simulation.held.keys() and ";" in item.place
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
    for seed in range(60):
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
        list(map(rejecting, range(120)))


def waiting(seed: int) -> set[str]:
    """Readers that wait, and what brought them messages, or that they gave up."""
    simulation, seen = ManagerSimulation(Random(seed)), set[str]()
    for name in ["create_queue", "create_queue", *40 * ["prefetch", "send", "reject", "move", "cancel"]]:
        waited = [reader for reader in simulation.readers if reader.waits]
        held = dict(simulation.held)
        simulation.perform(name)
        if name == "cancel" and waited and not all(reader.waits for reader in waited):
            seen.add("cancel")
        came = [each for one, each in simulation.held.items() if held.get(one) is not each]
        if any(each.reader in waited for each in came):
            seen.add(name)
    return seen


def test_readers_wait_until_messages_come_or_they_give_up() -> None:
    seen: set[str] = set()
    for seed in range(10):
        seen |= waiting(seed)
    assert {"send", "reject", "move", "cancel"} <= seen


@pytest.mark.parametrize("mistake", ["nobody is served", "the wrong message", "for ever"])
def test_readers_that_wait_in_vain_are_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mistake == "nobody is served":
        monkeypatch.setattr(mailbox, "finish_wait", lambda reader, status, position: None)
    elif mistake == "for ever":
        monkeypatch.setattr(Reading, "cancel", lambda *_: 0)
    else:
        take = Reading._take

        def another(own: Reading, read: Any, queue: Queue, found: Found) -> None:
            take(own, read, queue, found)
            read.descriptor.begun.update(each.lookup_id for each in queue.positions)

        monkeypatch.setattr(Reading, "_take", another)
    with pytest.raises(AssertionError):
        list(map(waiting, range(10)))


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
