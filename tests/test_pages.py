"""Pages of docs whose Python needs more than one queue manager: its blocks run in order, against the real thing."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.directory.join import Joining
from msmq.manager.messages.message import AuthenticationLevel
from msmq.manager.messages.serialize import received
from msmq.manager.model import QueueAccessType
from msmq.rpc.accounts import AccountFile
from msmq.security.access import Token
from msmq.security.sid import Sid
from scripts.samba_dc import HOST, PASSWORD, REALM, DomainController
from tests import ready
from tests.client.support import connected
from tests.directory.support import DEFAULT_SITE, domain_of
from tests.security.correspondent import BITS, SID
from tests.security.samples import certificate, private_key
from tests.server.domain import domain, introduce
from tests.server.support import ALICE, BOB, eventually, free_port, run
from tests.server.test_remote_read_door import EVERYBODY, NAME, node
from tests.test_docs import BLOCKS
from tests.web.support import living


def blocks(page: str, *replacements: tuple[str, str], language: str = "python") -> list[str]:
    """The blocks of a page, with names of this test instead of those that the page has for hosts and files."""
    found = [block.text for block in BLOCKS if block.page == page and block.language == language]
    for old, new in replacements:
        assert any(old in text for text in found), f"{page} does not name {old} any more"
        found = [text.replace(old, new) for text in found]
    return found


async def perform(text: str, names: dict[str, Any]) -> None:
    """Run a block as an interpreter does that allows await; ``names`` are what it knows, and what it leaves."""
    code = compile(text, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    left = eval(code, names)
    if inspect.iscoroutine(left):
        await left


async def test_the_page_on_rpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    AccountFile(Path("users")).add("alice", "secret")
    Path("files").mkdir()
    Path("files", "orders.txt").write_text("two coffees")
    port = str(free_port())
    page = blocks(
        "docs/how-to/rpc.md",
        ('"0.0.0.0", 2103', f'"{ALICE}", {port}'),
        ('"host", 2103', f'"{ALICE}", {port}'),
    )

    names: dict[str, Any] = {}
    try:
        for text in page:
            await perform(text, names)
    finally:
        await names["server"].close()
    assert (names["reply"].data, names["reply"].status) == (b"two coffees", 0)


async def test_the_page_on_remote_read(tmp_path: Path) -> None:
    AccountFile(tmp_path / "users").add("alice", "secret")

    async with node(tmp_path, accounts=str(tmp_path / "users"), minimum_level="privacy") as there:
        queue = there.queue(security=EVERYBODY)
        reading, sending = blocks(
            "docs/how-to/remote-read.md",
            ("DIRECT=OS:server", f"DIRECT=TCP:{ALICE}"),
            ("credentials=who", f"credentials=who, port={there.config.rpc.port}"),
            ("10.0.0.7", ALICE),
            ('label="order"', f'label="order", port={there.config.port}'),
        )
        worked_on: list[bytes] = []
        names: dict[str, Any] = {"work_on": worked_on.append}
        reader = asyncio.create_task(perform(reading, names))
        await eventually(lambda: "who" in names)
        await perform(sending, names)
        assert names["outcome"].name == "DELIVERED"
        await eventually(lambda: worked_on == [b"body"] and not len(queue.positions))
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader


async def test_the_commands_of_the_page_on_remote_read(tmp_path: Path) -> None:
    AccountFile(tmp_path / "users").add("alice", "secret")
    (tmp_path / "there").mkdir()
    rpc = {"accounts": str(tmp_path / "users"), "minimum_level": "privacy"}

    async with node(tmp_path / "there", **rpc) as there, connected(tmp_path) as mq:
        queue = there.queue(security=EVERYBODY)
        for body in (b"one", b"two", b"three"):
            there.send(NAME, body)
        _, second, _ = (entry.lookup_id for entry in queue.positions)
        (commands,) = blocks(
            "docs/how-to/remote-read.md",
            (
                "server\\orders",
                f"{ALICE}\\private$\\orders",
            ),  # no directory here that knows public queues
            ("OS:server", f"TCP:{ALICE}"),
            ("10.0.0.7", ALICE),
            ("4503599627370497", str(second)),
            language="sh",
        )
        environment = {
            **os.environ,
            "MSMQ_SERVER": mq.address,
            "MSMQ_REMOTE_PORT": str(there.config.rpc.port),
            "PATH": f"{Path(ready.msmq()).parent}:{os.environ['PATH']}",
        }
        shell = await asyncio.create_subprocess_exec(
            *("sh", "-euc", commands),
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        shown, _ = await shell.communicate(b"y\n")
        assert shell.returncode == 0, shown.decode()
        assert [line for line in shown.split() if line in (b"one", b"two", b"three")] == [
            *(b"one", b"two"),
            *(b"one", b"three"),
        ]
        assert not len(queue.positions)


def test_the_page_on_the_console(tmp_path: Path) -> None:
    """Its commands, typed in their order, and the rules of its alarms, which the interface takes."""
    page = "docs/how-to/console.md"
    (rules,) = blocks(page, language="json")
    with living(tmp_path) as live:
        live.queue("orders", msmq.Message("two coffees", label="urgent"))
        environment = {
            **os.environ,
            "MSMQ_SERVER": live.socket,
            "PATH": f"{Path(ready.msmq()).parent}:{os.environ['PATH']}",
            "TOKEN": live.token(),
        }
        shown = [
            subprocess.run(
                ["sh", "-euc", commands.replace("curl ", "curl -sSf --noproxy '*' ")],
                env=environment,
                cwd=tmp_path,
                check=True,
                capture_output=True,
                text=True,
                timeout=300,
            ).stdout
            for commands in blocks(page, ("http://127.0.0.1:1811", live.url), language="sh")
        ]
        assert '"two coffees"' in shown[1]
        with live.client() as client:
            client.put("/api/alarms", json=json.loads(rules)).raise_for_status()
            kept = [rule["name"] for rule in client.get("/api/alarms").raise_for_status().json()["rules"]]
            assert kept == ["orders pile up", "something died"]


def test_the_page_on_signing_and_encrypting(tmp_path: Path) -> None:
    by_client, by_manager, encrypted = blocks("docs/how-to/secure.md")

    async def client() -> None:
        async with connected(tmp_path) as mq:
            queue = await mq.create_queue(r".\private$\orders")
            await perform(by_client, {"msmq": msmq, "mq": mq, "queue": queue})
            message = await queue.receive(60)
            assert (message.body, message.authenticated) == (b"ten apples", True)

    async def managers() -> None:
        async with domain(tmp_path) as here:
            alice, bob = await here.member(ALICE), await here.member(BOB)
            introduce(bob, ALICE)
            orders = bob.queue("orders")
            names = {
                "manager": alice.manager,
                "to": alice.manager.queues.open(bob.private_name(orders), QueueAccessType.SEND),
                "user": Token.authenticated(Sid.decode(SID)),
                "certificate_in_der": certificate(BITS),
                "private_key": private_key(BITS),
            }
            await perform(by_manager, names)
            await perform(encrypted, names)
            await eventually(lambda: len(orders.positions) == 2)
            signed, private = bob.stored(orders)
            assert received(signed).authentication_level is AuthenticationLevel.SIG20
            assert [received(stored).body for stored in (signed, private)] == [b"ten apples"] * 2
            assert [stored.local.private for stored in (signed, private)] == [False, True]

    run(client)
    run(managers)


def test_the_page_on_the_directory(domain_controller: DomainController, tmp_path: Path) -> None:
    (here,) = domain_of(domain_controller)
    name = here.computer()
    account = f"{name[:15]}$"
    Joining(here.directory, name).join(DEFAULT_SITE)
    domain_controller.tool("user", "setpassword", account, f"--newpassword={PASSWORD}")
    keytab = domain_controller.export_keytab(account, tmp_path / "qm.keytab")
    path = here.queue(name, label="Orders").attributes["pathname"]
    address, port = domain_controller.address, domain_controller.ports["ldap"]
    page = blocks(
        "docs/how-to/directory.md",
        ('Server("dc1.corp.example")', f'Server("{HOST}", "{address}", {free_port()})'),  # one that is down
        ('Server("dc2.corp.example")', f'Server("{HOST}", "{address}", {port})'),
        ("QM1$@CORP.EXAMPLE", f"{account}@{REALM}"),
        ("/etc/krb5.keytab", str(keytab)),
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "\n".join([*page, "print(result.name, *(item.attributes['pathname'] for item in queues))"]),
        ],
        env=domain_controller.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("SUCCESS ")
    assert path in done.stdout.split()
