"""The queue manager and its store against the model: fixed seeds, Hypothesis, and a crash at every operation."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from msmq.errors import DecodeError
from msmq.manager.mailbox import contents
from msmq.manager.mailbox.contents import Known
from msmq.manager.mailbox.mailbox import Mailbox
from msmq.manager.mailbox.positions import Positions
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.acknowledgments import Acknowledging
from msmq.manager.messages.delivery import Sending
from msmq.manager.queues.queue import Queue
from msmq.store.payloads import Reader
from msmq.testing.disk import PowerLoss
from msmq.testing.manager_model import Gone, Put
from msmq.testing.manager_sim import ENQUEUE, WEIGHTS, ManagerSimulation, main, run

SEEDS = range(1, 13)
STEPS = 300


@pytest.mark.parametrize("seed", SEEDS)
def test_the_manager_keeps_its_word(seed: int) -> None:
    simulation = run(seed, STEPS)
    assert simulation.steps == STEPS
    assert simulation.crashes > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_damage_costs_one_message_and_is_told(seed: int) -> None:
    simulation = run(seed, 2 * STEPS, damaging=True)
    assert simulation.damaged


def test_a_run_depends_on_its_seed_alone() -> None:
    one, other = run(5, 150), run(5, 150)
    assert one.current == other.current
    assert one.disk.operations == other.disk.operations


def prepared(seed: int) -> ManagerSimulation:
    """A host with queues of both kinds, messages and an open transaction, and nothing pending."""
    simulation = ManagerSimulation(Random(seed))
    while len({traits.transactional for traits in simulation.current.queues.values()}) < 2:
        simulation.perform("create_queue")
    for _ in range(12):
        for name in ("send", "send_transactionally", "begin_transaction", "enqueue_in_transaction"):
            simulation.perform(name)
    for name in ("end_transaction", "end_transaction", "receive", "receive", "receive", "commit"):
        simulation.perform(name)
    return simulation


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ("send", "send", "send", "send_transactionally", "commit"),
        ("receive", "move", "end_transaction", "commit"),
        ("send_transactionally", "prepare", "restart"),
        ("purge", "commit", "clean", "commit", "clean", "commit"),
        ("send", "compact"),
    ],
)
def test_the_power_may_go_at_every_single_write_and_sync(names: tuple[str, ...]) -> None:
    operation, went = 0, True
    while went:
        operation += 1
        simulation = prepared(seed=3)
        crashes = simulation.crashes
        simulation.disk.crash_at(operation)
        for name in names:
            simulation.perform(name)
        went = simulation.crashes > crashes
    assert operation > 2, "there was nothing to interrupt"


class Manager(RuleBasedStateMachine):
    """The same steps, chosen by Hypothesis, which finds the shortest run that fails."""

    @initialize(seed=st.integers(0, 2**16))
    def start(self, seed: int) -> None:
        self.simulation = ManagerSimulation(Random(seed))

    @rule(name=st.sampled_from(sorted(WEIGHTS)), seed=st.integers(0, 2**16))
    def perform(self, name: str, seed: int) -> None:
        self.simulation.rng.seed(seed)
        self.simulation.perform(name)

    @rule(
        names=st.lists(st.sampled_from(["send", "send_transactionally", "create_queue"]), min_size=2),
        seed=st.integers(0, 2**16),
    )
    def be_busy(self, names: list[str], seed: int) -> None:
        self.simulation.rng.seed(seed)
        for name in names:
            self.simulation.perform(name)

    @rule(operation=st.integers(1, 12))
    def let_the_power_go_soon(self, operation: int) -> None:
        self.simulation.disk.crash_at(operation)

    @invariant()
    def the_model_agrees(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.check()


@pytest.mark.slow
def test_hypothesis_finds_nothing() -> None:
    run_state_machine_as_test(
        Manager,
        settings=settings(
            max_examples=25,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# --- the simulation itself can fail -------------------------------------------------------------------------


def with_a_message(seed: int = 1) -> tuple[ManagerSimulation, int]:
    simulation = ManagerSimulation(Random(seed))
    while not simulation.confirmed.messages:
        for name in ("create_queue", "send", "commit"):
            simulation.perform(name)
    return simulation, min(simulation.confirmed.messages)


def test_a_lost_message_is_noticed() -> None:
    simulation, lookup_id = with_a_message()
    simulation.store.append(2, b"\0" * 4 + lookup_id.to_bytes(8, "little") + b"\0" * 28, live=False)
    simulation.store.commit()
    with pytest.raises(AssertionError, match="confirmed against found: messages"):
        simulation.kill()


def test_a_message_that_comes_back_is_noticed() -> None:
    simulation, lookup_id = with_a_message()
    simulation.confirmed.apply([Gone(lookup_id)])
    simulation.uncertain.clear()
    with pytest.raises(AssertionError, match="confirmed against found: messages"):
        simulation.kill()


def test_a_message_in_the_wrong_place_is_noticed() -> None:
    simulation, lookup_id = with_a_message()
    item = simulation.current.messages[lookup_id]
    free = max(simulation.current.messages) + 1
    simulation.current.apply([Gone(lookup_id), Put(free, item)])
    with pytest.raises(AssertionError):
        simulation.check()


def test_power_loss_goes_through_the_manager() -> None:
    simulation, _ = with_a_message()
    simulation.disk.crash_at(1)
    simulation.create_queue()
    with pytest.raises(PowerLoss):
        simulation.commit()


def first_failure(damaging: bool = False) -> BaseException | None:
    """What the ordinary seeds find."""
    for seed in SEEDS:
        try:
            run(seed, 2 * STEPS if damaging else STEPS, damaging=damaging)
        except Exception as error:
            return error
    return None


def test_it_finds_messages_that_are_read_after_they_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of acknowledgments with plain messages and others among them: what the others owe was found out when
    all of them had gone already."""
    read, late = Mailbox._read_first, 0

    def read_late(
        mailbox: Mailbox, queue: Queue, positions: Positions, chosen: bytes, known: Known
    ) -> dict[int, StoredMessage]:
        nonlocal late
        mixed = 0 < chosen.count(1) < len(positions.ids)
        late += mixed
        return {} if mixed else read(mailbox, queue, positions, chosen, known)

    monkeypatch.setattr(Mailbox, "_read_first", read_late)
    with pytest.raises(AssertionError, match="did not follow"):
        raise first_failure() or RuntimeError("nothing was found")
    assert late


