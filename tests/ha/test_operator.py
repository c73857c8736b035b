"""What operators ask and want."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from msmq.ha import operator
from msmq.ha.database import Database
from msmq.ha.errors import HaError, NotLeaderError
from msmq.ha.log import Row
from tests.ha.postgres import Server
from tests.ha.support import PATIENT_S, append, members


def test_nothing_was_started_yet(server: Server) -> None:
    with pytest.raises(HaError, match="no instance was started yet"):
        asyncio.run(operator.status(Database(server.address(), "nothing", PATIENT_S)))


def test_status_hand_over_and_fence(server: Server, tmp_path: Path) -> None:
    with members(server, tmp_path, "a") as (a,):
        status = asyncio.run(operator.status(a.database))
        assert (status.leader, status.view.epoch, status.segments) == ("", 0, 0)
        with pytest.raises(HaError, match="Nobody leads"):
            asyncio.run(operator.switch_over(a.database))
        a.lead()
        assert a.leadership is not None
        append(a.leadership, [Row(1, 0, b"x")])
        status = asyncio.run(operator.status(a.database))
        assert (status.leader, status.view.epoch, status.view.end, status.segments) == ("a", 1, 1, 1)
        assert status.synchronous == ""
        with pytest.raises(HaError, match="a leads already"):
            asyncio.run(operator.switch_over(a.database, "a"))
        assert asyncio.run(operator.switch_over(a.database, "b")) == "a"
        assert asyncio.run(operator.status(a.database)).view.handover == "b"
        assert asyncio.run(operator.fence(a.database)) == ("a", 2)
        with pytest.raises(NotLeaderError):
            append(a.leadership, [Row(1, 1, b"y")])
        status = asyncio.run(operator.status(a.database))
        assert (status.leader, status.view.epoch, status.view.end) == ("", 2, 1)
