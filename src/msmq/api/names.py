"""Names of queues as applications give them: a path, a format name, or one of the system's queues."""

from __future__ import annotations

from typing import Final

from msmq.errors import QueueNotFoundError
from msmq.manager.queue import OutgoingQueue, Queue
from msmq.manager.queue_manager import QueueManager
from msmq.wire.names import QueuePath, parse_format_name

_PREFIXES: Final = frozenset({"DIRECT", "PUBLIC", "PRIVATE", "MACHINE", "CONNECTOR", "MULTICAST", "DL"})
_SYSTEM_PATHS: Final = {
    "deadletter$": "SYSTEM$;DEADLETTER",
    "xactdeadletter$": "SYSTEM$;DEADXACT",
    "journal$": "SYSTEM$;JOURNAL",
}
"""Paths of the computer's own queues, as the MSMQ console shows them, and what a direct name calls them."""


def is_format_name(text: str) -> bool:
    """Whether a text begins like a format name; everything else is a path."""
    prefix, equals, _ = text.partition("=")
    return bool(equals) and prefix.strip().upper() in _PREFIXES


def format_name(text: str, computer: str) -> str:
    """The format name of a queue; ``computer`` is what a dot stands for in a path."""
    if is_format_name(text):
        return text
    host, _, rest = text.partition("\\")
    system = _SYSTEM_PATHS.get(rest.lower())
    if host == ".":
        host = computer
    if system is None:
        QueuePath.parse(f"{host}\\{rest}")
    return f"DIRECT=OS:{host}\\{system or rest}"


class Names:
    """The queues behind the names."""

    def __init__(self, manager: QueueManager) -> None:
        self.manager = manager

    def format_name(self, text: str) -> str:
        return format_name(text, self.manager.core.record.computer_name)

    def local(self, text: str) -> Queue:
        """The queue of this computer that a name means."""
        queue = self.manager.naming.find(parse_format_name(self.format_name(text)))
        if queue is None or isinstance(queue, OutgoingQueue):
            raise QueueNotFoundError(f"There is no queue {text} on this computer.")
        return queue

    def outgoing(self, text: str) -> OutgoingQueue:
        """The outgoing queue that keeps messages for a name."""
        name = str(parse_format_name(self.format_name(text)))
        queue = self.manager.core.outgoing.get(name.lower())
        if queue is None:
            raise QueueNotFoundError(f"No messages wait here for {name}.")
        return queue
