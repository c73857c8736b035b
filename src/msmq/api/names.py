"""Names of queues as applications write them: a path, a format name, or one of the system queues."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msmq.errors import IllegalQueuePathnameError, QueueNotFoundError
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.wire.names import (
    DirectName,
    MultipleElementName,
    Protocol,
    PublicName,
    QueuePath,
    parse_format_name,
)

_PREFIXES: Final = frozenset({"DIRECT", "PUBLIC", "PRIVATE", "MACHINE", "CONNECTOR", "MULTICAST", "DL"})
_LABEL: Final = "formatname:"
_HOST: Final = re.compile(r"\.|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_SYSTEM_PATHS: Final = {
    "deadletter$": "SYSTEM$;DEADLETTER",
    "xactdeadletter$": "SYSTEM$;DEADXACT",
    "journal$": "SYSTEM$;JOURNAL",
}
"""The paths of a host's system queues, as the MSMQ console shows them, and their names in a direct format name."""


def without_label(text: str) -> str:
    """A name as .NET writes it (``FormatName:DIRECT=...``), without its prefix ``FormatName:``."""
    return text[len(_LABEL) :].strip() if text[: len(_LABEL)].lower() == _LABEL else text


def is_format_name(text: str) -> bool:
    """Whether a text begins like a format name; all other names are paths."""
    prefix, equals, _ = text.partition("=")
    return bool(equals) and prefix.strip().upper() in _PREFIXES


@lru_cache(maxsize=1024)
def format_name(text: str, computer: str) -> str:
    """The format name of a queue; ``computer`` replaces the dot as the host of a path."""
    name = without_label(text)
    if name is not text or is_format_name(name):
        _check_hosts(name)
        return name
    host, _, rest = name.partition("\\")
    system = _SYSTEM_PATHS.get(rest.lower())
    if host == ".":
        host = computer
    if system is None:
        QueuePath.parse(f"{host}\\{rest}")
    _check_host(host)
    return f"DIRECT=OS:{host}\\{system or rest}"


def path_of(text: str) -> QueuePath | None:
    """A name as a path; None for a format name."""
    return None if without_label(text) is not text or is_format_name(text) else QueuePath.parse(text)


def _check_hosts(name: str) -> None:
    """Check the hosts in a format name, whose grammar allows any name."""
    parsed = parse_format_name(name)
    for single in parsed.elements if isinstance(parsed, MultipleElementName) else (parsed,):
        if isinstance(single, DirectName) and single.protocol is Protocol.OS:
            _check_host(single.address)


def _check_host(host: str) -> None:
    """Check that a host's name is possible: a message to an impossible host would wait for ever."""
    if not _HOST.fullmatch(host):
        raise IllegalQueuePathnameError(
            f"{host!r} cannot be the name of a computer, which has letters, digits, hyphens and underscores, "
            "with single dots between."
        )


class Names:
    """Finds the queues that names mean."""

    def __init__(self, manager: QueueManager) -> None:
        self.manager = manager

    def format_name(self, text: str) -> str:
        return format_name(text, self.manager.core.record.computer_name)

    def destination(self, text: str) -> str:
        """The format name to send to. In a domain the path of another host's public queue is looked up in the
        directory, as on Windows: messages to its public format name are routed between sites, and its host's keys are
        known. The caller can wait for the directory."""
        path = path_of(text)
        if path is not None and self.manager.elsewhere.is_elsewhere(path):
            found = self.manager.naming.published(path)
            if found is not None:
                return found[0]
        return self.format_name(text)

    def published(self, text: str) -> PublicName | QueuePath | None:
        """The name of a public queue that may be on another host; None for every other name."""
        path = path_of(text)
        if path is not None:
            return path if self.manager.elsewhere.is_elsewhere(path) else None
        name = parse_format_name(without_label(text))
        ours = not self.manager.core.directory_integrated or self.manager.naming.find(name) is not None
        return None if ours or not isinstance(name, PublicName) else name

    def local(self, text: str) -> Queue:
        """The queue of this host that a name means. Raises QueueNotFoundError if there is none."""
        queue = self.manager.naming.find(parse_format_name(self.format_name(text)))
        if queue is None or isinstance(queue, OutgoingQueue):
            raise QueueNotFoundError(f"There is no queue {text} on this computer.")
        return queue

    def outgoing(self, text: str) -> OutgoingQueue:
        """The outgoing queue that holds messages for a name. Raises QueueNotFoundError if there is none."""
        name = str(parse_format_name(self.format_name(text)))
        queue = self.manager.core.outgoing.get(name.lower())
        if queue is None:
            raise QueueNotFoundError(f"No messages wait here for {name}.")
        return queue
