"""Shared by the commands about a domain: the configuration, the acting user, and one line for each error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from msmq.directory.join import Joining

REFUSED = 1
UNUSABLE = 2

ConfigFile = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="The configuration.", show_default=False)
]
AsUser = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="USER",
        help="Act as USER@REALM instead of as this host. The password is asked for, or read from the first line of "
        "standard input when that is no terminal.",
    ),
]


@contextmanager
def joining(file: Path, user: str) -> Iterator[Joining]:
    """Open the directory that a configuration names, as this host or as ``user``."""
    from dataclasses import replace

    from msmq.directory.settings import Password
    from msmq.server.config import ConfigError, load
    from msmq.server.membership import reach

    config = load(file)
    if config.directory.wanted != "ldap":
        raise ConfigError(
            f'{file}: there is no domain in it: [directory] needs domain = "corp.example", or '
            'servers = ["dc1.corp.example"].'
        )
    directory = reach(config.directory)
    if user:
        settings = replace(directory.connection.settings, credential=Password(user, _password()))
        directory.connection.settings = settings

    from msmq.directory.join import Joining

    with directory.held():
        yield Joining(directory, config.name)


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    asked: str = typer.prompt("Password", hide_input=True)
    return asked


@contextmanager
def refusals() -> Iterator[None]:
    """Report errors in one line, with an exit status."""
    from msmq.errors import MsmqError
    from msmq.server.config import ConfigError

    try:
        yield
    except (MsmqError, OSError) as error:
        print(f"msmq directory: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE if isinstance(error, ConfigError) else REFUSED) from error
