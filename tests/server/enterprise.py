"""Daemons with a directory file: who is in which site, who routes, and names by which queues are reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msmq.manager.directory import Expression, ObjectClass, Relation
from msmq.manager.messages.message import Message
from msmq.manager.model import QueueAccessType
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.server.config import DirectorySettings
from msmq.wire.guid import guid_text
from tests.server.support import ALICE, BOB, CAROL, DORA, Node

ADDRESSES = {"ALICE": ALICE, "BOB": BOB, "CAROL": CAROL, "DORA": DORA}

BY_WAY_OF_BOB = {
    "ALICE": 'out_routing_servers = ["BOB"]',
    "BOB": "routing_server = true",
    "CAROL": 'out_routing_servers = ["BOB"]',
}
"""Everything between Alice and Carol goes through Bob."""


def document(hosts: dict[str, str], more: str = "", site: str = "Paris") -> str:
    """A directory file. ``hosts`` are further lines of each host, who is in ``site`` if it does not say sites."""
    lines = [] if "[[sites]]" in more else [f'[[sites]]\nname = "{site}"']
    for name, text in hosts.items():
        sites = "" if "\nsites" in f"\n{text}" else f'sites = ["{site}"]'
        addresses = f'addresses = ["{ADDRESSES[name]}"]' if name in ADDRESSES else ""
        lines.append(f'[[hosts]]\nname = "{name}"\n{addresses}\n{sites}\n{text}')
    return "\n".join([*lines, more])


def enterprise(directory: Path, hosts: dict[str, str], more: str = "") -> dict[str, Any]:
    """Write a directory file; gives the option of daemons that use it."""
    file = directory / "enterprise.toml"
    file.write_text(document(hosts, more), encoding="utf-8")
    return {"directory": DirectorySettings(file=str(file))}


def private_name(node: Node, queue: Queue) -> str:
    return f"PRIVATE={guid_text(node.core.record.identifier)}\\{queue.private_queue_number:08X}"


def post(node: Node, name: str, body: bytes = b"", **attributes: Any) -> None:
    """Send as an application would."""
    descriptor = node.manager.queues.open(name, QueueAccessType.SEND)
    node.manager.posting.send(descriptor, Message(body=body, **attributes))
    node.manager.queues.close(descriptor)


def outgoing(node: Node, name: str) -> OutgoingQueue:
    return node.core.outgoing[name.lower()]


def peers(node: Node) -> set[bytes]:
    """With whom a node has sessions."""
    links = [link._connection for link in node.daemon.outgoing.links.values()]
    connections = [*node.daemon.listener.connections, *(entry for entry in links if entry is not None)]
    return {connection.session.remote_guid for connection in connections if connection.is_open}


def identifier_of(node: Node, name: str) -> bytes:
    """What the directory of a node says about a host."""
    named = (Expression("computer_name", Relation.EQUALS, name),)
    _, item = node.manager.directory.read(ObjectClass.QUEUE_MANAGER, named)
    assert item is not None
    return item.identifier
