"""The command line: ``msmq COMMAND``.

Each command is a module that imports nothing heavy: its work is imported when it runs, so that
``msmq --help`` stays quick however many commands there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from msmq import __version__
from msmq.cli import (
    certificate,
    config,
    dead_letter,
    decode,
    demo,
    directory,
    manager,
    message,
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
from msmq.cli.calls import MISUSED, Server, end

__all__ = ["app", "main"]

HELP = (
    "OpenMSMQ: Microsoft Message Queuing, wire-compatible.\n\n"
    "Start with 'msmq demo', then 'msmq serve' in one terminal and in another:\n\n"
    "  msmq queue create '.\\private$\\orders'\n\n"
    "  msmq send '.\\private$\\orders' --body 'two coffees'\n\n"
    "  msmq receive '.\\private$\\orders'"
)
_MESSAGES, _LOOKING_AFTER, _RUNNING = "Messages", "Looking after queues", "Running"

_Misuse: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""A command that was written wrongly. Typer has the class from its Click and shows only this child of it."""


class _OneLine(TyperGroup):
    """Wrong use is said in one line, as every other error is: scripts read it."""

    def make_context(self, info_name: Any, args: list[str], *arguments: Any, **extra: Any) -> Any:
        try:
            return super().make_context(info_name, _server_first(args), *arguments, **extra)
        except _Misuse as error:
            _refuse(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _Misuse as error:
            _refuse(error)


def _server_first(arguments: list[str]) -> list[str]:
    """Where the queue manager is may stand behind the command too, where people write it."""
    first: list[str] = []
    rest: list[str] = []
    given = iter(arguments)
    for argument in given:
        if argument == "--":
            rest += [argument, *given]
        elif argument == "--server" and rest and (value := next(given, None)) is not None:
            first += [argument, value]
        elif argument.startswith("--server=") and rest:
            first.append(argument)
        else:
            rest.append(argument)
    return first + rest


def _refuse(error: Any) -> NoReturn:
    # A group without a command has shown its help by now; Typer itself knows the case by this name.
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    command = error.ctx.command_path if error.ctx is not None else "msmq"
    end(command, f"{error.format_message().rstrip('.')}. See {command} --help.", MISUSED)


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
app.add_typer(manager.app, name="manager", rich_help_panel=_LOOKING_AFTER)
app.add_typer(certificate.app, name="certificate", rich_help_panel=_LOOKING_AFTER)
app.add_typer(token.app, name="token", rich_help_panel=_LOOKING_AFTER)
app.command("top", help=top.HELP, short_help="Watch queues live.", rich_help_panel=_LOOKING_AFTER)(top.top)
app.command("ping", help=ping.HELP, short_help="Is a queue manager there?", rich_help_panel=_LOOKING_AFTER)(
    ping.ping
)
app.command("serve", help=serve.HELP, short_help="Run a queue manager.", rich_help_panel=_RUNNING)(
    serve.serve
)
app.command("demo", help=demo.HELP, short_help="Show what it does.", rich_help_panel=_RUNNING)(demo.demo)
app.command(
    "decode",
    help=decode.HELP,
    short_help="Show what MSMQ packets say, field by field.",
    rich_help_panel=_RUNNING,
)(decode.decode)
app.add_typer(config.app, name="config", rich_help_panel=_RUNNING)
app.add_typer(directory.app, name="directory", rich_help_panel=_RUNNING)
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
    """Options that stand before the command."""
    ctx.obj = Server(server, token, tls_ca, tls_certificate, tls_key, connect_timeout)


def main() -> None:
    """The entry point of the ``msmq`` command."""
    app(prog_name="msmq")
