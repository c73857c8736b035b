"""Instances of one queue manager that take turns, as processes with a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

import msmq
from msmq.errors import IoTimeoutError
from msmq.ha.database import Database
from msmq.ha.settings import HaSettings
from msmq.server.available import Availability, new_instance
from msmq.server.config import Config, ConfigError
from tests import ready
from tests.ha.postgres import DATABASE, Server, new_server
from tests.ha.processes import LASTING, Process
from tests.ha.support import expire
from tests.server.support import PATIENCE_S, eventually, free_port

ORDERS = ".\\private$\\orders"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with new_server() as made:
        yield made


@asynccontextmanager
async def pair(
    server: Server, directory: Path, schema: str, more: str = ""
) -> AsyncIterator[tuple[Process, Process]]:
    """One that leads and one that waits."""
    a, b = (Process(directory, name, server.address(), schema, more, LASTING) for name in "ab")
    await a.start()
    await a.says("ready")
    await b.start()
    try:
        yield a, b
    finally:
        for each in (a, b):
            if each.process.returncode is None:
                os.kill(each.process.pid, signal.SIGCONT)
                await each.stop(signal.SIGKILL)


async def run_msmq(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        ready.msmq(), *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_a_standby_takes_over_and_the_client_follows(server: Server, tmp_path: Path) -> None:
    """Killed, handed over, frozen: every order once, in order; the one that was frozen has nothing to say, although it
    believes that its lease has hardly begun."""
    async with pair(server, tmp_path, "turns") as (a, b):
        address = f"unix:{a.socket},unix:{b.socket}"
        assert [await a.probe(path) for path in ("live", "ready", "leader")] == [200, 200, 200]
        assert await b.probe("leader") == 503
        async with msmq.connect(address) as mq:
            await mq.create_queue(ORDERS, transactional=True)
            queue = mq.queue(ORDERS)
            await _send(mq, queue, 0)
            await a.stop(signal.SIGKILL)
            expire(server, "turns")
            await _send(mq, queue, 1)
            await b.says("ready")
            await a.start()
            code, text = await run_msmq("ha", "switchover", "--store", server.address(), "--schema", "turns")
            assert code == 0, text
            await a.says("ready")
            await b.says("standby")
            await _send(mq, queue, 2)
            os.kill(a.process.pid, signal.SIGSTOP)
            expire(server, "turns")
            await b.says("ready")
            await _send(mq, queue, 3)
            os.kill(a.process.pid, signal.SIGCONT)
            await a.says("standby")
            received = [(await queue.receive(timeout=PATIENCE_S)).body for _ in range(40)]
            assert received == [b"order %d.%d" % (turn, number) for turn in range(4) for number in range(10)]
            with pytest.raises(IoTimeoutError):
                await queue.receive(timeout=0)
        assert await b.stop() == 0


async def test_a_database_without_room_is_waited_for_when_a_turn_begins(tmp_path: Path) -> None:
    """The instance stays, says why it does not serve, and serves when there is room."""
    with new_server() as full:
        await Database(full.address(), "full", PATIENCE_S).prepare("ORDERS")
        full.sql(
            "CREATE FUNCTION no_room() RETURNS event_trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END$$",
            "CREATE EVENT TRIGGER no_room ON ddl_command_start WHEN TAG IN ('CREATE TABLE') "
            "EXECUTE FUNCTION no_room()",
            database=DATABASE,
        )
        instance = Process(tmp_path, "a", full.address(), "full")
        await instance.start()
        try:
            log = tmp_path / "a.log"
            await eventually(lambda: "has no room" in log.read_text())
            assert [await instance.probe(path) for path in ("live", "leader")] == [200, 503]
            full.sql("DROP EVENT TRIGGER no_room", database=DATABASE)
            while not (await instance.line()).startswith("ready"):
                pass
        finally:
            assert await instance.stop() == 0


async def test_an_instance_that_waits_for_its_database_is_alive_and_says_so(tmp_path: Path) -> None:
    """A supervisor would end it otherwise, again and again, until the database is there."""
    health = free_port()
    store = f"postgresql://msmq@127.0.0.1:{free_port()}/queues"
    config = Config(data=tmp_path, name="ORDERS", ha=HaSettings(store, "a", health=f"127.0.0.1:{health}"))
    available = Availability(config)
    running = asyncio.create_task(available.run())
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        await eventually(lambda: available.instance.state["complaint"])
        answers = [
            await client.get(f"http://127.0.0.1:{health}/{path}") for path in ("live", "ready", "leader")
        ]
    assert [answer.status_code for answer in answers] == [200, 503, 503]
    assert "has no primary that answers" in answers[1].json()["complaint"]
    available.stopping.set()
    assert await running is False


@pytest.mark.parametrize("wrong", ["password", "database", "rights", "newer tables", "another name"])
async def test_a_database_that_cannot_be_used_ends_it_with_one_clear_line(
    server: Server, tmp_path: Path, wrong: str
) -> None:
    schema = f"wrong_{wrong.replace(' ', '_')}"
    address, words = server.address(), "does not let us in"
    match wrong:
        case "password":
            address = server.address(password="guessed")
        case "database":
            address, words = address.replace(f"/{DATABASE}", "/nowhere"), "there is no such database"
        case "rights":
            server.sql("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN PASSWORD 'x'")
            address, words = server.address("guest", "x"), "has not the rights it needs"
        case "newer tables":
            await Database(address, schema, PATIENCE_S).prepare("ORDERS")
            server.sql(f"UPDATE {schema}.version SET version = 7", database=DATABASE)
            words = "has version 7 of the tables"
        case "another name":
            await Database(address, schema, PATIENCE_S).prepare("INVOICES")
            words = "start this instance with --name INVOICES"
    config = tmp_path / "msmq.toml"
    config.write_text(f'[ha]\nschema = "{schema}"\n')
    options = ("--config", str(config), "--name", "ORDERS", "--data", str(tmp_path / "data"), "--web", "none")
    doors = ("--listen", "127.0.0.1", "--port", "0", "--ping-port", "0", "--rpc-port", "0")
    code, text = await run_msmq("serve", "--store", address, *options, *doors)
    assert code not in (0, -1)
    said = [line for line in text.splitlines() if words in line]
    assert len(said) == 1, text
    assert "Traceback" not in text
    assert "guessed" not in text


async def test_who_leads_has_a_console(server: Server, tmp_path: Path) -> None:
    where = f"127.0.0.1:{free_port()}"
    leading = Process(tmp_path, "a", server.address(), "console", settings=LASTING, web=where)
    await leading.start()
    try:
        assert f"console http://{where}/" in await leading.says("ready")
        async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
            assert (await client.get(f"http://{where}/api/health")).json() == {"status": "up"}
            code, text = await run_msmq(
                "ha", "switchover", "--store", server.address(), "--schema", "console"
            )
            assert code == 0, text
            await leading.says("standby")
            expire(server, "console")  # there is nobody else whom it would have to let go first
            await leading.says("ready")
            assert (await client.get(f"http://{where}/api/health")).status_code == 200
    finally:
        assert await leading.stop() == 0


async def _send(mq: msmq.Connection, queue: msmq.Queue, turn: int) -> None:
    """Ten orders in a transaction of their own; what is answered with a broken connection is tried again unless it
    is there already."""
    while True:
        try:
            async with mq.transaction() as transaction:
                for number in range(10):
                    await queue.send(b"order %d.%d" % (turn, number), transaction=transaction)
            return
        except (msmq.ConnectionLostError, msmq.OutcomeUnknownError, msmq.ServerNotAvailableError):
            await asyncio.sleep(0.1)


async def test_operators_see_who_leads_and_can_fence(server: Server, tmp_path: Path) -> None:
    told = tmp_path / "told"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\necho $1 >> {told}\n")
    hook.chmod(0o755)

    where = ("--store", server.address(), "--schema", "fenced")
    code, text = await run_msmq("ha", "status", *where)
    assert (code, "no instance was started yet" in text) == (1, True)
    async with pair(server, tmp_path, "fenced", f'on_change = "{hook}"\n') as (a, b):
        code, text = await run_msmq("ha", "status", *where, "--json")
        state = json.loads(text)
        assert (code, state["leader"], state["epoch"]) == (0, "a", 1)
        code, text = await run_msmq("ha", "switchover", *where, "--to", "a")
        assert (code, "a leads already" in text) == (1, True)
        code, text = await run_msmq("ha", "fence", "--yes", *where)
        assert (code, text.startswith("a led; the epoch is 2")) == (0, True)
        await a.says("standby")
        lines = [asyncio.create_task(each.says("ready")) for each in (a, b)]
        await asyncio.wait(lines, return_when=asyncio.FIRST_COMPLETED)
        for each in lines:
            each.cancel()
        code, text = await run_msmq("ha", "status", *where)
        assert (code, "epoch       3" in text) == (0, True)
        assert "also by nobody: confirmed messages survive a crash, but not the loss of this disk" in text
        assert "has no synchronous standby" in (tmp_path / "a.log").read_text()
    assert told.read_text().split()[:2] == ["standby", "leader"]


def test_without_the_extra_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "msmq.ha.instance", None)
    with pytest.raises(ConfigError, match=r"msmq\[ha\]"):
        new_instance(Config(data=tmp_path, ha=HaSettings("postgresql://x/y")))
