"""Alarms over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from msmq.api import alarm_rules as limits
from msmq.client.connection import Connection
from msmq.web.alarms import Alarms, rule_of
from msmq.web.application import Call
from msmq.web.definitions import RULE
from msmq.web.lists import PAGING, page, page_of
from msmq.web.operations import TEXT, Schema, Table
from msmq.web.people import Role

TABLE: Final = Table()
_RULE: Final[Schema] = {
    "type": "object",
    "required": ["name", "kind"],
    "additionalProperties": False,
    "properties": RULE,
}
_RULES: Final[Schema] = {
    "type": "object",
    "required": ["rules"],
    "additionalProperties": False,
    "properties": {"rules": {"type": "array", "maxItems": limits.MOST_RULES, "items": _RULE}},
}
_ON: Final[Schema] = {
    "type": "object",
    "properties": {"rule": TEXT, "host": TEXT, "thing": TEXT, "value": {"type": "number"}, "since": TEXT},
}
_ALL: Final[Schema] = {
    "type": "object",
    "properties": {
        "rules": {"type": "array", "items": {"type": "object"}},
        "on": {"type": "array", "items": _ON},
    },
}


def _alarms(call: Call) -> Alarms:
    alarms: Alarms = call.around.parts["alarms"]
    return alarms


async def _keeper(call: Call) -> Connection:
    """Return a connection to the queue manager that keeps the rules, in the name of the caller."""
    return await call.around.people.connection(call.around.people.hosts[0], call.who.credential)


def _on(call: Call) -> list[dict[str, Any]]:
    return [alarm.shown() for alarm in _alarms(call).on.values() if alarm.told]


@TABLE.add("GET", "/api/alarms", "Rules of alarms, and which of them hold now.", role=Role.LOOK, reply=_ALL)
async def list_alarms(call: Call) -> Any:
    return {"rules": [asdict(rule) for rule in await (await _keeper(call)).alarms()], "on": _on(call)}


@TABLE.add(
    "PUT", "/api/alarms", "Go by these rules from now on.", role=Role.ADMINISTER, body=_RULES, reply=_ALL
)
async def set_alarms(call: Call) -> Any:
    rules = await (await _keeper(call)).set_alarms([rule_of(each) for each in call.body["rules"]])
    _alarms(call).go_by(rules)
    return {"rules": [asdict(rule) for rule in rules], "on": _on(call)}


@TABLE.add(
    "GET", "/api/alarms/rules", "Rules of alarms, as a list.", role=Role.LOOK, parameters=PAGING,
    reply=page_of({"type": "object"}),
)  # fmt: skip
async def list_alarm_rules(call: Call) -> Any:
    rules = await (await _keeper(call)).alarms()
    return page((asdict(rule) for rule in rules), call.given, ("name", "kind", "queue"))


@TABLE.add(
    "GET", "/api/alarms/on", "Alarms that are on, as a list.", role=Role.LOOK, parameters=PAGING, reply=page_of(_ON)
)  # fmt: skip
async def list_alarms_on(call: Call) -> Any:
    return page(_on(call), call.given, ("rule", "host", "thing"))
