"""docs/how-to/join-domain.md, run command by command: two hosts, a fresh domain, and a signed message at the end."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from pathlib import Path

import pytest

from msmq.server.config import load
from msmq.server.daemon import Daemon
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD, REALM, DomainController
from tests import ready
from tests.server.support import ALICE, BOB, free_port
from tests.test_docs import BLOCKS

PAGE = "docs/how-to/join-domain.md"
CONFIG = "/etc/msmq/msmq.toml"


class Page:
    """The two hosts and the controller that the page speaks of; what it types is done here."""

    def __init__(self, path: Path, controller: DomainController) -> None:
        self.path = path
        self.controller = controller
        mark = secrets.token_hex(3).upper()
        self.names = {"QM1": f"QA{mark}", "QM2": f"QB{mark}"}
        self.addresses = {"QM1": ALICE, "QM2": BOB}
        self.port = free_port()
        self.daemons: dict[str, Daemon] = {}
        self.output: dict[str, list[str]] = {}
        tools = path / "bin"
        tools.mkdir()
        tool = tools / "samba-tool"  # on its own database, as on the controller itself
        database = f"--configfile={controller.directory}/etc/smb.conf"
        tool.write_text(f'#!/bin/sh\nexec /usr/bin/samba-tool "$@" {database}\n', encoding="utf-8")
        tool.chmod(0o755)
        self.environment = controller.environment | {
            "PATH": f"{tools}:{Path(ready.msmq()).parent}:{os.environ['PATH']}"
        }

    def here(self, text: str) -> str:
        """The page's names are those of this test."""
        text = text.replace("/etc/msmq", str(self.path)).replace("DC=corp,DC=example", "DC=msmq,DC=test")
        text = text.replace("CORP.EXAMPLE", REALM).replace("corp.example", "msmq.test")
        for name, ours in self.names.items():
            text = text.replace(name, ours)
        return text

    def file(self, host: str) -> Path:
        return self.path / f"{host}.toml"

    def describe(self, template: str, users: str) -> None:
        """The configuration on each host. There is no DNS here, and both are on one computer."""
        servers = f'servers = ["{HOST}@{self.controller.address}:{self.controller.ports["ldap"]}"]'
        for host, address in self.addresses.items():
            text = template.replace("QM1", host).replace(
                'domain = "corp.example"\nprincipal', "servers\nprincipal"
            )
            own = f'listen = ["{address}"]\nport = {self.port}\ndata = "{self.path / host}"\n'
            text = self.here(text).replace("servers\n", f"{servers}\n")
            door = f'[api]\nlisten = ["unix:{self.path}/{host}.sock"]\n'
            self.file(host).write_text(f"{own}{text}\n{door}{users}\n", encoding="utf-8")

    async def resolve(self, host: str) -> list[str]:
        return [
            self.addresses[name]
            for name, ours in self.names.items()
            if host.lower() == f"{ours}.msmq.test".lower()
        ]

    async def type(self, line: str, host: str) -> None:
        if line.startswith("msmq serve"):
            daemon = Daemon(load(self.file(host)), resolve=self.resolve)
            await daemon.start()
            self.daemons[host] = daemon
            return
        command = self.here(line).replace(self.here(CONFIG), str(self.file(host) if host else ""))
        await self.perform(host, line, "sh", "-euc", command)

    async def perform(self, host: str, line: str, *command: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=self.environment | {"MSMQ_SERVER": f"unix:{self.path}/{host}.sock"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate(f"{PASSWORD}\n".encode())
        expected = 1 if line.startswith("msmq directory status") else 0
        assert process.returncode == expected, f"{line}\n{told.decode()}"
        self.output.setdefault(line, []).append(told.decode())


async def test_the_page_on_joining_a_domain(
    domain_controller: DomainController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account of the administrator is the one the page names."""
    monkeypatch.setenv("KRB5_CONFIG", str(domain_controller.krb5_config))
    assert f"Administrator@{REALM}" == ADMINISTRATOR
    blocks = [block for block in BLOCKS if block.page == PAGE]
    template, users = (block.text for block in blocks if block.language == "toml")
    page = Page(tmp_path, domain_controller)
    alice = domain_controller.ldapsearch("CN=alice,CN=Users,DC=msmq,DC=test", "cn", scope="base")
    assert "alice" in alice
    sid = domain_controller.tool("user", "show", "alice", "--attributes=objectSid")
    sid = next(line.split()[1] for line in sid.splitlines() if line.startswith("objectSid"))
    page.describe(template, users.replace("S-1-5-21-1111111111-2222222222-3333333333-1103", sid))

    try:
        for block in blocks:
            if block.language == "python":
                await page.perform("QM1", block.text, sys.executable, "-c", page.here(block.text))
            elif block.language == "sh":
                host = block.text.partition("\n")[0].removeprefix("# on ")
                for line in block.lines:
                    await page.type(line, host if host in page.names else "")
    finally:
        for daemon in page.daemons.values():
            await daemon.stop()
    (checked,) = page.output["msmq directory check --config /etc/msmq/msmq.toml"]
    assert checked == "no differences\n"
    (place,) = page.output["msmq queue locate 'QM2\\orders'"]
    assert place.lower().startswith(f"{page.names['QM2']}.msmq.test public=".lower())
    (received,) = page.output["msmq receive '.\\orders' --json --timeout 30"]
    message = json.loads(received)
    assert (message["authenticated"], message["sender"]) == (True, sid)
