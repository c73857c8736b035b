"""``msmq serve``: run a queue manager. The work is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Event, Task
    from collections.abc import Callable

    from msmq.server.config import ApiConfig, Config
    from msmq.server.daemon import Daemon
    from msmq.web.supervisor import Supervisor

FAILED = 1
UNUSABLE = 2

HELP = (
    "Run a queue manager until it is told to stop.\n\n"
    "A line that begins with 'ready' on standard output says that every door is open; logs go to standard "
    "error. SIGTERM and SIGINT stop it in an orderly way, SIGHUP reads the configuration again. The first start "
    "creates the queue manager in DIR. Every option of the file may be an environment variable: MSMQ_CONFIG_LOG_FORMAT "
    "for log_format, MSMQ_CONFIG_API__LISTEN for listen of \\[api], MSMQ_CONFIG for the file itself.\n\n"
    "Status: 0 after an orderly stop, 1 when the disk failed, 2 when it could not start.\n\nExamples:\n\n"
    "  msmq serve --data /var/lib/msmq --name ORDERS-1 --listen 10.0.0.5\n\n"
    "  msmq serve --config /etc/msmq/msmq.toml\n\n"
    "  msmq serve --name ORDERS --store postgresql://msmq@db1,db2,db3/queues   (on two or three computers)"
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
    web: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="MSMQ_WEB",
            help="Where the console is, 127.0.0.1:1811 when not given; none for nowhere.",
            show_default=False,
        ),
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Let callers on TCP in without a token or certificate.")
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="PostgreSQL that has the log, for several instances of which one leads: "
            "postgresql://USER@HOST1,HOST2/DATABASE. In DIR when not given.",
        ),
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(help="Name of this instance, with --store; that of the computer when not given."),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where /live, /ready and /leader answer, with --store."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", envvar="MSMQ_CONFIG", help="Configuration, as TOML.")
    ] = None,
) -> None:
    import asyncio
    from dataclasses import replace

    from msmq.errors import MsmqError

    def settings() -> Config:
        shared = {"store": store, "instance": instance, "health": health}
        given = _settings(config, data, name, listen, port, ping_port, api, rpc_port, allow_anonymous, shared)
        return given if web is None else replace(given, web=replace(given.web, listen=web))

    try:
        with asyncio.Runner(loop_factory=_quick_loop()) as runner:
            failed = runner.run(_run(settings))
    except (MsmqError, OSError) as error:
        print(f"msmq serve: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from error
    raise typer.Exit(FAILED if failed else 0)


def _quick_loop() -> Callable[[], AbstractEventLoop] | None:
    """The event loop of uvloop, which is quicker, if it is installed."""
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
    shared: dict[str, Any],
) -> Config:
    """The settings of the file, overridden by the environment, and both overridden by the command line."""
    import os
    from dataclasses import replace

    from msmq.server.config import load, served
    from msmq.server.environment import with_environment

    given = {
        "data": data,
        "name": name,
        "listen": tuple(listen) if listen else None,
        "port": port,
        "ping_port": ping_port,
    }
    base = with_environment(load(file) if file is not None else served(), os.environ)
    base = replace(base, api=_channel(base.api, api))
    if allow_anonymous:
        base = replace(base, api=replace(base.api, allow_anonymous=True))
    base = replace(
        base, ha=replace(base.ha, **{key: value for key, value in shared.items() if value is not None})
    )
    if rpc_port is not None:
        base = replace(base, rpc=replace(base.rpc, port=rpc_port))
    return replace(base, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]


def _channel(config: ApiConfig, given: list[str] | None) -> ApiConfig:
    """The channel's addresses: from the command line, else from the file, else the usual socket."""
    from dataclasses import replace

    from msmq.api.addresses import usual_address

    if given == ["none"]:
        return replace(config, enabled=False)
    if given:
        return replace(config, enabled=True, listen=tuple(given))
    return config if config.listen else replace(config, listen=(usual_address(),))


def _without_taken_socket(config: Config) -> Config:
    """Disable the channel if it would be at the usual socket, and another queue manager of this user serves that
    already."""
    from dataclasses import replace

    from msmq.api import inherited
    from msmq.api.addresses import usual_address, usual_socket
    from msmq.api.relay import is_served

    if not config.api.enabled or config.api.listen != (usual_address(),):
        return config
    if not usual_address().startswith("unix:") or inherited.is_at(usual_socket()):
        return config
    if not is_served(usual_socket()):
        return config
    print(
        f"msmq serve: another queue manager serves {usual_socket()}; applications cannot reach this one. Give it a "
        "socket of its own with --api unix:PATH.",
        file=sys.stderr,
    )
    return replace(config, api=replace(config.api, enabled=False))


