"""The port of remote read: 2103, or the next free one in steps of 11 (MS-MQRR 3.1.4.1, MS-MQMQ 1.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msmq.rpc.server import RpcServer

FIRST_PORT: Final = 2103
PORT_STEP: Final = 11
ATTEMPTS: Final = 10
ENDPOINT_MAPPER_PORT: Final = 135


def candidates(first: int = FIRST_PORT, attempts: int = ATTEMPTS) -> Iterator[int]:
    """The ports to try, in order."""
    return (first + PORT_STEP * number for number in range(attempts))


async def listen_on_fixed_port(server: RpcServer, address: str, first: int = FIRST_PORT) -> int:
    """Have ``server`` listen on the first port that is free; OSError if none is."""
    trouble: OSError | None = None
    for port in candidates(first):
        try:
            return await server.listen(address, port)
        except OSError as error:
            trouble = error
    assert trouble is not None
    raise trouble
