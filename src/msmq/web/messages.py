"""Operations on messages: find, show, send, move and remove them, and watch them come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.connection import Connection
from msmq.client.message import id_bytes
from msmq.client.records import RecordError, suited, to_message, transactional
from msmq.errors import MsmqError
from msmq.web.application import Call, ProblemError
from msmq.web.body_path import BodyPath, PathError
from msmq.web.lists import in_order
from msmq.web.operations import HOST, NUMBER64, TEXT, MisuseError, Parameter, Schema, Table
from msmq.web.people import Role
from msmq.web.shapes import PREVIEW, ROW, headers_of, home_of, row, whole
from msmq.wire.classes import MessageClass

TABLE: Final = Table()
_MOST_ROWS: Final = 1_000
USUAL_ROWS: Final = 100
_LOOKED_AT: Final = 2_000_000
"""How many messages a search reads before it answers; the caller may continue from there."""
_MOST_SORTED: Final = 5_000
_BODY_BYTES: Final = 4 * PREVIEW
_MOST_CHOSEN: Final = 10_000
_TIME: Final[Schema] = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}", "maxLength": 40}
_U32: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF}
_IDENTIFIER: Final[Schema] = {"type": "string", "pattern": r"^[0-9A-Fa-f-]{36}\\[0-9]{1,10}$"}

FILTERS: Final = (
    Parameter("label", {"type": "string", "maxLength": 249}, "The label contains this, whatever its case."),
    Parameter("message_id", _IDENTIFIER, "The identifier is this one: GUID, backslash, number."),
    Parameter("correlation_id", _IDENTIFIER, "The correlation identifier is this one."),
    Parameter(
        "class",
        {"type": "array", "items": {"type": "string", "maxLength": 60}, "maxItems": 64},
        "Any of these classes, by number (0x8000) or name (NACK_RECEIVE_TIMEOUT).",
    ),
    Parameter("arrived_from", _TIME, "It arrived then or later; a time in ISO 8601."),
    Parameter("arrived_to", _TIME, "It arrived then or before."),
    Parameter("least_bytes", _U32, "Its size is at least this."),
    Parameter("greatest_bytes", _U32, "Its size is at most this."),
    Parameter(
        "body", {"type": "string", "maxLength": 1024}, "The body contains this text, in UTF-8 or UTF-16."
    ),
    Parameter(
        "body_path",
        {"type": "string", "maxLength": 512},
        "What holds inside of a body: order.lines[0].sku=A1 (JSON), /order/line/@sku=A1 (XML); without = it is there.",
    ),
)
_SEEK: Final = (
    Parameter("after", NUMBER64, "Begin behind this place."),
    Parameter(
        "skip", {"type": "integer", "minimum": 0, "maximum": 1 << 40}, "Begin behind so many messages."
    ),
    Parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": _MOST_ROWS}, "How many messages at most."
    ),
    Parameter(
        "columns",
        {"type": "array", "items": {"type": "string", "pattern": "^[a-z_]{1,40}$"}, "maxItems": 50},
        "Columns that are wanted, separated by commas; all when not given.",
    ),
)
_SORT: Final = Parameter(
    "sort",
    {"type": "string", "pattern": "^-?[a-z_]{1,40}$"},
    "Column to sort by, with a minus in front from the last to the first; of the first 5,000 messages that suit.",
)
_FOUND: Final[Schema] = {
    "type": "object",
    "required": ["items", "looked_at", "last", "end", "total"],
    "properties": {
        "items": {"type": "array", "items": ROW},
        "looked_at": {"type": "integer", "description": "How many messages were looked at."},
        "last": NUMBER64 | {"description": "Where that was; go on with it as `after`."},
        "end": {"type": "boolean", "description": "Whether the queue ends there."},
        "total": NUMBER64 | {"description": "Messages in the queue."},
    },
}
_CHOSEN: Final[Schema] = {"type": "array", "items": NUMBER64, "minItems": 1, "maxItems": _MOST_CHOSEN}
MESSAGE: Final[Schema] = {
    "type": "object",
    "required": ["body"],
    "additionalProperties": False,
    "properties": {
        "body": {},
        "body_encoding": {"enum": ["base64"]},
        "body_type": _U32,
        "label": {"type": "string", "maxLength": 249},
        "priority": {"type": "integer", "minimum": 0, "maximum": 7},
        "delivery": {"enum": ["default", "express", "recoverable", "transactional"]},
        "response_queue": {"type": "string", "maxLength": 1024},
        "admin_queue": {"type": "string", "maxLength": 1024},
        "acknowledgements": {"type": "integer", "minimum": 0, "maximum": 15},
        "correlation_id": {"type": "string", "maxLength": 60},
        "application_tag": _U32,
        "extension": {"type": "string", "maxLength": 4 << 20},
        "connector_type": {"type": "string", "maxLength": 40},
        "class_number": _U32,
        "time_to_reach_queue": _U32,
        "time_to_be_received": _U32,
        "journal": {"type": "boolean"},
        "dead_letter": {"type": "boolean"},
    },
}


def find_request(queue: str, given: dict[str, Any], body_bytes: int = _BODY_BYTES) -> pb.FindRequest:
    """Make the search request of the channel."""
    request = pb.FindRequest(queue=queue, label=given.get("label", ""), body_bytes=body_bytes)
    for name in ("message_id", "correlation_id"):
        if given.get(name):
            try:
                setattr(request, name, id_bytes(given[name]))
            except ValueError as error:
                raise MisuseError(str(error)) from None
    for name in ("arrived_from", "arrived_to"):
        if given.get(name):
            setattr(request, name, _seconds(given[name], name))
    for name in ("least_bytes", "greatest_bytes"):
        if name in given:
            setattr(request, name, given[name])
    for number in given.get("class", ()):
        request.classes.append(_class(number))
    if given.get("body"):
        text = given["body"]
        request.body_contains.extend({text.encode("utf-8", "replace"), text.encode("utf-16-le", "replace")})
    return request


def _class(text: str) -> int:
    """Parse the class of messages, given by number or name."""
    try:
        number = MessageClass[text.upper()] if text[:1].isalpha() else int(text, 0)
    except (KeyError, ValueError):
        raise MisuseError(f"{text[:60]} is no class of messages.") from None
    if not 0 <= number <= 0xFFFFFFFF:
        raise MisuseError(f"{text[:60]} is no class of messages.")
    return int(number)


def _seconds(text: str, name: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise MisuseError(f"{name} is no time in ISO 8601.") from None
    seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    if not 0 <= seconds <= 0xFFFFFFFF:
        raise MisuseError(f"{name} is a time that no message has.")
    return seconds


def _path_test(given: dict[str, Any]) -> BodyPath | None:
    try:
        return BodyPath(given["body_path"]) if given.get("body_path") else None
    except PathError as error:
        raise MisuseError(str(error)) from None


async def find(
    mq: Connection,
    queue: str,
    given: dict[str, Any],
    limit: int,
    looked_at: int = _LOOKED_AT,
    *,
    shape: Callable[[pb.FoundMessage], Any] = row,
    body_bytes: int = _BODY_BYTES,
) -> dict[str, Any]:
    """Return matching messages from a given start, as rows or in another shape, with a limited part of their bodies."""
    request, test = find_request(queue, given, body_bytes), _path_test(given)
    request.after = int(given.get("after", "0")) & 0xFFFFFFFFFFFFFFFF
    request.skip = given.get("skip", 0)
    request.most_looked_at = looked_at
    if test is None:
        request.most_messages = limit
    else:
        request.ClearField("body_bytes")
    rows: list[Any] = []
    looked, last, end = 0, request.after, False
    async with aclosing(mq.server_stream("Find", request)) as replies:  # type: ignore[type-var]
        async for reply in replies:
            looked, last, end = reply.looked_at, reply.last, reply.end
            for found in reply.messages:
                message = found.delivered.message
                if test is not None:
                    if not test.holds(message.body_type, message.body):
                        continue
                    last = found.delivered.lookup_id
                    message.body = message.body[:body_bytes]
                rows.append(shape(found))
                if len(rows) == limit:
                    break
            if len(rows) == limit:
                end = end and test is None
                break
    return {"items": rows, "looked_at": looked, "last": str(last), "end": end}


@TABLE.add(
    "GET", "/api/queues/{queue}/messages", "Find messages of a queue, in its order unless another is wanted.",
    role=Role.LOOK, parameters=(*FILTERS, *_SEEK, _SORT, HOST), reply=_FOUND,
)  # fmt: skip
async def find_messages(call: Call) -> Any:
    mq, queue = await call.mq(), call.given["queue"]
    limit = call.given.get("limit", USUAL_ROWS)
    if "sort" in call.given:
        found = await _sorted(mq, queue, call.given, limit)
    else:
        found = await find(mq, queue, call.given, limit)
    columns = call.given.get("columns")
    if columns:
        found["items"] = [{name: each[name] for name in columns if name in each} for each in found["items"]]
    return found | {"total": await total_of(mq, queue)}


async def _sorted(mq: Connection, queue: str, given: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return the first rows in another order. Only a limited number of messages is read and sorted, from a given start;
    `end` tells whether these were all."""
    unsorted = {name: value for name, value in given.items() if name != "skip"}
    found = await find(mq, queue, unsorted, _MOST_SORTED)
    skip = given.get("skip", 0)
    found["items"] = in_order(found["items"], given["sort"])[skip : skip + limit]
    return found