async def _run(settings: Callable[[], Config]) -> bool:
    """Serve until a signal comes. Returns whether the disk failed."""
    from msmq.server.allocator import give_back_freed_memory
    from msmq.server.daemon import Daemon, tune_process
    from msmq.server.logs import set_up
    from msmq.server.readiness import notify, patience

    config = _without_taken_socket(settings())
    set_up(config.log_level, config.log_format)
    tune_process()
    if config.ha.store:
        return await _run_instance(config, settings)
    daemon = Daemon(config)
    async with patience():
        await daemon.start()
    give_back_freed_memory()  # of what the log was read with
    _heed_signals(daemon.stopping, lambda: daemon, settings)
    console = _console(config, daemon)
    _say_ready(daemon, console[1] if console else "")
    await daemon.stopping.wait()
    notify("STOPPING=1")
    if console is not None:
        await console[0].close()
    await daemon.stop()
    return daemon.failure is not None


async def _run_instance(config: Config, settings: Callable[[], Config]) -> bool:
    """Lead and wait in turn until a signal comes. Returns whether something failed."""
    from msmq.api import inherited
    from msmq.server.available import Availability
    from msmq.server.config import ConfigError
    from msmq.server.readiness import notify

    if inherited.are_there():  # a client of a waiting instance would wait too, instead of going to the leader
        raise ConfigError(
            "With --store the doors are open only while this instance leads: start it without a socket unit."
        )

    available, turns = Availability(config), _Turns(config)
    available.waits = turns.wait
    available.serves = turns.serve
    _heed_signals(available.stopping, lambda: available.daemon, settings)
    notify("READY=1")
    try:
        return await available.run()
    finally:
        await turns.over()


class _Turns:
    """Reports whether an instance leads or waits, and runs a console while it leads."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._console: Supervisor | None = None
        self._closing: set[Task[None]] = set()

    def wait(self) -> None:
        self._close()
        print(f"standby {self._config.name}: {self._config.ha.instance}", flush=True)

    def serve(self, daemon: Daemon) -> None:
        opened = _console(self._config, daemon)
        if opened is not None:
            self._console = opened[0]
        _say_ready(daemon, opened[1] if opened else "")

    def _close(self) -> None:
        import asyncio

        if self._console is not None:
            self._closing.add(asyncio.ensure_future(self._console.close()))
            self._console = None

    async def over(self) -> None:
        """Close what is still open."""
        import asyncio

        self._close()
        await asyncio.gather(*self._closing, return_exceptions=True)


def _say_ready(daemon: Daemon, console: str = "") -> None:
    from msmq.server.readiness import notify

    config = daemon.config
    doors = ", ".join(config.listen)
    channel = "".join(f", {address}" for address in (daemon.door.addresses if daemon.door else ()))
    remote = f", remote read port {daemon.remote_read.service.port}" if daemon.remote_read else ""
    shown = f", console {console}" if console else ""
    print(f"ready {config.name}: {doors} port {config.port}{channel}{remote}{shown}", flush=True)
    notify("READY=1")


def _console(config: Config, daemon: Daemon) -> tuple[Supervisor, str] | None:
    """Open the console; returns it with its address. It needs the channel and the packages of the extra `web`. If
    something is missing that is reported, and the queue manager runs without a console."""
    import logging
    from importlib.util import find_spec

    from msmq.server.web_settings import WebError
    from msmq.web.plan import Plan
    from msmq.web.supervisor import Supervisor

    if not config.web.wanted or daemon.door is None or sys.platform == "win32":
        return None
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        logging.getLogger("msmq.cli.serve").info("no console: it needs `pip install msmq[web]`")
        return None
    web = config.web
    if web.exposed and not web.tls:
        from msmq.web.own_certificate import with_own_certificate

        web = with_own_certificate(web, config.data / "web", config.name)
    plan = Plan(
        web,
        {config.name: daemon.door.addresses[0], **config.web.hosts},
        dict(config.api.certificates),
        str(config.data / "web"),
        log_level=config.log_level,
        log_format=config.log_format,
    )
    supervisor = Supervisor(plan)
    try:
        return supervisor, supervisor.open()
    except WebError as error:
        print(f"msmq serve: {error} This queue manager runs without a console.", file=sys.stderr)
        return None


def _heed_signals(
    stopping: Event, running: Callable[[], Daemon | None], settings: Callable[[], Config]
) -> None:
    """Stop on SIGTERM and SIGINT, reload on SIGHUP. Event loops on Windows have no signal handlers, and Windows no
    SIGHUP."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGBREAK):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopping.set))
    else:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, _reload, running, settings)


def _reload(running: Callable[[], Daemon | None], settings: Callable[[], Config]) -> None:
    """Handle SIGHUP: read the configuration again. An unusable file changes nothing."""
    import logging

    from msmq.errors import MsmqError
    from msmq.server.logs import set_up

    log = logging.getLogger("msmq.cli.serve")
    daemon = running()
    if daemon is None:
        log.info("a standby has nothing to reload")
        return
    try:
        left = daemon.reload(settings())
    except MsmqError as error:
        log.error("the configuration stays as it was: %s", error)
        return
    set_up(daemon.config.log_level, daemon.config.log_format)
    needs = f"; only a restart changes {', '.join(left)}" if left else ""
    log.info("configuration read again%s", needs)
