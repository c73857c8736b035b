"""Who is at the other end of a unix socket."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from pathlib import Path

import pytest

from msmq.api import processes
from msmq.api.generated import msmq_pb2 as pb
from tests.api.support import address, calling, daemon
from tests.server.support import eventually


def test_the_other_end_of_a_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert processes.credentials(ours) == (os.geteuid(), os.getegid())


def test_credentials_of_a_mac() -> None:
    """``struct xucred`` as its header file has it, with 16 groups."""
    data = struct.pack("IIh2x16I", 0, 501, 2, 20, 80, *[0] * 14)
    assert len(data) == 76
    assert processes.from_bsd(data) == (501, 20)


def test_names_of_users_and_groups() -> None:
    own = pwd.getpwuid(os.geteuid())
    assert processes.user_name(own.pw_uid) == own.pw_name
    assert processes.uid_of(own.pw_name) == own.pw_uid == processes.own_uid()
    assert own.pw_gid in processes.groups_of(own.pw_name, own.pw_gid)
    assert processes.group_name(own.pw_gid) is not None
    unused = 0x7FFF_FFF0
    assert processes.user_name(unused) is None
    assert processes.group_name(unused) is None
    assert processes.is_root() == (own.pw_uid == 0)
    with pytest.raises(KeyError):
        processes.uid_of("no such user")


async def test_where_every_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC's half of a connection is known by a file that goes with the connection."""
    monkeypatch.setattr(
        processes, "unique_name", lambda inner, name: (str(inner / name), f"unix:{inner / name}")
    )

    async with daemon(tmp_path) as running:
        assert running.door is not None
        inner = running.door._private
        assert inner is not None
        async with calling(address(running)) as call:
            info = await call("GetManager", pb.GetManagerRequest())
            assert len(list(inner.iterdir())) == 2
        assert info.caller == f"S-1-22-1-{os.geteuid()}"
        await eventually(lambda: len(list(inner.iterdir())) == 1)
