"""What the process of a console has to know, as it goes through the pipe to it."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from msmq.server.web_settings import WebSettings


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; raises OSError when somebody else has the port."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


@dataclass(frozen=True, slots=True)
class Plan:
    """What a console has to know."""

    web: WebSettings
    hosts: dict[str, str] = field(default_factory=dict)
    """Names of queue managers to where their channels are; the first one says who people are."""
    certificates: dict[str, str] = field(default_factory=dict)
    """Names in certificates to SIDs."""
    state: str = ""
    """Directory for what it keeps; nothing is kept without one."""
    sockets: tuple[int, ...] = ()
    token: str = ""
    """The console's own token, where it is no administrator by its user."""
    authorities: str = ""
    log_level: str = "info"
    log_format: str = "text"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        given: dict[str, Any] = json.loads(text)
        web = {entry.name: given["web"][entry.name] for entry in fields(WebSettings)}
        return cls(**(given | {"web": WebSettings(**web), "sockets": tuple(given["sockets"])}))
