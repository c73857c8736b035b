"""``msmq directory``: put a host into its directory, look at it, repair it. The work is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msmq.cli import mend, sites
from msmq.cli.calls import Json, with_examples
from msmq.cli.domain import REFUSED, AsUser, ConfigFile, refusals
from msmq.cli.domain import joining as joining_of

if TYPE_CHECKING:
    from msmq.directory.join import Joining
    from msmq.manager.directory import DirectoryObject, ObjectClass

HELP = (
    "Look at the directory of a domain, have this host in it, or take it out.\n\n"
    "FILE is the configuration of the queue manager: its table \\[directory] says where the domain controllers are and "
    "who this host is there. Status: 0, 1 when the directory refuses or something is wrong, 2 when FILE cannot be used."
)
JOIN_HELP = (
    "Put this host into the directory.\n\n"
    "An administrator does that once, with --as; from then on the host's own account is enough. A queue manager whose "
    "account has the right to do it joins by itself when it first starts. Joining again completes what is missing and "
    "mends the rights of the account; standard error tells what was done.\n\nExamples:\n\n"
    "  msmq directory join --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE\n\n"
    "  msmq directory join --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE --routing-server "
    "--sites Paris,Rome"
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

_Kind = Annotated[str, typer.Argument(metavar="KIND", help="queues, managers, sites, links or users.")]
_Conditions = Annotated[
    list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="What must hold.", show_default=False)
]

app = typer.Typer(help=HELP, no_args_is_help=True)
app.add_typer(sites.site, name="site")
app.add_typer(sites.link, name="link")


@app.command(help=JOIN_HELP, short_help="Put this host into the directory.")
def join(
    config: ConfigFile,
    user: AsUser = "",
    site: Annotated[str, typer.Option(help="The site, instead of the configuration's.")] = "",
    sites: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Several sites, for a routing server between them.")
    ] = "",
    routing_server: Annotated[
        bool | None,
        typer.Option(
            "--routing-server/--no-routing-server",
            help="Messages of others are routed by this host, or not any more.",
            show_default=False,
        ),
    ] = None,
    create_computer: Annotated[
        bool, typer.Option("--create-computer", help="Make the account of this computer too.")
    ] = False,
) -> None:
    from msmq.server.config import load
    from msmq.wire.guid import guid_text

    with refusals(), joining_of(config, user) as joining:
        wanted = [name.strip() for name in sites.split(",")] if sites else []
        wanted = wanted or [site or load(config).directory.site]
        joined = joining.join(*wanted, make_computer=create_computer, routing_server=routing_server)
        print(guid_text(joined))
        for what in joining.done:
            print(what, file=sys.stderr)


@app.command(help=LEAVE_HELP, short_help="Take this host out of the directory.")
def leave(
    config: ConfigFile,
    user: AsUser = "",
    with_queues: Annotated[
        bool, typer.Option("--with-queues", help="Delete its public queues from the directory too.")
    ] = False,
) -> None:
    with refusals(), joining_of(config, user) as joining:
        count = joining.leave(with_queues=with_queues)
        print(f"{joining.computer} has left, with {count} public queues")


@app.command(help=STATUS_HELP, short_help="Check what a queue manager in a domain needs.")
def status(ctx: typer.Context, config: ConfigFile, user: AsUser = "", as_json: Json = False) -> None:
    with refusals(), joining_of(config, user) as joining:
        findings = list(mend.everything(ctx, config, joining))
        mend.show(findings, as_json)
    if any(not finding.good for finding in findings):
        raise typer.Exit(REFUSED)


app.command(help=mend.CHECK_HELP, short_help="List differences between host and directory.")(mend.check)
app.command(help=mend.REPAIR_HELP, short_help="Mend differences between host and directory.")(mend.repair)


@app.command(help=FIND_HELP, short_help="List objects by their attributes.")
def find(
    kind: _Kind,
    conditions: _Conditions = None,
    *,
    config: ConfigFile,
    user: AsUser = "",
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json
    from msmq.wire.guid import guid_text

    with refusals(), joining_of(config, user) as joining:
        object_class, name = _kind(kind)
        for item in _found(joining, object_class, conditions, (name, "identifier")):
            identifier, called = guid_text(item.identifier), _text(item.attributes[name])
            if as_json:
                print_json({"identifier": identifier, "name": called})
            else:
                print(f"{identifier} {called}")


@app.command(help=SHOW_HELP, short_help="Show all attributes of objects.")
def show(
    kind: _Kind,
    conditions: _Conditions = None,
    *,
    config: ConfigFile,
    user: AsUser = "",
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json
    from msmq.wire.guid import guid_text

    with refusals(), joining_of(config, user) as joining:
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
def export(config: ConfigFile, user: AsUser = "") -> None:
    with refusals(), joining_of(config, user) as joining:
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
) -> Iterator[DirectoryObject]:
    from msmq.directory.conditions import conditions_of

    return joining.find(object_class, conditions_of(object_class, conditions or ()), attributes)


def _text(value: Any) -> str:
    from msmq.wire.guid import guid_text

    if isinstance(value, bytes):
        return guid_text(value) if len(value) == 16 else value.hex()
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    return str(getattr(value, "name", value))


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, tuple | list):
        return [_plain(member) for member in value]
    return value if value is None or type(value) in (bool, int, str) else _text(value)
