"""The process of the console: a client of the queue manager with a door for browsers.

``msmq serve`` starts it with ``python -m msmq.web.process``, passes it sockets that are bound already, and writes its
configuration to its standard input as one line of JSON. When that input ends, its parent is gone, and it ends too.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmq.admission.gate import Crowding, Gate
from msmq.admission.guesses import Guesses
from msmq.admission.pace import Pace
from msmq.client import connect
from msmq.client.connection import Connection
from msmq.client.target import Tls
from msmq.server.logs import set_up
from msmq.web import (
    access_calls,
    alarm_calls,
    definition_calls,
    directory_calls,
    hosts,
    job_calls,
    login_calls,
    messages,
    metrics,
    queues,
    streams,
)
from msmq.web.alarms import Alarms
from msmq.web.application import Surroundings, build
from msmq.web.audit import Audit
from msmq.web.door import Door, context
from msmq.web.failures import Tallies
from msmq.web.jobs import Jobs
from msmq.web.operations import Table
from msmq.web.people import Credential, People
from msmq.web.plan import Plan

if TYPE_CHECKING:
    from msmq.server.web_settings import WebSettings
    from msmq.web.oidc import Issuer

_TIMEOUT_S: Final = 10.0
_log = logging.getLogger("msmq.web")
_audit = logging.getLogger("msmq.audit")


def table() -> Table:
    """Return the table of all operations."""
    parts = (
        hosts,
        login_calls,
        access_calls,
        queues,
        messages,
        streams,
        job_calls,
        definition_calls,
        directory_calls,
        alarm_calls,
        metrics,
    )
    return Table([operation for part in parts for operation in part.TABLE.operations])


def _issuer(web: WebSettings) -> Issuer | None:
    """Return the issuer that users can log in with. It is imported only when needed, because that takes long."""
    if not web.oidc_issuer:
        return None
    from msmq.web.oidc import Issuer

    return Issuer(web)


class Console:
    """A running console."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        web = plan.web
        state = Path(plan.state) if plan.state else None
        if state is not None:
            state.mkdir(parents=True, exist_ok=True)
        self._people = People(tuple(plan.hosts), self._connection, web.roles)
        audit = Audit(state / "audit.jsonl" if state is not None else None)
        self._jobs = Jobs(audit)
        self._alarms = Alarms(
            lambda host: self._people.connection(host, Credential()),
            tuple(plan.hosts),
            web.smtp,
            web.mail_from,
        )
        self.around = Surroundings(
            self._people,
            audit,
            Guesses(time.monotonic, _audit.warning),
            Pace(time.monotonic, web.requests_per_second, web.requests_at_once),
            tls=web.tls,
            metrics_open=web.metrics_open,
            state=state,
            certificates=plan.certificates,
            issuer=_issuer(web),
            oidc_redirect=web.oidc_redirect,
            parts={"jobs": self._jobs, "alarms": self._alarms, "tallies": Tallies()},
        )
        self.gate = Gate(
            Crowding(connections=1_000, per_address=200, opening=100), asyncio.get_running_loop, _log.warning
        )
        self._door = Door(build(self.around, table()), self.gate)

    def _connection(self, host: str, credential: Credential) -> Connection:
        """Make a connection in a user's name; without a credential in the console's own, for metrics and alarms."""
        address = self._plan.hosts[host]
        tls = Tls(self._plan.authorities) if self._plan.authorities and address.startswith("tls:") else None
        token = credential.token or (self._plan.token if not credential.sid else "")
        if address.startswith("unix:"):
            act_as = f"Bearer {token}" if token else credential.sid
            return connect(address, act_as=act_as, timeout=_TIMEOUT_S)
        return connect(address, token=token or None, timeout=_TIMEOUT_S, tls=tls)

    async def open(self, sockets: list[socket.socket]) -> None:
        web = self._plan.web
        await self._door.open(sockets, context(*web.files()) if web.tls else None)
        self._alarms.start()

    async def close(self) -> None:
        await self._door.close()
        await self._alarms.close()
        await self._jobs.close()
        await self._people.close()


async def run(plan: Plan, sockets: list[socket.socket], over: asyncio.Event) -> None:
    """Serve until ``over`` is set."""
    console = Console(plan)
    await console.open(sockets)
    try:
        await over.wait()
    finally:
        await console.close()


async def _main() -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    plan = Plan.from_json((await reader.readline()).decode())
    set_up(plan.log_level, plan.log_format)
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, over.set)

    async def until_left_alone() -> None:
        await reader.read()
        over.set()

    watching = loop.create_task(until_left_alone())
    sockets = [socket.socket(fileno=descriptor) for descriptor in plan.sockets]
    try:
        await run(plan, sockets, over)
    finally:
        watching.cancel()


def main() -> None:
    asyncio.run(_main())


if __name__ == "__main__":
    main()
