"""Kerberos: a real domain controller issues the tickets, and says who the reader is and which groups it is in."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from msmq.directory.principals import DirectoryPrincipals
from msmq.directory.settings import Password, Server, Settings
from msmq.errors import AccessDeniedError
from msmq.remote_read.policy import Policy
from msmq.remote_read.session import Access, RemoteHost
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.security import Authentication, Credentials
from msmq.security.sddl import parse_sddl
from scripts.samba_dc import ADMINISTRATOR, PASSWORD, REALM, DomainController
from scripts.samba_dc import HOST as CONTROLLER
from tests.remote_read.support import Served, direct, on_loop, serving, serving_in_a_thread
from tests.rpc.support import ALICE, HOST, Known
from tests.rpc.support import PASSWORD as LOCAL_PASSWORD

LEVELS = [AuthLevel.INTEGRITY, AuthLevel.PRIVACY]


@dataclass
class Kingdom:
    """A service with a key, a reader who is in a group, a stranger who is not, and how to become either."""

    controller: DomainController
    target: str
    group: str
    log_on: Callable[[str], None]
    reader: str
    stranger: str

    @property
    def authentication(self) -> Authentication:
        controller = self.controller
        server = Server(CONTROLLER, controller.address, controller.ports["ldap"])
        settings = Settings((server,), Password(ADMINISTRATOR, PASSWORD), mechanism="ntlm")
        return Authentication(principals=DirectoryPrincipals(settings, REALM), hostname=self.target)

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
    monkeypatch.setenv("KRB5_KTNAME", f"FILE:{keytab}")

    def log_on(user: str) -> None:
        cache = tmp_path / f"{user}.cache"
        domain_controller.ticket(user, cache)
        monkeypatch.setenv("KRB5CCNAME", str(cache))

    shown = domain_controller.tool("group", "show", group, "--attributes=objectSid")
    (sid,) = (line.split(": ")[1] for line in shown.splitlines() if line.startswith("objectSid"))
    return Kingdom(domain_controller, target, sid, log_on, reader, stranger)


@pytest.mark.parametrize(
    "kind", [AuthType.KERBEROS, AuthType.NEGOTIATE, AuthType.NTLM], ids=lambda kind: kind.name
)
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.spec("MQRR-1.7-b", "MQRR-7-c")
def test_our_client(kingdom: Kingdom, level: AuthLevel, kind: AuthType) -> None:
    """A server of a domain that has local accounts too lets in whom either knows."""
    kingdom.log_on(kingdom.reader)
    local = kind is AuthType.NTLM
    user = ("alice", LOCAL_PASSWORD) if local else (None, None)

    @on_loop
    async def test() -> None:
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

    test()


def test_who_is_not_in_the_group_is_denied(kingdom: Kingdom) -> None:
    kingdom.log_on(kingdom.stranger)

    @on_loop
    async def test() -> None:
        async with serving(Policy(), authentication=kingdom.authentication) as served:
            kingdom.queue(served, b"one")
            connect = RemoteHost.connect(HOST, served.port, Credentials(), target_name=kingdom.target)
            async with await connect as host:
                for access in (Access.RECEIVE, Access.PEEK):
                    with pytest.raises(AccessDeniedError):
                        await host.open(direct(), access)

    test()


def test_who_the_directory_does_not_know_is_not_let_in(kingdom: Kingdom) -> None:
    kingdom.log_on(kingdom.reader)

    class Nobody:
        def identify(self, principal: str) -> None:
            assert principal == f"{kingdom.reader}@{REALM}"

    @on_loop
    async def test() -> None:
        authentication = Authentication(principals=Nobody(), hostname=kingdom.target)
        async with serving(Policy(), authentication=authentication) as served:
            kingdom.queue(served, b"one")
            with pytest.raises(AccessDeniedError):
                await RemoteHost.connect(HOST, served.port, Credentials(), target_name=kingdom.target)

    test()


@pytest.mark.parametrize("level", ["sign", "seal"])
def test_samba(kingdom: Kingdom, level: str, tmp_path: Path) -> None:
    """Samba's RPC client, with a ticket of its own Kerberos library."""
    policy = Policy({"sign": AuthLevel.INTEGRITY, "seal": AuthLevel.PRIVACY}[level])
    (tmp_path / "smb.conf").write_text("[global]\n")
    environment = kingdom.controller.environment | {"SMB_CONF_PATH": str(tmp_path / "smb.conf")}

    def run(user: str) -> subprocess.CompletedProcess[str]:
        script = str(Path(__file__).parent / "samba_client.py")
        cache = tmp_path / f"{user}.cache"
        ticket = kingdom.controller.ticket(user, cache)
        # The ticket for the service too: Samba looks for a controller by DNS, which there is none of.
        command = ["kvno", f"host/{kingdom.target}"]
        subprocess.run(command, env=ticket, check=True, capture_output=True, timeout=60)
        identity = ("", kingdom.target, str(cache), REALM)
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