async def total_of(mq: Connection, queue: str) -> str:
    try:
        return str((await mq.queue_info(queue)).messages)
    except MsmqError:  # the name of an outgoing queue is that of a queue elsewhere
        outgoing = [each for each in await mq.outgoing_queues() if each.format_name.lower() == queue.lower()]
        return str(outgoing[0].messages) if outgoing else "0"


@TABLE.add(
    "POST", "/api/queues/{queue}/messages", "Send messages.", role=Role.OPERATE, parameters=(HOST,), status=201,
    body={
        "type": "object", "required": ["messages"], "additionalProperties": False,
        "properties": {"messages": {"type": "array", "minItems": 1, "maxItems": 1000, "items": MESSAGE}},
    },
    reply={
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"message_id": TEXT, "lookup_id": NUMBER64}},
            }
        },
    },
)  # fmt: skip
async def send_messages(call: Call) -> Any:
    mq, queue = await call.mq(), call.given["queue"]
    kind = await transactional(mq, queue)
    try:
        messages = [suited(to_message(each), kind) for each in call.body["messages"]]
    except RecordError as error:
        raise MisuseError(str(error)) from error
    receipts = await mq.queue(queue).send_many(messages)
    return {"items": [{"message_id": each.id, "lookup_id": str(each.lookup_id)} for each in receipts]}


