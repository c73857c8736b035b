"""``msmq serve``: run a queue manager. The work is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from msmq.server.config import ApiConfig, Config
    from msmq.server.daemon import Daemon

FAILED = 1
UNUSABLE = 2

HELP = (
    "Run a queue manager until it is told to stop.\n\n"
    "A line that begins with 'ready' on standard output says that every door is open; logs go to standard "
    "error. SIGTERM and SIGINT stop it in an orderly way, SIGHUP reads the configuration again. The first start "
    "creates the queue manager in DIR.\n\n"
    "Status: 0 after an orderly stop, 1 when the disk failed, 2 when it could not start.\n\nExamples:\n\n"
    "  msmq serve --data /var/lib/msmq --name ORDERS-1 --listen 10.0.0.5\n\n"
    "  msmq serve --config /etc/msmq/msmq.toml"
)


def serve(
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of everything the queue manager keeps.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of this computer.")] = None,
    listen: Annotated[
        list[str] | None, typer.Option(metavar="ADDR", help="Address to listen on; may be repeated.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="TCP port of sessions, 1801; 0 for none.")] = None,
    ping_port: Annotated[int | None, typer.Option(help="UDP port of pings, 3527; 0 for none.")] = None,
    api: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDR",
            help="Where applications connect: unix:PATH, HOST:PORT or tls:HOST:PORT; may be repeated; none for "
            "nowhere. The usual socket when not given.",
        ),
    ] = None,
    rpc_port: Annotated[
        int | None,
        typer.Option(help="TCP port of remote read, 2103, or the next free one in steps of 11; 0 for none."),
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Let callers on TCP in without a token or certificate.")
    ] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration, as TOML.")] = None,
) -> None:
    import asyncio

    from msmq.errors import MsmqError

    def settings() -> Config:
        return _settings(config, data, name, listen, port, ping_port, api, rpc_port, allow_anonymous)

    try:
        with asyncio.Runner(loop_factory=_quick_loop()) as runner:
            failed = runner.run(_run(settings))
    except (MsmqError, OSError) as error:
        print(f"msmq serve: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from error
    raise typer.Exit(FAILED if failed else 0)


def _quick_loop() -> Callable[[], AbstractEventLoop] | None:
    """The loop of uvloop, which does the same in less time, where there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _settings(
    file: Path | None,
    data: Path | None,
    name: str | None,
    listen: list[str] | None,
    port: int | None,
    ping_port: int | None,
    api: list[str] | None,
    rpc_port: int | None,
    allow_anonymous: bool,
) -> Config:
    """The file, and on top of it what the command line says."""
    from dataclasses import replace

    from msmq.server.config import load, served

    given = {
        "data": data,
        "name": name,
        "listen": tuple(listen) if listen else None,
        "port": port,
        "ping_port": ping_port,
    }
    base = load(file) if file is not None else served()
    base = replace(base, api=_channel(base.api, api))
    if allow_anonymous:
        base = replace(base, api=replace(base.api, allow_anonymous=True))
    if rpc_port is not None:
        base = replace(base, rpc=replace(base.rpc, port=rpc_port))
    return replace(base, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]


def _channel(config: ApiConfig, given: list[str] | None) -> ApiConfig:
    """Where applications connect: as the command line says, else as the file says, else the usual socket."""
    from dataclasses import replace

    from msmq.api.addresses import usual_address

    if given == ["none"]:
        return replace(config, enabled=False)
    if given:
        return replace(config, enabled=True, listen=tuple(given))
    return config if config.listen else replace(config, listen=(usual_address(),))


def _without_taken_socket(config: Config) -> Config:
    """The usual socket belongs to the first queue manager of this user; another one runs without."""
    from dataclasses import replace

    from msmq.api.addresses import usual_address, usual_socket
    from msmq.api.relay import is_served

    if not config.api.enabled or config.api.listen != (usual_address(),):
        return config
    if not usual_address().startswith("unix:") or not is_served(usual_socket()):
        return config
    print(
        f"msmq serve: another queue manager serves {usual_socket()}; applications cannot reach this one. Give it a "
        "socket of its own with --api unix:PATH.",
        file=sys.stderr,
    )
    return replace(config, api=replace(config.api, enabled=False))


async def _run(settings: Callable[[], Config]) -> bool:
    """Serve until a signal comes; gives whether the disk failed."""
    from msmq.server.daemon import Daemon, tune_process
    from msmq.server.logs import set_up
    from msmq.server.readiness import notify

    config = _without_taken_socket(settings())
    set_up(config.log_level, config.log_format)
    tune_process()
    daemon = Daemon(config)
    await daemon.start()
    _heed_signals(daemon, settings)
    doors = ", ".join(config.listen)
    channel = "".join(f", {address}" for address in (daemon.door.addresses if daemon.door else ()))
    remote = f", remote read port {daemon.remote_read.service.port}" if daemon.remote_read else ""
    print(f"ready {config.name}: {doors} port {config.port}{channel}{remote}", flush=True)
    notify("READY=1")
    await daemon.stopping.wait()
    notify("STOPPING=1")
    await daemon.stop()
    return daemon.failure is not None


def _heed_signals(daemon: Daemon, settings: Callable[[], Config]) -> None:
    """Stop when asked to, reload on SIGHUP. Windows' loops know no signals, and Windows no SIGHUP."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGBREAK):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(daemon.stopping.set))
    else:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, daemon.stopping.set)
        loop.add_signal_handler(signal.SIGHUP, _reload, daemon, settings)


def _reload(daemon: Daemon, settings: Callable[[], Config]) -> None:
    """SIGHUP: read the configuration again. A file that cannot be used changes nothing."""
    import logging

    from msmq.errors import MsmqError
    from msmq.server.logs import set_up

    log = logging.getLogger("msmq.cli.serve")
    try:
        left = daemon.reload(settings())
    except MsmqError as error:
        log.error("the configuration stays as it was: %s", error)
        return
    set_up(daemon.config.log_level, daemon.config.log_format)
    needs = f"; only a restart changes {', '.join(left)}" if left else ""
    log.info("configuration read again%s", needs)
