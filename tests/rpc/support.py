"""A server on a loopback address in a thread of its own, for peers that block, and in this loop for our client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from msmq.admission.gate import Crowding, Gate
from msmq.admission.guesses import Guesses
from msmq.rpc.epm import Endpoint, EndpointMap, register_endpoint_mapper
from msmq.rpc.mgmt import register_management
from msmq.rpc.ntlm import Account, nt_hash_of
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.security import Authentication
from msmq.rpc.server import RpcServer, ServerConfig
from msmq.security.access import Token
from msmq.security.sid import Sid
from tests.rpc.echo import ECHOES, OTHER, Echoes

HOST = "127.0.0.1"
PASSWORD = "Secret-1"
ALICE = Sid.parse("S-1-5-21-1-2-3-1001")
BOB = Sid.parse("S-1-5-21-1-2-3-1002")
PATIENCE_S = 120


class Known:
    """Two accounts, without the cost of a file."""

    def find(self, name: str) -> Account | None:
        sid = {"alice": ALICE, "bob": BOB}.get(name.casefold())
        return Account(name, nt_hash_of(PASSWORD), Token.authenticated(sid)) if sid is not None else None


@dataclass
class Running:
    server: RpcServer
    port: int
    echoes: Echoes
    endpoints: EndpointMap = field(default_factory=EndpointMap)


async def start(
    config: ServerConfig | None = None,
    minimum: AuthLevel = AuthLevel.NONE,
    crowding: Crowding | None = None,
    guesses: Guesses | None = None,
) -> Running:
    gate = Gate(crowding, asyncio.get_running_loop) if crowding is not None else None
    server = RpcServer(config, Authentication(accounts=Known(), guesses=guesses), gate)
    echoes = Echoes()
    echoes.register(server, minimum)
    register_management(server, "host/test")
    port = await server.listen(HOST, 0)
    running = Running(server, port, echoes)
    for interface in (ECHOES, OTHER):
        running.endpoints.add(Endpoint(interface.syntax, port, "0.0.0.0", interface.name))
    register_endpoint_mapper(server, running.endpoints)
    return running


@asynccontextmanager
async def serving(
    config: ServerConfig | None = None,
    minimum: AuthLevel = AuthLevel.NONE,
    crowding: Crowding | None = None,
    guesses: Guesses | None = None,
) -> AsyncIterator[Running]:
    running = await start(config, minimum, crowding, guesses)
    try:
        yield running
    finally:
        await asyncio.wait_for(running.server.close(), PATIENCE_S)


@contextmanager
def serving_in_a_thread(
    config: ServerConfig | None = None, minimum: AuthLevel = AuthLevel.NONE
) -> Iterator[Running]:
    """The same for peers that block their thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        running = asyncio.run_coroutine_threadsafe(start(config, minimum), loop).result(PATIENCE_S)
        try:
            yield running
        finally:
            asyncio.run_coroutine_threadsafe(running.server.close(), loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.005)


def eventually_here(holds: Callable[[], bool]) -> None:
    """The same outside a loop."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
