"""``msmq user``: the local accounts of a host without a domain. The work is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msmq.cli.calls import with_examples

if TYPE_CHECKING:
    from msmq.security.sid import Sid

REFUSED = 1

HELP = (
    "Manage the local accounts that may read queues from other hosts.\n\n"
    "FILE holds them, FILE.key the key that opens it; both are for their owner alone. A running queue manager "
    "sees a change at the next authentication."
)
ADD_HELP = (
    "Add an account.\n\n"
    "The password is asked for twice, or read from the first line of standard input when that is no terminal. "
    "A group is a SID or the name of a well-known one, for example BUILTIN_ADMINISTRATORS.\n\n"
    "Status: 0, or 1 when the account cannot be added.\n\nExamples:\n\n"
    "  msmq user add /var/lib/msmq/accounts alice --group BUILTIN_ADMINISTRATORS"
)
_File = Annotated[Path, typer.Argument(metavar="FILE", help="The account file.", show_default=False)]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the account.", show_default=False)]

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.command(help=ADD_HELP, short_help="Add an account.")
def add(
    file: _File,
    name: _Name,
    group: Annotated[
        list[str] | None, typer.Option(metavar="SID", help="Group of the account; may be repeated.")
    ] = None,
) -> None:
    from msmq.rpc.accounts import AccountFile

    with _refusals():
        groups = [_group(text) for text in group or ()]
        account = AccountFile(file).add(name, _password(), groups)
        print(f"{account.name} {account.sid}")


@app.command(
    help=with_examples("Set a new password.", "msmq user password /var/lib/msmq/accounts alice"),
    short_help="Set a new password.",
)
def password(file: _File, name: _Name) -> None:
    from msmq.rpc.accounts import AccountFile

    with _refusals():
        AccountFile(file).set_password(name, _password())


@app.command(
    help=with_examples(
        "Remove an account. Its SID is not given out again while a later one is there.",
        "msmq user remove /var/lib/msmq/accounts alice",
    )
)
def remove(file: _File, name: _Name) -> None:
    from msmq.rpc.accounts import AccountFile

    with _refusals():
        AccountFile(file).remove(name)


@app.command(
    "list",
    help=with_examples(
        "Show the accounts: name, SID, groups.", "msmq user list /var/lib/msmq/accounts --json"
    ),
)
def list_(
    file: _File,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one object per line.")] = False,
) -> None:
    from msmq.cli.output import print_json
    from msmq.rpc.accounts import AccountFile

    with _refusals():
        for account in AccountFile(file).accounts():
            if as_json:
                groups = [str(group) for group in account.groups]
                print_json({"name": account.name, "sid": str(account.sid), "groups": groups})
                continue
            print(" ".join((account.name, str(account.sid), *map(str, account.groups))))


def _group(text: str) -> Sid:
    from msmq.security.sid import WELL_KNOWN, Sid

    return WELL_KNOWN.get(text.upper()) or Sid.parse(text)


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return asked


@contextmanager
def _refusals() -> Iterator[None]:
    from msmq.errors import MsmqError

    try:
        yield
    except (MsmqError, OSError) as error:
        print(f"msmq user: {error}", file=sys.stderr)
        raise typer.Exit(REFUSED) from error
