"""Sending to another host without a queue manager of one's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from msmq import direct
from msmq.errors import RemoteMachineNotAvailableError, TransactionUsageError
from msmq.manager.message import DeliveryGuarantee, Message
from tests.server.support import ALICE, free_port, run
from tests.server.test_remote_reading import EVERYBODY, NAME, node


def outgoing(body: bytes, *, recoverable: bool = True) -> Message:
    guarantee = DeliveryGuarantee.RECOVERABLE if recoverable else DeliveryGuarantee.EXPRESS
    return Message(body=body, delivery_guarantee=guarantee, destination_queue_format_name=NAME)


@pytest.mark.parametrize("recoverable", [True, False], ids=["recoverable", "express"])
def test_one_message(tmp_path: Path, recoverable: bool) -> None:
    async def test() -> None:
        async with node(tmp_path) as alice:
            queue = alice.queue(security=EVERYBODY)
            sent = await direct.send(
                NAME, b"hello", label="l", recoverable=recoverable, port=alice.config.port, application_tag=7
            )
            assert sent is direct.Outcome.DELIVERED
            (packet,) = alice.packets(queue)
            assert (packet.body, packet.label, packet.recoverable) == (b"hello", "l", recoverable)
            assert packet.properties.application_tag == 7

    run(test)


def test_many_messages_keep_their_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with node(tmp_path) as alice:
            queue = alice.queue(security=EVERYBODY)
            bodies = [str(number).encode() for number in range(200)]
            async with direct.sending(ALICE, alice.config.port, identity=bytes(range(16))) as sender:
                outcomes = await asyncio.gather(*[sender.send(outgoing(body)) for body in bodies])
            assert set(outcomes) == {direct.Outcome.DELIVERED}
            assert alice.bodies(queue) == bodies
            identifiers = [packet.identifier for packet in alice.packets(queue)]
            assert {each.queue_manager_guid for each in identifiers} == {bytes(range(16))}
            assert len({each.ordinal for each in identifiers}) == 200

    run(test)


def test_a_host_that_dies_leaves_the_outcome_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with node(tmp_path) as alice:
            alice.queue(security=EVERYBODY)
            async with direct.sending(ALICE, alice.config.port) as sender:
                alice.daemon.commit._broken = True  # nothing becomes durable any more
                waiting = asyncio.create_task(sender.send(outgoing(b"lost?")))
                await asyncio.sleep(0.1)
                assert not waiting.done()
                await alice.crash()
                assert await waiting is direct.Outcome.UNKNOWN
                assert await sender.send(outgoing(b"too late")) is direct.Outcome.UNKNOWN

    run(test)


def test_nobody_there() -> None:
    async def test() -> None:
        with pytest.raises(RemoteMachineNotAvailableError):
            await direct.send(NAME, b"x", port=free_port())

    run(test)


def test_a_host_that_speaks_something_else() -> None:
    async def test() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 smtp.example.org ready\r\n" * 100)
            await reader.read(10)
            writer.close()

        server = await asyncio.start_server(hang_up, ALICE, 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RemoteMachineNotAvailableError):
            await direct.send(NAME, b"x", port=port)
        server.close()
        await server.wait_closed()

    run(test)


def test_transactions_need_a_queue_manager(tmp_path: Path) -> None:
    async def test() -> None:
        async with node(tmp_path) as alice, direct.sending(ALICE, alice.config.port) as sender:
            message = outgoing(b"x")
            message.transaction_identifier = 1
            with pytest.raises(TransactionUsageError):
                await sender.send(message)

    run(test)
