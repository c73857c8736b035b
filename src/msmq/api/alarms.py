"""The alarm rules, kept in the ledger: they outlive the console, and follow the log to another instance.

The queue manager only keeps them. The console evaluates them and sends the notifications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from msmq.api.alarm_rules import MOST_RULES, check
from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import InvalidParameterError
from msmq.security.access import QueueManagerOperation, Token

KEY: Final = "alarms"


class AlarmCalls:
    """The calls about alarms."""

    def __init__(self, desk: Desk, recovered: Mapping[str, Any]) -> None:
        self._desk = desk
        self._rules = pb.AlarmRules()
        try:
            ParseDict({"rules": recovered.get(KEY, [])}, self._rules, ignore_unknown_fields=True)
        except ParseError:  # written by a version that knows other rules
            self._rules = pb.AlarmRules()

    async def get_alarms(self, request: pb.GetAlarmsRequest, caller: Token) -> pb.AlarmRules:
        self._desk.manager.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        return self._rules

    async def set_alarms(self, request: pb.AlarmRules, caller: Token) -> pb.AlarmRules:
        self._desk.manager.guard.check_manager(caller, QueueManagerOperation.SET_PROPERTIES)
        if len(request.rules) > MOST_RULES:
            raise InvalidParameterError(f"There are {MOST_RULES} alarms at most.")
        for rule in request.rules:
            check(rule)
        if len({rule.name for rule in request.rules}) < len(request.rules):
            raise InvalidParameterError("Two alarms have the same name.")
        told = MessageToDict(request, preserving_proto_field_name=True).get("rules", [])
        self._desk.manager.core.ledger.put_value(KEY, told)
        self._rules = request
        await self._desk.durable()
        return request
