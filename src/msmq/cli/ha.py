"""``msmq ha``: instances of a queue manager that share a log. The work is imported when it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from msmq.cli.calls import Json, Yes, end

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from msmq.ha.database import Database

T = TypeVar("T")
FAILED = 1
UNUSABLE = 2

app = typer.Typer(
    help="See and change which instance leads, where several share a log in PostgreSQL.\n\n"
    "The database is asked, not an instance, so this works from anywhere that reaches it.\n\nExamples:\n\n"
    "  msmq ha status --store postgresql://msmq@db1,db2,db3/queues\n\n"
    "  msmq ha switchover --to node2 --config /etc/msmq/msmq.toml",
    short_help="See and change which instance leads.",
    no_args_is_help=True,
)

Store = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="MSMQ_STORE", help="The PostgreSQL that has the log.", show_default=False
    ),
]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration that names it, as TOML.")]
Schema = Annotated[
    str | None, typer.Option(help="Schema of the tables, msmq when not given.", show_default=False)
]


def _database(command: str, store: str | None, config: Path | None, schema: str | None) -> Database:
    from dataclasses import replace

    from msmq.server.config import Config as ServerConfig
    from msmq.server.config import ConfigError, load

    try:
        settings = load(config).ha if config is not None else ServerConfig().ha
        given = {key: value for key, value in {"store": store, "schema": schema}.items() if value is not None}
        settings = replace(settings, **given)  # type: ignore[arg-type]
        if settings.problem is not None:
            raise ConfigError(settings.problem)
        if not settings.store:
            raise ConfigError(
                "Say where the log is: --store URL, MSMQ_STORE, or --config FILE with [ha] store."
            )
    except ConfigError as error:
        end(command, str(error), UNUSABLE)
    try:
        from msmq.ha.database import OPERATOR_S, Database
    except ImportError as error:
        end(command, f"{error}: install the extra: pip install 'msmq[ha]'.", UNUSABLE)
    return Database(settings.store, settings.schema, OPERATOR_S)


def _ask(command: str, database: Database, question: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    import asyncio

    from msmq.errors import MsmqError

    try:
        return asyncio.run(question(database))
    except MsmqError as error:
        end(command, str(error), FAILED)


@app.command(
    "status",
    help="Say who leads, until when, and how far the log is.\n\nStatus 1 when nobody leads.\n\nExample:\n\n"
    "  msmq ha status --store postgresql://msmq@db1,db2,db3/queues",
)
def status(store: Store = None, config: Config = None, schema: Schema = None, as_json: Json = False) -> None:
    from msmq.ha import operator

    database = _database("msmq ha status", store, config, schema)
    found = _ask("msmq ha status", database, operator.status)
    view = found.view
    if as_json:
        facts = {
            "leader": found.leader,
            "epoch": view.epoch,
            "lease_ms": max(0, view.left_ms),
            "handover": view.handover,
            "log_end": view.end,
            "segments": found.segments,
            "synchronous_standby_names": found.synchronous,
        }
        print(json.dumps(facts))
    else:
        leader = (
            f"{found.leader}, for {view.left_ms / 1000:.1f} s more unless it renews"
            if found.leader
            else "nobody"
        )
        others = (
            found.synchronous or "nobody: confirmed messages survive a crash, but not the loss of this disk"
        )
        print(f"leader      {leader}")
        print(f"epoch       {view.epoch}")
        print(f"log         {view.end} rows so far, {found.segments} segments")
        print(f"confirmed   also by {others}")
        if view.handover:
            print("hand-over   asked for")
    raise typer.Exit(0 if found.leader else FAILED)


@app.command(
    "switchover",
    help="Let another instance lead, in an orderly way: nothing is lost or repeated.\n\nExample:\n\n"
    "  msmq ha switchover --to node2 --config /etc/msmq/msmq.toml",
)
def switchover(
    store: Store = None,
    config: Config = None,
    schema: Schema = None,
    to: Annotated[
        str, typer.Option(metavar="INSTANCE", help="Which one; the first that is free when not given.")
    ] = "",
) -> None:
    from msmq.ha import operator

    database = _database("msmq ha switchover", store, config, schema)
    holder = _ask("msmq ha switchover", database, lambda asked: operator.switch_over(asked, to))
    print(f"{holder} was asked to hand over{f' to {to}' if to else ''}")


@app.command(
    "fence",
    help="Take the lead away from whoever has it, at once.\n\nFor an instance that must not go on, or that is known to "
    "be dead and need not be waited for. Whatever it writes from now on changes nothing.\n\nExample:\n\n"
    "  msmq ha fence --yes --config /etc/msmq/msmq.toml",
)
def fence(store: Store = None, config: Config = None, schema: Schema = None, yes: Yes = False) -> None:
    from msmq.ha import operator

    database = _database("msmq ha fence", store, config, schema)
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Take the lead away from the leader of {database.where}?", abort=True)
    holder, epoch = _ask("msmq ha fence", database, operator.fence)
    print(f"{holder or 'nobody'} led; the epoch is {epoch} now, and the next free instance takes over")
