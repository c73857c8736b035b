"""Daemons in a domain: they share a directory in memory, which has their keys and the users' certificates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from msmq.manager.directory import DirectoryObject, DirectoryResult, Filter, ObjectClass
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.message import AcknowledgementsRequested, Message
from msmq.manager.model import QueueAccessType
from msmq.manager.queues.queue import Queue
from msmq.security.access import Token
from msmq.security.outbound import Signer
from msmq.server.config import Config
from msmq.server.daemon import Daemon
from msmq.testing.directory import MemoryDirectory
from msmq.wire.guid import guid_text
from tests.security.correspondent import user
from tests.server.support import ALICE, BOB, QUICK, Neighbourhood, Node, name_of

ALL_ALGORITHMS = {
    "accepted_hashes": ("md2", "md4", "md5", "sha1", "sha256", "sha512"),
    "accepted_ciphers": ("rc2", "rc4", "aes128", "aes192", "aes256"),
}


class SpiedDirectory(MemoryDirectory):
    """Remembers what was looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.filters: list[tuple[ObjectClass, Filter | None, Sequence[str] | None]] = []

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        self.filters.append((object_class, conditions, attributes))
        return super().read(object_class, conditions, attributes)

    def key_reads(self) -> int:
        """How often somebody's encryption keys were read."""
        return sum(attributes == ("public_encryption_key_list",) for _, _, attributes in self.filters)

    def user_reads(self) -> int:
        return sum(object_class is ObjectClass.USER for object_class, _, _ in self.filters)


class DomainNode(Node):
    """A daemon with a directory."""

    def __init__(self, config: Config, directory: MemoryDirectory | None) -> None:
        super().__init__(config)
        self.directory = directory

    async def start(self) -> None:
        self.daemon = Daemon(self.config, domain=self.directory)
        await self.daemon.start()
        self.gone = False
        self.manager = self.daemon.manager
        self.core = self.manager.core

    @property
    def guid(self) -> bytes:
        return self.core.record.identifier

    @property
    def public_keys(self) -> bytes:
        return self.manager.keys.public_encryption_key_list()

    def private_name(self, queue: Queue) -> str:
        return f"PRIVATE={guid_text(self.guid)}\\{queue.private_queue_number:08X}"

    def post(
        self,
        name: str,
        body: bytes = b"secret",
        *,
        signer: Signer | None = None,
        caller: Token | None = None,
        acknowledge: int = 0,
        in_transaction: bool = False,
        **attributes: Any,
    ) -> list[StoredMessage]:
        """Send as an application does."""
        manager = self.manager
        descriptor = manager.queues.open(name, QueueAccessType.SEND)
        transaction = manager.transactions.create() if in_transaction else None
        message = Message(
            body=body, acknowledgements_requested=AcknowledgementsRequested(acknowledge), **attributes
        )
        try:
            made = manager.posting.send(descriptor, message, transaction, caller, signer)
            if transaction is not None:
                manager.transactions.commit(transaction.identifier)
        finally:
            manager.queues.close(descriptor)
        return made

    def stored(self, queue: Queue) -> list[StoredMessage]:
        return [self.manager.mailbox.load(queue, entry.lookup_id) for entry in queue.positions]


class Domain(Neighbourhood):
    """Several daemons with one directory, in which one user is known."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.shared = SpiedDirectory()
        self.shared.put(user())

    async def member(self, address: str = ALICE, **options: Any) -> DomainNode:
        return await self._add(address, self.shared, options)

    async def outsider(self, address: str = ALICE, **options: Any) -> DomainNode:
        """A host without a directory."""
        return await self._add(address, None, options)

    async def _add(
        self, address: str, directory: MemoryDirectory | None, options: dict[str, Any]
    ) -> DomainNode:
        name = {ALICE: "ALICE", BOB: "BOB"}[address]
        values: dict[str, Any] = {
            "data": self.directory / name,
            "name": name,
            "listen": (address,),
            "port": self.port,
            "timers": QUICK,
            **self.options,
            **options,
        }
        node = DomainNode(replace(Config(), **values), directory)
        await node.start()
        self.nodes.append(node)
        return node


@asynccontextmanager
async def domain(path: Path, **options: Any) -> AsyncIterator[Domain]:
    here = Domain(path, **options)
    try:
        yield here
    finally:
        for node in here.nodes:
            if not node.gone:
                await node.stop()


def introduce(host: Node, to_address: str) -> None:
    """Let a host open a session, over which messages to it find their way without a directory of addresses."""
    host.send(name_of(to_address, "hello"), b"hello")
