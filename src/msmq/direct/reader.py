"""Opening a queue of another host for the duration of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msmq.api.names import without_label
from msmq.errors import UnsupportedFormatnameOperationError
from msmq.remote_read.remote_queue import RemoteQueue
from msmq.remote_read.session import Access, Caller, RemoteHost, Share
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.security import Credentials
from msmq.wire.names import DirectName, parse_format_name


def host_of(name: str) -> str:
    """The host in a direct format name. Raises an error for other names, which do not tell."""
    parsed = parse_format_name(without_label(name))
    if not isinstance(parsed, DirectName):
        raise UnsupportedFormatnameOperationError(f"{name} does not say which host has the queue; give it.")
    return parsed.host


@asynccontextmanager
async def reading(
    name: str,
    access: Access = Access.RECEIVE,
    share: Share = Share.DENY_NONE,
    *,
    host: str | None = None,
    port: int | None = None,
    credentials: Credentials | None = None,
    levels: Sequence[AuthLevel] = (),
    peek_too: bool = False,
    caller: Caller | None = None,
    target_name: str | None = None,
) -> AsyncIterator[RemoteQueue]:
    """Open a queue by its format name. ``host`` is by default the one in the name; without ``port`` the endpoint
    mapper of the host is asked. ``target_name`` is the host in its Kerberos principal, for a host that is reached by
    its address. See `RemoteHost.connect` and `RemoteHost.open` for the other parameters."""
    name = without_label(name)
    async with await RemoteHost.connect(
        host or host_of(name), port, credentials, levels=levels, caller=caller, target_name=target_name
    ) as remote:
        queue = await remote.open(name, access, share, peek_too=peek_too)
        try:
            yield queue
        finally:
            await queue.close()
