"""Rows on their way to a real database, several batches at a time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from msmq.ha.database import Database
from msmq.ha.errors import HaError, NotLeaderError
from msmq.ha.leadership import Leadership
from msmq.ha.log import PIECE_BYTES, Row
from msmq.ha.writer import connect
from msmq.store import StoreError, StoreFullError
from tests.ha.postgres import DATABASE, HOST, Server, free_port, new_server
from tests.ha.support import PATIENT_S, Member, append, members, until

Answers = list[StoreError | None]


@contextmanager
def leader(server: Server, directory: Path) -> Iterator[tuple[Member, Leadership]]:
    """One that has added row 1."""
    with members(server, directory, "a") as (a,):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"1")])
        yield a, a.leadership


@contextmanager
def another_session(server: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(host=HOST, port=server.port, user="postgres", dbname=DATABASE) as connection:
        yield connection


def hold(session: psycopg.Connection, member: Member) -> None:
    """Let every insert wait until the session commits."""
    session.execute(f"SELECT 1 FROM {member.settings.schema}.term FOR UPDATE".encode())


def bodies(server: Server, member: Member) -> list[str]:
    statement = f"SELECT number || ' ' || convert_from(bytes, 'UTF8') FROM {member.settings.schema}.log ORDER BY number"
    return server.sql(statement, database=DATABASE).splitlines()


def inserts_waiting(server: Server) -> int:
    """How many inserts wait for a lock."""
    return int(
        server.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT%'"
        )
    )


def no_room_for(server: Server, member: Member, body: str) -> None:
    schema = member.settings.schema
    server.sql(
        f"CREATE OR REPLACE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
        f"IF NEW.bytes = '{body}' THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END IF; "
        "RETURN NEW; END$$",
        f"CREATE OR REPLACE TRIGGER no_room BEFORE INSERT ON {schema}.log_1 "
        f"FOR EACH ROW EXECUTE FUNCTION {schema}.no_room()",
        database=DATABASE,
    )


def test_the_next_are_on_their_way_before_the_last_are_confirmed(server: Server, tmp_path: Path) -> None:
    answers: Answers = []
    with leader(server, tmp_path) as (a, leadership), another_session(server) as session:
        hold(session, a)
        for number in range(2, 7):
            leadership.send([Row(1, number, b"%d" % number)], answers.append)
        while not inserts_waiting(server):
            assert not answers
        assert len(leadership._writer._under_way) == 5
        assert leadership._writer.due is not None
        assert leadership.end == 1
        session.rollback()
        leadership.wait()
        assert answers == [None] * 5
        assert leadership.end == 6
        assert leadership._writer.due is None
        assert bodies(server, a) == [f"{number} {number}" for number in range(1, 7)]


async def test_the_loop_hears_the_answers_while_it_does_other_things(server: Server, tmp_path: Path) -> None:
    """More than a socket takes at once, included."""
    answers: Answers = []
    with leader(server, tmp_path) as (_, leadership):
        leadership.attach(asyncio.get_running_loop())
        for number in range(10):
            leadership.send([Row(1, 1 + number * PIECE_BYTES, bytes(3 * PIECE_BYTES))], answers.append)
        assert leadership._writer._unsent
        await until(lambda: len(answers) == 10)
        assert answers == [None] * 10
        assert leadership.end == 31
        assert not leadership._writer._unsent


def test_what_is_behind_rows_that_found_no_room_is_refused_too(server: Server, tmp_path: Path) -> None:
    """And goes again with them, under the numbers that are next."""
    answers: Answers = []
    with leader(server, tmp_path) as (a, leadership):
        no_room_for(server, a, "3")
        for number in range(2, 6):
            leadership.send([Row(1, number, b"%d" % number)], answers.append)
        leadership.wait()
        assert answers[0] is None
        assert [type(answer) for answer in answers[1:]] == [StoreFullError] * 3
        assert bodies(server, a) == ["1 1", "2 2"]
        assert leadership.is_valid
        no_room_for(server, a, "nothing")
        for number in range(3, 6):
            append(leadership, [Row(1, number, b"%d" % number)])
        assert bodies(server, a) == [f"{number} {number}" for number in range(1, 6)]


def test_a_segment_that_found_no_room_is_made_again(server: Server, tmp_path: Path) -> None:
    """Rows behind it are meant for a table that does not exist then."""
    answers: Answers = []
    with leader(server, tmp_path) as (a, leadership):
        no_room_for(server, a, "2")
        leadership.send([Row(1, 1, b"2"), Row(2, 0, b"3")], answers.append)
        leadership.send([Row(2, 1, b"4")], answers.append)
        leadership.send([Row(3, 0, b"5")], answers.append)
        leadership.wait()
        assert [type(answer) for answer in answers] == [StoreFullError] * 3
        assert bodies(server, a) == ["1 1"]
        no_room_for(server, a, "nothing")
        append(leadership, [Row(1, 1, b"2"), Row(2, 0, b"3"), Row(2, 1, b"4"), Row(3, 0, b"5")])
        assert bodies(server, a) == [f"{number} {number}" for number in range(1, 6)]


@pytest.mark.parametrize("segment", [1, 2], ids=["old segment", "new segment"])
def test_a_leader_that_is_replaced_changes_nothing_with_what_is_under_way(
    server: Server, tmp_path: Path, segment: int
) -> None:
    answers: Answers = []
    with leader(server, tmp_path) as (a, leadership), another_session(server) as session:
        session.execute(f"UPDATE {a.settings.schema}.term SET epoch = epoch + 1".encode())
        for number in range(2, 5):
            leadership.send([Row(segment, number, b"%d" % number)], answers.append)
        session.commit()
        leadership.wait()
        assert [type(answer) for answer in answers] == [NotLeaderError] * 3
        assert bodies(server, a) == ["1 1"]
        assert server.sql(f"SELECT to_regclass('{a.settings.schema}.log_2')", database=DATABASE) == ""
        assert leadership.failure is answers[0]


def test_who_loses_the_lead_cancels_nothing(server: Server, tmp_path: Path) -> None:
    """Everything under way is answered with the loss at once; the server goes on with it."""
    answers: Answers = []
    with leader(server, tmp_path) as (a, leadership), another_session(server) as session:
        hold(session, a)
        leadership.send([Row(1, 2, b"2")], answers.append)
        leadership.send([Row(1, 3, b"3")], answers.append)
        while not inserts_waiting(server):
            assert not answers
        failure = leadership.lose("the test wants it")
        leadership.wait()
        assert answers == [failure, failure]
        leadership.send([Row(1, 4, b"4")], answers.append)
        assert answers == [failure] * 3
        assert inserts_waiting(server), "nobody has cancelled it"
        session.rollback()
        while len(bodies(server, a)) < 2:
            pass
        assert leadership.end == 1


def test_a_leader_steps_down_when_an_answer_is_overdue(server: Server, tmp_path: Path) -> None:
    answers: Answers = []
    with leader(server, tmp_path) as (a, leadership), another_session(server) as session:
        writer = leadership._writer
        hold(session, a)
        leadership.send([Row(1, 2, b"2")], answers.append)
        assert not writer.is_overdue
        while not inserts_waiting(server):
            assert not answers
        writer.due = 0.0
        while leadership.failure is None:
            assert not answers
        leadership.wait()
        assert answers == [leadership.failure]
        session.rollback()


def test_an_answer_that_was_not_read_yet_is_in_time(server: Server, tmp_path: Path) -> None:
    """The queue manager may be busy for longer than the database may take."""
    answers: Answers = []
    with leader(server, tmp_path) as (_, leadership):
        writer = leadership._writer
        leadership.send([Row(1, 2, b"2")], answers.append)
        with selectors.DefaultSelector() as selector:
            selector.register(writer._line, selectors.EVENT_READ)
            assert selector.select(PATIENT_S)
        writer.due = 0.0
        assert not writer.is_overdue
        leadership.wait()
        assert answers == [None]


def test_a_server_that_dies_leaves_nobody_waiting(tmp_path: Path) -> None:
    answers: Answers = []
    with (
        new_server() as server,
        leader(server, tmp_path) as (a, leadership),
        another_session(server) as session,
    ):
        hold(session, a)
        leadership.send([Row(1, 2, b"2")], answers.append)
        leadership.send([Row(1, 3, b"3")], answers.append)
        while not inserts_waiting(server):
            assert not answers
        server.kill()
        leadership.wait()
        session.close()
    assert [type(answer) for answer in answers] == [NotLeaderError] * 2
    assert not leadership.is_valid


def test_a_primary_that_went_away_is_said() -> None:
    with pytest.raises(HaError, match="does not answer"):
        connect(Database(f"postgresql://msmq@{HOST}:{free_port()}/{DATABASE}", "gone"), 0)


async def test_an_idle_leader_notices_that_its_server_is_gone(tmp_path: Path) -> None:
    with new_server() as server, leader(server, tmp_path) as (_, leadership):
        leadership.attach(asyncio.get_running_loop())
        server.kill()
        await until(lambda: leadership.failure is not None)
        leadership.close()


def test_the_segment_with_the_last_row_is_dropped_behind_the_next(server: Server, tmp_path: Path) -> None:
    """Or the log would seem to have lost a row that was confirmed."""
    with leader(server, tmp_path) as (a, leadership):
        append(leadership, [Row(2, 0, b"2")])
        leadership.drop(2)
        append(leadership, [])
        no_room_for(server, a, "3")
        with pytest.raises(StoreFullError):
            append(leadership, [Row(3, 0, b"4"), Row(1, 1, b"3")])
        assert bodies(server, a) == ["1 1", "2 2"]
        no_room_for(server, a, "nothing")
        append(leadership, [Row(3, 0, b"3")])
        while bodies(server, a) != ["1 1", "3 3"]:
            assert leadership.failure is None


def test_a_segment_is_dropped_behind_what_is_under_way(server: Server, tmp_path: Path) -> None:
    answers: Answers = []
    with leader(server, tmp_path) as (a, leadership), another_session(server) as session:
        append(leadership, [Row(2, 0, b"2")])
        hold(session, a)
        leadership.send([Row(1, 3, b"3")], answers.append)
        leadership.drop(1)
        leadership.send([Row(2, 4, b"4")], answers.append)
        while not inserts_waiting(server):
            assert not answers
        session.rollback()
        leadership.wait()
        assert answers == [None, None]
        while bodies(server, a) != ["2 2", "4 4"]:
            assert leadership.failure is None
