"""A start that fails leaves nothing running, wherever it fails, and the next one succeeds."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msmq.api.door import Door
from msmq.remote_read.door import RemoteReadDoor
from msmq.server.config import ApiConfig, Config
from msmq.server.daemon import Daemon
from msmq.server.outbound.outgoing import Outgoing
from msmq.server.remote_read_door import RpcSettings
from msmq.store import Store
from tests.server.support import ALICE, BOB, Node, eventually, free_port, name_of, nobody_at_the_door

PLACES: dict[str, tuple[type, str]] = {
    "the queue manager": (Daemon, "_start_manager"),
    "the doors to other hosts": (Daemon, "_open_doors"),
    "the door of applications": (Door, "open"),
    "the door of remote readers": (RemoteReadDoor, "open"),
    "the links": (Outgoing, "start"),
}


def running() -> set[object]:
    """What runs in the loop: tasks, and timers that go off."""
    loop: Any = asyncio.get_running_loop()
    return asyncio.all_tasks() | {timer for timer in loop._scheduled if not timer.cancelled()}


def open_files(directory: Path) -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except OSError:  # it was the one that lists them
            continue
    return [name for name in found if name.startswith(str(directory))]


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ALICE, port)) == 0


@pytest.mark.parametrize("how", [ZeroDivisionError, OSError], ids=["internal", "from outside"])
@pytest.mark.parametrize("place", PLACES)
async def test_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, how: type[Exception]
) -> None:
    """The one that starts has a message for another host, which its link goes on trying to deliver."""
    config = replace(
        Config(),
        data=tmp_path / "alice",
        name="ALICE",
        listen=(ALICE,),
        port=free_port(),
        ping_port=0,
        api=ApiConfig(listen=(f"unix:{tmp_path}/api",)),
        rpc=RpcSettings(port=free_port(), endpoint_mapper_port=0),
    )
    alice = Node(config)
    await alice.start()
    alice.send(name_of(BOB), b"kept", recoverable=True)
    await alice.stop()

    owner, name = PLACES[place]
    opened = getattr(owner, name)

    async def fail_when_open(self: Any) -> None:
        await opened(self)
        raise how("in the middle")

    def fail_when_begun(self: Any) -> None:
        opened(self)
        raise how("in the middle")

    loop = asyncio.get_running_loop()
    handler, before, threads = loop.get_exception_handler(), running(), threading.active_count()
    fail: Callable[[Any], Any] = fail_when_begun if place == "the links" else fail_when_open
    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(how, match="in the middle"):
        await alice.start()
    await nobody_at_the_door()
    assert running() - before == set()
    assert open_files(tmp_path) == []
    assert not is_listening(config.port)
    assert not is_listening(config.rpc.port)
    assert not (tmp_path / "api").exists()
    assert loop.get_exception_handler() == handler
    assert threading.active_count() <= threads + 1, "but for the thread of the loop"

    monkeypatch.undo()
    await alice.start()
    assert alice.bodies(alice.outgoing(BOB)) == [b"kept"]
    await alice.stop()


async def test_a_batch_that_is_being_written_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread writes what an application sent while the doors were being opened."""
    monkeypatch.setattr(Store, "is_quick", False)
    config = replace(Config(), data=tmp_path, name="ALICE", listen=(ALICE,), port=0, ping_port=0)
    begun, go_on = threading.Event(), threading.Event()
    write = Store.write

    def slow(store: Store, batch: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        write(store, batch)

    async def fail(daemon: Daemon) -> None:
        monkeypatch.setattr(Store, "write", slow)
        daemon.manager.core.ledger.put_value("alone", 1)
        daemon.commit.request()
        await eventually(begun.is_set)
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        raise ZeroDivisionError

    monkeypatch.setattr(Daemon, "_open_doors", fail)
    daemon = Daemon(config)
    with pytest.raises(ZeroDivisionError):
        await daemon.start()
    assert go_on.is_set()
    assert daemon.commit._writing is None
