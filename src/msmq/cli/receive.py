"""``msmq receive``, ``peek``, ``follow``, ``move`` and ``message show``. The work is imported when it runs."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from msmq.cli.calls import MISUSED, STATUSES, TIMED_OUT, Json, LookupIds, QueueName, fail, perform

if TYPE_CHECKING:
    import msmq
    from msmq.client import Queue, ReceivedMessage

_WAITING: Final = (
    "Without --timeout only what is there already is taken; --timeout waits so many seconds for each message, --wait "
    "for ever."
)
RECEIVE_HELP = (
    "Take messages out of a queue.\n\n"
    f"A message leaves the queue after it was printed, so that a broken pipe loses nothing. {_WAITING}\n\nExamples:\n\n"
    "  msmq receive '.\\private$\\orders' --timeout 30\n\n"
    "  msmq receive '.\\private$\\orders' --all --json | jq .label\n\n"
    "  msmq receive '.\\private$\\orders' --id 4503599627370497\n\n"
    "  msmq receive '.\\private$\\orders' --body-as value --json | jq .value\n\n"
    f"{STATUSES}"
)
PEEK_HELP = (
    f"Look at messages and leave them where they are.\n\n{_WAITING}\n\nExamples:\n\n"
    "  msmq peek '.\\private$\\orders' --count 20\n\n"
    "  msmq peek '.\\private$\\orders' --all --label 'table *' --contains coffee\n\n"
    f"{STATUSES}"
)
FOLLOW_HELP = (
    "Show what is in a queue and everything that comes, until interrupted; it all stays there.\n\nExamples:\n\n"
    "  msmq follow '.\\private$\\orders'"
)
MOVE_HELP = (
    "Move messages to a subqueue, or to another queue.\n\n"
    "Between a queue and its subqueues the very messages move. To another queue, here or elsewhere, a copy is sent and "
    "the message removed in one step: whatever interrupts it, there is one of the two. From a queue of another host it "
    "is fetched: if that is interrupted, ask again; what was sent already is not sent twice.\n\nExamples:\n\n"
    "  msmq move '.\\private$\\orders' '.\\private$\\orders;later' --all\n\n"
    "  msmq move '.\\deadletter$' '.\\private$\\orders' --label 'table *'\n\n"
    "  msmq move '.\\private$\\orders' '.\\private$\\orders;poison' --id 4503599627370497"
)
SHOW_HELP = (
    "Show everything about one message, its body as text, XML, JSON or hexadecimal.\n\nExamples:\n\n"
    "  msmq message show '.\\private$\\orders' 216172782113783809"
)


class BodyAs(StrEnum):
    """How bodies are shown: as text or as their type says, as bytes, or decoded by the formatter that wrote them."""

    AUTO = "auto"
    HEX = "hex"
    VALUE = "value"
    ACTIVEX = "activex"
    XML = "xml"
    BINARY = "binary"
    JSON = "json"


_BodyAs = Annotated[
    BodyAs,
    typer.Option(
        help="How to read bodies: the formatter of System.Messaging that wrote them, or 'value' for whichever did. "
        "With --json the result is in 'value'."
    ),
]
_Count = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Most messages; 1 when not given.", show_default=False)
]
_All = Annotated[bool, typer.Option("--all", help="Everything that is there.")]
_Timeout = Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for each message.")]
_Wait = Annotated[bool, typer.Option("--wait", help="Wait for ever.")]
_Labelled = Annotated[
    str, typer.Option("--label", metavar="PATTERN", help="Only labels like this; * stands for anything.")
]
_Containing = Annotated[
    str, typer.Option("--contains", metavar="TEXT", help="Only bodies with this text.", show_default=False)
]

_MOVED_TOGETHER: Final = 100
_FETCHED_TOGETHER: Final = 100
"""The most messages fetched together. A queue manager remembers a thousand rows, some of them for others."""


def fits(label: str, contains: str) -> Callable[[ReceivedMessage], bool]:
    """Make the test for labels and contents of messages."""
    from fnmatch import fnmatchcase

    from msmq.client.records import text_of

    def check(message: ReceivedMessage) -> bool:
        if not fnmatchcase(message.label.lower(), label.lower()):
            return False
        if not contains:
            return True
        text = text_of(message)
        return contains.encode() in message.body if text is None else contains.lower() in text.lower()

    return check


# --- printing -----------------------------------------------------------------------------------------------------


def print_message(
    message: ReceivedMessage, as_json: bool, *, first: bool = True, body_as: BodyAs = BodyAs.AUTO
) -> None:
    """Print a whole message."""
    from msmq.cli.output import cell, clean, print_json
    from msmq.client.records import to_record

    if as_json:
        more = {} if body_as is BodyAs.AUTO else {"value": _value(message, body_as)}
        print_json(to_record(message) | more)
        return
    if not first:
        print()
    head = [
        message.label and f"label {message.label!r}",
        f"priority {message.priority}",
        message.delivery.name.lower(),
        message.class_name if message.message_class else "",
        message.dead_letter_reason,
        f"sent {cell(message.sent_time)}",
        f"lookup id {message.lookup_id}",
    ]
    print(clean(f"{message.id}  " + ", ".join(filter(None, head))))
    print(_body_text(message, body_as), flush=True)


def _body_text(message: ReceivedMessage, body_as: BodyAs) -> str:
    import json

    from msmq.cli.output import clean
    from msmq.client.records import hexadecimal, text_of

    if body_as is BodyAs.AUTO:
        text = text_of(message)
        if text is not None:
            return clean(text)
        value = message.value
        shown = (
            None if isinstance(value, bytes) else str(value) if not isinstance(value, dict | list) else value
        )
    else:
        shown = None if body_as is BodyAs.HEX else _value(message, body_as)
    if shown is None:
        return hexadecimal(message.body)
    return clean(shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, indent=2))


def _value(message: ReceivedMessage, body_as: BodyAs) -> Any:
    """The body in JSON types, or None if it cannot be read as asked."""
    from msmq.errors import DecodeError
    from msmq.wire.bodies import to_json

    if body_as is BodyAs.HEX:
        return message.body.hex()
    try:
        return to_json(message.value if body_as is BodyAs.VALUE else message.value_as(body_as.value))
    except DecodeError:
        return None


def _print_row(message: ReceivedMessage) -> None:
    from msmq.cli.output import cell, one_line
    from msmq.client.records import text_of

    text = text_of(message)
    shown = one_line(text) if text is not None else f"{len(message.body):,} bytes"
    label = one_line(message.label, 24)
    reason = f"  ({message.dead_letter_reason})" if message.dead_letter_reason else ""
    print(
        f"{message.lookup_id:>20}  {cell(message.arrived_time)}  {message.priority}  {label:<24}  {shown}{reason}",
        flush=True,
    )


# --- commands -----------------------------------------------------------------------------------------------------


def receive(
    ctx: typer.Context,
    queue: QueueName,
    count: _Count = None,
    everything: _All = False,
    timeout: _Timeout = 0,
    wait: _Wait = False,
    lookup_id: LookupIds = None,
    body_as: _BodyAs = BodyAs.AUTO,
    as_json: Json = False,
) -> None:
    patience = None if wait else timeout
    most = _most(ctx, count, everything)

    async def action(mq: msmq.Connection) -> int:
        if lookup_id:
            return await _receive_by_id(mq.queue(queue), lookup_id, as_json, body_as)
        return await _receive(mq.queue(queue), most, patience, as_json, body_as)

    if not perform(ctx, action):
        fail(ctx, f"no message came to {queue} in time; give --timeout SECONDS to wait longer", TIMED_OUT)


def _most(ctx: typer.Context, count: int | None, everything: bool) -> int:
    """The number of messages to take; 0 for all."""
    if count is not None and everything:
        fail(ctx, "say --count N or --all, not both", MISUSED)
    return 0 if everything else count or 1


async def _receive(queue: Queue, count: int, timeout: float | None, as_json: bool, body_as: BodyAs) -> int:
    """Print each message, then acknowledge it, so that a message nobody saw goes back. Only the wanted number is
    fetched, because the others would count as given back."""
    from msmq.errors import IoTimeoutError

    done = 0
    async with queue.receiver(prefetch=256 if not count else 1) as receiver:
        while not count or done < count:
            try:
                message = await receiver.receive(timeout)
            except IoTimeoutError:
                break
            print_message(message, as_json, first=not done, body_as=body_as)
            await receiver.acknowledge(message)
            done += 1
    return done


async def _receive_by_id(queue: Queue, ids: list[int], as_json: bool, body_as: BodyAs) -> int:
    """Print each message, then acknowledge it, like :func:`_receive`."""
    for number, lookup_id in enumerate(ids):
        held = await queue.hold_by_id(lookup_id)
        try:
            print_message(held.message, as_json, first=not number, body_as=body_as)
        except BaseException:
            held.give_back()
            raise
        held.keep()
    return len(ids)


def peek(
    ctx: typer.Context,
    queue: QueueName,
    count: _Count = None,
    everything: _All = False,
    timeout: _Timeout = 0,
    wait: _Wait = False,
    lookup_id: LookupIds = None,
    label: _Labelled = "*",
    contains: _Containing = "",
    body_as: _BodyAs = BodyAs.AUTO,
    as_json: Json = False,
) -> None:
    patience = None if wait else timeout
    most = _most(ctx, count, everything)
    wanted = fits(label, contains)

    async def action(mq: msmq.Connection) -> int:
        shown = 0
        found = _by_id(mq.queue(queue), lookup_id) if lookup_id else _peeked(mq.queue(queue), patience, most)
        async with aclosing(found):
            async for message in found:
                if wanted(message):
                    if as_json or most == 1 or lookup_id:
                        print_message(message, as_json, first=not shown, body_as=body_as)
                    else:
                        _print_row(message)
                    shown += 1
                    if shown == most and not lookup_id:
                        break
        return shown

    if not perform(ctx, action):
        fail(ctx, f"no message came to {queue} in time; give --timeout SECONDS to wait longer", TIMED_OUT)


async def _by_id(queue: Queue, ids: list[int]) -> AsyncGenerator[ReceivedMessage, None]:
    for lookup_id in ids:
        yield await queue.lookup(lookup_id)


async def _peeked(queue: Queue, timeout: float | None, most: int) -> AsyncGenerator[ReceivedMessage, None]:
    from msmq.client import Mode
    from msmq.errors import IoTimeoutError

    prefetch = min(most, 100) if most else 100
    async with queue.receiver(mode=Mode.PEEK, prefetch=prefetch) as receiver:
        while True:
            try:
                yield await receiver.receive(timeout)
            except IoTimeoutError:
                return


def follow(
    ctx: typer.Context,
    queue: QueueName,
    label: _Labelled = "*",
    contains: _Containing = "",
    body_as: _BodyAs = BodyAs.AUTO,
    as_json: Json = False,
) -> None:
    wanted = fits(label, contains)

    async def action(mq: msmq.Connection) -> None:
        async for message in mq.queue(queue).watch():
            if wanted(message):
                if as_json:
                    print_message(message, True, body_as=body_as)
                else:
                    _print_row(message)

    perform(ctx, action)


def show(
    ctx: typer.Context,
    queue: QueueName,
    lookup_id: Annotated[
        int, typer.Argument(metavar="LOOKUP_ID", help="As 'msmq peek' shows it.", show_default=False)
    ],
    body_as: _BodyAs = BodyAs.AUTO,
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_sheet
    from msmq.client.records import to_record

    message = perform(ctx, lambda mq: mq.queue(queue).lookup(lookup_id))
    if as_json:
        print_message(message, True, body_as=body_as)
        return
    record = to_record(message)
    print_sheet([(name.replace("_", " "), value) for name, value in record.items() if name != "body"])
    print()
    print(_body_text(message, body_as))


# --- moving -------------------------------------------------------------------------------------------------------


def move(
    ctx: typer.Context,
    source: QueueName,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A subqueue, or another queue.", show_default=False)
    ],
    lookup_id: LookupIds = None,
    everything: _All = False,
    label: _Labelled = "*",
    contains: _Containing = "",
    as_json: Json = False,
) -> None:
    from msmq.cli.output import print_json, several

    if not (lookup_id or everything or label != "*" or contains):
        fail(ctx, "say which messages: --id LOOKUP_ID, --label PATTERN, --contains TEXT or --all", MISUSED)
    wanted = fits(label, contains)

    async def action(mq: msmq.Connection) -> int:
        chosen = set(lookup_id or ())
        ids = [
            message.lookup_id
            async for message in mq.queue(source).browse()
            if (not chosen or message.lookup_id in chosen) and wanted(message)
        ]
        if _root(source) == _root(target):
            return await _move_within(mq.queue(source), ids, target)
        return await _move_across(mq, source, ids, target)

    moved = perform(ctx, action)
    if as_json:
        print_json({"queue": source, "target": target, "messages": moved})
    else:
        print(f"moved {several(moved, 'message')} from {source} to {target}")
    if lookup_id and moved < len(set(lookup_id)):
        fail(ctx, f"{len(set(lookup_id)) - moved} of the messages are not in {source}")


def _root(name: str) -> str:
    return name.partition(";")[0].lower()


async def _move_within(queue: Queue, ids: list[int], target: str) -> int:
    moved = 0
    for start in range(0, len(ids), _MOVED_TOGETHER):
        moved += await queue.move(ids[start : start + _MOVED_TOGETHER], target)
    return moved


async def _move_across(mq: msmq.Connection, source: str, ids: list[int], target: str) -> int:
    from msmq.client.records import again, transactional
    from msmq.errors import MessageNotFoundError

    kind = await transactional(mq, target)
    if await mq.elsewhere(source) is not None:
        return await _fetch(mq, source, ids, target, kind)
    queue, moved = mq.queue(source), 0
    for lookup_id in ids:
        try:
            await queue.exchange(lookup_id, target, again(await queue.lookup(lookup_id), kind))
        except MessageNotFoundError:  # another reader was quicker
            continue
        moved += 1
    return moved


async def _fetch(mq: msmq.Connection, source: str, ids: list[int], target: str, kind: bool | None) -> int:
    """Move messages from another host. Each is held there until it has been sent here, as a row of its own, and only
    then removed: if that is interrupted, the next attempt finds the message there and does not send it twice."""
    from msmq.client.records import again
    from msmq.errors import MessageNotFoundError

    queue, moved = mq.queue(source), 0
    for start in range(0, len(ids), _FETCHED_TOGETHER):
        rows: dict[int, str] = {}
        async with queue.cursor(receive=True) as cursor:
            for lookup_id in ids[start : start + _FETCHED_TOGETHER]:
                try:
                    held = await cursor.hold_by_id(lookup_id, 0)
                except MessageNotFoundError:  # another reader was quicker
                    continue
                name = f"{_root(source)} {held.message.id} {lookup_id} {target.lower()}"
                rows[lookup_id] = hashlib.sha256(name.encode()).hexdigest()
                message = again(held.message, kind)
                await mq.queue(target).send_once([message], row=rows[lookup_id], place=0)
                held.keep()
        async with queue.cursor() as cursor:
            for lookup_id, row in rows.items():
                try:
                    await cursor.look_at(lookup_id, 0)
                except MessageNotFoundError:  # it is gone there, so its row is no longer needed
                    await mq.queue(target).forget_row(row)
                    moved += 1
    return moved
