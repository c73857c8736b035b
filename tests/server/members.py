"""Daemons in a real domain: each has an account there, finds the others there, and never waits for it in its loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from msmq.manager.messages.message import Message
from msmq.manager.model import QueueAccessType
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.security.outbound import Signer
from msmq.server.config import ApiConfig, Config
from msmq.server.directory_settings import DirectorySettings
from msmq.wire.guid import guid_text
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD, DomainController
from tests.directory.support import DEFAULT_SITE, Domain
from tests.server.support import PATIENCE_S, QUICK, Node, free_port

_T = TypeVar("_T")


def directory_settings(controller: DomainController, path: Path, **options: Any) -> DirectorySettings:
    """How to reach the test's controller as its administrator."""
    secret = path / "password"
    secret.write_text(PASSWORD + "\n", encoding="utf-8")
    given: dict[str, Any] = {
        "kind": "ldap",
        "servers": (f"{HOST}@{controller.address}:{controller.ports['ldap']}",),
        "principal": ADMINISTRATOR,
        "password_file": str(secret),
        "mechanism": "ntlm",
        "site": DEFAULT_SITE,
        "recheck_s": 1,
    }
    return DirectorySettings(**given | options)


class Member(Node):
    """A daemon in the domain."""

    async def start(self) -> None:
        await super().start()
        membership = self.daemon.membership
        assert membership is not None
        assert membership._active is not None
        connection = membership._active.connection
        prepare, loop = connection.prepare, threading.current_thread()

        def prepare_elsewhere() -> None:
            assert threading.current_thread() is not loop, "the loop waits for the directory"
            prepare()

        connection.prepare = prepare_elsewhere  # type: ignore[method-assign]

    @property
    def guid(self) -> bytes:
        return self.core.record.identifier

    async def publish(self, name: str = "orders", **attributes: Any) -> Queue:
        """A public queue, as an application creates it."""
        request = QueueRequest(f".\\{name}", **attributes)
        return await self.daemon.change(lambda: self.manager.queues.create(request))

    async def ask(self, call: Callable[[], _T]) -> _T:
        return await self.daemon.ask(call)

    async def post(
        self,
        name: str,
        body: bytes = b"",
        *,
        signer: Signer | None = None,
        caller: Token | None = None,
        alone: bool = False,
        **attributes: Any,
    ) -> None:
        """Send as an application does."""
        queues = self.manager.queues
        descriptor = await self.daemon.ask(lambda: queues.open(name, QueueAccessType.SEND))
        self.manager.posting.send(
            descriptor, Message(body=body, **attributes), None, caller, signer, alone=alone
        )
        queues.close(descriptor)


def public_name(queue: Queue) -> str:
    return f"PUBLIC={guid_text(queue.identifier)}"


class Members:
    """Several of them, with one port number."""

    def __init__(self, path: Path, domain: Domain) -> None:
        self.path = path
        self.domain = domain
        self.port = free_port()
        self.nodes: list[Member] = []
        self.addresses: dict[str, str] = {}

    async def _resolve(self, host: str) -> list[str]:
        """The domain is shared: it may know hosts of other tests, which no name server here knows."""
        if host.lower() not in self.addresses:
            raise OSError(f"there is no host {host}")
        return [self.addresses[host.lower()]]

    async def join(self, address: str, name: str | None = None, *, door: str = "", **options: Any) -> Member:
        """A host that starts in the domain; its computer has an account there. ``door`` is where applications
        connect."""
        name = name or self.domain.computer()
        self.addresses[f"{name}.msmq.test".lower()] = address
        values: dict[str, Any] = {
            "data": self.path / name,
            "name": name,
            "dns_domain": "msmq.test",
            "listen": (address,),
            "port": self.port,
            "timers": QUICK,
            "directory": directory_settings(self.domain.controller, self.path, **options),
        }
        if door:
            values["api"] = ApiConfig(enabled=True, listen=(door,))
        node = Member(replace(Config(), **values), self._resolve)
        await node.start()
        self.nodes.append(node)
        return node


@asynccontextmanager
async def members(path: Path, domain: Domain) -> AsyncIterator[Members]:
    here = Members(path, domain)
    try:
        yield here
    finally:
        for node in here.nodes:
            if not node.gone:
                await node.stop()


def run(test: Callable[[], Any], timeout_s: float = 2 * PATIENCE_S) -> None:
    """Run a test on a loop of its own; a controller that starts on a busy machine takes its time."""

    async def limited() -> None:
        async with asyncio.timeout(timeout_s):
            await test()

    asyncio.run(limited())
