"""``msmq config``: show the configuration of a queue manager. The work is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

UNUSABLE = 2

HELP = "Look at the configuration of a queue manager."
SHOW_HELP = (
    "Show every option with what it means, as a file that 'msmq serve --config' takes.\n\n"
    "Status: 0, or 2 when FILE could not be read.\n\nExamples:\n\n  msmq config show --defaults > msmq.toml"
)

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep this a group, although it has only one command."""


@app.command(help=SHOW_HELP, short_help="Show every option with what it means.")
def show(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The configuration to show, instead of the defaults.")
    ] = None,
    defaults: Annotated[bool, typer.Option("--defaults", help="Show the defaults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    from msmq.server.config import ConfigError, load, served
    from msmq.server.config import show as text

    try:
        chosen = served() if config is None or defaults else load(config)
    except ConfigError as error:
        print(f"msmq config: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from error
    shown = text(chosen)
    if as_json:
        import tomllib

        from msmq.cli.output import print_json

        print_json(tomllib.loads(shown))
    else:
        print(shown, end="")
