"""Which methods of remote read clients that we did not write have succeeded with, at which level: the table that the
tests of each client hold it to, and that `docs/how-to/remote-read.md` shows."""

from __future__ import annotations

from msmq.remote_read.interface import REMOTE_READ
from msmq.wire.classes import MessageClass
from tests.remote_read.support import Served

METHODS = {operation.opnum: operation.name for operation in REMOTE_READ.operations}
EVERY = sorted(METHODS)
LEVELS = {
    "impacket": ("none", "connect", "integrity", "privacy"),  # it cannot sign at the level of packets
    "Samba": ("none", "connect", "packet", "integrity", "privacy"),
    "go-msrpc": ("none", "connect", "packet", "integrity", "privacy"),
}
"""Every level that a client knows. The level of calls is for RPC without connections."""
SUCCEEDS = {client: dict.fromkeys(levels, EVERY) for client, levels in LEVELS.items()}
"""By client and level: numbers of methods. A cancel counts that has ended a read that waited, an enlistment that let a
message be received in the transaction."""


def table() -> str:
    """The same for readers of the page."""
    lines = [f"| number | method | {' | '.join(SUCCEEDS)} |", "| --- " * (len(SUCCEEDS) + 2) + "|"]
    for opnum in EVERY:
        cells = [
            ", ".join(level for level, numbers in by_level.items() if opnum in numbers) or "-"
            for by_level in SUCCEEDS.values()
        ]
        lines.append(f"| {opnum} | `{METHODS[opnum]}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


class Stage:
    """The queues that a client which calls every method finds, and what must have become of them."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.orders = served.queue("orders", b"hello from far away")
        self.acks = served.queue("acks")
        self.work = served.queue("work", b"to be moved", transactional=True)
        asking = {"admin": "OS:HOST\\private$\\acks", "acknowledge": 0x0E}
        served.host.send(self.work, b"to be rejected", **asking)
        served.fill(self.work, b"to be purged")
        self.uow, self.token = served.transactions.begin()

    @property
    def transaction(self) -> tuple[str, str]:
        """As the programs take it."""
        return self.uow.hex(), self.token.hex()

    async def check(self) -> None:
        """The client has gone; the coordinator commits what it did."""
        served = self.served
        await served.transactions.commit(self.uow)
        (told,) = self.acks.positions
        rejection = served.manager.mailbox.load(self.acks, told.lookup_id).packet.properties.message_class
        assert rejection == MessageClass.NACK_RECEIVE_REJECTED
        assert served.host.contents(self.work) == []
        assert served.host.contents(self.work.subqueue_collection["later"]) == [b"to be moved"]
        assert not len(self.orders.positions)
        assert not served.service.handles.open
