"""``msmq dead-letter``: messages that could not be delivered, and why. The work is imported when it runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from msmq.cli.calls import Json, LookupIds, Yes, confirm, fail, perform, with_examples

if TYPE_CHECKING:
    import msmq
    from msmq.client import ReceivedMessage

HELP = "Find messages that could not be delivered, and why."
LIST_HELP = (
    "List dead letters, plain and transactional, with the reason of each.\n\nExamples:\n\n"
    "  msmq dead-letter list\n\n"
    "  msmq dead-letter list --json | jq -r '[.label, .dead_letter_reason] | @tsv'"
)
RESEND_HELP = (
    "Send dead letters to their destination once more; each leaves the dead-letter queue in the same step, so that an "
    "interruption neither loses nor doubles one.\n\n"
    "Examples:\n\n  msmq dead-letter resend --all\n\n  msmq dead-letter resend --id 4503599627370497"
)
QUEUES: Final = (".\\deadletter$", ".\\xactdeadletter$")

app = typer.Typer(help=HELP, no_args_is_help=True)


async def _all(mq: msmq.Connection) -> list[ReceivedMessage]:
    return [message for queue in QUEUES async for message in mq.queue(queue).browse()]


@app.command("list", help=LIST_HELP, short_help="List dead letters with the reason of each.")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    from msmq.cli.output import one_line, print_json, print_table, several
    from msmq.client.records import to_record

    found = perform(ctx, _all)
    if as_json:
        for message in found:
            print_json(to_record(message))
        return
    if found:
        print_table(
            ("lookup id", "since", "label", "for", "reason"),
            [
                (
                    str(message.lookup_id),
                    message.arrived_time,
                    one_line(message.label, 30),
                    message.destination,
                    message.dead_letter_reason or "not known",
                )
                for message in found
            ],
        )
    print(several(len(found), "dead letter"))


@app.command(help=RESEND_HELP, short_help="Send dead letters once more.")
def resend(
    ctx: typer.Context,
    lookup_id: LookupIds = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json, several
    from msmq.client.records import again, transactional
    from msmq.errors import MessageNotFoundError

    if not lookup_id and not everything:
        fail(ctx, "say which: --id LOOKUP_ID or --all", 2)

    async def action(mq: msmq.Connection) -> int:
        wanted = [letter for letter in await _all(mq) if everything or letter.lookup_id in (lookup_id or ())]
        sent = 0
        for letter in wanted:
            kind = await transactional(mq, letter.destination)
            with suppress(MessageNotFoundError):  # another reader was quicker
                await mq.queue(letter.queue).exchange(letter, letter.destination, again(letter, kind))
                sent += 1
        return sent

    count = perform(ctx, action)
    print_json({"messages": count}) if as_json else print(f"sent {several(count, 'dead letter')} again")
    if lookup_id and count < len(set(lookup_id)):
        fail(ctx, "some of them are no dead letters of this computer")


@app.command(
    help=with_examples("Remove all dead letters, plain and transactional.", "msmq dead-letter purge --yes")
)
def purge(ctx: typer.Context, yes: Yes = False, as_json: Json = False) -> None:
    from msmq.cli.output import print_json, several

    confirm(ctx, "Remove all dead letters?", yes)

    async def action(mq: msmq.Connection) -> int:
        return sum([await mq.queue(queue).purge() for queue in QUEUES])

    count = perform(ctx, action)
    print_json({"messages": count}) if as_json else print(f"removed {several(count, 'dead letter')}")
