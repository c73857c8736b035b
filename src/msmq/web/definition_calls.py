"""Definitions over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from starlette.responses import Response

from msmq.web.application import Call
from msmq.web.definitions import DOCUMENT, bring, diff, export, read_yaml, write_yaml
from msmq.web.operations import BOOLEAN, HOST, TEXT, Parameter, Schema, Table
from msmq.web.people import Role

TABLE: Final = Table()
_YAML: Final = "application/yaml"
_CHANGES: Final[Schema] = {
    "type": "object",
    "properties": {
        "changes": {
            "type": "array",
            "items": {"type": "object", "properties": {"what": TEXT, "thing": TEXT, "name": TEXT}},
        },
        "secrets": {"type": "object"},
    },
}  # fmt: skip


@TABLE.add(
    "GET", "/api/definitions", "Everything that is set up, as a document.", role=Role.LOOK, parameters=(HOST,),
    reply=DOCUMENT,
)  # fmt: skip
async def export_definitions(call: Call) -> Any:
    return await export(await call.mq())


@TABLE.add(
    "GET", "/api/definitions.yaml", "Everything that is set up, as a document of YAML.", role=Role.LOOK,
    parameters=(HOST,), kind=_YAML,
)  # fmt: skip
async def export_definitions_as_yaml(call: Call) -> Any:
    text = write_yaml(await export(await call.mq()))
    return Response(text, 200, {"cache-control": "no-store"}, _YAML)


@TABLE.add(
    "POST", "/api/definitions", "Set up what a document says; what it does not name stays.", role=Role.ADMINISTER,
    parameters=(Parameter("dry_run", BOOLEAN, "Only say what would change."), HOST), body=DOCUMENT, reply=_CHANGES,
    other_forms={_YAML: read_yaml},
)  # fmt: skip
async def import_definitions(call: Call) -> Any:
    mq = await call.mq()
    if call.given.get("dry_run", False):
        return {"changes": [asdict(each) for each in await diff(mq, call.body)], "secrets": {}}
    changes, secrets = await bring(mq, call.body)
    return {"changes": [asdict(each) for each in changes], "secrets": secrets}
