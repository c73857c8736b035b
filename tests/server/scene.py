"""A daemon of a domain and a hand-made peer that signs and encrypts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msmq.manager.queues.queue import Queue
from msmq.wire.message import UserMessage
from tests.security.correspondent import PEER, Correspondent
from tests.server.domain import ALL_ALGORITHMS, Domain, DomainNode, domain
from tests.server.support import ALICE, Peer, eventually

NACK_ARRIVAL = 0x04
PRIVACY_LEVEL, ENCRYPTION_ALGORITHM = 40, 48


class Scene:
    """A daemon with a queue for orders and one for acknowledgments, and a peer with a session to it."""

    def __init__(self, here: Domain, alice: DomainNode) -> None:
        self.here = here
        self.alice = alice
        self.correspondent = Correspondent()
        self.peer = Peer(PEER)
        self.orders = alice.queue("orders")
        self.ordered = alice.queue("ordered", transactional=True)
        self.admin = alice.queue("admin")

    def message(self, *, transactional: bool = False, number: int = 1, **attributes: Any) -> UserMessage:
        queue = self.ordered if transactional else self.orders
        if transactional:
            attributes |= {"transaction_identifier": 1, "transaction_sequence_number": number}
        attributes.setdefault("public_keys", self.alice.public_keys)
        attributes.setdefault("acknowledgements_requested", NACK_ARRIVAL)
        return self.correspondent.message(
            self.alice.private_name(queue),
            sent_time=self.alice.core.now_s,
            administration_queue_format_name=self.alice.private_name(self.admin),
            **attributes,
        )

    def told(self) -> list[int]:
        """Classes of the acknowledgments that have come."""
        return [packet.properties.message_class for packet in self.alice.packets(self.admin)]

    async def send(self, packet: UserMessage, queue: Queue | None = None) -> None:
        """Send, and wait until the message is there or refused."""
        queue = queue or (self.ordered if packet.transactional else self.orders)
        before = len(queue.positions) + len(self.admin.positions)
        self.peer.send(packet)
        await eventually(lambda: len(queue.positions) + len(self.admin.positions) > before)


@asynccontextmanager
async def scene(path: Path, **options: Any) -> AsyncIterator[Scene]:
    """Set a scene. Old algorithms are on, and senders are told everything."""
    values = {"send_insecure_nacks": True, **ALL_ALGORITHMS, **options}
    async with domain(path, **values) as here:
        one = Scene(here, await here.member())
        await one.peer.connect(ALICE, here.port, remote=one.alice.guid)
        yield one
        await one.peer.close()


def damaged_key(packet: UserMessage) -> UserMessage:
    assert packet.security is not None
    data = bytearray(packet.data)
    data[packet.data.index(packet.security.encryption_key) + 40] ^= 1
    return UserMessage.route(bytes(data))


def patched(packet: UserMessage, offset: int, number: int) -> UserMessage:
    """The packet with another number in its MessagePropertiesHeader."""
    data = bytearray(packet.data)
    start = packet.properties_offset + offset
    data[start : start + 4] = number.to_bytes(4, "little")
    return UserMessage.route(bytes(data))
