"""Which acknowledgments of transactional messages are believed (docs/rulings.md, B23).

OrderAcks and FinalAcks name a sequence or a message by numbers that anybody can guess, and a message that is
acknowledged is gone. So an acknowledgment counts only if it comes from where the messages went: from the address they
were sent to or that their queue names, from the queue manager over whose session they left, or from the one that the
name of their queue tells, perhaps through routing servers.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from msmq.server.inbound.connection import Connection
from msmq.server.outbound.next_hop import Addressing, Destination
from msmq.wire.guid import NULL_GUID, guid_text


class Voice(NamedTuple):
    """The origin of an acknowledgment."""

    address: str
    """The address of the host whose session brought it."""
    neighbour: bytes
    """The queue manager of that session."""
    source: bytes
    """The queue manager that claims to have written the acknowledgment."""

    def __str__(self) -> str:
        return f"{self.address}, queue manager {guid_text(self.neighbour)} for {guid_text(self.source)}"


class Receivers:
    """The hosts that messages of one outgoing queue are sent to."""

    __slots__ = ("_addresses", "_queue_managers", "last")

    def __init__(self, known: bytes) -> None:
        """``known`` is the queue manager that messages were sent to before the last restart, or null."""
        self._addresses: set[str] = set()
        self._queue_managers: set[bytes] = set()
        self.last = known
        """The queue manager that the messages were last sent to."""
        self._add(known)

    def _add(self, guid: bytes) -> None:
        if guid != NULL_GUID:
            self._queue_managers.add(guid)
            self.last = guid

    def meet(self, connection: Connection) -> None:
        """Note that messages are about to leave over a connection."""
        if connection.session.direct:
            self._addresses.add(connection.peer)
        self._add(connection.session.remote_guid)

    def may_settle(self, voice: Voice, key: Destination | None, addressing: Addressing) -> bool:
        """Whether to believe an acknowledgment of messages for ``key``."""
        if voice.neighbour in self._queue_managers or voice.address in self._addresses:
            return True
        if isinstance(key, str):
            return voice.address == _literal(key)
        return key is not None and addressing.answers_for(key, voice.neighbour, voice.source)


def _literal(host: str) -> str:
    """The host of a direct name if it is an address, otherwise ""."""
    try:
        return str(ip_address(host))
    except ValueError:
        return ""
