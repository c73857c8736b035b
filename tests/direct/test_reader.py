"""Opening a queue of another host by its name."""

from __future__ import annotations

import pytest

from msmq import direct
from msmq.errors import QueueNotFoundError, UnsupportedFormatnameOperationError
from tests.remote_read.support import on_loop, serving
from tests.rpc.support import HOST


@pytest.mark.parametrize(
    ("name", "host"),
    [("DIRECT=OS:server\\private$\\q", "server"), ("DIRECT=TCP:10.0.0.7\\private$\\q", "10.0.0.7")],
)
def test_the_host_is_in_the_name(name: str, host: str) -> None:
    assert direct.host_of(name) == host


def test_names_that_tell_no_host() -> None:
    with pytest.raises(UnsupportedFormatnameOperationError):
        direct.host_of("PUBLIC=00000000-0000-0000-0000-000000000001")


@on_loop
async def test_reading_as_long_as_a_block_lasts() -> None:
    async with serving() as served:
        served.queue("orders", b"1", b"2", b"3")
        name = f"DIRECT=TCP:{HOST}\\private$\\orders"
        async with direct.reading(name, port=served.port) as queue:
            got = []
            async for pending in direct.receive(queue, timeout_s=0):
                got.append(pending.message.body)
                await pending.acknowledge()
            assert got == [b"1", b"2", b"3"]
            assert served.service.handles.open
        assert not served.service.handles.open
        with pytest.raises(QueueNotFoundError):
            async with direct.reading(name + "x", port=served.port):
                pass


@on_loop
async def test_the_host_may_be_told() -> None:
    async with serving() as served:
        served.queue("orders", b"1")
        async with direct.reading("DIRECT=OS:HOST\\private$\\orders", host=HOST, port=served.port) as queue:
            assert [each.body async for each in direct.browse(queue)] == [b"1"]


def test_everything_that_is_promised_is_there() -> None:
    assert all(hasattr(direct, name) for name in direct.__all__)
