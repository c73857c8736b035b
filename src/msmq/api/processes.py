"""The users of this host and the process at the other end of a unix socket, as the operating system reports them."""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

_KEPT_BYTES: Final = 1 << 19
NOBODY: Final = -1
"""The user number on systems that have none."""
_LINUX: Final = struct.Struct("3i")
"""struct ucred: process, user, group."""
_BSD: Final = struct.Struct("IIhxx16I")
"""struct xucred: version, user, number of groups, groups; the first group is that of the process."""
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


def from_linux(data: bytes) -> tuple[int, int]:
    _, uid, gid = _LINUX.unpack(data)
    return uid, gid


def from_bsd(data: bytes) -> tuple[int, int]:
    _, uid, _, gid, *_ = _BSD.unpack(data)
    return uid, gid


if sys.platform == "win32":

    def own_uid() -> int:
        return NOBODY

    def is_root() -> bool:
        return False

    def user_name(uid: int) -> str | None:
        return None

    def group_name(gid: int) -> str | None:
        return None

    def uid_of(name: str) -> int:
        raise KeyError(name)

    def gid_of(name: str) -> int:
        raise KeyError(name)

    def groups_of(name: str, gid: int) -> list[int]:
        return [gid]

    def credentials(own: socket.socket) -> tuple[int, int]:
        """User and group of the process at the other end of a unix socket."""
        raise OSError("Python knows no unix sockets on this system.")

    def unix_socket() -> socket.socket:
        raise OSError("Python knows no unix sockets on this system; listen on 127.0.0.1:PORT.")

else:
    import grp
    import pwd

    own_uid = os.geteuid
    groups_of = os.getgrouplist

    def is_root() -> bool:
        return os.geteuid() == 0

    def user_name(uid: int) -> str | None:
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return None

    def group_name(gid: int) -> str | None:
        try:
            return grp.getgrgid(gid).gr_name
        except KeyError:
            return None

    def uid_of(name: str) -> int:
        """The number of a user. Raises KeyError if there is no such user."""
        return pwd.getpwnam(name).pw_uid

    def gid_of(name: str) -> int:
        """The number of a group. Raises KeyError if there is no such group."""
        return grp.getgrnam(name).gr_gid

    def credentials(own: socket.socket) -> tuple[int, int]:
        """User and group of the process at the other end of a unix socket."""
        if sys.platform == "linux":
            return from_linux(own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
        return from_bsd(own.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _BSD.size))

    def unix_socket() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        widen(made)
        return made


def widen(own: socket.socket) -> None:
    """Enlarge the system's buffer of a unix socket to a few batches of messages, as far as its limits allow. The usual
    buffer has room for one, and the next write would have to wait for the reader."""
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KEPT_BYTES)


def unique_name(inner: Path, name: str) -> tuple[str, str]:
    """A name for one end of a connection to a socket in the directory ``inner``: the name to bind it to, and what gRPC
    will call it. On Linux it is an abstract name without a file."""
    if sys.platform == "linux":
        return f"\0{name}", f"unix-abstract:{name}"
    return str(inner / name), f"unix:{inner / name}"


def release_name(name: str) -> None:
    """Remove what :func:`unique_name` left behind."""
    if name and not name.startswith("\0"):
        Path(name).unlink(missing_ok=True)
