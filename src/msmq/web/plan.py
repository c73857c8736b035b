"""The configuration of a console's process, which it gets through a pipe."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from msmq.server.web_settings import WebSettings


def bound(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises OSError if the port is in use."""
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
    """The configuration of a console."""

    web: WebSettings
    hosts: dict[str, str] = field(default_factory=dict)
    """The names and channel addresses of queue managers; the first one identifies users."""
    certificates: dict[str, str] = field(default_factory=dict)
    """Names in certificates to SIDs."""
    state: str = ""
    """The directory for what it keeps; without one nothing is kept."""
    sockets: tuple[int, ...] = ()
    token: str = ""
    """The console's own token, if its user is no administrator."""
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
