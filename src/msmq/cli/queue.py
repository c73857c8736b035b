"""``msmq queue``: create, show, change and delete queues. The work is imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from msmq.cli import access
from msmq.cli.calls import Json, QueueName, Yes, confirm, fail, perform, with_examples, with_options

if TYPE_CHECKING:
    import msmq
    from msmq.client import QueueInfo

HELP = "Create, look at, change and delete queues."
LIST_HELP = (
    "List the queues of the computer, with what they hold.\n\nExamples:\n\n"
    "  msmq queue list\n\n  msmq queue list --system '*dead*'\n\n"
    "  msmq queue list --json | jq -r 'select(.messages > 100) | .path'"
)
CREATE_HELP = (
    "Create a queue on the computer of the queue manager.\n\nExamples:\n\n"
    "  msmq queue create '.\\private$\\orders' --if-missing\n\n"
    "  msmq queue create '.\\private$\\orders' --transactional --journal --quota 100MB --label 'All orders'"
)
SET_HELP = (
    "Change properties of a queue; what is not named stays.\n\nExamples:\n\n"
    "  msmq queue set '.\\private$\\orders' --label 'All orders' --quota unlimited"
)
ACL_HELP = "Show or change who may do what with a queue."
ACL_SET_HELP = (
    f"Change who may do what with a queue.\n\n{access.RIGHTS_HELP}\n\nExamples:\n\n"
    "  msmq queue acl set '.\\private$\\orders' --allow EVERYONE=send --deny ANONYMOUS=send\n\n"
    "  msmq queue acl set '.\\private$\\orders' --remove EVERYONE --owner user:clerk"
)

app = typer.Typer(help=HELP, no_args_is_help=True)
acl = typer.Typer(help=ACL_HELP, no_args_is_help=True)
app.add_typer(acl, name="acl")


class Privacy(StrEnum):
    """Whether bodies must be encrypted."""

    NONE = "none"
    OPTIONAL = "optional"
    BODY = "body"


_KILOBYTES: Final = {"": 1, "K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}
_LEVELS: Final = {Privacy.NONE: 0, Privacy.OPTIONAL: 1, Privacy.BODY: 2}


def _settings(
    ctx: typer.Context,
    label: Annotated[str | None, typer.Option(help="A text for people.", show_default=False)] = None,
    journal: Annotated[
        bool | None,
        typer.Option("--journal/--no-journal", help="Keep a copy of what is received.", show_default=False),
    ] = None,
    quota: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Most it may hold: 8GB, KB, or 'unlimited'.", show_default=False),
    ] = None,
    journal_quota: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most its journal may hold.", show_default=False)
    ] = None,
    authenticated: Annotated[
        bool | None,
        typer.Option(
            "--authenticated/--no-authenticated", help="Take signed messages only.", show_default=False
        ),
    ] = None,
    privacy: Annotated[
        Privacy | None, typer.Option(help="Whether bodies come encrypted.", show_default=False)
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(min=-32768, max=32767, help="Base priority of a public queue.", show_default=False),
    ] = None,
    multicast: Annotated[
        str | None,
        typer.Option(metavar="ADDR:PORT", help="Multicast address to listen on.", show_default=False),
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="GUID", help="Type of the queue.", show_default=False)
    ] = None,
    retry_delay: Annotated[
        int | None,
        typer.Option(
            metavar="MS",
            min=0,
            help="How long a rejected message is out of sight, in milliseconds.",
            show_default=False,
        ),
    ] = None,
    max_deliveries: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="After so many rejections a message is poison; 0 for never.",
            show_default=False,
        ),
    ] = None,
    poison_subqueue: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Subqueue for poison; '' for the dead-letter queue.", show_default=False
        ),
    ] = None,
) -> dict[str, Any]:
    """The settings of a queue that the options name."""
    given: dict[str, Any] = {
        "label": label,
        "journaling": journal,
        "quota_kb": None if quota is None else kilobytes(ctx, quota),
        "journal_quota_kb": None if journal_quota is None else kilobytes(ctx, journal_quota),
        "authenticated_only": authenticated,
        "privacy_level": None if privacy is None else _LEVELS[privacy],
        "base_priority": priority,
        "multicast_address": multicast,
        "type": type_,
        "retry_delay_ms": retry_delay,
        "max_deliveries": max_deliveries,
        "poison_subqueue": poison_subqueue,
    }
    return {name: value for name, value in given.items() if value is not None}


def kilobytes(ctx: typer.Context, text: str) -> int:
    """Read a limit from the command line, in kilobytes."""
    import re

    from msmq.cli.output import UNLIMITED

    if text.lower() in ("none", "unlimited"):
        return UNLIMITED
    read = re.fullmatch(r"(\d+) ?([KMGT]?)B?", text.strip(), re.IGNORECASE)
    limit = int(read[1]) * _KILOBYTES[read[2].upper()] if read else UNLIMITED
    if limit >= UNLIMITED:
        fail(ctx, f"a quota is a size such as 500MB or 8GB, kilobytes, or 'unlimited', not {text!r}", 2)
    return limit


@app.command(help=CREATE_HELP, short_help="Create a queue.")
@with_options(settings=_settings)
def create(
    ctx: typer.Context,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="Such as '.\\private$\\orders', or CONNECTOR= and the GUID of a foreign system.",
            show_default=False,
        ),
    ],
    transactional: Annotated[bool, typer.Option("--transactional", help="For transactions only.")] = False,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="A queue that is there already will do as it is.")
    ] = False,
    settings: Any = None,
    as_json: Json = False,
) -> None:
    async def action(mq: msmq.Connection) -> QueueInfo:
        return await mq.queue_info(
            await mq.create_queue(path, transactional=transactional, if_missing=if_missing, **settings)
        )

    info = perform(ctx, action)
    _print_info(info, as_json) if as_json else print(f"{'there is' if if_missing else 'created'} {info.path}")


@app.command("list", help=LIST_HELP, short_help="List queues with what they hold.")
def list_(
    ctx: typer.Context,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Only paths like this; * stands for anything.")
    ] = "*",
    system: Annotated[bool, typer.Option("--system", help="Dead letters and journal too.")] = False,
    journals: Annotated[bool, typer.Option("--journals", help="Journals of queues too.")] = False,
    subqueues: Annotated[bool, typer.Option("--subqueues", help="Subqueues too.")] = False,
    as_json: Json = False,
) -> None:
    from fnmatch import fnmatchcase

    from msmq.cli.output import print_json, print_table, several, size

    found = perform(ctx, lambda mq: mq.queues(system=system, journals=journals, subqueues=subqueues))
    found = [info for info in found if fnmatchcase(info.path.lower(), pattern.lower())]
    if as_json:
        for info in found:
            print_json(info)
        return
    print_table(
        ("queue", "label", "messages", "size", "journal", "kind"),
        [
            (
                info.path,
                info.label,
                info.messages,
                size(info.bytes),
                info.journal_messages,
                info.kind.name.lower() + (", transactional" if info.transactional else ""),
            )
            for info in found
        ],
    )
    print(several(len(found), "queue"))


@app.command(
    help=with_examples("Show everything about a queue.", "msmq queue show '.\\private$\\orders' --json"),
    short_help="Show everything about a queue.",
)
def show(ctx: typer.Context, queue: QueueName, as_json: Json = False) -> None:
    _print_info(perform(ctx, lambda mq: mq.queue_info(queue)), as_json)


@app.command(
    help=with_examples(
        "Tell where a queue is: on which computer, and by which format name. In a domain the directory is asked.",
        "msmq queue locate 'QM2\\orders'",
    ),
    short_help="Tell where a queue is.",
)
def locate(ctx: typer.Context, queue: QueueName, as_json: Json = False) -> None:
    from msmq.cli.output import print_json

    place = perform(ctx, lambda mq: mq.locate(queue))
    if as_json:
        print_json(place)
    else:
        print("on this computer" if place.here else f"{place.host} {place.format_name}")


@app.command(
    help=with_examples(
        "Show the properties of a queue as MS-MQMQ 2.3 names and numbers them, with those of management.",
        "msmq queue properties '.\\private$\\orders'",
    ),
    short_help="Show PROPID_Q_* and PROPID_MGMT_QUEUE_*.",
)
def properties(ctx: typer.Context, queue: QueueName, as_json: Json = False) -> None:
    from msmq.cli.output import print_properties

    print_properties(perform(ctx, lambda mq: mq.properties(queue)), as_json)


def _retry_text(info: QueueInfo) -> str:
    """What happens to a rejected message, in words."""
    back = f"comes back after {info.retry_delay_ms} ms" if info.retry_delay_ms else "comes back at once"
    if not info.max_deliveries:
        return back
    grave = f"subqueue {info.poison_subqueue}" if info.poison_subqueue else "the dead-letter queue"
    return f"{back}; after {info.max_deliveries} times it goes to {grave}"


def _print_info(info: QueueInfo, as_json: bool) -> None:
    from msmq.cli.output import limit, print_json, print_sheet, several, size

    if as_json:
        print_json(info)
        return
    held = f"{several(info.messages, 'message')}, {size(info.bytes)}"
    print_sheet(
        [
            ("path", info.path),
            ("format name", info.format_name),
            ("kind", info.kind.name.lower()),
            ("label", info.label),
            ("transactional", info.transactional),
            ("holds", held),
            ("quota", limit(info.quota_kb)),
            ("journaling", info.journaling),
            ("journal holds", f"{several(info.journal_messages, 'message')}, {size(info.journal_bytes)}"),
            ("journal quota", limit(info.journal_quota_kb)),
            ("subqueues", ", ".join(info.subqueues)),
            ("rejected", _retry_text(info)),
            ("out of sight", several(info.paused_messages, "message")),
            ("poison so far", several(info.poisoned_total, "message")),
            ("signed only", info.authenticated_only),
            ("privacy", ("none", "optional", "body")[info.privacy_level]),
            ("base priority", info.base_priority),
            ("multicast", info.multicast_address),
            ("type", info.type),
            ("identifier", info.identifier),
            ("created", info.created_time),
            ("changed", info.modified_time),
            ("open handles", info.open_handles),
        ]
    )


@app.command("set", help=SET_HELP, short_help="Change properties of a queue.")
@with_options(settings=_settings)
def set_(
    ctx: typer.Context,
    queue: QueueName,
    settings: Any = None,
    as_json: Json = False,
) -> None:
    if not settings:
        fail(ctx, "nothing to change; see msmq queue set --help", 2)
    _print_info(perform(ctx, lambda mq: mq.set_queue(queue, **settings)), as_json)


@app.command(
    help=with_examples("Remove all messages of a queue.", "msmq queue purge '.\\private$\\orders' --yes"),
    short_help="Remove all messages of a queue.",
)
def purge(ctx: typer.Context, queue: QueueName, yes: Yes = False, as_json: Json = False) -> None:
    confirm(ctx, f"Remove all messages of {queue}?", yes)
    _print_purged(queue, perform(ctx, lambda mq: mq.queue(queue).purge()), as_json)


def _print_purged(queue: str, count: int, as_json: bool) -> None:
    from msmq.cli.output import print_json, several

    if as_json:
        print_json({"queue": queue, "messages": count})
    else:
        print(f"removed {several(count, 'message')} from {queue}")


@app.command(
    help=with_examples(
        "Delete a queue with everything in it.", "msmq queue delete '.\\private$\\orders' --yes"
    ),
    short_help="Delete a queue.",
)
def delete(ctx: typer.Context, queue: QueueName, yes: Yes = False, as_json: Json = False) -> None:
    from msmq.cli.output import print_json

    confirm(ctx, f"Delete {queue} with everything in it?", yes)
    perform(ctx, lambda mq: mq.delete_queue(queue))
    print_json({"queue": queue, "deleted": True}) if as_json else print(f"deleted {queue}")


@acl.command(
    "show",
    help=with_examples("Show who may do what with a queue.", "msmq queue acl show '.\\private$\\orders'"),
)
def acl_show(ctx: typer.Context, queue: QueueName, as_json: Json = False) -> None:
    access.show(ctx, queue, as_json)


@acl.command("set", help=ACL_SET_HELP, short_help="Change who may do what with a queue.")
@with_options(wanted=access.wanted)
def acl_set(ctx: typer.Context, queue: QueueName, wanted: Any = None, as_json: Json = False) -> None:
    access.change(ctx, queue, wanted, as_json)
