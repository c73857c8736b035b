"""``msmq directory site`` and ``msmq directory link``: change the topology of an enterprise."""

from __future__ import annotations

from typing import Annotated

import typer

from msmq.cli.calls import with_examples
from msmq.cli.domain import AsUser, ConfigFile, joining, refusals

site = typer.Typer(help="Make, change and delete sites.", no_args_is_help=True)
link = typer.Typer(help="Make, change and delete links between sites.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The site.", show_default=False)]
_First = Annotated[str, typer.Argument(metavar="SITE", help="A site.", show_default=False)]
_Second = Annotated[str, typer.Argument(metavar="SITE", help="The other one.", show_default=False)]
_Gates = Annotated[
    str | None,
    typer.Option(metavar="HOST,HOST", help="Routing servers that messages must pass.", show_default=False),
]


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


@site.command(
    help=with_examples(
        "Make a site.",
        "msmq directory site create Rome --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE",
    ),
    short_help="Make a site.",
)
def create(
    name: _Name,
    config: ConfigFile,
    user: AsUser = "",
    foreign: Annotated[
        bool, typer.Option("--foreign", help="A system that is no MSMQ is reached there.")
    ] = False,
) -> None:
    from msmq.directory.topology import Topology
    from msmq.wire.guid import guid_text

    with refusals(), joining(config, user) as here:
        print(guid_text(Topology(here).create_site(name, foreign=foreign)))


@site.command(
    "set",
    help=with_examples(
        "Change a site.",
        "msmq directory site set Rome --foreign --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE",
    ),
    short_help="Change a site.",
)
def set_(
    name: _Name,
    config: ConfigFile,
    foreign: Annotated[
        bool,
        typer.Option("--foreign/--no-foreign", help="Whether a system that is no MSMQ is reached there."),
    ],
    user: AsUser = "",
) -> None:
    from msmq.directory.topology import Topology

    with refusals(), joining(config, user) as here:
        Topology(here).set_foreign(name, foreign=foreign)


@site.command(
    help=with_examples(
        "Delete a site that nobody uses.",
        "msmq directory site delete Rome --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE",
    ),
    short_help="Delete a site that nobody uses.",
)
def delete(name: _Name, config: ConfigFile, user: AsUser = "") -> None:
    from msmq.directory.topology import Topology

    with refusals(), joining(config, user) as here:
        Topology(here).delete_site(name)


@link.command(
    "create",
    help=with_examples(
        "Make a link between two sites.",
        "msmq directory link create Paris Rome --cost 5 --gates QM1,QM2 --config /etc/msmq/msmq.toml "
        "--as Administrator@CORP.EXAMPLE",
    ),
    short_help="Make a link between two sites.",
)
def create_link(
    first: _First,
    second: _Second,
    config: ConfigFile,
    cost: Annotated[
        int, typer.Option(min=1, max=999_999, help="Messages take the cheapest way.", show_default=True)
    ] = 1,
    gates: _Gates = None,
    user: AsUser = "",
) -> None:
    from msmq.directory.topology import Topology
    from msmq.wire.guid import guid_text

    with refusals(), joining(config, user) as here:
        print(guid_text(Topology(here).create_link(first, second, cost, _listed(gates))))


@link.command(
    "set",
    help=with_examples(
        "Change the cost or the gates of a link.",
        "msmq directory link set Paris Rome --cost 7 --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE",
    ),
    short_help="Change a link.",
)
def set_link(
    first: _First,
    second: _Second,
    config: ConfigFile,
    cost: Annotated[
        int | None,
        typer.Option(min=1, max=999_999, help="Messages take the cheapest way.", show_default=False),
    ] = None,
    gates: _Gates = None,
    user: AsUser = "",
) -> None:
    from msmq.directory.topology import Topology

    with refusals(), joining(config, user) as here:
        wanted = None if gates is None else _listed(gates)
        Topology(here).set_link(first, second, cost, wanted)


@link.command(
    "delete",
    help=with_examples(
        "Delete the link between two sites.",
        "msmq directory link delete Paris Rome --config /etc/msmq/msmq.toml --as Administrator@CORP.EXAMPLE",
    ),
    short_help="Delete a link.",
)
def delete_link(first: _First, second: _Second, config: ConfigFile, user: AsUser = "") -> None:
    from msmq.directory.topology import Topology

    with refusals(), joining(config, user) as here:
        Topology(here).delete_link(first, second)
