"""The command line: ``msmq COMMAND``.

Each command is a module that imports nothing heavy: its work is imported when it runs, so that
``msmq --help`` stays quick however many commands there are.
"""

from __future__ import annotations

from typing import Annotated

import typer

from msmq import __version__
from msmq.cli import config, decode, serve, store, user

__all__ = ["app", "main"]

app = typer.Typer(
    name="msmq",
    help="OpenMSMQ: Microsoft Message Queuing, wire-compatible.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("decode", help=decode.HELP, short_help="Show what MSMQ packets say, field by field.")(
    decode.decode
)
app.command("serve", help=serve.HELP, short_help="Run a queue manager.")(serve.serve)
app.add_typer(config.app, name="config")
app.add_typer(store.app, name="store")
app.add_typer(user.app, name="user")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"msmq {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that stand before the command."""


def main() -> None:
    """The entry point of the ``msmq`` command."""
    app(prog_name="msmq")
