"""``msmq manager``: show and change the queue manager. The work is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from msmq.cli import access
from msmq.cli.calls import Json, fail, perform, with_examples, with_options
from msmq.cli.queue import kilobytes

if TYPE_CHECKING:
    from msmq.client import ManagerInfo, Resources

HELP = "Look at the queue manager and change it."
SET_HELP = (
    "Change the quotas of the computer.\n\nExamples:\n\n"
    "  msmq manager set --quota 8GB\n\n  msmq manager set --journal-quota unlimited"
)
ACL_SET_HELP = (
    f"Change who may do what with the queue manager.\n\n{access.RIGHTS_HELP}\n\nExamples:\n\n"
    "  msmq manager acl set --allow user:clerk=create-queue"
)

app = typer.Typer(help=HELP, no_args_is_help=True)
acl = typer.Typer(help="Show or change who may do what with the queue manager.", no_args_is_help=True)
app.add_typer(acl, name="acl")


def _print(info: ManagerInfo, as_json: bool) -> None:
    from msmq.cli.output import limit, print_json, print_sheet, several, size

    if as_json:
        print_json(info)
        return
    print_sheet(
        [
            ("computer", info.computer_name),
            ("identifier", info.identifier),
            ("product", info.product),
            ("online", info.online),
            ("directory", "yes" if info.directory_integrated else "none, a workgroup"),
            ("holds", f"{several(info.messages, 'message')}, {size(info.bytes)}"),
            ("quota", limit(info.quota_kb)),
            ("journal quota", limit(info.journal_quota_kb)),
            ("dead letters", info.dead_letter_queue),
            ("of transactions", info.transactional_dead_letter_queue),
            ("journal", info.journal_queue),
            ("connections", info.resources.connections),
            ("descriptors", _descriptors(info.resources)),
            ("knows you as", info.caller),
        ]
    )
    for loss in info.losses:
        print(f"trouble: {loss}")


def _descriptors(resources: Resources) -> str:
    """How many file descriptors the process uses, and its limit."""
    used, limit = resources.descriptors, resources.descriptor_limit
    return f"{used} of {limit}, {100 * used // limit}%" if limit else str(used)


_SHOW = "Show the queue manager, what troubles it, and who you are to it."
STATUS_HELP = with_examples(f"{_SHOW} The same as msmq manager show.", "msmq status")


@app.command(help=with_examples(_SHOW, "msmq manager show --json"))
def show(ctx: typer.Context, as_json: Json = False) -> None:
    _print(perform(ctx, lambda mq: mq.manager()), as_json)


@app.command(
    help=with_examples(
        "Show the properties of the queue manager as MS-MQMQ 2.3 names and numbers them, with those of management.",
        "msmq manager properties --json",
    ),
    short_help="Show PROPID_QM_* and PROPID_MGMT_MSMQ_*.",
)
def properties(ctx: typer.Context, as_json: Json = False) -> None:
    from msmq.cli.output import print_properties

    print_properties(perform(ctx, lambda mq: mq.properties()), as_json)


@app.command("set", help=SET_HELP, short_help="Change the quotas of the computer.")
def set_(
    ctx: typer.Context,
    quota: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Most that all messages may take: 8GB, KB, or 'unlimited'."),
    ] = None,
    journal_quota: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Most that each journal and dead-letter queue may take."),
    ] = None,
    as_json: Json = False,
) -> None:
    if quota is None and journal_quota is None:
        fail(ctx, "nothing to change; see msmq manager set --help", 2)
    quota_kb = None if quota is None else kilobytes(ctx, quota)
    journal_kb = None if journal_quota is None else kilobytes(ctx, journal_quota)
    _print(perform(ctx, lambda mq: mq.set_manager(quota_kb=quota_kb, journal_quota_kb=journal_kb)), as_json)


@app.command(help=with_examples("Bring the queue manager to the network.", "msmq manager online"))
def online(ctx: typer.Context, as_json: Json = False) -> None:
    _print(perform(ctx, lambda mq: mq.set_online(True)), as_json)


@app.command(
    help=with_examples(
        "Take the queue manager off the network. Applications of this computer go on.", "msmq manager offline"
    )
)
def offline(ctx: typer.Context, as_json: Json = False) -> None:
    _print(perform(ctx, lambda mq: mq.set_online(False)), as_json)


@acl.command(
    "show", help=with_examples("Show who may do what with the queue manager.", "msmq manager acl show")
)
def acl_show(ctx: typer.Context, as_json: Json = False) -> None:
    access.show(ctx, None, as_json)


@acl.command("set", help=ACL_SET_HELP, short_help="Change who may do what with the queue manager.")
@with_options(wanted=access.wanted)
def acl_set(ctx: typer.Context, wanted: Any = None, as_json: Json = False) -> None:
    access.change(ctx, None, wanted, as_json)
