"""Kerberos: a real domain controller issues the tickets, and says who the reader is and which groups it is in."""

from __future__ import annotations

import asyncio
import datetime
import secrets
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from impacket.dcerpc.v5 import transport
from impacket.dcerpc.v5.rpcrt import RPC_C_AUTHN_GSS_NEGOTIATE, DCERPCException
from impacket.krb5 import kerberosv5

from msmq.directory.principals import DirectoryPrincipals
from msmq.directory.settings import Password, Server, Settings
from msmq.errors import AccessDeniedError
from msmq.remote_read.policy import Policy
from msmq.remote_read.session import Access, RemoteHost
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.security import Authentication, Credentials
from msmq.security.access import Token
from msmq.security.sddl import parse_sddl
from scripts.samba_dc import ADMINISTRATOR, PASSWORD, REALM, DomainController
from scripts.samba_dc import HOST as CONTROLLER
from tests.remote_read import impacket_peer as peer
from tests.remote_read.support import (
    PATIENCE_S,
    Served,
    direct,
    eventually,
    serving,
    serving_in_a_thread,
)
from tests.rpc.support import ALICE, HOST, Known
from tests.rpc.support import PASSWORD as LOCAL_PASSWORD

LEVELS = [AuthLevel.INTEGRITY, AuthLevel.PRIVACY]


@dataclass
class Kingdom:
    """A service with a key, a reader who is in a group, a stranger who is not, and how to become either."""

    controller: DomainController
    target: str
    keytab: Path
    group: str
    log_on: Callable[[str], dict[str, str]]
    reader: str
    stranger: str
    told: list[str] = field(default_factory=list)

    @property
    def authentication(self) -> Authentication:
        controller = self.controller
        server = Server(CONTROLLER, controller.address, controller.ports["ldap"])
        settings = Settings((server,), Password(ADMINISTRATOR, PASSWORD), mechanism="ntlm")
        principals = DirectoryPrincipals(settings, REALM)
        return Authentication(principals=principals, keytab=self.keytab, tell=self.told.append)

    def queue(self, served: Served, *bodies: bytes, reader: str = "") -> None:
        """A queue that only the group may read, or only the given reader."""
        security = parse_sddl(f"D:(A;;0x10000000;;;{reader or self.group})").encode()
        served.queue("orders", *bodies, security=security)


@pytest.fixture(scope="module")
def accounts(domain_controller: DomainController) -> tuple[str, str, str, str]:
    mark = secrets.token_hex(4)
    service, group, reader, stranger = (f"{kind}{mark}" for kind in ("svc", "readers", "reader", "stranger"))
    tool = domain_controller.tool
    for user in (service, reader, stranger):
        tool("user", "create", user, PASSWORD)
    tool("group", "add", group)
    tool("group", "addmembers", group, reader)
    tool("spn", "add", f"host/{service}.msmq.test", service)
    return service, group, reader, stranger


