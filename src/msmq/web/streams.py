"""Operations on many messages: export and import, receive, and watch as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from msmq.client import ReceivedMessage
from msmq.client.connection import Connection
from msmq.client.problems import RowError
from msmq.client.records import RecordError, suited, to_message, to_record, transactional
from msmq.errors import IoTimeoutError, MessageNotFoundError, MsmqError
from msmq.web.application import Call, ProblemError
from msmq.web.messages import DOWNLOAD, FILTERS, USUAL_ROWS, find, total_of
from msmq.web.operations import HOST, NUMBER64, TEXT, MisuseError, Parameter, Table
from msmq.web.people import Role

TABLE: Final = Table()
_LINES: Final = "application/x-ndjson"
_TAIL_MESSAGES: Final = 10_000
_TAIL_S: Final = 600
_TAIL_PAUSE_S: Final = 0.5
_MOST_RECEIVED: Final = 100
_MOST_IMPORTED: Final = 10_000


@TABLE.add(
    "GET", "/api/queues/{queue}/export",
    "Messages as lines of JSON, as `msmq message export` writes them, or in the form of the wire, which `msmq decode` "
    "reads.",
    role=Role.LOOK, kind=_LINES,
    parameters=(
        *FILTERS,
        Parameter("form", {"enum": ["json", "packets"]}, "Lines of JSON when not given, or packets one after another."),
        HOST,
    ),
)  # fmt: skip
async def export_messages(call: Call) -> Any:
    mq, queue = await call.mq(), call.given["queue"]
    given: dict[str, Any] = dict(call.given)
    packets = given.pop("form", "json") == "packets"
    # a search that cannot be made fails before anything is sent
    found = await find(mq, queue, given, USUAL_ROWS)

    async def parts(found: dict[str, Any]) -> AsyncIterator[bytes]:
        while True:
            places = [int(each["lookup_id"]) for each in found["items"]]
            for message in await asyncio.gather(*(_message(mq, queue, place) for place in places)):
                if message is not None:
                    yield message.packet.data if packets else _line(message)
            if found["end"] or not found["looked_at"]:
                return
            given["after"] = found["last"]
            found = await find(mq, queue, given, USUAL_ROWS)

    return StreamingResponse(parts(found), 200, DOWNLOAD, "application/octet-stream" if packets else _LINES)


async def _message(mq: Connection, queue: str, place: int) -> ReceivedMessage | None:
    """Return a message, unless somebody took it meanwhile."""
    try:
        return await mq.queue(queue).lookup(place)
    except MessageNotFoundError:
        return None


def _line(message: ReceivedMessage) -> bytes:
    return json.dumps(to_record(message, exact=True)).encode() + b"\n"


def _from_lines(content: bytes) -> dict[str, Any]:
    """Make the body of an import from the lines of an export."""
    return {"messages": [json.loads(line) for line in content.splitlines() if line.strip()]}


@TABLE.add(
    "POST", "/api/queues/{queue}/import",
    "Send messages that were exported. With a name for the row, each is sent once however often this is repeated.",
    role=Role.OPERATE,
    parameters=(
        Parameter("row", {"type": "string", "pattern": "^[0-9a-f]{32}$"}, "Name of the row: 32 hexadecimal digits."),
        HOST,
    ),
    body={
        "type": "object", "required": ["messages"], "additionalProperties": False,
        "properties": {
            "messages": {
                "type": "array", "minItems": 1, "maxItems": _MOST_IMPORTED,
                "items": {"type": "object", "required": ["body"]},
            }
        },
    },
    other_forms={_LINES: _from_lines},
    reply={
        "type": "object",
        "properties": {"messages": {"type": "integer"}, "skipped": {"type": "integer"}},
    },
)  # fmt: skip
async def import_messages(call: Call) -> Any:
    mq, queue = await call.mq(), call.given["queue"]
    kind = await transactional(mq, queue)
    messages = []
    for number, record in enumerate(call.body["messages"], 1):
        try:
            messages.append(suited(to_message(record), kind))
        except RecordError as error:
            raise MisuseError(f"Message {number}: {error}") from error
    row = call.given.get("row")
    if row is None:
        await mq.queue(queue).send_many(messages)
        return {"messages": len(messages), "skipped": 0}
    before = await mq.queue(queue).send_once((), row=row, place=0)
    try:
        sent = await mq.queue(queue).send_once(messages, row=row, place=0)
    except RowError as error:
        raise ProblemError(
            400, "A message was refused", f"Message {error.sent + 1}: {error.error}"
        ) from error
    return {"messages": sent - before, "skipped": before}


@TABLE.add(
    "POST", "/api/queues/{queue}/receive",
    "Take messages out of a queue. They are gone when the answer is made: look first and remove them then if an answer "
    "that is lost on its way must not lose them.",
    role=Role.OPERATE, parameters=(HOST,),
    body={
        "type": "object", "additionalProperties": False,
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": _MOST_RECEIVED},
            "timeout": {"type": "number", "minimum": 0, "maximum": 60, "description": "Seconds for the first one."},
        },
    },
    reply={
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"lookup_id": NUMBER64, "label": TEXT}},
            }
        },
    },
)  # fmt: skip
async def receive_messages(call: Call) -> Any:
    count, wait_s = call.body.get("count", 1), float(call.body.get("timeout", 0))
    batch: list[ReceivedMessage] = []
    async with (await call.mq()).queue(call.given["queue"]).receiver(prefetch=count) as receiver:
        while len(batch) < count:
            try:
                batch.append(await receiver.receive(0 if batch else wait_s))
            except IoTimeoutError:
                break
        records = [to_record(message, exact=True) for message in batch]
        await receiver.acknowledge(*batch)
    for record in records:
        record["lookup_id"] = record.pop("lookup_id_text")
    return {"items": records}


# --- as they come -------------------------------------------------------------------------------------------------


@TABLE.add(
    "GET", "/api/queues/{queue}/tail", "Messages as they come, up to a limit, as server-sent events.",
    role=Role.LOOK, kind="text/event-stream",
    parameters=(
        *FILTERS,
        Parameter(
            "limit", {"type": "integer", "minimum": 1, "maximum": _TAIL_MESSAGES},
            f"How many messages at most; {_TAIL_MESSAGES:,} when not given.",
        ),
        Parameter(
            "seconds", {"type": "integer", "minimum": 1, "maximum": _TAIL_S},
            f"How long at most; {_TAIL_S} when not given.",
        ),
        HOST,
    ),
)  # fmt: skip
async def tail(call: Call) -> Any:
    mq, queue = await call.mq(), call.given["queue"]
    given: dict[str, Any] = dict(call.given)
    most, most_s = given.pop("limit", _TAIL_MESSAGES), given.pop("seconds", _TAIL_S)
    seen = call.request.headers.get("last-event-id", "")
    if seen.isdecimal():  # a browser that lost its connection continues where it was
        given["after"] = seen
    else:
        count = int(await total_of(mq, queue))
        given["after"] = (await find(mq, queue, {"skip": max(count - 1, 0)}, 1))["last"]

    async def events() -> AsyncIterator[bytes]:
        yield event("start", {"limit": most, "seconds": most_s}, given["after"])
        loop = asyncio.get_running_loop()
        shown, end_s = 0, loop.time() + most_s
        try:
            while shown < most and loop.time() < end_s:
                found = await find(mq, queue, given, min(USUAL_ROWS, most - shown))
                given["after"] = found["last"]
                shown += len(found["items"])
                for each in found["items"]:
                    yield event("message", each, each["lookup_id"])
                if found["end"]:
                    yield b": still here\n\n"
                    await asyncio.sleep(_TAIL_PAUSE_S)
        except MsmqError as error:
            yield event("problem", {"detail": str(error)})
        yield event("end", {"messages": shown})

    return stream(events())


def event(kind: str, value: Any, place: str = "") -> bytes:
    """Write a server-sent event; with a place, a browser that reconnects can tell how far it had come."""
    identifier = f"id: {place}\n" if place else ""
    return f"{identifier}event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def stream(events: AsyncIterator[bytes]) -> Response:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, 200, headers, "text/event-stream")
