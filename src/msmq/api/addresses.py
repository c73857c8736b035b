"""The default addresses of the channel, for servers and clients alike."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from msmq.api import processes

SYSTEM_SOCKET: Final = Path("/run/msmq/api.sock")
"""The socket of a queue manager that root runs."""
PORT: Final = 8181
"""The channel's port on a host whose address names none."""
LOOPBACK: Final = f"127.0.0.1:{PORT}"
"""The channel's default address on systems without unix sockets. Callers bring a token, or are anonymous."""


def own_socket() -> Path:
    """The socket of a queue manager that this user runs."""
    if processes.is_root():
        return SYSTEM_SOCKET
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "msmq" / "api.sock" if runtime else Path.home() / ".msmq" / "api.sock"


def usual_socket() -> Path:
    """The default socket of a server. A service of systemd has no home, but a runtime directory."""
    runtime = os.environ.get("RUNTIME_DIRECTORY")
    return Path(runtime) / SYSTEM_SOCKET.name if runtime else own_socket()


def usual_address() -> str:
    """The default address of a server."""
    if sys.platform == "win32":
        return LOOPBACK
    return f"unix:{usual_socket()}"


def server_address(given: str | None = None) -> str:
    """Where a client connects: the given address, else ``MSMQ_SERVER``, the user's own server, the system's server."""
    if given:
        return given
    named = os.environ.get("MSMQ_SERVER")
    if named:
        return named
    if sys.platform == "win32":
        return LOOPBACK
    own = own_socket()
    return f"unix:{own if own.exists() or not SYSTEM_SOCKET.exists() else SYSTEM_SOCKET}"


def unix_path(address: str) -> str:
    """The path in the address of a unix socket: ``unix:PATH`` with or without two slashes, or an absolute path alone.
    Empty for any other address."""
    if address.startswith("/"):
        return address
    kind, _, path = address.partition(":")
    return path.removeprefix("//") if kind == "unix" else ""
