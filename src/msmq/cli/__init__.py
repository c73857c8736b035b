"""The command line: ``msmq COMMAND``.

Each command is a module that imports nothing heavy: its work is imported when it runs, so that
``msmq --help`` stays quick however many commands there are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from msmq import __version__
from msmq.cli import (
    capture,
    certificate,
    config,
    dead_letter,
    decode,
    definitions,
    demo,
    directory,
    ha,
    manager,
    message,
    migrate,
    outgoing,
    ping,
    pipeline,
    queue,
    serve,
    store,
    token,
    top,
    user,
)
from msmq.cli.calls import MISUSED, REFUSED, Server, end

__all__ = ["app", "main"]

HELP = (
    "OpenMSMQ: Microsoft Message Queuing, wire-compatible.\n\n"
    "Start with 'msmq demo', then 'msmq serve' in one terminal and in another:\n\n"
    "  msmq queue create '.\\private$\\orders'\n\n"
    "  msmq send '.\\private$\\orders' --body 'two coffees'\n\n"
    "  msmq receive '.\\private$\\orders'"
)
_MESSAGES, _LOOKING_AFTER, _RUNNING = "Messages", "Looking after queues", "Running"

_NUMBERS: Final = {"int": "integer", "float": "number"}
"""Typer's Python names of number types, and the words that people use."""

_EXTRAS: Final = {
    "asyncpg": "ha",
    "celery": "celery",
    "dns": "directory,kerberos",
    "dpkt": "capture",
    "joserfc": "web",
    "kombu": "celery",
    "krb5": "kerberos",
    "ldap3": "directory,kerberos",
    "numpy": "spark",
    "opentelemetry": "telemetry",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "starlette": "web",
    "uvicorn": "web",
    "yaml": "web",
}
"""Modules that a plain install lacks, and the extra that installs each."""

_DOOR: Final = frozenset(
    {"--server", "--token", "--tls-ca", "--tls-certificate", "--tls-key", "--connect-timeout"}
)
"""Options that apply to all commands. No command has its own option of this name."""

_Misuse: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""The exception for a wrong command line, from the Click inside Typer, which exports only this subclass of it."""


class _OneLine(TyperGroup):
    """Reports wrong use in one line, like every other error, because scripts read it."""

    def make_context(self, info_name: Any, args: list[str], *arguments: Any, **extra: Any) -> Any:
        try:
            return super().make_context(info_name, _door_first(args), *arguments, **extra)
        except _Misuse as error:
            _refuse(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _Misuse as error:
            _refuse(error)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in _EXTRAS:
                raise
            told = (
                f"this needs {missing}, which is not installed; try: pip install 'msmq[{_EXTRAS[missing]}]'"
            )
            end("msmq", told, REFUSED)


def _door_first(arguments: list[str]) -> list[str]:
    """Move options for the queue manager's address and credentials in front of the command: people also write them
    after it. An option after the command overrides the same one before it."""
    command = 0
    while command < len(arguments) and arguments[command].startswith("-"):
        command += 2 if arguments[command] in _DOOR else 1
    moved: list[str] = []
    rest: list[str] = []
    given = iter(arguments[command:])
    for argument in given:
        if argument == "--":
            rest += [argument, *given]
        elif argument in _DOOR and (value := next(given, None)) is not None:
            moved += [argument, value]
        elif argument.partition("=")[0] in _DOOR and "=" in argument:
            moved.append(argument)
        else:
            rest.append(argument)
    return [*arguments[:command], *moved, *rest]


def _refuse(error: Any) -> NoReturn:
    # The help of a group without a command has been shown by now; Typer recognizes this exception by its name.
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    command = error.ctx.command_path if error.ctx is not None else "msmq"
    message = error.format_message().rstrip(".")
    for kind, name in _NUMBERS.items():
        message = re.sub(rf"is not a valid {kind}\b( range)?", f"is not a valid {name}", message)
    if not message.endswith("?"):
        message += "."
    end(command, f"{message} See {command} --help.", MISUSED)


app = typer.Typer(
    name="msmq",
    cls=_OneLine,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
message.register(app, _MESSAGES)
app.add_typer(message.app, name="message", rich_help_panel=_MESSAGES)
app.add_typer(dead_letter.app, name="dead-letter", rich_help_panel=_MESSAGES)
app.add_typer(queue.app, name="queue", rich_help_panel=_LOOKING_AFTER)
app.add_typer(outgoing.app, name="outgoing", rich_help_panel=_LOOKING_AFTER)
app.command(
    "status", help=manager.STATUS_HELP, short_help="How is the queue manager?", rich_help_panel=_LOOKING_AFTER
)(manager.show)
app.add_typer(manager.app, name="manager", rich_help_panel=_LOOKING_AFTER)
app.add_typer(certificate.app, name="certificate", rich_help_panel=_LOOKING_AFTER)
app.add_typer(token.app, name="token", rich_help_panel=_LOOKING_AFTER)
app.add_typer(definitions.app, name="definitions", rich_help_panel=_LOOKING_AFTER)
app.command("top", help=top.HELP, short_help="Watch queues live.", rich_help_panel=_LOOKING_AFTER)(top.top)
app.command("ping", help=ping.HELP, short_help="Is a queue manager there?", rich_help_panel=_LOOKING_AFTER)(
    ping.ping
)
app.command("serve", help=serve.HELP, short_help="Run a queue manager.", rich_help_panel=_RUNNING)(
    serve.serve
)
app.command("demo", help=demo.HELP, short_help="Show what it does.", rich_help_panel=_RUNNING)(demo.demo)
app.add_typer(migrate.app, name="migrate", rich_help_panel=_LOOKING_AFTER)
app.add_typer(capture.app, name="capture", rich_help_panel=_RUNNING)
app.command(
    "decode",
    help=decode.HELP,
    short_help="Show what MSMQ packets say, field by field.",
    rich_help_panel=_RUNNING,
)(decode.decode)
app.add_typer(config.app, name="config", rich_help_panel=_RUNNING)
app.add_typer(directory.app, name="directory", rich_help_panel=_RUNNING)
app.add_typer(ha.app, name="ha", rich_help_panel=_RUNNING)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=_RUNNING)
app.add_typer(store.app, name="store", rich_help_panel=_RUNNING)
app.add_typer(user.app, name="user", rich_help_panel=_RUNNING)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"msmq {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            envvar="MSMQ_SERVER",
            metavar="unix:PATH|HOST:PORT",
            help="Where the queue manager is; tls:HOST:PORT for one on another computer. The usual socket when "
            "not given.",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="MSMQ_TOKEN", help="Token that lets you in.", show_default=False)
    ] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who signed the server's certificate (PEM).")
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your certificate (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key (PEM).")] = None,
    connect_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait for the queue manager.")
    ] = 10.0,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take the options before the command."""
    ctx.obj = Server(server, token, tls_ca, tls_certificate, tls_key, connect_timeout)


def main() -> None:
    """The entry point of the ``msmq`` command."""
    app(prog_name="msmq")
