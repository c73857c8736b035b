"""Properties by their names in MS-MQMQ 2.3, through the channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.api.callers import token_digest
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, QueueNotFoundError
from tests.api.support import QUEUE, address, calling, daemon

BOB = "S-1-5-21-1-2-3-1002"
FAR = "DIRECT=TCP:127.0.0.9\\PRIVATE$\\far"


def by_name(reply: pb.Properties) -> dict[str, tuple[int, str, list[str]]]:
    return {given.name: (given.id, given.type, list(given.values)) for given in reply.properties}


@pytest.mark.spec("MQMQ-2.3.1.22-a")
async def test_a_queue(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        settings = pb.QueueSettings(label="All orders", journaling=True)
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE, settings=settings))
        found = by_name(await call("GetProperties", pb.GetPropertiesRequest(queue=QUEUE)))
        assert found["PROPID_Q_LABEL"] == (108, "VT_LPWSTR", ["All orders"])
        assert found["PROPID_Q_JOURNAL"] == (104, "VT_UI1", ["MQ_JOURNAL (1)"])
        assert found["PROPID_Q_PATHNAME"] == (103, "VT_LPWSTR", ["HOST\\private$\\q"])
        record = running.manager.core.record
        dns = f"{record.qualified_computer_name}\\private$\\q"
        assert found["PROPID_Q_PATHNAME_DNS"] == (124, "VT_LPWSTR", [dns])
        assert found["PROPID_MGMT_QUEUE_LOCATION"] == (4, "VT_LPWSTR", ["LOCAL"])
        assert not any("SECURITY" in name for name in found), "descriptors have a call of their own"
        assert "PROPID_MGMT_QUEUE_NEXTHOPS" not in found, "a queue of this computer has none"


async def test_an_outgoing_queue(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        with pytest.raises(QueueNotFoundError):
            await call("GetProperties", pb.GetPropertiesRequest(queue=FAR, outgoing=True))
        await call("Send", pb.SendRequest(queue=FAR, messages=[pb.Message(body=b"x")]))
        found = by_name(await call("GetProperties", pb.GetPropertiesRequest(queue=FAR, outgoing=True)))
        assert found["PROPID_MGMT_QUEUE_FORMATNAME"] == (2, "VT_LPWSTR", [FAR])
        assert found["PROPID_MGMT_QUEUE_MESSAGE_COUNT"] == (7, "VT_UI4", ["1"])
        assert not any(name.startswith("PROPID_Q_") for name in found)


async def test_the_queue_manager(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        for name in ("a", "b"):
            await call("CreateQueue", pb.CreateQueueRequest(path=f".\\private$\\{name}"))
        found = by_name(await call("GetProperties", pb.GetPropertiesRequest()))
        assert found["PROPID_QM_PATHNAME"] == (203, "VT_LPWSTR", ["HOST"])
        number, kind, values = found["PROPID_MGMT_MSMQ_PRIVATEQ"]
        assert (number, kind) == (2, "VT_LPWSTR | VT_VECTOR")
        assert {"HOST\\private$\\a", "HOST\\private$\\b"} <= set(values)


@pytest.mark.spec("MQMQ-2.2.24-g")
async def test_only_those_who_may_look_are_told(tmp_path: Path) -> None:
    tokens = {token_digest("bob"): BOB}
    async with (
        daemon(tmp_path, tokens=tokens) as running,
        calling(address(running)) as call,
        calling(address(running, "127"), "bob") as bob,
    ):
        sddl = f"D:(A;;{0xF003F & ~0x20:#x};;;{BOB})"
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE, sddl=sddl))
        with pytest.raises(AccessDeniedError):
            await bob("GetProperties", pb.GetPropertiesRequest(queue=QUEUE))
