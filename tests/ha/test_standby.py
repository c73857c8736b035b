"""What a standby does with a real database."""

from __future__ import annotations

import errno
import json
import time
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path
from typing import NoReturn

import pytest

from msmq.ha import standby
from msmq.ha.errors import BehindError, NotLeaderError
from msmq.ha.log import Row
from msmq.ha.standby import Known, View
from msmq.store import Store
from tests.ha.postgres import DATABASE, Server
from tests.ha.support import Member, append, expire, members

HEAD = bytes(40)


def test_a_standby_copies_what_the_leader_writes(server: Server, tmp_path: Path) -> None:
    with members(server, tmp_path, "a", "b") as (a, b):
        disk = a.lead()
        store = Store.open(disk)
        assert list(store.recover()) == []
        for number in range(100):
            store.append(1, HEAD, b"order %d" % number)
            store.commit()
        b.follow()
        assert b.files().keys() == {"FORMAT", "00000001.log"}
        whole = a.files()["00000001.log"]
        assert whole.startswith(b.files()["00000001.log"])
        assert b"order 99" in b.files()["00000001.log"]


def test_the_next_leader_has_everything_and_the_one_before_nothing_to_say(
    server: Server, tmp_path: Path
) -> None:
    with members(server, tmp_path, "a", "b") as (a, b):
        store = Store.open(a.lead())
        assert list(store.recover()) == []
        store.append(1, HEAD, b"order 1")
        store.commit()
        assert a.leadership is not None
        a.leadership.lose("its computer is gone")
        expire(server, a.settings.schema)
        disk = b.lead()
        assert b.leadership is not None
        assert b.leadership.epoch == 2
        store.append(1, HEAD, b"order 2")
        with pytest.raises(NotLeaderError):
            store.commit()
        second = Store.open(disk)
        found = [second.read(address) for _, _, _, address, _ in second.recover()]
        assert found == [b"order 1"]
        second.append(1, HEAD, b"order 3")
        second.commit()
        # The one before is a standby again: what it had not got confirmed is gone from its cache.
        a.standby.give_back(a.leadership, {1})
        a.follow()
        assert b"order 2" not in a.files()["00000001.log"]
        assert a.files()["FORMAT"] == b.files()["FORMAT"]
        second.close()
        b.do(b.leadership.resign())
        third = Store.open(a.lead())
        assert [third.read(address) for _, _, _, address, _ in third.recover()] == [b"order 1", b"order 3"]


def test_one_of_two_leads(server: Server, tmp_path: Path) -> None:
    with members(server, tmp_path, "a", "b") as (a, b):
        leading = [member.worker.begin(member.standby.lead()) for member in (a, b)]
        wait(leading, return_when=FIRST_COMPLETED)
        for member in (a, b):
            member.worker.loop.call_soon_threadsafe(member.standby.leave)
        outcomes = [each.exception() for each in leading]
        assert sum(outcome is None for outcome in outcomes) == 1
        history = server.sql(f"SELECT count(*) FROM {a.settings.schema}.history", database=DATABASE)
        assert history == "1"
        for member, future in zip((a, b), leading, strict=True):
            member.leadership = None if future.exception() else future.result()


def test_a_primary_whose_clock_is_behind_keeps_nobody_from_leading(server: Server, tmp_path: Path) -> None:
    """The primary before had a clock that was an hour ahead, and its leader is gone."""
    with members(server, tmp_path, "a", "b") as (a, b):
        b.with_lease(600)
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"confirmed")])
        a.leadership.lose("its computer is gone")
        schema = a.settings.schema
        server.sql(
            f"UPDATE {schema}.lease SET until = clock_timestamp() + interval '1 hour'", database=DATABASE
        )
        b.lead()
        assert b.leadership is not None
        assert b.leadership.epoch == 2
        assert b.files()["00000001.log"] == b"confirmed"


class Clock:
    """A monotonic clock that the test sets forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


def test_a_leader_whose_clock_is_behind_stays_as_long_as_it_renews(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is that its lease changes; that it seems to last for hours is nothing by itself."""
    clock = Clock()
    monkeypatch.setattr(standby, "time", clock)
    with members(server, tmp_path, "a", "b") as (a, b):
        b.with_lease(600_000)
        a.lead()
        assert a.leadership is not None
        schema = a.settings.schema
        server.sql(
            f"CREATE FUNCTION {schema}.ahead() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN NEW.until := NEW.until + interval '1 hour'; RETURN NEW; END $$",
            f"CREATE TRIGGER ahead BEFORE UPDATE ON {schema}.lease FOR EACH ROW EXECUTE FUNCTION {schema}.ahead()",
            database=DATABASE,
        )
        seen = None
        for _ in range(5):
            while seen is None or b.standby._lease == seen:
                assert b.do(b.standby._step()) is None
                assert a.leadership.is_valid
                seen = seen or b.standby._lease
            seen = b.standby._lease
            clock.ahead_s += 300
        a.leadership.lose("its computer is gone")
        while b.leadership is None:  # a renewal may still have been under way
            clock.ahead_s += 601
            b.leadership = b.do(b.standby._step())
        assert b.leadership.epoch == 2


