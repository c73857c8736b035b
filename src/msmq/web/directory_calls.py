"""Differences between a host and its directory, over HTTP: like ``msmq directory check`` and ``msmq directory
repair``.
"""

from __future__ import annotations

from typing import Any, Final

from msmq.web.application import Call
from msmq.web.lists import PAGING, page, page_of
from msmq.web.operations import BOOLEAN, HOST, TEXT, Schema, Table
from msmq.web.people import Role
from msmq.web.shapes import plain

TABLE: Final = Table()
_DIFFERENCE: Final[Schema] = {
    "type": "object",
    "properties": {"kind": TEXT, "queue": TEXT, "detail": TEXT, "choices": {"type": "array", "items": TEXT}},
}


@TABLE.add(
    "GET", "/api/directory/differences", "Public queues that the host and its directory have differently.",
    role=Role.LOOK, parameters=(*PAGING, HOST), reply=page_of(_DIFFERENCE),
)  # fmt: skip
async def check_directory(call: Call) -> Any:
    found = [plain(each) for each in await (await call.mq()).check_directory()]
    return page(found, call.given, ("kind", "queue", "detail"))


@TABLE.add(
    "POST", "/api/directory/repair", "Do something about a difference; it says what can be done.",
    role=Role.ADMINISTER, parameters=(HOST,), status=204,
    body={
        "type": "object", "required": ["queue", "choice"], "additionalProperties": False,
        "properties": {
            "queue": {"type": "string", "minLength": 1, "maxLength": 500},
            "choice": {"type": "string", "maxLength": 40},
            "discard_messages": BOOLEAN,
        },
    },
)  # fmt: skip
async def repair_queue(call: Call) -> Any:
    discard = call.body.get("discard_messages", False)
    await (await call.mq()).repair_queue(call.body["queue"], call.body["choice"], discard_messages=discard)
