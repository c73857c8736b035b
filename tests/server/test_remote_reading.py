"""Remote read as a door of the daemon: configuration, durability, restarts, and other doors to the same queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from msmq import direct
from msmq.errors import AccessDeniedError, RemoteMachineNotAvailableError
from msmq.remote_read.session import RemoteHost
from msmq.rpc.accounts import AccountFile
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.security import Credentials
from msmq.security.sddl import parse_sddl
from msmq.server.config import Config, ConfigError, from_table, load, show
from msmq.server.remote_reading import RpcSettings
from tests.server.support import ALICE, BOB, QUICK, Node, eventually, free_port, run

EVERYBODY = parse_sddl("D:(A;;0x10000000;;;WD)(A;;0x10000000;;;AN)").encode()
NAME = f"DIRECT=TCP:{ALICE}\\private$\\orders"


@asynccontextmanager
async def node(directory: Path, **rpc: object) -> AsyncIterator[Node]:
    settings = RpcSettings(
        **{"port": free_port(), "endpoint_mapper_port": 0, "minimum_level": "none"} | rpc  # type: ignore[arg-type]
    )
    config = Config(
        data=directory / "data",
        name="ALICE",
        listen=(ALICE,),
        port=free_port(),
        ping_port=0,
        timers=QUICK,
        rpc=settings,
    )
    started = Node(config)
    await started.start()
    try:
        yield started
    finally:
        if not started.gone:
            await started.stop()


@pytest.mark.spec("DMPR-3.1-a", "MQRR-3.1.1.1-a")
def test_sent_by_one_protocol_and_read_by_the_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with node(tmp_path) as alice:
            queue = alice.queue(security=EVERYBODY)
            outcome = await direct.send(NAME, b"hello", label="greeting", port=alice.config.port)
            assert outcome is direct.Outcome.DELIVERED
            async with direct.reading(NAME, port=alice.config.rpc.port) as remote:
                found = await remote.peek(timeout_s=10)
                assert (found.body, found.label) == (b"hello", "greeting")
                (entry,) = queue.positions
                assert found.lookup_id == entry.lookup_id
                assert (await remote.receive()).body == b"hello"
                assert not len(queue.positions)
            daemon = alice.daemon
            assert daemon.remote_read is not None
            assert daemon.remote_read.service.host.manager is daemon.manager
            async with direct.sending(ALICE, alice.config.port) as sender:
                told = sender._session.remote_guid  # what the other protocol says of itself
            assert told == daemon.remote_read.service.host.manager.core.record.identifier

    run(test)


def test_a_restart_keeps_what_was_not_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        async with node(tmp_path) as alice:
            alice.queue(security=EVERYBODY)
            for number in range(4):
                alice.send(NAME, str(number).encode(), recoverable=True)
            host = await RemoteHost.connect(ALICE, alice.config.rpc.port)
            queue = await host.open(NAME)
            assert (await queue.receive()).body == b"0"
            pending = await queue.begin_receive()
            assert pending.message.body == b"1"
            await alice.crash()
            host.client.abort()
            await alice.start()
            assert alice.bodies(alice.find()) == [b"1", b"2", b"3"]
            async with direct.reading(NAME, port=alice.config.rpc.port) as again:
                assert (await again.receive()).body == b"1"
            await alice.restart()
            assert alice.bodies(alice.find()) == [b"2", b"3"]

    run(test)


@pytest.mark.spec("DMPR-3.1.4.2-a")
def test_a_stop_closes_every_door(tmp_path: Path) -> None:
    async def test() -> None:
        async with node(tmp_path) as alice:
            alice.queue(security=EVERYBODY)
            alice.send(NAME, b"kept", recoverable=True)
            async with direct.sending(ALICE, alice.config.port) as sender:
                host = await RemoteHost.connect(ALICE, alice.config.rpc.port)
                queue = await host.open(NAME)
                assert (await queue.begin_receive()).message.body == b"kept"
                waiting = asyncio.create_task(queue.receive(timeout_s=None))
                await eventually(lambda: alice.find().waiting)
                await alice.stop()
                with pytest.raises(RemoteMachineNotAvailableError):
                    await waiting
                await eventually(lambda: sender._transport is None)
                await host.close()
            with pytest.raises(RemoteMachineNotAvailableError):
                await RemoteHost.connect(ALICE, alice.config.rpc.port)
            with pytest.raises(RemoteMachineNotAvailableError):
                async with direct.sending(ALICE, alice.config.port):
                    pass
            await alice.start()
            assert alice.bodies(alice.find()) == [b"kept"]

    run(test)


def test_accounts_and_levels(tmp_path: Path) -> None:
    async def test() -> None:
        accounts = AccountFile(tmp_path / "users")
        accounts.add("alice", "Secret-1")
        async with node(tmp_path, accounts=str(tmp_path / "users"), minimum_level="privacy") as alice:
            alice.queue(security=EVERYBODY)
            alice.send(NAME, b"secret")
            port = alice.config.rpc.port
            who = Credentials("alice", "Secret-1", AuthType.NTLM)
            async with direct.reading(NAME, port=port, credentials=who) as queue:
                assert (await queue.receive()).body == b"secret"
            for weak in (
                None,
                replace(who, level=AuthLevel.INTEGRITY),
                Credentials("alice", "no", AuthType.NTLM),
            ):
                with pytest.raises(AccessDeniedError):
                    async with direct.reading(NAME, port=port, credentials=weak):
                        pass

    run(test)


def test_without_a_port_there_is_no_remote_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with node(tmp_path, port=0) as alice:
            assert alice.daemon.remote_read is None

    run(test)


def test_a_port_that_cannot_be_had_stops_the_start(tmp_path: Path) -> None:
    async def test() -> None:
        config = Config(
            data=tmp_path,
            name="BOB",
            listen=("192.0.2.1",),
            port=0,
            ping_port=0,
            rpc=RpcSettings(port=free_port()),
        )
        with pytest.raises(OSError, match="address"):
            await Node(config).start()
        assert BOB

    run(test)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"port": 70_000}, "rpc.port"),
        ({"endpoint_mapper_port": 70_000}, "rpc.endpoint_mapper_port"),
        ({"minimum_level": "some"}, "rpc.minimum_level"),
        ({"cleanup_minutes": 0}, "rpc.cleanup_minutes"),
        ({"colour": 1}, "rpc.colour"),
    ],
)
def test_what_a_configuration_cannot_say(table: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        from_table({"rpc": table})


@pytest.mark.spec("MQRR-7-g")
def test_the_table_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "msmq.toml"
    file.write_text(
        '[rpc]\nport = 2103\naccounts = "users"\ncleanup_minutes = 1\nallow_nonauthenticated = true\n'
    )
    config = load(file)
    assert config.rpc.accounts == str(tmp_path / "users")
    door = config.rpc.door(("127.0.0.1",))
    assert (door.port, door.endpoint_mapper_port, door.cleanup_s) == (2103, 135, 60)
    assert door.policy.allow_nonauthenticated
    assert door.policy.minimum_level is AuthLevel.PRIVACY
    file.write_text(show(config))
    assert load(file) == config
