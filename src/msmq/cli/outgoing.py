"""``msmq outgoing``: messages on their way to other hosts. The work is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from msmq.cli.calls import Json, Yes, confirm, perform, with_examples

if TYPE_CHECKING:
    from msmq.client import OutgoingInfo

HELP = (
    "Look after messages on their way to other hosts.\n\n"
    "There is one outgoing queue for each destination. What waits there is safe: it goes as soon as the host can be "
    "reached, and to the dead-letter queue if it takes longer than its sender allowed."
)
LIST_HELP = (
    "List outgoing queues: state, next hop, what waits, and how the last attempt to connect went.\n\nExamples:\n\n"
    "  msmq outgoing list\n\n  msmq outgoing list --json | jq -r 'select(.messages > 0) | .format_name'"
)
_Destination = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE", help="The destination, as 'msmq outgoing list' shows it.", show_default=False
    ),
]

app = typer.Typer(help=HELP, no_args_is_help=True)


def shape(info: OutgoingInfo) -> dict[str, object]:
    """The JSON object for an outgoing queue."""
    from msmq.cli.output import plain

    shown: dict[str, object] = plain(info)
    return {**shown, "last_error": info.last_error, "last_error_words": info.last_error_words}


def _print(found: list[OutgoingInfo], as_json: bool) -> None:
    from msmq.cli.output import print_json, print_table, size

    if as_json:
        for info in found:
            print_json(shape(info))
        return
    print_table(
        ("destination", "state", "messages", "size", "unacknowledged", "unread", "next hop", "last error"),
        [
            (
                info.format_name,
                info.state,
                info.messages,
                size(info.bytes),
                info.unacknowledged,
                info.unreceived,
                ", ".join(info.next_hops),
                info.last_error_words,
            )
            for info in found
        ],
    )
    for sentence in sorted({f"{info.state}: {info.explanation}" for info in found if info.explanation}):
        print(sentence)


@app.command("list", help=LIST_HELP, short_help="List outgoing queues.")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    _print(perform(ctx, lambda mq: mq.outgoing_queues()), as_json)


@app.command(
    help=with_examples(
        "Show the management properties of an outgoing queue as MS-MQMQ 2.3.12 names and numbers them.",
        "msmq outgoing properties 'DIRECT=TCP:10.0.0.7\\private$\\orders'",
    ),
    short_help="Show PROPID_MGMT_QUEUE_*.",
)
def properties(ctx: typer.Context, queue: _Destination, as_json: Json = False) -> None:
    from msmq.cli.output import print_properties

    print_properties(perform(ctx, lambda mq: mq.properties(queue, outgoing=True)), as_json)


@app.command(
    help=with_examples(
        "Stop sending to a destination; messages wait here.",
        "msmq outgoing pause 'DIRECT=TCP:10.0.0.7\\private$\\orders'",
    ),
    short_help="Stop sending.",
)
def pause(ctx: typer.Context, queue: _Destination, as_json: Json = False) -> None:
    _print([perform(ctx, lambda mq: mq.pause_outgoing(queue))], as_json)


@app.command(
    help=with_examples(
        "Go on sending to a destination.", "msmq outgoing resume 'DIRECT=TCP:10.0.0.7\\private$\\orders'"
    ),
    short_help="Go on sending.",
)
def resume(ctx: typer.Context, queue: _Destination, as_json: Json = False) -> None:
    _print([perform(ctx, lambda mq: mq.resume_outgoing(queue))], as_json)


@app.command(
    help=with_examples(
        "Remove all messages that wait for a destination.",
        "msmq outgoing purge 'DIRECT=TCP:10.0.0.7\\private$\\orders' --yes",
    ),
    short_help="Remove what waits.",
)
def purge(ctx: typer.Context, queue: _Destination, yes: Yes = False, as_json: Json = False) -> None:
    from msmq.cli.output import print_json, several

    confirm(ctx, f"Remove all messages that wait for {queue}?", yes)
    count = perform(ctx, lambda mq: mq.purge_outgoing(queue))
    if as_json:
        print_json({"queue": queue, "messages": count})
    else:
        print(f"removed {several(count, 'message')} for {queue}")
