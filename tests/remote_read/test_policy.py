"""Who may come without authentication."""

from __future__ import annotations

import pytest

from msmq.remote_read.policy import Policy
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.status import RpcFault
from msmq.security.sddl import parse_sddl
from tests.remote_read.support import on_loop, serving
from tests.rpc.support import ALICE

NONE, CONNECT, INTEGRITY, PRIVACY = AuthLevel.NONE, AuthLevel.CONNECT, AuthLevel.INTEGRITY, AuthLevel.PRIVACY
FREE = {"allow_nonauthenticated": True}

TABLE = [
    # policy, fWorkgroup, may anonymous callers, level that is needed
    ({}, False, False, PRIVACY),
    ({}, True, True, PRIVACY),
    (FREE, True, False, NONE),
    (FREE, False, False, NONE),
    ({**FREE, "deny_workgroup": True}, True, False, NONE),
    ({**FREE, "deny_workgroup": True}, False, False, PRIVACY),
    ({"deny_workgroup": True}, True, False, PRIVACY),
    ({"allow_none_security": True}, False, True, NONE),
    ({"allow_none_security": True}, False, False, PRIVACY),
    ({"minimum_level": INTEGRITY}, False, True, INTEGRITY),
    ({"minimum_level": NONE}, False, False, NONE),
]


@pytest.mark.parametrize(("policy", "workgroup", "anonymous_may", "level"), TABLE)
@pytest.mark.spec("MQRR-7-l")
def test_the_table(policy: dict[str, bool], workgroup: bool, anonymous_may: bool, level: AuthLevel) -> None:
    wanted = Policy(**policy)  # type: ignore[arg-type]
    assert wanted.required(workgroup=workgroup, anonymous_may=anonymous_may) is level


@pytest.mark.parametrize("level", [NONE, CONNECT, INTEGRITY, PRIVACY], ids=lambda each: each.name)
@pytest.mark.parametrize("workgroup", [0, 1])
@pytest.mark.parametrize("case", ["default", "free", "free to workgroups", "anonymous may", "integrity"])
@pytest.mark.spec("MQRR-5.1-a", "MQRR-3.1.4.2-l", "MQRR-7-l", "MQRR-3.1.4.11-d")
@on_loop
async def test_who_gets_in(case: str, workgroup: int, level: AuthLevel) -> None:
    policy = {
        "default": Policy(),
        "free": Policy(allow_nonauthenticated=True),
        "free to workgroups": Policy(allow_nonauthenticated=True, deny_workgroup=True),
        "anonymous may": Policy(allow_none_security=True),
        "integrity": Policy(INTEGRITY),
    }[case]
    async with serving(policy) as served:
        served.queue("orders", b"one")
        served.queue("closed", security=parse_sddl(f"D:(A;;0x10000000;;;{ALICE})").encode())
        async with await served.connect("alice" if level > NONE else None, level=level) as peer:
            assert await peer.get_port()  # free for everybody
            for name, anonymous_may in (("orders", True), ("closed", False)):
                needed = policy.required(workgroup=bool(workgroup), anonymous_may=anonymous_may)
                path = f"DIRECT=OS:HOST\\private$\\{name}"
                for open_ in (peer.open, peer.open_for_move):
                    if level >= needed and (level > NONE or anonymous_may):
                        await open_(path, f_workgroup=workgroup)
                        continue
                    with pytest.raises(RpcFault) as refused:
                        await open_(path, f_workgroup=workgroup)
                    # Too weak, or nobody at a queue that is not for nobody.
                    assert refused.value.status == (5 if level < needed else 0xC00E0025)
