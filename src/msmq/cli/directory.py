"""``msmq directory``: a host and its directory. The work is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msmq.cli.calls import Json, with_examples

if TYPE_CHECKING:
    from msmq.directory.join import Joining
    from msmq.manager.directory import DirectoryObject, ObjectClass

REFUSED = 1
UNUSABLE = 2

HELP = (
    "Look at the directory of a domain, have this host in it, or take it out.\n\n"
    "FILE is the configuration of the queue manager: its table [directory] says where the domain controllers are and "
    "who this host is there. Status: 0, 1 when the directory refuses or something is wrong, 2 when FILE cannot be used."
)
JOIN_HELP = (
    "Put this host into the directory.\n\n"
    "An administrator does that once, with --as; from then on the host's own account is enough. A queue manager whose "
    "account has the right to do it joins by itself when it first starts.\n\nExamples:\n\n"
    "  msmq directory join --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE"
)
LEAVE_HELP = with_examples(
    "Take this host out of the directory. Stop its queue manager first.",
    "msmq directory leave --config /etc/msmq/msmq.toml",
)
STATUS_HELP = with_examples(
    "Check everything that a queue manager in a domain needs; what is wrong is shown with its remedy.",
    "msmq directory status --config /etc/msmq/msmq.toml",
)
FIND_HELP = (
    "List objects: queues, managers, sites, links or users.\n\n"
    "Conditions are NAME=VALUE, for example label=Orders, pathname=QM1\\\\orders or identifier=GUID; all must hold.\n\n"
    "Examples:\n\n  msmq directory find queues label=Orders --config /etc/msmq/msmq.toml"
)
SHOW_HELP = with_examples(
    "Show all attributes of objects; what to look for is said as in find.",
    "msmq directory show managers --config /etc/msmq/msmq.toml",
)
EXPORT_HELP = with_examples(
    "Write sites, links, hosts and public queues as a directory file, for hosts without the domain.",
    "msmq directory export --config /etc/msmq/msmq.toml > enterprise.toml",
)

_Config = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="The configuration.", show_default=False)
]
_As = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="USER",
        help="Act as USER@REALM instead of as this host. The password is asked for, or read from the first line of "
        "standard input when that is no terminal.",
    ),
]
_Kind = Annotated[str, typer.Argument(metavar="KIND", help="queues, managers, sites, links or users.")]
_Conditions = Annotated[
    list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="What must hold.", show_default=False)
]

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.command(help=JOIN_HELP, short_help="Put this host into the directory.")
def join(
    config: _Config,
    user: _As = "",
    site: Annotated[str, typer.Option(help="The site, instead of the configuration's.")] = "",
    create_computer: Annotated[
        bool, typer.Option("--create-computer", help="Make the account of this computer too.")
    ] = False,
) -> None:
    from msmq.server.config import load
    from msmq.wire.guid import guid_text

    with _refusals(), _joining(config, user) as joining:
        wanted = site or load(config).directory.site
        print(guid_text(joining.join(wanted, make_computer=create_computer)))


@app.command(help=LEAVE_HELP, short_help="Take this host out of the directory.")
def leave(
    config: _Config,
    user: _As = "",
    with_queues: Annotated[
        bool, typer.Option("--with-queues", help="Delete its public queues from the directory too.")
    ] = False,
) -> None:
    with _refusals(), _joining(config, user) as joining:
        count = joining.leave(with_queues=with_queues)
        print(f"{joining.computer} has left, with {count} public queues")


@app.command(help=STATUS_HELP, short_help="Check what a queue manager in a domain needs.")
def status(config: _Config, user: _As = "", as_json: Json = False) -> None:
    from msmq.cli.output import print_json

    good = True
    with _refusals(), _joining(config, user) as joining:
        for finding in joining.inspect():
            good = good and finding.good
            if as_json:
                print_json(finding._asdict())
                continue
            print(f"{'ok' if finding.good else 'WRONG':5} {finding.what}: {finding.detail}")
            if finding.remedy:
                print(f"      {finding.remedy}")
    if not good:
        raise typer.Exit(REFUSED)


@app.command(help=FIND_HELP, short_help="List objects by their attributes.")
def find(
    kind: _Kind, conditions: _Conditions = None, *, config: _Config, user: _As = "", as_json: Json = False
) -> None:
    from msmq.cli.output import print_json
    from msmq.wire.guid import guid_text

    with _refusals(), _joining(config, user) as joining:
        object_class, name = _kind(kind)
        for item in _found(joining, object_class, conditions, (name, "identifier")):
            identifier, called = guid_text(item.identifier), _text(item.attributes[name])
            if as_json:
                print_json({"identifier": identifier, "name": called})
            else:
                print(f"{identifier} {called}")


@app.command(help=SHOW_HELP, short_help="Show all attributes of objects.")
def show(
    kind: _Kind, conditions: _Conditions = None, *, config: _Config, user: _As = "", as_json: Json = False
) -> None:
    from msmq.cli.output import print_json
    from msmq.wire.guid import guid_text

    with _refusals(), _joining(config, user) as joining:
        for number, item in enumerate(_found(joining, _kind(kind)[0], conditions, None)):
            if as_json:
                attributes = {name: _plain(value) for name, value in sorted(item.attributes.items())}
                print_json({"identifier": guid_text(item.identifier), "attributes": attributes})
                continue
            if number:
                print()
            for name, value in sorted(item.attributes.items()):
                print(f"{name}: {_text(value)}")


@app.command(help=EXPORT_HELP, short_help="Write a directory file.")
def export(config: _Config, user: _As = "") -> None:
    with _refusals(), _joining(config, user) as joining:
        print(joining.export(), end="")


def _kind(text: str) -> tuple[ObjectClass, str]:
    from msmq.directory.join import JoiningError
    from msmq.manager.directory import ObjectClass

    kinds = {
        "queues": (ObjectClass.QUEUE, "pathname"),
        "managers": (ObjectClass.QUEUE_MANAGER, "computer_name"),
        "sites": (ObjectClass.SITE, "name"),
        "links": (ObjectClass.ROUTING_LINK, "description"),
        "users": (ObjectClass.USER, "security_identifier"),
    }
    if text not in kinds:
        raise JoiningError(f"{text} is none of {', '.join(kinds)}.")
    return kinds[text]


def _found(
    joining: Joining,
    object_class: ObjectClass,
    conditions: list[str] | None,
    attributes: tuple[str, ...] | None,
) -> list[DirectoryObject]:
    from msmq.manager.directory import Expression, Relation

    wanted = []
    for text in conditions or ():
        name, _, value = text.partition("=")
        wanted.append(Expression(name, Relation.EQUALS, _value(object_class, name, value)))
    return joining.find(object_class, wanted, attributes)


def _value(object_class: ObjectClass, name: str, text: str) -> Any:
    """A value of the type the attribute has."""
    from msmq.directory.join import JoiningError
    from msmq.directory.schema import KINDS
    from msmq.security.sid import Sid
    from msmq.wire.guid import guid_from_text

    if KINDS[object_class].find(name) is None:
        raise JoiningError(f"{name} is no attribute of a {object_class.value}.")
    try:
        if name == "security_identifier":
            return Sid.parse(text).encode()
        if name in ("identifier", "type") or name.endswith(("_identifier", "_identifier_list")):
            return guid_from_text(text)
    except (ValueError, ArithmeticError) as error:
        raise JoiningError(f"{name}={text}: {error}") from error
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isdecimal() and name not in ("label", "pathname", "name") else text


def _text(value: Any) -> str:
    from msmq.wire.guid import guid_text

    if isinstance(value, bytes):
        return guid_text(value) if len(value) == 16 else value.hex()
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    return str(getattr(value, "name", value))


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tuple | list):
        return [_plain(member) for member in value]
    return value if value is None or type(value) in (bool, int, str) else _text(value)


@contextmanager
def _joining(file: Path, user: str) -> Iterator[Joining]:
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
def _refusals() -> Iterator[None]:
    from msmq.errors import MsmqError
    from msmq.server.config import ConfigError

    try:
        yield
    except (MsmqError, OSError) as error:
        print(f"msmq directory: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE if isinstance(error, ConfigError) else REFUSED) from error