@pytest.fixture
def kingdom(
    domain_controller: DomainController,
    accounts: tuple[str, str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Kingdom:
    service, group, reader, stranger = accounts
    target = f"{service}.msmq.test"
    keytab = domain_controller.export_keytab(f"host/{target}", tmp_path / "keytab")
    monkeypatch.setenv("KRB5_CONFIG", str(domain_controller.krb5_config))

    def log_on(user: str) -> dict[str, str]:
        cache = tmp_path / f"{user}.cache"
        environment = domain_controller.ticket(user, cache)
        monkeypatch.setenv("KRB5CCNAME", str(cache))
        return environment

    shown = domain_controller.tool("group", "show", group, "--attributes=objectSid")
    (sid,) = (line.split(": ")[1] for line in shown.splitlines() if line.startswith("objectSid"))
    return Kingdom(domain_controller, target, keytab, sid, log_on, reader, stranger)


@pytest.mark.parametrize(
    "kind", [AuthType.KERBEROS, AuthType.NEGOTIATE, AuthType.NTLM], ids=lambda kind: kind.name
)
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.spec("MQRR-1.7-b", "MQRR-7-c")
async def test_our_client(kingdom: Kingdom, level: AuthLevel, kind: AuthType) -> None:
    """A server of a domain that has local accounts too lets in whom either knows."""
    kingdom.log_on(kingdom.reader)
    local = kind is AuthType.NTLM
    user = ("alice", LOCAL_PASSWORD) if local else (None, None)

    authentication = replace(kingdom.authentication, accounts=Known())
    async with serving(Policy(level), authentication=authentication) as served:
        kingdom.queue(served, b"one", b"2" * 10_000, reader=str(ALICE) if local else "")
        credentials = Credentials(*user, auth_type=kind, level=level)
        connect = RemoteHost.connect(HOST, served.port, credentials, target_name=kingdom.target)
        async with await connect as host:
            queue = await host.open(direct())
            assert (await queue.receive()).body == b"one"
            assert (await queue.receive()).body == b"2" * 10_000
        assert not served.host.contents(served.host.find())


async def test_who_is_not_in_the_group_is_denied(kingdom: Kingdom) -> None:
    kingdom.log_on(kingdom.stranger)

    async with serving(Policy(), authentication=kingdom.authentication) as served:
        kingdom.queue(served, b"one")
        connect = RemoteHost.connect(HOST, served.port, Credentials(), target_name=kingdom.target)
        async with await connect as host:
            for access in (Access.RECEIVE, Access.PEEK):
                with pytest.raises(AccessDeniedError):
                    await host.open(direct(), access)


async def test_who_the_directory_does_not_know_is_not_let_in(kingdom: Kingdom) -> None:
    kingdom.log_on(kingdom.reader)

    class Nobody:
        def identify(self, principal: str) -> None:
            assert principal == f"{kingdom.reader}@{REALM}"

    authentication = replace(kingdom.authentication, principals=Nobody())
    async with serving(Policy(), authentication=authentication) as served:
        kingdom.queue(served, b"one")
        with pytest.raises(AccessDeniedError):
            await RemoteHost.connect(HOST, served.port, Credentials(), target_name=kingdom.target)
    assert kingdom.told == [f"LookupError: {kingdom.reader}@{REALM} is not known here"]


async def test_a_directory_that_takes_its_time_keeps_nobody_else_waiting(kingdom: Kingdom) -> None:
    kingdom.log_on(kingdom.reader)
    asked, answer = threading.Event(), threading.Event()

    class Slow:
        def identify(self, principal: str) -> Token:
            asked.set()
            assert answer.wait(PATIENCE_S)
            return Token.authenticated(ALICE)

    authentication = replace(kingdom.authentication, accounts=Known(), principals=Slow())
    try:
        async with serving(Policy(), authentication=authentication) as served:
            kingdom.queue(served, b"one", b"two", reader=str(ALICE))
            connect = RemoteHost.connect(HOST, served.port, Credentials(), target_name=kingdom.target)
            waiting = asyncio.create_task(connect)
            await eventually(asked.is_set)
            async with await served.connect("alice") as peer:
                assert await peer.read(await peer.open()) == b"one"
            assert not waiting.done()
            answer.set()
            async with await waiting as host:
                assert (await (await host.open(direct())).receive()).body in (b"one", b"two")
    finally:
        answer.set()


@pytest.mark.parametrize("level", ["integrity", "privacy"])
def test_samba(kingdom: Kingdom, level: str, tmp_path: Path) -> None:
    """Samba's RPC client, with a ticket of its own Kerberos library."""
    policy = Policy(AuthLevel[level.upper()])
    (tmp_path / "smb.conf").write_text("[global]\n")
    environment = kingdom.controller.environment | {"SMB_CONF_PATH": str(tmp_path / "smb.conf")}

    def run(user: str) -> subprocess.CompletedProcess[str]:
        script = str(Path(__file__).parent / "samba_client.py")
        cache = tmp_path / f"{user}.cache"
        ticket = kingdom.controller.ticket(user, cache)
        # The ticket for the service too: Samba looks for a controller by DNS, which there is none of.
        command = ["kvno", f"host/{kingdom.target}"]
        subprocess.run(command, env=ticket, check=True, capture_output=True, timeout=60)
        identity = ("", "krb5", kingdom.target, str(cache), REALM)
        return subprocess.run(
            ["/usr/bin/python3", script, str(served.port), level, *identity],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    with serving_in_a_thread(policy, authentication=kingdom.authentication) as served:
        kingdom.queue(served, b"hello from far away")
        denied = run(kingdom.stranger)
        assert denied.returncode != 0
        assert "c00e0025" in denied.stderr.lower()
        done = run(kingdom.reader)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert not served.host.contents(served.host.find())
        assert not served.service.handles.open


class Behind(datetime.datetime):
    """The time of a computer whose clock is an hour behind."""

    @classmethod
    def now(cls, zone: datetime.tzinfo | None = None) -> datetime.datetime:
        return super().now(zone) - datetime.timedelta(hours=1)


def impacket(kingdom: Kingdom, port: int, level: str, user: str) -> Any:
    """A connection of impacket, with a ticket of the user."""
    command = ["kvno", f"host/{kingdom.target}"]
    subprocess.run(command, env=kingdom.log_on(user), check=True, capture_output=True, timeout=60)
    rpc = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{HOST}[{port}]")
    rpc.set_credentials(user, "", REALM)
    rpc.setRemoteName(kingdom.target)
    rpc.setRemoteHost(HOST)
    rpc.set_kerberos(True)
    rpc.set_connect_timeout(60)
    dce = rpc.get_dce_rpc()
    dce.set_auth_type(RPC_C_AUTHN_GSS_NEGOTIATE)
    dce.set_auth_level(peer.LEVELS[level])
    dce.connect()
    return dce


@pytest.mark.parametrize("level", ["connect", "integrity", "privacy"])
def test_impacket(kingdom: Kingdom, level: str) -> None:
    """impacket's RPC client, whose Kerberos is its own from the first byte to the last."""
    policy = Policy(AuthLevel[level.upper()])
    with serving_in_a_thread(policy, authentication=kingdom.authentication) as served:
        kingdom.queue(served, b"one", b"2" * 10_000)
        for user, status in ((kingdom.stranger, 0xC00E0025), (kingdom.reader, 0)):
            dce = impacket(kingdom, served.port, level, user)
            try:
                dce.bind(peer.MSRPC_UUID_REMOTE_READ)
                request = peer.open_request(peer.R_OpenQueue(), "OS:HOST\\private$\\orders", 1)
                if status:
                    with pytest.raises(DCERPCException, match=f"{status:x}"):
                        dce.request(request, checkError=False)
                    continue
                handle = dce.request(request, checkError=False)["pphContext"]
                for number, body in enumerate((b"one", b"2" * 10_000), 1):
                    start = peer.start_request(peer.R_StartReceive(), handle, 0, dwRequestId=number)
                    assert body in b"".join(peer.sections(dce.request(start, checkError=False)))
            finally:
                dce.disconnect()


def test_a_clock_that_is_wrong(kingdom: Kingdom, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_in_a_thread(Policy(), authentication=kingdom.authentication) as served:
        dce = impacket(kingdom, served.port, "privacy", kingdom.reader)
        try:
            with monkeypatch.context() as patch:
                behind = SimpleNamespace(datetime=Behind, timezone=datetime.timezone)
                patch.setattr(kerberosv5, "datetime", behind)
                with pytest.raises(DCERPCException):
                    dce.bind(peer.MSRPC_UUID_REMOTE_READ)
        finally:
            dce.disconnect()
    assert "Clock skew too great" in kingdom.told[0]
