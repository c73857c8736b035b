"""One instance: waiting, leading, waiting again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from msmq.ha.errors import DatabaseError
from msmq.ha.instance import Instance
from msmq.ha.settings import HaSettings
from msmq.store import Store, StoreLockedError
from tests.ha.postgres import Server
from tests.ha.support import QUICK, expire, until

HEAD = bytes(40)


def settings(server: Server, name: str, schema: str, **more: object) -> HaSettings:
    return HaSettings(server.address(), name, schema, **{**QUICK, **more})  # type: ignore[arg-type]


async def test_turns_with_the_same_store(server: Server, tmp_path: Path) -> None:
    """Lost without a word, handed back in order: the next one finds what was confirmed, in the same process too."""
    a = Instance(settings(server, "a", "turns_a"), "ORDERS", tmp_path / "a")
    b = Instance(settings(server, "b", "turns_a"), "ORDERS", tmp_path / "b")
    await a.start()
    await b.start()
    try:
        confirmed: list[bytes] = []
        for turn, instance in enumerate((a, b, b, a)):
            store = Store.open(await instance.lead())
            assert [store.read(address) for _, _, _, address, _ in store.recover()] == confirmed
            assert instance.state["role"] == "leader"
            store.append(1, HEAD, b"turn %d" % turn)
            store.commit()
            confirmed.append(b"turn %d" % turn)
            if turn == 1:
                lost: list[Exception] = []
                instance.watch(lost.append, lambda: None)
                assert instance.leadership is not None
                instance.leadership.lose("the test wants it")
                await until(lambda heard=lost: heard)
                expire(server, "turns_a")
                store.abandon(lost[0])  # type: ignore[arg-type]
            store.close()
            await instance.resign()
            assert instance.state["role"] == "standby"
    finally:
        a.stop()
        b.stop()


async def test_one_directory_has_one_instance(server: Server, tmp_path: Path) -> None:
    a = Instance(settings(server, "a", "one"), "ORDERS", tmp_path)
    await a.start()
    again = Instance(settings(server, "a", "one"), "ORDERS", tmp_path)
    try:
        with pytest.raises(StoreLockedError):
            await again.start()
    finally:
        a.stop()


async def test_it_does_not_start_with_a_database_that_cannot_be_used(server: Server, tmp_path: Path) -> None:
    wrong = HaSettings(server.address(password="wrong"), "a", "msmq")

    with pytest.raises(DatabaseError):
        await Instance(wrong, "ORDERS", tmp_path).start()


async def test_waiting_can_be_given_up(server: Server, tmp_path: Path) -> None:
    a = Instance(settings(server, "a", "waits"), "ORDERS", tmp_path / "a")
    b = Instance(settings(server, "b", "waits"), "ORDERS", tmp_path / "b")
    await a.start()
    await b.start()
    await a.lead()
    waiting = asyncio.create_task(b.lead())
    await until(lambda: b.state["leader"] == "a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    b.stop()
    a.stop()


async def test_a_hook_that_fails_changes_nothing(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for command in ("false", "/nonexistent/hook"):
        instance = Instance(settings(server, "a", "hook", on_change=command), "ORDERS", tmp_path)
        await instance.tell("leader")
    assert "false leader ended with status 1" in caplog.text
    assert "cannot be run" in caplog.text