def test_a_disk_here_that_is_full_is_waited_for_and_said(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the database is not blamed for it."""

    def no_room(name: str, *, create: bool = False) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with members(server, tmp_path, "a", "b") as (a, b):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"one")])
        with monkeypatch.context() as full:
            full.setattr(b.local, "open", no_room)
            following = b.worker.begin(b.standby.lead())
            while "cannot hold the copy of the log (No space left" not in b.standby.complaint:
                assert not following.done()
            assert not b.standby.is_current
        while b.standby.complaint or not b.standby.is_current:
            assert not following.done()
        assert b.files()["00000001.log"] == b"one"


def lose(server: Server, member: Member, epoch: int, last: int) -> None:
    """What a replica would look like that was promoted although it was behind."""
    schema = member.settings.schema
    server.sql(
        f"DELETE FROM {schema}.log WHERE number > {last}",
        f"DELETE FROM {schema}.history WHERE epoch > {epoch}",
        f"UPDATE {schema}.term SET epoch = {epoch}",
        f"UPDATE {schema}.lease SET epoch = {epoch}, confirmed = {epoch}, acknowledged = {last}",
        f"UPDATE {schema}.lease SET until = clock_timestamp()",
        database=DATABASE,
    )


def test_a_database_that_is_behind_is_refused(server: Server, tmp_path: Path) -> None:
    with members(server, tmp_path, "a", "b") as (a, b):
        a.lead()
        assert a.leadership is not None
        for number in range(4):
            append(a.leadership, [Row(1, number, b"x")])
        a.do(a.leadership.resign())
        b.follow()
        lose(server, a, 1, 2)
        for member in (a, b):
            if member is a:
                member.standby.give_back(a.leadership, set())
            with pytest.raises(BehindError, match="row 4"):
                member.follow()
        # It is remembered by the next process too.
        with members(server, tmp_path, "b") as (again,):
            assert again.standby.known == Known(1, 4)


def test_a_row_that_was_seen_and_lost_before_it_was_confirmed_is_forgotten(
    server: Server, tmp_path: Path
) -> None:
    with members(server, tmp_path, "a", "b", "c") as (a, b, c):
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"confirmed")])
        server.sql(
            f"INSERT INTO {a.settings.schema}.log_1 VALUES (2, 1, 1, 9, ' and not')", database=DATABASE
        )
        b.follow()
        assert b.files()["00000001.log"] == b"confirmed and not"
        a.leadership.lose("its computer is gone")
        lose(server, a, 1, 1)
        c.lead()
        assert c.leadership is not None
        append(c.leadership, [Row(1, 9, b" indeed")])
        b.follow()
        assert b.files()["00000001.log"] == b"confirmed indeed"


def test_whose_turn_it_is() -> None:
    def view(left_ms: int, handover: str, holder: str = "a") -> View:
        return View(1, holder, left_ms, handover, 0, 0)

    assert not view(1, "").is_free_for("b", 100)
    assert view(0, "").is_free_for("b", 100)
    assert view(0, "b").is_free_for("b", 100)
    assert not view(0, "c").is_free_for("b", 100)
    assert view(-201, "c").is_free_for("b", 100)
    assert view(0, "*").is_free_for("b", 100)
    assert not view(0, "*").is_free_for("a", 100)
    assert view(-201, "*").is_free_for("a", 100)
    # By a clock that is behind it lasts for ever, and nobody renews it.
    assert not view(3_600_000, "").is_free_for("b", 100, 99)
    assert view(3_600_000, "").is_free_for("b", 100, 100)
    assert not view(3_600_000, "c").is_free_for("b", 100, 300)
    assert view(3_600_000, "c").is_free_for("b", 100, 301)


def test_what_is_known_survives_a_torn_file(tmp_path: Path) -> None:
    assert Known.load(tmp_path) == Known()
    Known(3, 14).save(tmp_path)
    assert Known.load(tmp_path) == Known(3, 14)
    (tmp_path / "known.json").write_text(json.dumps({"epoch": 3})[:-1])
    assert Known.load(tmp_path) == Known()
