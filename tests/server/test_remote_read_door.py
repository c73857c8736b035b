"""Remote read as a door of the daemon: configuration, durability, restarts, and other doors to the same queues."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

import msmq
from msmq import direct
from msmq.directory.join import Joining
from msmq.errors import AccessDeniedError, MQError, RemoteMachineNotAvailableError
from msmq.remote_read.actions import Action
from msmq.remote_read.interface import REMOTE_READ
from msmq.remote_read.session import RemoteHost
from msmq.rpc.accounts import AccountFile
from msmq.rpc.client import RpcClient
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.ports import FIRST_PORT, candidates
from msmq.rpc.security import Credentials
from msmq.security.sddl import parse_sddl
from msmq.server.config import Config, ConfigError, from_table, load, served, show
from msmq.server.directory_settings import DirectorySettings
from msmq.server.remote_read_door import RpcSettings, authentication
from msmq.wire.guid import guid_text
from msmq.wire.sections import join_sections
from scripts.samba_dc import HOST, PASSWORD, REALM, DomainController
from tests.directory.support import DEFAULT_SITE, Domain, domain_of
from tests.peers.mqqb import Initiator
from tests.peers.packets import write_message
from tests.remote_read.support import Peer
from tests.server.support import ALICE, BOB, PATIENCE_S, QUICK, Node, eventually, free_port

EVERYBODY = parse_sddl("D:(A;;0x10000000;;;WD)(A;;0x10000000;;;AN)").encode()
ALONE = "127.0.21.3"
"""Where nobody else has the usual port."""
NAME = f"DIRECT=TCP:{ALICE}\\private$\\orders"


@asynccontextmanager
async def node(directory: Path, address: str = ALICE, **rpc: object) -> AsyncIterator[Node]:
    settings = RpcSettings(
        **{"port": free_port(), "endpoint_mapper_port": 0, "minimum_level": "none"} | rpc  # type: ignore[arg-type]
    )
    config = Config(
        data=directory / "data",
        name="ALICE",
        listen=(address,),
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
async def test_sent_by_one_protocol_and_read_by_the_other(tmp_path: Path) -> None:
    async with node(tmp_path) as alice:
        queue = alice.queue(security=EVERYBODY)
        outcome = await direct.send(NAME, b"hello", label="greeting", port=alice.config.port)
        assert outcome is direct.Outcome.DELIVERED
        async with direct.reading(NAME, port=alice.config.rpc.port) as remote:
            found = await remote.peek(timeout_s=PATIENCE_S)
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


@pytest.mark.spec(
    "MQRR-2.2.5.1-e", "MQRR-2.2.5.1-h", "MQRR-2.2.5.1-i", "MQRR-2.2.5.1-j", "MQRR-2.2.5.5-a", "MQRR-2.2.5.5-c"
)
@pytest.mark.parametrize(
    ("listening", "sender", "whole"),
    [
        (ALICE, BOB, "0400 0100 00000000 7f000003 000000000000000000000000"),
        ("::1", "::1", "1000 0600 00000000 00000000000000000000000000000001"),
    ],
)
async def test_a_reader_is_told_which_host_every_message_came_from(
    tmp_path: Path, listening: str, sender: str, whole: str
) -> None:
    """Express and recoverable messages, to direct names and to others, before and after a restart."""
    address = bytes.fromhex(whole)

    async with node(tmp_path, listening) as alice:
        queue = alice.queue(security=EVERYBODY)
        own, number = alice.core.record.identifier, queue.private_queue_number
        forms = [(("direct", NAME.partition("=")[2]), bytes(16)), (("destination", number), own)]

        def send() -> None:
            with closing(Initiator(listening, alice.config.port, b"S" * 16, sender)) as session:
                for place, (name, guid) in enumerate(forms * 2, 1):
                    said = {
                        "source": b"S" * 16,
                        "sent_time": 1,
                        "number": place,
                        "recoverable": place > 2,
                    }
                    session.send(write_message(said | {"destination": name, "address": guid}))
                session.settle()

        await asyncio.to_thread(send)
        alice.send("DIRECT=OS:ALICE\\private$\\orders", recoverable=True)

        async def told() -> list[tuple[bytes, bytes]]:
            client = await RpcClient.connect(listening, alice.config.rpc.port, REMOTE_READ)
            async with Peer(client) as peer:
                handle, found = await peer.open("DIRECT=OS:ALICE\\private$\\orders"), []
                for entry in alice.find().positions:
                    reply = await peer.start(handle, Action.LOOKUP_PEEK_CURRENT, lookup_id=entry.lookup_id)
                    packet = join_sections(reply.sections)
                    found.append((packet[32:48], packet[-24:]))
                return found

        known = [(address[:16], address), (own, address)]
        assert await told() == [*known, *known, (bytes(16), bytes(24))]
        await alice.restart()
        assert await told() == [*known, (bytes(16), bytes(24))]


async def test_a_restart_keeps_what_was_not_acknowledged(tmp_path: Path) -> None:
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


@pytest.mark.spec("DMPR-3.1.4.2-a")
async def test_a_stop_closes_every_door(tmp_path: Path) -> None:
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


async def test_accounts_and_levels(tmp_path: Path) -> None:
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


async def test_accounts_in_the_directory_of_the_queue_manager_need_no_configuration(tmp_path: Path) -> None:
    async with node(tmp_path, minimum_level="privacy") as alice:
        alice.queue(security=EVERYBODY)
        alice.send(NAME, b"secret")
        who = Credentials("alice", "Secret-1", AuthType.NTLM)
        with pytest.raises(AccessDeniedError):
            async with direct.reading(NAME, port=alice.config.rpc.port, credentials=who):
                pass
        AccountFile(tmp_path / "data" / "accounts").add("alice", "Secret-1")
        async with direct.reading(NAME, port=alice.config.rpc.port, credentials=who) as queue:
            assert (await queue.receive()).body == b"secret"


async def test_the_usual_port_is_not_insisted_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another one that is free will do; and a host on which none is does the rest of its work."""
    taken = [socket.create_server((ALONE, FIRST_PORT))]
    try:
        async with node(tmp_path / "1", ALONE, port=FIRST_PORT) as alice:
            assert alice.daemon.remote_read is not None
            assert alice.daemon.remote_read.service.port in list(candidates())[1:]
        for port in list(candidates())[1:]:
            taken.append(socket.create_server((ALONE, port)))
        async with node(tmp_path / "2", ALONE, port=FIRST_PORT) as alice:
            assert alice.daemon.remote_read is None
            assert "nobody can read remotely" in caplog.text
    finally:
        for each in taken:
            each.close()


