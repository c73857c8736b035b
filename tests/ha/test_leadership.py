"""What a leader does with a real database."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from msmq.ha.errors import NotLeaderError
from msmq.ha.leadership import Leadership
from msmq.ha.log import PIECE_BYTES, Row
from tests.ha.postgres import DATABASE, Server, new_server
from tests.ha.support import PATIENT_S, Member, append, members


def log_of(server: Server, member: Member) -> list[str]:
    text = server.sql(
        f"SELECT number, epoch, segment, place, length(bytes) FROM {member.settings.schema}.log ORDER BY number",
        database=DATABASE,
    )
    return text.splitlines()


def append_many(leadership: Leadership) -> None:
    """Sessions of the server take a moment to hear of a new setting."""
    for number in range(10_000):
        append(leadership, [Row(1, 3 + number, b"2")])


def test_rows_are_numbered_whoever_wrote_them(server: Server, tmp_path: Path) -> None:
    with members(server, tmp_path, "a", "b") as (a, b):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(0, 0, b"format"), Row(1, 0, b"one")])
        append(a.leadership, [Row(1, 3, b"two")])
        a.do(a.leadership.resign())
        b.lead()
        assert b.leadership is not None
        append(b.leadership, [Row(1, 6, None), Row(2, 0, b"three")])
        assert log_of(server, a) == ["1|1|0|0|6", "2|1|1|0|3", "3|1|1|3|3", "4|2|1|6|", "5|2|2|0|5"]


def test_a_leader_that_was_replaced_changes_nothing(server: Server, tmp_path: Path) -> None:
    """However sure it is of its lease."""
    with members(server, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"one")])
        server.sql(f"UPDATE {a.settings.schema}.term SET epoch = epoch + 1", database=DATABASE)
        heard: list[Exception] = []
        a.leadership.lost = heard.append
        for rows in ([Row(1, 3, b"two")], [Row(2, 0, b"new segment"), Row(1, 3, b"two")]):
            with pytest.raises(NotLeaderError):
                append(a.leadership, rows)
        assert len(heard) == 1
        assert log_of(server, a) == ["1|1|1|0|3"]
        assert not a.leadership.is_valid


def test_a_large_batch_is_there_whole_or_not_at_all(server: Server, tmp_path: Path) -> None:
    large = bytes(11 * PIECE_BYTES + 5)
    with members(server, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, large)])
        assert [line.split("|")[3] for line in log_of(server, a)] == [str(n * PIECE_BYTES) for n in range(12)]
        # The last of these rows has a number that is taken.
        server.sql(f"INSERT INTO {a.settings.schema}.log_1 VALUES (24, 1, 1, 0, '')", database=DATABASE)
        with pytest.raises(NotLeaderError):
            append(a.leadership, [Row(1, len(large), large)])
        assert len(log_of(server, a)) == 13


def test_segments_are_dropped_and_their_space_with_them(server: Server, tmp_path: Path) -> None:
    with members(server, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"one"), Row(2, 0, b"two")])
        a.leadership.drop(1)
        a.leadership.drop(7)  # nothing was ever written to it
        end = time.monotonic() + 120
        while len(log_of(server, a)) > 1 and time.monotonic() < end:
            append(a.leadership, [])
        assert log_of(server, a) == ["2|1|2|0|3"]
        assert server.sql(f"SELECT to_regclass('{a.settings.schema}.log_1')", database=DATABASE) == ""


def test_a_commit_that_no_longer_waits_for_others_is_no_commit(tmp_path: Path) -> None:
    """PostgreSQL says success, and a warning: the row is on one node only. It must not be believed."""
    with new_server() as server, members(server, tmp_path, "a") as (a,):
        a.lead()
        leadership = a.leadership
        assert leadership is not None
        append(leadership, [Row(1, 0, b"one")])
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        server.reload()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(append_many, leadership)
            waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%INSERT%'"
            while server.sql(f"SELECT count(*) {waiting}") == "0":
                assert not answer.done()
            server.sql(f"SELECT pg_cancel_backend(pid) {waiting}")
            with pytest.raises(NotLeaderError, match="warning"):
                answer.result(PATIENT_S)
        assert len(log_of(server, a)) == leadership.end + 1  # it can be seen, and is not believed


@pytest.mark.parametrize("silent", ["nobody confirms", "frozen"])
def test_a_leader_steps_down_when_nobody_answers(tmp_path: Path, silent: str) -> None:
    """And nothing is cancelled: what waits goes on waiting."""
    with new_server() as server, members(server, tmp_path, "a") as (a,):
        a.lead()
        leadership = a.leadership
        assert leadership is not None
        append(leadership, [Row(1, 0, b"one")])
        a.with_lease(5_000)
        if silent == "frozen":
            server.freeze()
        else:
            server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            server.reload()
        with pytest.raises(NotLeaderError):
            append_many(leadership)
        assert not leadership.is_valid
        server.thaw()
        if silent != "frozen":
            assert len(log_of(server, a)) == leadership.end


def test_a_leader_hears_that_another_is_wanted(server: Server, tmp_path: Path) -> None:
    with members(server, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        heard: list[bool] = []
        a.leadership.handover = lambda: heard.append(True)
        server.sql(f"UPDATE {a.settings.schema}.lease SET handover = '*'", database=DATABASE)
        end = time.monotonic() + 120
        while not heard and time.monotonic() < end:
            append(a.leadership, [])
        assert heard


@pytest.mark.parametrize("task", ["_renew", "_watch", "_drop_segments"])
def test_an_internal_error_in_one_of_its_tasks_loses_the_lead(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """Nobody would renew the lease, or see that it has run out."""

    async def fail(leadership: Leadership) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Leadership, task, fail)
    with members(server, tmp_path, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        with pytest.raises(NotLeaderError, match="ZeroDivisionError"):
            append_many(a.leadership)
