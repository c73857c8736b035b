"""All calls together: none is missing, and a mistake of ours tells nothing to the caller."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from msmq.api import rpc
from msmq.api.callers import Callers, Rules
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.service import Service
from tests.api.support import address, calling, daemon


async def test_every_method_has_its_handler(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        service = Service(running, Callers(Rules()))
        assert len(service.handlers()) == 2
        for method in rpc.methods():
            assert callable(service._handler(method)), method.name


async def test_a_bug_is_no_status_of_msmq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        monkeypatch.setattr(running.manager.guard, "check_manager", lambda *_: 1 / 0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call("GetManager", pb.GetManagerRequest())
        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        monkeypatch.undo()
        await call("GetManager", pb.GetManagerRequest())
