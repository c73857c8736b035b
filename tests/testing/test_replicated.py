"""The simulated cluster, and stores whose instances take turns on it."""

from __future__ import annotations

from random import Random

import pytest

from msmq.ha.errors import NotLeaderError
from msmq.ha.log import Row
from msmq.store import Store, StoreError, StoreFullError, StoreOptions
from msmq.testing.disk import PowerLoss
from msmq.testing.replicated import ReplicatedSimulatedDisk, SimulatedCluster, SimulatedLeadership
from tests.ha.support import append

HEAD = bytes(40)
SMALL = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=8192)


def test_what_is_confirmed_survives_every_fail_over() -> None:
    rng = Random(1)
    cluster = SimulatedCluster()
    log = SimulatedLeadership(cluster, rng)
    for number in range(20):
        append(log, [Row(1, number, b"x")])
        cluster.fail_over(rng)
    assert [number for number, _ in cluster.rows_after(0)] == list(range(1, 21))
    assert cluster.failovers == 20


def test_what_stays_unanswered_is_there_whole_or_not_at_all() -> None:
    ends = set()
    for seed in range(40):
        rng = Random(seed)
        cluster = SimulatedCluster()
        log = SimulatedLeadership(cluster, rng)
        append(log, [Row(1, 0, b"x")])
        cluster.unanswered = 1
        with pytest.raises(NotLeaderError):
            append(log, [Row(1, 1, b"y"), Row(1, 2, b"z")])
        ends.add(SimulatedLeadership(cluster, rng).end)
    assert ends == {1, 3}


def test_two_leaders_never_both_count() -> None:
    rng = Random(2)
    cluster = SimulatedCluster()
    first = SimulatedLeadership(cluster, rng)
    append(first, [Row(1, 0, b"first")])
    second = SimulatedLeadership(cluster, rng)
    with pytest.raises(NotLeaderError):
        append(first, [Row(1, 5, b"late")])
    first.drop(1)
    append(second, [Row(1, 5, b"second")])
    assert [row.data for _, row in cluster.rows_after(0)] == [b"first", b"second"]


def test_a_full_cluster_takes_nothing() -> None:
    cluster = SimulatedCluster()
    log = SimulatedLeadership(cluster, Random(3))
    cluster.capacity = 3
    with pytest.raises(StoreFullError):
        append(log, [Row(1, 0, b"four")])
    assert cluster.end == 0
    append(log, [Row(1, 0, b"two")])


@pytest.mark.parametrize("seed", range(30))
def test_no_record_that_was_confirmed_is_lost(seed: int) -> None:
    """Instances die, come back and take over with caches of every age while the database fails over."""
    rng = Random(seed)
    disk = ReplicatedSimulatedDisk(rng)
    acknowledged: list[bytes] = []
    uncertain: list[bytes] = []
    for turn in range(12):
        try:
            store = Store.open(disk, SMALL, new_id=bytes(range(16)))
            found = [(kind, store.read(address), address) for kind, _, _, address, _ in store.recover()]
            bodies = [body for kind, body, _ in found if kind == 1]
            assert bodies[: len(acknowledged)] == acknowledged, f"turn {turn}"
            assert bodies[len(acknowledged) :] in ([], uncertain), f"turn {turn}"
            assert not store.report.damaged
            acknowledged = bodies
            for number in range(rng.randint(1, 25)):
                uncertain = []
                for part in range(rng.randint(1, 3)):
                    uncertain.append(b"%d.%d.%d " % (turn, number, part) * rng.choice((1, 30, 300)))
                    store.append(1, HEAD, uncertain[-1])
                match rng.random():
                    case chance if chance < 0.05:
                        disk.failing_syncs = 1
                    case chance if chance < 0.15:
                        disk.fail_over()
                    case chance if chance < 0.2:
                        disk.crash_at(rng.randint(1, 6))
                store.commit()
                acknowledged += uncertain
                uncertain = []
            if rng.random() < 0.3:
                store.close()
        except (StoreError, PowerLoss):
            pass
        rng.choice((disk.kill, disk.crash))()
        disk.failing_syncs = 0
        disk.spare_power()
    assert disk.takeovers == 12
    assert acknowledged


def test_batches_behind_one_that_found_no_room_are_refused() -> None:
    cluster = SimulatedCluster()
    log = SimulatedLeadership(cluster, Random(4))
    cluster.capacity = 3
    answers: list[StoreError | None] = []
    for body in (b"one", b"four", b"5"):
        log.send([Row(1, 0, body)], answers.append)
    log.wait()
    assert [type(answer) for answer in answers] == [type(None), StoreFullError, StoreFullError]
    cluster.capacity = None
    append(log, [Row(1, 0, b"four"), Row(1, 0, b"5")])
    assert [number for number, _ in cluster.rows_after(0)] == [1, 2, 3]


@pytest.mark.parametrize("seed", range(40))
def test_of_batches_that_are_under_way_a_beginning_survives(seed: int) -> None:
    """Whenever the connection breaks, the leader dies or the database fails over, and at least what was answered."""
    rng = Random(seed)
    cluster = SimulatedCluster()
    sent: list[bytes] = []
    for _ in range(20):
        log = SimulatedLeadership(cluster, rng)
        sent = [row.data for _, row in cluster.rows_after(0) if row.data is not None]
        answers: list[StoreError | None] = []
        for _ in range(rng.randint(1, 5)):
            sent.append(rng.randbytes(3))
            log.send([Row(1, 0, sent[-1])], answers.append)
            for step in (log._arrive, log._deliver):
                if rng.random() < 0.4:
                    step()
        left = log.cut()
        if rng.random() < 0.5:
            cluster.fail_over(rng)
        log.wait()
        assert sum(answer is None for answer in answers) == log.end - (
            cluster.starts_after(log.epoch - 1)[0][1] - 1
        )
        SimulatedLeadership(cluster, rng)
        log.arrive_late(left)
        found = [row.data for _, row in cluster.rows_after(0)]
        assert found == sent[: len(found)]
        assert len(found) >= log.end
    assert cluster.broken
    assert cluster.late
    assert cluster.pipelined
