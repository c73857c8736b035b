"""Real replicas that become the primary: one that has everything, and one that is behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.ha.errors import BehindError, NotLeaderError
from msmq.ha.leadership import Leadership
from msmq.ha.log import Row
from tests.ha.postgres import DATABASE, HOST, Server, new_cluster
from tests.ha.support import Member, append, expire, members


def address_of(servers: list[Server]) -> str:
    """One address that names all of them."""
    nodes = ",".join(f"{HOST}:{server.port}" for server in servers)
    return servers[0].address().replace(f"{HOST}:{servers[0].port}", nodes)


def numbers(server: Server, member: Member) -> list[int]:
    text = server.sql(f"SELECT number FROM {member.settings.schema}.log ORDER BY number", database=DATABASE)
    return [int(line) for line in text.splitlines()]


def received(server: Server) -> int:
    return int(server.sql("SELECT pg_last_wal_receive_lsn() - '0/0'"))


def led_by(member: Member) -> Leadership:
    member.lead()
    assert member.leadership is not None
    return member.leadership


def write(leadership: Leadership, count: int) -> None:
    for place in range(count):
        append(leadership, [Row(1, place, b"x")])


def step_down(member: Member, leadership: Leadership) -> None:
    """The leader finds out that its database is gone, and is a standby again."""
    with pytest.raises(NotLeaderError):
        append(leadership, [Row(1, 0, b"nobody is told that this is safe")])
    member.standby.give_back(leadership, {1})


def test_a_primary_that_failed_over_has_lost_nothing(tmp_path: Path) -> None:
    with (
        new_cluster() as servers,
        members(address_of(servers), tmp_path, "a", "b") as (a, b),
    ):
        one, two, three = servers
        leadership = led_by(a)
        write(leadership, 20)
        one.kill()
        promoted, other, name = (
            (two, three, "three") if received(two) >= received(three) else (three, two, "two")
        )
        other.follow(promoted, name)
        other.reload()
        promoted.promote()
        step_down(a, leadership)
        expire(promoted, a.settings.schema)
        again = led_by(b)
        assert (again.epoch, again.end) == (2, 20)
        write(again, 1)
        assert numbers(promoted, b) == list(range(1, 22))
        a.follow()
        assert a.standby.view is not None
        assert a.standby.view.end == 21


def test_a_replica_that_is_behind_is_refused(tmp_path: Path) -> None:
    """By whoever led, and by whoever followed: both know what was confirmed."""
    with (
        new_cluster() as servers,
        members(address_of(servers), tmp_path, "a", "b") as (a, b),
    ):
        one, two, three = servers
        leadership = led_by(a)
        write(leadership, 5)
        three.stop()
        write(leadership, 10)
        while b.standby.known.acknowledged < 15:
            b.follow()
        one.kill()
        two.kill()
        three.configure(synchronous_standby_names="")
        three.start()
        three.promote()
        step_down(a, leadership)
        for member in (a, b):
            with pytest.raises(BehindError, match="it had confirmed epoch 1 and row 15"):
                member.follow()
        expire(three, a.settings.schema)
        waiting = b.worker.begin(b.standby.lead())
        while "a replica that was behind was promoted" not in b.standby.complaint:
            assert not waiting.done()
        assert numbers(three, a) == list(range(1, 6)), "nobody has written there"