async def test_without_a_port_there_is_no_remote_read(tmp_path: Path) -> None:
    async with node(tmp_path, port=0) as alice:
        assert alice.daemon.remote_read is None


async def test_a_port_that_cannot_be_had_stops_the_start(tmp_path: Path) -> None:
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
    # What is not said: open for `msmq serve`, and shut for other programs that run a daemon.
    file.write_text("[rpc]\ncleanup_minutes = 2\n")
    assert load(file).rpc.port == served().rpc.port == FIRST_PORT
    file.write_text("[rpc]\nport = 0\n")
    assert load(file).rpc.port == Config().rpc.port == 0


# --- in a domain ----------------------------------------------------------------------------------------


IN_A_DOMAIN = DirectorySettings(
    kind="ldap", servers=("dc1.corp.example",), principal="QM$@CORP.EXAMPLE", password_file="secret"
)


def test_a_keytab_that_is_named_and_has_no_keys_stops_the_start(tmp_path: Path) -> None:
    settings = RpcSettings(keytab=str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"rpc\.keytab: no keys in .*missing"):
        authentication(settings, IN_A_DOMAIN, "corp.example")


def test_without_keys_there_are_local_accounts_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KRB5_KTNAME", f"FILE:{tmp_path / 'missing'}")
    settings = RpcSettings(accounts=str(tmp_path / "users"))
    assert authentication(settings, IN_A_DOMAIN, "").auth_types == {AuthType.NTLM, AuthType.NEGOTIATE}
    assert "no keys in the usual keytab" in caplog.text


def test_why_somebody_is_not_let_in_is_said_once_and_in_plain_words(caplog: pytest.LogCaptureFixture) -> None:
    callers = authentication(RpcSettings(), DirectorySettings(), "")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            callers.tell("GSSError: Clock skew too great")
        callers.tell("InvalidTokenError: unknown user name or wrong password")
    first, second = (record.getMessage() for record in caplog.records)
    assert first.endswith("(the clocks of the two computers differ by more than five minutes)")
    assert second.endswith("wrong password")


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


