"""``msmq token``: tokens that let applications in by TCP. The work is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from msmq.cli import access
from msmq.cli.calls import Json, Yes, confirm, perform

if TYPE_CHECKING:
    import msmq
    from msmq.client import TokenInfo

HELP = "Make and take back the tokens that let applications in by TCP."
CREATE_HELP = (
    "Make a token, and show it: the queue manager keeps only its digest.\n\nWhoever has it is somebody new, whom "
    "access lists call token:NAME, or WHO with --as.\n\nExamples:\n\n"
    "  msmq token create reports\n\n"
    "  msmq queue acl set '.\\private$\\orders' --allow token:reports=receive,peek\n\n"
    "  msmq token create operators --as BUILTIN_ADMINISTRATORS\n\n"
    "  msmq --server tls:host:8181 --token TOKEN queue list"
)
LIST_HELP = (
    "List the tokens that were made, and who their owners are.\n\nExamples:\n\n  msmq token list --json"
)
REMOVE_HELP = (
    "Take a token back: nobody comes in with it any more.\n\nExamples:\n\n  msmq token remove reports"
)

app = typer.Typer(help=HELP, no_args_is_help=True)
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.", show_default=False)]


@app.command(help=CREATE_HELP, short_help="Make a token.")
def create(
    ctx: typer.Context,
    name: _Name,
    as_: Annotated[
        str, typer.Option("--as", metavar="WHO", help="Who comes in with it.", show_default=False)
    ] = "",
    as_json: Json = False,
) -> None:
    from msmq.cli.output import plain, print_json, print_sheet

    async def action(mq: msmq.Connection) -> tuple[TokenInfo, str]:
        tokens = await access.with_tokens(mq, as_)
        return await mq.create_token(name, access.sid_of(as_, tokens) if as_ else "")

    made, secret = perform(ctx, action)
    if as_json:
        print_json({**plain(made), "token": secret})
        return
    print_sheet([("token", secret), ("lets in", made.sid)])
    print("Keep it in a safe place: it is not shown again.")


@app.command("list", help=LIST_HELP, short_help="List tokens.")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    from msmq.cli.output import print_json, print_table

    found = perform(ctx, lambda mq: mq.tokens())
    if as_json:
        for made in found:
            print_json(made)
        return
    print_table(("token", "lets in", "since"), [(made.name, made.sid, made.created_time) for made in found])


@app.command(help=REMOVE_HELP, short_help="Take a token back.")
def remove(ctx: typer.Context, name: _Name, yes: Yes = False, as_json: Json = False) -> None:
    from msmq.cli.output import print_json

    confirm(ctx, f"Take the token {name} back?", yes)
    perform(ctx, lambda mq: mq.remove_token(name))
    print_json({"name": name, "removed": True}) if as_json else print(f"removed {name}")
