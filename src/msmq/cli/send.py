"""``msmq send`` and ``msmq message new``: write messages. The work is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from msmq.cli.calls import MISUSED, STATUSES, Json, QueueName, fail, guarded, perform, with_options
from msmq.wire.bodies import Formatter

if TYPE_CHECKING:
    import msmq
    from msmq.client import Message, Receipt

SEND_HELP = (
    "Send a message, or many.\n\n"
    "The command ends when everything is safe: on disk in its queue, or on disk on its way to another host. Unless "
    "told otherwise a message is recoverable, in a transaction of its own where the queue is a transactional one of "
    "this computer, and goes to the dead-letter queue if it cannot be delivered.\n\nExamples:\n\n"
    "  msmq send '.\\private$\\orders' --body 'two coffees' --label 'table 7'\n\n"
    "  msmq send 'DIRECT=TCP:10.0.0.7\\private$\\orders' --file order.xml --transactional\n\n"
    "  tail -F app.log | msmq send '.\\private$\\log' - --lines\n\n"
    "  msmq send '.\\private$\\test' --body hello --count 1000\n\n"
    f"{STATUSES}"
)
NEW_HELP = (
    "Write a message as JSON and send nothing: to edit it, keep it, or send it later with --message or import.\n\n"
    "Examples:\n\n"
    "  msmq message new --body 'two coffees' --label 'table 7' > order.json\n\n"
    "  msmq send '.\\private$\\orders' --message order.json"
)


class AcknowledgeType(StrEnum):
    """The eight acknowledge types of Send-MsmqQueue."""

    NONE = "none"
    POSITIVE_ARRIVAL = "positive-arrival"
    POSITIVE_RECEIVE = "positive-receive"
    NEGATIVE_RECEIVE = "negative-receive"
    NOT_ACKNOWLEDGE_REACH_QUEUE = "not-acknowledge-reach-queue"
    NOT_ACKNOWLEDGE_RECEIVE = "not-acknowledge-receive"
    FULL_REACH_QUEUE = "full-reach-queue"
    FULL_RECEIVE = "full-receive"


ACKNOWLEDGE: Final = {
    AcknowledgeType.NONE: 0,
    AcknowledgeType.POSITIVE_ARRIVAL: 1,
    AcknowledgeType.POSITIVE_RECEIVE: 2,
    AcknowledgeType.NOT_ACKNOWLEDGE_REACH_QUEUE: 4,
    AcknowledgeType.FULL_REACH_QUEUE: 5,
    AcknowledgeType.NEGATIVE_RECEIVE: 8,
    AcknowledgeType.NOT_ACKNOWLEDGE_RECEIVE: 12,
    AcknowledgeType.FULL_RECEIVE: 14,
}

_Source = Annotated[
    str | None,
    typer.Argument(metavar="[-]", help="A dash: the body is read from standard input.", show_default=False),
]
_Body = Annotated[str | None, typer.Option(help="The body, as text.", show_default=False)]
_File = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The body, as it is in a file.", show_default=False)
]
_BodyAs = Annotated[
    Formatter,
    typer.Option(help="The formatter that writes the body; those of System.Messaging write text as text."),
]


def _properties(
    ctx: typer.Context,
    label: Annotated[str, typer.Option(help="A text for people.", show_default=False)] = "",
    express: Annotated[
        bool, typer.Option("--express", help="In memory: quick, and lost with the process.")
    ] = False,
    recoverable: Annotated[bool, typer.Option("--recoverable", help="On disk.")] = False,
    transactional: Annotated[
        bool, typer.Option("--transactional", help="On disk, exactly once and in order.")
    ] = False,
    priority: Annotated[
        int | None,
        typer.Option(min=0, max=7, help="0 to 7; the highest is received first.", show_default="3"),
    ] = None,
    correlation_id: Annotated[
        str, typer.Option(metavar="ID", help="Message identifier that this one answers.", show_default=False)
    ] = "",
    response_queue: Annotated[
        str, typer.Option(metavar="QUEUE", help="Where answers go.", show_default=False)
    ] = "",
    admin_queue: Annotated[
        str, typer.Option(metavar="QUEUE", help="Where acknowledgments go.", show_default=False)
    ] = "",
    acknowledge: Annotated[
        AcknowledgeType, typer.Option(help="Which acknowledgments are wanted.")
    ] = AcknowledgeType.NONE,
    time_to_reach_queue: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="It must reach its queue in time.", show_default=False),
    ] = None,
    time_to_be_received: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="It must be received in time.", show_default=False),
    ] = None,
    journal: Annotated[
        bool, typer.Option("--journal", help="Keep a copy in the journal of this computer.")
    ] = False,
    dead_letter: Annotated[
        bool, typer.Option("--dead-letter/--no-dead-letter", help="Keep it if it cannot be delivered.")
    ] = True,
    application_tag: Annotated[
        int, typer.Option(min=0, max=0xFFFFFFFF, help="A number for the application.")
    ] = 0,
    body_type: Annotated[
        int | None,
        typer.Option(metavar="VT", help="VARTYPE of the body, such as 8 for VT_BSTR.", show_default=False),
    ] = None,
) -> dict[str, Any]:
    """The properties of a message that the options name, as they stand in a file of messages."""
    kinds = {"express": express, "recoverable": recoverable, "transactional": transactional}
    named = [name for name, wanted in kinds.items() if wanted]
    if len(named) > 1:
        fail(ctx, f"--{named[0]} and --{named[1]} exclude each other", MISUSED)
    properties = {
        "label": label,
        "priority": priority,
        "delivery": named[0] if named else "default",
        "body_type": body_type,
        "correlation_id": correlation_id,
        "response_queue": response_queue,
        "admin_queue": admin_queue,
        "acknowledgements": ACKNOWLEDGE[acknowledge],
        "time_to_reach_queue": time_to_reach_queue,
        "time_to_be_received": time_to_be_received,
        "journal": journal,
        "dead_letter": dead_letter,
        "application_tag": application_tag,
    }
    return {name: value for name, value in properties.items() if value not in (None, "")}


def _bodies(
    ctx: typer.Context, source: str | None, body: str | None, file: Path | None, lines: bool
) -> Iterator[str | bytes]:
    """The bodies to send: one, or one per line."""
    if source not in (None, "-"):
        fail(ctx, f"{source!r} is no body: write --body TEXT, --file FILE, or - for standard input", MISUSED)
    if sum((source is not None, body is not None, file is not None)) > 1:
        fail(ctx, "--body, --file and - exclude each other", MISUSED)
    if lines and body is not None:
        fail(ctx, "--lines reads a file or standard input", MISUSED)
    if body is not None:
        yield body
    elif source is None and file is None:
        yield ""
    elif lines:
        with sys.stdin.buffer if file is None else file.open("rb") as stream:
            for line in stream:
                yield line.rstrip(b"\r\n").decode("utf-8", "replace")
    else:
        yield sys.stdin.buffer.read() if file is None else file.read_bytes()


@with_options(properties=_properties)
def send(
    ctx: typer.Context,
    queue: QueueName,
    source: _Source = None,
    body: _Body = None,
    file: _File = None,
    message: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A message of 'msmq message new', whole.", show_default=False),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a message.")] = False,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="Send it so many times.")] = 1,
    properties: Any = None,
    body_as: _BodyAs = Formatter.NATIVE,
    as_json: Json = False,
) -> None:
    if message is not None:
        if source is not None or body is not None or file is not None:
            fail(ctx, "--message is a whole message; it takes no other body", MISUSED)
        whole = guarded(ctx, lambda: _read(message))
        made = iter([whole])
    else:
        made = guarded(ctx, lambda: _messages(_bodies(ctx, source, body, file, lines), properties, body_as))
    sent = perform(ctx, lambda mq: _send(mq, queue, made, count, as_json))
    if not as_json:
        from msmq.cli.output import several

        print(f"sent {several(sent, 'message')} to {queue}")


def _read(file: Path) -> Message:
    import json

    from msmq.client.records import to_message

    text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    try:
        record = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file} is no JSON: {error}.") from error
    return to_message(record)


def _messages(
    bodies: Iterator[str | bytes], properties: dict[str, Any], formatter: Formatter
) -> Iterator[Message]:
    from msmq.client import Acknowledge, Delivery, Message
    from msmq.client.message import id_bytes

    given = {
        **properties,
        "delivery": Delivery[properties["delivery"].upper()],
        "acknowledgements": Acknowledge(properties["acknowledgements"]),
        "formatter": formatter,
    }
    if "correlation_id" in given:
        given["correlation_id"] = id_bytes(given["correlation_id"])
    return (Message(body, **given) for body in bodies)


_CHUNK: Final = 1024


async def _send(
    mq: msmq.Connection, queue: str, messages: Iterator[Message], count: int, as_json: bool
) -> int:
    """Send all messages in order, in chunks; what comes slowly from a pipe is sent as it comes."""
    target = mq.queue(queue)
    sent = 0
    for message in messages:
        left = count
        while left:
            chunk = min(left, _CHUNK)
            receipts = (
                await target.send_many([message] * chunk) if chunk > 1 else [await target.send(message)]
            )
            left -= chunk
            sent += chunk
            if as_json:
                _print_receipts(queue, receipts)
    return sent


def _print_receipts(queue: str, receipts: list[Receipt]) -> None:
    from msmq.cli.output import print_json

    for receipt in receipts:
        place = receipt.lookup_id
        print_json(
            {"queue": queue, "message_id": receipt.id, "lookup_id": place, "lookup_id_text": str(place)}
        )


@with_options(properties=_properties)
def new(
    ctx: typer.Context,
    source: _Source = None,
    body: _Body = None,
    file: _File = None,
    properties: Any = None,
) -> None:
    import base64

    from msmq.cli.output import print_json
    from msmq.client.records import to_message

    content = guarded(ctx, lambda: next(_bodies(ctx, source, body, file, False)))
    if isinstance(content, str):
        record = {**properties, "body": content}
    else:
        record = {**properties, "body": base64.b64encode(content).decode(), "body_encoding": "base64"}
    guarded(ctx, lambda: to_message(record))
    print_json(record)