class Joined:
    """A process of ``msmq serve`` that is a member of the domain, with a queue that one group may read."""

    def __init__(self, domain: Domain, path: Path) -> None:
        self.domain, self.path = domain, path
        self.name = domain.computer()
        self.port = free_port()
        self.door = f"unix:{path}/door"

    def join(self) -> None:
        controller, account = self.domain.controller, f"{self.name[:15]}$"
        Joining(self.domain.directory, self.name).join(DEFAULT_SITE)
        controller.tool("user", "setpassword", account, f"--newpassword={PASSWORD}")
        controller.export_keytab(account, self.path / "qm.keytab")
        (self.path / "qm.toml").write_text(
            f'name = "{self.name}"\ndns_domain = "msmq.test"\n'
            f"[rpc]\nport = {self.port}\nendpoint_mapper_port = 0\n"
            f'[directory]\nkind = "ldap"\nservers = ["{HOST}@{controller.address}:{controller.ports["ldap"]}"]\n'
            f'principal = "{account}@{REALM}"\nkeytab = "qm.keytab"\nmechanism = "kerberos"\n',
            encoding="utf-8",
        )

    @property
    def log(self) -> str:
        return (self.path / "log").read_text(encoding="utf-8")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[msmq.Connection]:
        command = [
            sys.executable,
            "-m",
            "msmq",
            "serve",
            "--data",
            str(self.path / "data"),
            "--listen",
            ALICE,
        ]
        command += ["--port", "0", "--ping-port", "0", "--api", self.door]
        command += ["--config", str(self.path / "qm.toml")]
        with (self.path / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=log, env=self.domain.controller.environment
            )
        try:
            assert process.stdout is not None
            assert (await process.stdout.readline()).startswith(b"ready"), self.log
            async with msmq.connect(self.door) as here:
                yield here
        finally:
            process.terminate()
            assert await process.wait() == 0


@pytest.mark.spec("MQRR-1.7-b", "MQRR-2.1-e", "MQRR-2.3-a")
async def test_a_process_in_a_domain_lets_in_whom_the_domain_knows(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Kerberos alone: a member of the group reads, another user of the domain does not."""
    controller, tool = domain.controller, domain.controller.tool
    mark = secrets.token_hex(4)
    group, reader, stranger = f"group{mark}", f"reader{mark}", f"stranger{mark}"
    for user in (reader, stranger):
        tool("user", "create", user, PASSWORD)
    tool("group", "add", group)
    tool("group", "addmembers", group, reader)
    shown = tool("group", "show", group, "--attributes=objectSid").splitlines()
    (sid,) = (line.split(": ")[1] for line in shown if line.startswith("objectSid"))
    monkeypatch.setenv("KRB5_CONFIG", str(controller.krb5_config))

    def log_on(user: str) -> None:
        controller.ticket(user, tmp_path / user)
        monkeypatch.setenv("KRB5CCNAME", str(tmp_path / user))

    joined = Joined(domain, tmp_path)
    joined.join()
    who = Credentials(auth_type=AuthType.KERBEROS, level=AuthLevel.PRIVACY)

    def reading() -> AbstractAsyncContextManager[direct.RemoteQueue]:
        return direct.reading(NAME, port=joined.port, credentials=who, target_name=joined.name)

    async with joined.serving() as here:
        queue = await here.create_queue(".\\private$\\orders", sddl=f"D:(A;;0x10000000;;;{sid})(A;;0x4;;;WD)")
        await queue.send(b"for the group")
        log_on(stranger)
        with pytest.raises(AccessDeniedError):
            async with reading():
                pass
        with pytest.raises(AccessDeniedError):  # nobody at all
            async with direct.reading(NAME, port=joined.port):
                pass
        log_on(reader)
        async with reading() as found:
            assert (await found.receive()).body == b"for the group"
        # A public queue has the name that the directory gave it.
        published = await here.create_queue(".\\published")
        await published.send(b"by its public name")
        place = domain.directory.objects.names.queue(f"{joined.name}\\published")
        name = f"PUBLIC={guid_text(domain.look(place, 'objectGUID')['objectGUID'][0])}"
        async with await RemoteHost.connect(ALICE, joined.port, who, target_name=joined.name) as remote:
            with pytest.raises(AccessDeniedError):  # nobody was allowed to read it
                await remote.open(name)
            with pytest.raises(MQError) as unknown:
                await remote.open(f"PUBLIC={guid_text(bytes(range(16)))}")
            assert not isinstance(unknown.value, AccessDeniedError)
    assert "Traceback" not in joined.log
