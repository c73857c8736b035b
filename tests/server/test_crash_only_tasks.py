"""An error that nobody expects in a task that nobody waits for ends the queue manager, or costs the connection that the
task worked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from msmq.admission.gate import Crowding, Gate
from msmq.api.frames import GREETING, MESSAGE, OPEN, frame
from msmq.api.line import Line
from msmq.api.relay import UnixRelay
from msmq.directory.cached import CachedDirectory
from msmq.ha.writer import Writer
from msmq.manager.directory import DirectoryResult, ObjectClass, by_identifier
from msmq.manager.model import Site
from msmq.security.sid import Sid
from msmq.server.config import Config
from msmq.server.daemon import Daemon
from msmq.server.directory_settings import DirectorySettings
from msmq.server.inbound.listener import Listener
from msmq.server.membership import Membership
from msmq.testing.directory import MemoryDirectory
from tests.api.support import address, daemon
from tests.server.support import ALICE, BOB, PATIENCE_S, eventually, neighbourhood

NAMED = by_identifier(b"p" * 16)


class Domain(MemoryDirectory):
    """A directory that breaks when it is told to."""

    broken = False

    def computer_sid(self, computer: str) -> Sid | None:
        return None

    def read(self, *question: object) -> object:  # type: ignore[override]
        if self.broken:
            raise ZeroDivisionError
        return super().read(*question)  # type: ignore[arg-type]


async def ended(running: Daemon) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await running.stopping.wait()
    assert "ZeroDivisionError" in str(running.failure)


@asynccontextmanager
async def in_a_domain(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Daemon, Domain]]:
    domain = Domain()
    domain.put(Site(b"s" * 16, "Here"))
    monkeypatch.setattr("msmq.server.daemon.Membership", lambda settings: Membership(settings, domain))
    settings = DirectorySettings(kind="ldap", domain="corp.example", principal="host", mechanism="ntlm")
    running = Daemon(replace(Config(), data=directory, name="HOST", port=0, ping_port=0, directory=settings))
    await running.start()
    try:
        yield running, domain
    finally:
        await running.stop()


async def test_listening_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(listener: Listener) -> None:
        raise ZeroDivisionError

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        alice.manager.take_offline()
        monkeypatch.setattr(Listener, "start", fail)
        alice.manager.bring_online()
        await ended(alice.daemon)


async def test_watching_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_a_domain(tmp_path, monkeypatch) as (running, _):
        assert running.membership is not None

        async def fail(membership: Membership) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(Membership, "_settle_unclaimed", fail)
        running.membership.look_again()
        await ended(running)


async def test_watching_goes_on_when_the_directory_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_a_domain(tmp_path, monkeypatch) as (running, _):
        assert running.membership is not None
        tries: list[None] = []

        async def fail(membership: Membership) -> None:
            tries.append(None)
            raise OSError("no network")

        monkeypatch.setattr(Membership, "_settle_unclaimed", fail)
        for number in (1, 2):
            running.membership.look_again()
            await eventually(lambda: len(tries) >= number)  # noqa: B023
        await eventually(lambda: "no network" in caplog.text)
        assert running.failure is None


async def test_work_that_waits_for_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_a_domain(tmp_path, monkeypatch) as (running, _):
        assert running.membership is not None
        running.membership._late = 0

        def fail() -> None:
            raise ZeroDivisionError

        assert running.membership.later("PUBLIC=00000000-0000-0000-0000-000000000001", fail)
        await ended(running)


async def test_an_answer_of_the_directory_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_a_domain(tmp_path, monkeypatch) as (running, domain):
        assert running.membership is not None
        domain.broken = True
        asked = running.membership.directory.read(ObjectClass.SITE, NAMED, ("name",))
        assert asked == (DirectoryResult.GENERIC_ERROR, None), "nobody waits for the answer"
        await ended(running)


async def test_a_change_whose_caller_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_a_domain(tmp_path, monkeypatch) as (running, _):
        asked, go_on = asyncio.Event(), asyncio.Event()
        ask = CachedDirectory.ask

        async def slow(directory: CachedDirectory, *values: object, **options: object) -> object:
            asked.set()
            await go_on.wait()
            return await ask(directory, *values, **options)  # type: ignore[arg-type]

        def fail() -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(CachedDirectory, "ask", slow)
        caller = asyncio.create_task(running.change(fail))
        await asked.wait()
        caller.cancel()
        await asyncio.wait({caller})
        go_on.set()
        await ended(running)


async def test_a_timer_of_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All doors share it."""

    def fail(gate: Gate, *values: object) -> None:
        raise ZeroDivisionError

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        alice.daemon.gate.crowding = Crowding(opening_s=0.01)
        monkeypatch.setattr(Gate, "_dismiss", fail)
        _, writer = await asyncio.open_connection(ALICE, here.port, local_addr=(BOB, 0))
        await ended(alice.daemon)
        writer.close()


async def test_what_hears_the_answers_of_a_far_disk(tmp_path: Path) -> None:
    """The loop calls it whenever the database has said something."""
    async with daemon(tmp_path) as running:
        asyncio.get_running_loop().call_soon(Writer._readable, None)
        async with asyncio.timeout(PATIENCE_S):
            await running.stopping.wait()
        assert "AttributeError" in str(running.failure)


@pytest.mark.parametrize("what", ["a line", "gRPC"])
async def test_a_connection_of_an_application_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    def fail(*values: object) -> None:
        raise ZeroDivisionError

    if what == "a line":
        monkeypatch.setattr(Line, "_end", fail)
        opening = b"".join((GREETING, *frame(OPEN, 1, b"GetManager"), *frame(MESSAGE, 1, b"")))
    else:
        monkeypatch.setattr(UnixRelay, "_peer", fail)
        opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    async with daemon(tmp_path) as running:
        path = address(running).removeprefix("unix:")
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(opening)
        with caplog.at_level(logging.ERROR, "asyncio"):
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
        writer.close()
        await eventually(lambda: "ZeroDivisionError" in caplog.text)
        assert running.failure is None