@TABLE.add(
    "GET", "/api/queues/{queue}/messages/{lookup_id}", "Look at everything a message says.", role=Role.LOOK,
    parameters=(HOST,),
    reply={
        "type": "object",
        "properties": {"lookup_id": NUMBER64, "label": TEXT, "home": TEXT, "views": {"type": "object"}},
    },
)  # fmt: skip
async def get_message(call: Call) -> Any:
    mq = await call.mq()
    message = await mq.queue(call.given["queue"]).lookup(lookup(call))
    return whole(message) | {"home": home_of(message, (await mq.manager()).computer_name)}


def lookup(call: Call) -> int:
    number = int(call.given["lookup_id"])
    if number >> 64:
        raise ProblemError(404, "There is no such message")
    return number


@TABLE.add(
    "DELETE", "/api/queues/{queue}/messages/{lookup_id}", "Remove a message.", role=Role.OPERATE, parameters=(HOST,),
    status=204,
)  # fmt: skip
async def remove_message(call: Call) -> Any:
    removal = await (await call.mq()).queue(call.given["queue"]).remove([lookup(call)])
    if not removal.removed:
        raise ProblemError(404, "There is no such message", "It is gone, or somebody holds it.")


DOWNLOAD: Final = {"content-disposition": "attachment", "cache-control": "no-store"}


@TABLE.add(
    "GET", "/api/queues/{queue}/messages/{lookup_id}/body", "The body of a message, byte by byte.", role=Role.LOOK,
    parameters=(HOST,), kind="application/octet-stream",
)  # fmt: skip
async def get_body(call: Call) -> Any:
    message = await (await call.mq()).queue(call.given["queue"]).lookup(lookup(call))
    return Response(message.body, 200, DOWNLOAD, "application/octet-stream")


@TABLE.add(
    "GET", "/api/queues/{queue}/messages/{lookup_id}/packet", "A message in the form of the wire.", role=Role.LOOK,
    parameters=(HOST,), kind="application/octet-stream",
)  # fmt: skip
async def get_packet(call: Call) -> Any:
    message = await (await call.mq()).queue(call.given["queue"]).lookup(lookup(call))
    return Response(message.packet.data, 200, DOWNLOAD, "application/octet-stream")


@TABLE.add(
    "POST", "/api/queues/{queue}/remove", "Remove messages by their places.", role=Role.OPERATE, parameters=(HOST,),
    body={
        "type": "object", "required": ["lookup_ids"], "additionalProperties": False,
        "properties": {"lookup_ids": _CHOSEN},
    },
    reply={"type": "object", "properties": {"messages": {"type": "integer"}, "not_found": _CHOSEN | {"minItems": 0}}},
)  # fmt: skip
async def remove_messages(call: Call) -> Any:
    ids = [int(each) for each in call.body["lookup_ids"]]
    if any(each >> 64 for each in ids):
        raise MisuseError("A place has 64 bits.")
    removal = await (await call.mq()).queue(call.given["queue"]).remove(ids)
    return {
        "messages": removal.removed,
        "not_found": [str(each) for each in (*removal.not_found, *removal.held)],
    }


__all__ = ["FILTERS", "TABLE", "find", "headers_of"]
