"""Operations on queues, and on messages on their way to other hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msmq.client.info import AccessEntry, OutgoingInfo, PropertyValue
from msmq.web.application import Call
from msmq.web.definitions import SDDL, SETTINGS, settings_of
from msmq.web.lists import HIDE_EMPTY, PAGING, page, page_of
from msmq.web.operations import BOOLEAN, HOST, NUMBER64, TEXT, Parameter, Schema, Table
from msmq.web.people import Role
from msmq.web.shapes import by_name, plain

TABLE: Final = Table()
_U32: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF}
_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1024}
QUEUE: Final[Schema] = {
    "type": "object",
    "properties": {
        "path": TEXT,
        "format_name": TEXT,
        "kind": {"enum": ["private", "public", "system", "connector", "journal", "subqueue"]},
        "transactional": BOOLEAN,
        "messages": NUMBER64,
        "bytes": NUMBER64,
        "journal_messages": NUMBER64,
        "journal_bytes": NUMBER64,
        **SETTINGS,
    },
}
OUTGOING: Final[Schema] = {
    "type": "object",
    "properties": {
        "format_name": TEXT,
        "state": TEXT,
        "messages": NUMBER64,
        "bytes": NUMBER64,
        "last_error": TEXT,
        "last_error_words": TEXT,
    },
}
_PROPERTY: Final[Schema] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"}, "name": TEXT, "type": TEXT, "values": {"type": "array", "items": TEXT},
    },
}  # fmt: skip
_COUNT: Final[Schema] = {"type": "object", "required": ["messages"], "properties": {"messages": NUMBER64}}
_SECURITY: Final[Schema] = {
    "type": "object",
    "properties": {"owner": TEXT, "sddl": TEXT, "entries": {"type": "array"}},
}
_CHANGED_SECURITY: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "owner": {"type": "string", "maxLength": 200},
        "sddl": SDDL,
        "entries": {
            "type": "array",
            "maxItems": 1000,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["sid", "rights"],
                "properties": {
                    "sid": {"type": "string", "maxLength": 200},
                    "rights": _U32,
                    "allow": BOOLEAN,
                    "name": TEXT,
                },
            },
        },
    },
}
_WITH = (
    Parameter("system", BOOLEAN, "With the system's own queues."),
    Parameter("journals", BOOLEAN, "With journals as queues of their own."),
    Parameter("subqueues", BOOLEAN, "With subqueues as queues of their own."),
)


def outgoing_row(info: OutgoingInfo) -> dict[str, Any]:
    shown: dict[str, Any] = plain(info)
    return shown | {"last_error": info.last_error, "last_error_words": info.last_error_words}


@TABLE.add(
    "GET", "/api/queues", "List queues.", role=Role.LOOK,
    parameters=(*_WITH, *PAGING, HIDE_EMPTY, HOST), reply=page_of(QUEUE),
)  # fmt: skip
async def list_queues(call: Call) -> Any:
    given = call.given
    found = await (await call.mq()).queues(
        system=given.get("system", False),
        journals=given.get("journals", False),
        subqueues=given.get("subqueues", False),
    )
    return page(by_name(found), given, ("path", "label", "format_name"))


@TABLE.add(
    "POST", "/api/queues", "Create a queue.", role=Role.ADMINISTER, parameters=(HOST,), reply=QUEUE, status=201,
    body={
        "type": "object", "required": ["path"], "additionalProperties": False,
        "properties": {
            "path": _NAME, "transactional": BOOLEAN, "sddl": SDDL, **SETTINGS
        },
    },
)  # fmt: skip
async def create_queue(call: Call) -> Any:
    mq, given = await call.mq(), call.body
    await mq.create_queue(
        given["path"],
        transactional=given.get("transactional", False),
        sddl=given.get("sddl", ""),
        **settings_of(given),
    )
    return plain(await mq.queue_info(given["path"]))


@TABLE.add("GET", "/api/queues/{queue}", "Look at a queue.", role=Role.LOOK, parameters=(HOST,), reply=QUEUE)
async def get_queue(call: Call) -> Any:
    return plain(await (await call.mq()).queue_info(call.given["queue"]))


@TABLE.add(
    "PATCH", "/api/queues/{queue}", "Change properties of a queue.", role=Role.ADMINISTER, parameters=(HOST,),
    reply=QUEUE, body={"type": "object", "additionalProperties": False, "properties": SETTINGS},
)  # fmt: skip
async def set_queue(call: Call) -> Any:
    return plain(await (await call.mq()).set_queue(call.given["queue"], **settings_of(call.body)))


@TABLE.add(
    "DELETE", "/api/queues/{queue}", "Delete a queue with everything in it.", role=Role.ADMINISTER,
    parameters=(HOST,), status=204,
)  # fmt: skip
async def delete_queue(call: Call) -> Any:
    await (await call.mq()).delete_queue(call.given["queue"])


@TABLE.add(
    "POST", "/api/queues/{queue}/purge", "Remove all messages of a queue.", role=Role.OPERATE, parameters=(HOST,),
    reply=_COUNT,
)  # fmt: skip
async def purge_queue(call: Call) -> Any:
    return {"messages": str(await (await call.mq()).queue(call.given["queue"]).purge())}


@TABLE.add(
    "GET", "/api/queues/{queue}/locate", "Where a queue is: here, or on which other host.", role=Role.LOOK,
    parameters=(HOST,), reply={"type": "object", "properties": {"here": BOOLEAN, "host": TEXT, "format_name": TEXT}},
)  # fmt: skip
async def locate_queue(call: Call) -> Any:
    return plain(await (await call.mq()).locate(call.given["queue"]))


@TABLE.add(
    "GET", "/api/queues/{queue}/properties", "The properties of a queue by their names in MS-MQMQ.", role=Role.LOOK,
    parameters=(*PAGING, HOST), reply=page_of(_PROPERTY),
)  # fmt: skip
async def queue_properties(call: Call) -> Any:
    return _properties(await (await call.mq()).properties(call.given["queue"]), call)


@TABLE.add(
    "GET", "/api/manager/properties", "The properties of the queue manager by their names in MS-MQMQ.",
    role=Role.LOOK, parameters=(*PAGING, HOST), reply=page_of(_PROPERTY),
)  # fmt: skip
async def manager_properties(call: Call) -> Any:
    return _properties(await (await call.mq()).properties(), call)


def _properties(found: Iterable[PropertyValue], call: Call) -> dict[str, Any]:
    return page(by_name(found), call.given, ("id", "name", "values"))


@TABLE.add(
    "GET", "/api/queues/{queue}/security", "Who may do what with a queue.", role=Role.LOOK, parameters=(HOST,),
    reply=_SECURITY,
)  # fmt: skip
async def queue_security(call: Call) -> Any:
    return plain(await (await call.mq()).security(call.given["queue"]))


@TABLE.add(
    "PUT", "/api/queues/{queue}/security", "Change who may do what with a queue.", role=Role.ADMINISTER,
    parameters=(HOST,), reply=_SECURITY, body=_CHANGED_SECURITY,
)  # fmt: skip
async def set_queue_security(call: Call) -> Any:
    return plain(await (await call.mq()).set_security(call.given["queue"], **security_of(call.body)))


def security_of(given: dict[str, Any]) -> dict[str, Any]:
    entries = given.get("entries")
    return {
        "owner": given.get("owner", ""),
        "sddl": given.get("sddl", ""),
        "entries": None
        if entries is None
        else [AccessEntry(each["sid"], each["rights"], each.get("allow", True)) for each in entries],
    }


@TABLE.add(
    "GET", "/api/manager/security", "Who may do what with the queue manager.", role=Role.LOOK, parameters=(HOST,),
    reply=_SECURITY,
)  # fmt: skip
async def manager_security(call: Call) -> Any:
    return plain(await (await call.mq()).security())


@TABLE.add(
    "PUT", "/api/manager/security", "Change who may do what with the queue manager.", role=Role.ADMINISTER,
    parameters=(HOST,), reply=_SECURITY, body=_CHANGED_SECURITY,
)  # fmt: skip
async def set_manager_security(call: Call) -> Any:
    return plain(await (await call.mq()).set_security(**security_of(call.body)))


# --- messages on their way ----------------------------------------------------------------------------------------


@TABLE.add(
    "GET", "/api/outgoing", "List queues of messages on their way to other hosts.", role=Role.LOOK,
    parameters=(*PAGING, HIDE_EMPTY, HOST), reply=page_of(OUTGOING),
)  # fmt: skip
async def list_outgoing(call: Call) -> Any:
    found = await (await call.mq()).outgoing_queues()
    return page(map(outgoing_row, found), call.given, ("format_name", "state", "last_error"))


@TABLE.add(
    "GET", "/api/outgoing/{queue}/properties", "Management properties of an outgoing queue by their names in MS-MQMQ.",
    role=Role.LOOK, parameters=(*PAGING, HOST), reply=page_of(_PROPERTY),
)  # fmt: skip
async def outgoing_properties(call: Call) -> Any:
    return _properties(await (await call.mq()).properties(call.given["queue"], outgoing=True), call)


@TABLE.add(
    "POST",
    "/api/outgoing/{queue}/pause",
    "Stop sending.",
    role=Role.OPERATE,
    parameters=(HOST,),
    reply=OUTGOING,
)
async def pause_outgoing(call: Call) -> Any:
    return outgoing_row(await (await call.mq()).pause_outgoing(call.given["queue"]))


@TABLE.add(
    "POST",
    "/api/outgoing/{queue}/resume",
    "Go on sending.",
    role=Role.OPERATE,
    parameters=(HOST,),
    reply=OUTGOING,
)
async def resume_outgoing(call: Call) -> Any:
    return outgoing_row(await (await call.mq()).resume_outgoing(call.given["queue"]))


@TABLE.add(
    "POST", "/api/outgoing/{queue}/purge", "Remove all messages on their way to a destination.", role=Role.OPERATE,
    parameters=(HOST,), reply=_COUNT,
)  # fmt: skip
async def purge_outgoing(call: Call) -> Any:
    return {"messages": str(await (await call.mq()).purge_outgoing(call.given["queue"]))}
