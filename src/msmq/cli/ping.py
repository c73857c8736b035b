"""``msmq ping``: test whether a queue manager can be reached. The work is imported when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from msmq.cli.calls import REFUSED, Json, fail, guarded

HELP = (
    "Ask another host whether a queue manager is there and would take a session.\n\n"
    "Twice: by a ping (UDP 3527, MS-MQQB 3.1.7.6), which queue managers since Windows Vista do not answer unless they "
    "were told to, and by opening a session (TCP 1801) and closing it again. The session counts. No queue manager "
    "needs to run here.\n\nExamples:\n\n"
    "  msmq ping server7\n\n  msmq ping 10.0.0.7 --timeout 2 --json\n\n"
    "Status: 0 when a session can be opened, 1 when not."
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of the ping or of the session."""

    answered: bool
    detail: str
    milliseconds: float | None = None


def ping(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(metavar="HOST", help="Name or address.", show_default=False)],
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Longest wait for each.")] = 5.0,
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port of sessions.")] = 1801,
    ping_port: Annotated[int, typer.Option(min=1, max=65535, help="UDP port of pings.")] = 3527,
    as_json: Json = False,
) -> None:
    import asyncio

    from msmq.cli.output import print_json

    async def both() -> tuple[Reply, Reply]:
        datagram, session = await asyncio.gather(
            _by_datagram(host, ping_port, timeout), _by_session(host, port, timeout)
        )
        return datagram, session

    datagram, session = guarded(ctx, lambda: asyncio.run(both()))
    if as_json:
        print_json({"host": host, "ping": datagram, "session": session})
    else:
        _print(f"ping     UDP {ping_port}", datagram)
        _print(f"session  TCP {port}", session)
    if not session.answered:
        fail(
            ctx,
            f"no session with {host} port {port}: {session.detail}. Is a queue manager running there, and is TCP "
            f"{port} open on the way?",
            REFUSED,
        )


def _print(what: str, reply: Reply) -> None:
    took = f" in {reply.milliseconds:.1f} ms" if reply.milliseconds is not None else ""
    print(f"{what}  {reply.detail}{took}")


def _words(error: OSError) -> str:
    import os

    return (
        os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error.strerror or error)
    )


async def _by_datagram(host: str, port: int, timeout_s: float) -> Reply:
    import os
    from time import perf_counter

    from msmq.server.ping_responder import ping
    from msmq.transfer.ping import PingCookies

    start = perf_counter()
    try:
        welcome = await ping(host, port, PingCookies(), os.urandom(16), int(timeout_s * 1000), None, False)
    except OSError as error:
        return Reply(False, _words(error))
    if not welcome:
        return Reply(False, "no answer, which is usual: pings are off unless somebody switched them on")
    return Reply(True, "answered", round((perf_counter() - start) * 1000, 1))


async def _by_session(host: str, port: int, timeout_s: float) -> Reply:
    """Open a session like a queue manager without a name, and close it."""
    import asyncio
    import os
    from time import perf_counter

    from msmq.server.alarm import now_ms
    from msmq.transfer.events import Closed, Established
    from msmq.transfer.session import Session, SessionConfig
    from msmq.transfer.states import Role
    from msmq.wire.guid import guid_text

    session: Session[None] = Session(Role.INITIATOR, SessionConfig(os.urandom(16)), now_ms())
    start = perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                session.connected(now_ms())
                while True:
                    writer.writelines(session.data_to_send())
                    data = await reader.read(65536)
                    events = session.receive_data(data, now_ms()) if data else session.disconnected(now_ms())
                    for event in events:
                        if isinstance(event, Established):
                            took_ms = round((perf_counter() - start) * 1000, 1)
                            return Reply(True, f"opened with {guid_text(event.remote_guid)}", took_ms)
                        if isinstance(event, Closed):
                            return Reply(
                                False, f"the session was refused: {event.detail or event.reason.value}"
                            )
            finally:
                writer.close()
    except TimeoutError:
        return Reply(False, f"no answer in {timeout_s:g} seconds")
    except OSError as error:
        return Reply(False, _words(error))