def test_it_finds_packets_that_begin_with_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are not committed were believed to have the size of their packets."""

    careless = 0

    def read_carelessly(
        reader: Reader, records: Sequence[tuple[int, int]], cuts: Sequence[int]
    ) -> tuple[list[bytes], list[bytes]]:
        nonlocal careless
        payloads = [b"".join(reader._waiting(each) or (reader.read(each, None),)) for each, _ in records]
        careless += any(reader._waiting(each) for each, _ in records)
        cut = list(zip(payloads, cuts, strict=True))
        return [payload[:stop] for payload, stop in cut], [payload[stop:] for payload, stop in cut]

    monkeypatch.setattr(Reader, "read_many", read_carelessly)
    monkeypatch.setattr(contents, "_IS_LOCAL", bytes(256))
    failure = first_failure() or first_failure(damaging=True)
    assert isinstance(failure, DecodeError | AssertionError)
    assert careless


def test_it_finds_senders_who_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acknowledging, "messages_deleted", lambda *_: None)
    with pytest.raises(AssertionError, match="did not follow"):
        raise first_failure() or RuntimeError("nothing was found")


def test_it_finds_dead_letters_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sending, "_grave_for", lambda *_: None)
    with pytest.raises(AssertionError, match="did not follow"):
        raise first_failure() or RuntimeError("nothing was found")


def test_the_command_line_replays_a_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--seed", "7", "--seeds", "1", "--steps", "20"]) == 0
    assert "seed 7" in capsys.readouterr().err
    monkeypatch.setattr(ManagerSimulation, "check", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["--seed", "7", "--seeds", "1", "--steps", "20"])
    assert "--seed 7 --seeds 1 --steps 20" in capsys.readouterr().err


def test_what_was_never_sent_is_no_dead_letter() -> None:
    """A queue is deleted while a transaction sends to it messages whose senders want them back."""
    simulation = prepared(seed=3)
    while not (wanted := [path for path, kept in _being_sent(simulation) if kept]):
        for name in ("begin_transaction", "enqueue_in_transaction"):
            simulation.perform(name)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulation, "_any_queue", lambda: wanted[0])
        simulation.perform("delete_queue")
    assert wanted[0] not in [path for path, _ in _being_sent(simulation)]
    for _ in range(5):
        simulation.perform("commit")
        simulation.perform("end_transaction")


def _being_sent(simulation: ManagerSimulation) -> list[tuple[str, bool]]:
    """The queues to which open transactions send, and whether the sender wants the message back."""
    sent = (each for work in simulation.works.values() for each in work.operations)
    return [(each.item.place, each.item.wishes.dead_letter) for each in sent if each.kind is ENQUEUE]
