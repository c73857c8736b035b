"""The rules of alarms are kept, by those who may."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, InvalidParameterError
from tests.api.support import address, calling, daemon

RULE = pb.AlarmRule(
    name="deep", kind="depth", threshold=10, queue="*", webhooks=["http://a/b"], mail_to=["a@b"]
)


async def test_rules_outlive_the_queue_manager(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("SetAlarms", pb.AlarmRules(rules=[RULE, pb.AlarmRule(name="away", kind="down")]))
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        found = (await call("GetAlarms", pb.GetAlarmsRequest())).rules
        assert [rule.name for rule in found] == ["deep", "away"]
        assert found[0] == RULE
        await call("SetAlarms", pb.AlarmRules())
        assert not (await call("GetAlarms", pb.GetAlarmsRequest())).rules


async def test_two_of_one_name_are_refused_whole(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        with pytest.raises(InvalidParameterError, match="same name"):
            await call("SetAlarms", pb.AlarmRules(rules=[RULE, RULE]))
        with pytest.raises(InvalidParameterError, match="none of"):
            await call("SetAlarms", pb.AlarmRules(rules=[RULE, pb.AlarmRule(name="a", kind="b")]))
        assert not (await call("GetAlarms", pb.GetAlarmsRequest())).rules


async def test_who_may_change_them(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        made = await call("CreateToken", pb.CreateTokenRequest(name="stranger"))
        async with calling(address(running, "127"), made.secret) as stranger:
            with pytest.raises(AccessDeniedError):
                await stranger("SetAlarms", pb.AlarmRules(rules=[RULE]))
