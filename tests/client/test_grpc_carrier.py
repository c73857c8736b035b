"""One stream of gRPC, and how its end is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.grpc_carrier import GrpcStream, multicallable, problem
from msmq.client.problems import ConnectionLostError
from msmq.errors import MsmqError, QueueNotFoundError
from tests.api.support import address, daemon
from tests.server.support import eventually, run


class Ends:
    """What a stream said."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.errors: list[MsmqError] = []


def test_an_orderly_end_and_an_error(tmp_path: Path) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running, grpc.aio.insecure_channel(address(running)) as channel:
            seen = Ends()
            transact = GrpcStream(
                multicallable(channel, "Transact")(), seen.replies.append, seen.errors.append
            )
            transact.put(pb.TransactRequest(begin=pb.Begin()))
            transact.put(pb.TransactRequest(commit=pb.Commit()))
            await transact.close()
            assert [reply.WhichOneof("reply") for reply in seen.replies] == ["transaction", "committed"]
            assert transact.over
            failing = Ends()
            receive = GrpcStream(
                multicallable(channel, "Receive")(), failing.replies.append, failing.errors.append
            )
            receive.put(pb.ReceiveRequest(open=pb.OpenToReceive(queue=".\\private$\\none")))
            await eventually(lambda: failing.errors)
            assert isinstance(failing.errors[0], QueueNotFoundError)
            await receive.close()
            assert len(failing.errors) == 1

    run(test)


@pytest.mark.parametrize("details", ["", "Socket closed"])
def test_a_failure_without_a_status_of_ours_is_a_broken_connection(details: str) -> None:
    nothing = grpc.aio.Metadata()
    failure = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, details=details)
    found = problem(failure)
    assert isinstance(found, ConnectionLostError)
    assert (details or "UNAVAILABLE") in str(found)
