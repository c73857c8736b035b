"""Who somebody is, what they may do, and how long a session lasts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from msmq.errors import AccessDeniedError
from msmq.web import people as module
from msmq.web.people import Credential, People, Person, Role, same


class Fake:
    """A queue manager that knows some tokens."""

    def __init__(self) -> None:
        self.known = {
            "a": ("S-1-1", ()),
            "boss": ("S-1-2", ("S-1-5-32-544",)),
            "watch": ("S-1-3", ("S-1-9",)),
        }
        self.opened: list[tuple[str, Credential]] = []
        self.closed = 0

    def connect(self, host: str, credential: Credential) -> Any:
        async def open_it() -> None:
            self.opened.append((host, credential))

        async def close() -> None:
            self.closed += 1

        async def manager() -> Any:
            if credential.token not in self.known:
                raise AccessDeniedError("no")
            caller, groups = self.known[credential.token]
            return SimpleNamespace(caller=caller, caller_groups=groups)

        return SimpleNamespace(open=open_it, close=close, manager=manager)


async def test_roles_come_from_the_operator_else_from_the_groups() -> None:
    fake = Fake()
    people = People(("H",), fake.connect, {"S-1-9": "look"})
    assert (await people.known(Credential("a"))).role is Role.OPERATE
    assert (await people.known(Credential("boss"))).role is Role.ADMINISTER
    assert (await people.known(Credential("watch"))).role is Role.LOOK
    with pytest.raises(AccessDeniedError):
        await people.known(Credential("nobody"))
    assert fake.closed == 1, "who is not known keeps no connection"


async def test_connections_are_shared_and_not_too_many() -> None:
    fake = Fake()
    people = People(("H",), fake.connect, {})
    first, again = await asyncio.gather(*(people.connection("H", Credential("a")) for _ in range(2)))
    assert first is again
    for number in range(100):
        await people.connection("H", Credential(str(number)))
    assert fake.closed == 101 - 64
    await people.close()
    assert fake.closed == 101


async def test_nobody_waits_for_a_host_that_is_away() -> None:
    fake, away = Fake(), asyncio.Event()

    def connect(host: str, credential: Credential) -> Any:
        made = fake.connect(host, credential)
        if host == "AWAY":
            made.open = away.wait
        return made

    people = People(("H", "AWAY"), connect, {})
    waiting = [asyncio.create_task(people.connection("AWAY", Credential("a"))) for _ in range(2)]
    await asyncio.sleep(0)
    assert await people.connection("H", Credential("a"))
    waiting[0].cancel()
    away.set()
    assert await waiting[1] is await people.connection("AWAY", Credential("a"))
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    away.clear()
    last = asyncio.create_task(people.connection("AWAY", Credential("b")))
    await asyncio.sleep(0)
    await people.close()
    with pytest.raises(asyncio.CancelledError):
        await last


async def test_a_session_ends_by_itself_and_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    people = People(("H",), Fake().connect, {})
    person = Person(Credential("a"), "S-1-1", "a", Role.LOOK)
    secret, session = people.log_in(person)
    assert people.session(secret) is session
    assert people.session("guess") is None
    for _ in range(11):
        now[0] += 3_599
        assert people.session(secret) is session
    now[0] += 3_601
    assert people.session(secret) is None, "nobody was there for an hour"
    secret, _ = people.log_in(person)
    people.log_out(secret)
    assert people.session(secret) is None


def test_secrets_are_compared_whole() -> None:
    assert same("ä", "ä")
    assert not same("", "x")
    assert "token" not in repr(Credential("hidden")).replace("token=", "")
    assert "hidden" not in repr(Credential("hidden"))
