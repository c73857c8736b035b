"""Sending to another host without a queue manager of one's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from msmq import direct
from msmq.errors import RemoteMachineNotAvailableError
from msmq.manager.messages.message import DeliveryGuarantee, Message
from tests.server.support import ALICE, eventually, free_port
from tests.server.test_remote_read_door import EVERYBODY, NAME, node


def outgoing(body: bytes, *, recoverable: bool = True) -> Message:
    guarantee = DeliveryGuarantee.RECOVERABLE if recoverable else DeliveryGuarantee.EXPRESS
    return Message(body=body, delivery_guarantee=guarantee, destination_queue_format_name=NAME)


@pytest.mark.parametrize("recoverable", [True, False], ids=["recoverable", "express"])
async def test_one_message(tmp_path: Path, recoverable: bool) -> None:
    async with node(tmp_path) as alice:
        queue = alice.queue(security=EVERYBODY)
        sent = await direct.send(
            NAME, b"hello", label="l", recoverable=recoverable, port=alice.config.port, application_tag=7
        )
        assert sent is direct.Outcome.DELIVERED
        (packet,) = alice.packets(queue)
        assert (packet.body, packet.label, packet.recoverable) == (b"hello", "l", recoverable)
        assert packet.properties.application_tag == 7


async def test_many_messages_keep_their_order(tmp_path: Path) -> None:
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


async def test_a_host_that_dies_leaves_the_outcome_open(tmp_path: Path) -> None:
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


async def test_nobody_there() -> None:
    with pytest.raises(RemoteMachineNotAvailableError):
        await direct.send(NAME, b"x", port=free_port())


async def test_a_host_that_speaks_something_else() -> None:
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


def transactional(body: bytes, name: str = NAME, **properties: Any) -> Message:
    return Message(body=body, transaction_identifier=1, destination_queue_format_name=name, **properties)


async def test_transactional_messages_are_there_once_and_in_order(tmp_path: Path) -> None:
    async with node(tmp_path) as alice:
        queue = alice.queue(transactional=True, security=EVERYBODY)
        bodies = [str(number).encode() for number in range(200)]
        async with direct.sending(ALICE, alice.config.port) as sender:
            first = await asyncio.gather(*[sender.send(transactional(body)) for body in bodies[:150]])
            later = [await sender.send(transactional(body)) for body in bodies[150:152]]
        # Another sender has a sequence of its own.
        async with direct.sending(ALICE, alice.config.port, identity=sender.identity) as sender:
            rest = await asyncio.gather(*[sender.send(transactional(body)) for body in bodies[152:]])
        assert {*first, *later, *rest} == {direct.Outcome.DELIVERED}
        assert alice.bodies(queue) == bodies
        headers = [packet.transaction for packet in alice.packets(queue)]
        assert all(header and header.first_message and header.last_message for header in headers)


async def test_a_transactional_message_is_on_the_disk_when_it_is_delivered(tmp_path: Path) -> None:
    async with node(tmp_path) as alice:
        alice.queue(transactional=True, security=EVERYBODY)
        sent = await direct.send(NAME, b"kept", transactional=True, port=alice.config.port)
        assert sent is direct.Outcome.DELIVERED
        await alice.crash()
        await alice.start()
        assert alice.bodies(alice.find()) == [b"kept"]


async def test_an_order_acknowledgment_that_is_lost(tmp_path: Path) -> None:
    """The message goes again, is known as the same one, and its acknowledgment comes again."""
    async with node(tmp_path) as alice:
        queue = alice.queue(transactional=True, security=EVERYBODY)
        async with direct.sending(ALICE, alice.config.port) as sender:
            hear, lost = sender._hear, asyncio.Event()
            sender._hear = lambda message: lost.set()  # type: ignore[method-assign]
            waiting = asyncio.create_task(sender.send(transactional(b"once")))
            await lost.wait()
            sender._hear = hear  # type: ignore[method-assign]
            assert not waiting.done()
            (stream,) = sender._streams.values()
            stream.deadline_ms = 0  # thirty seconds have passed
            sender._timer_expired()
            assert await waiting is direct.Outcome.DELIVERED
        assert alice.bodies(queue) == [b"once"]


async def test_a_transactional_message_that_is_refused(tmp_path: Path) -> None:
    async with node(tmp_path) as alice:
        plain = alice.queue("plain", security=EVERYBODY)
        async with direct.sending(ALICE, alice.config.port) as sender:
            for queue in ("plain", "missing"):
                name = f"DIRECT=TCP:{ALICE}\\private$\\{queue}"
                asking = transactional(b"x", name, final_ack_required=True)
                assert await sender.send(asking) is direct.Outcome.REFUSED, queue
        assert not len(plain.positions)


async def test_a_host_that_dies_leaves_the_outcome_of_a_transactional_message_open(tmp_path: Path) -> None:
    async with node(tmp_path) as alice:
        alice.queue(transactional=True, security=EVERYBODY)
        async with direct.sending(ALICE, alice.config.port) as sender:
            alice.daemon.commit._broken = True  # nothing becomes durable any more
            waiting = asyncio.create_task(sender.send(transactional(b"lost?")))
            await eventually(lambda: sender._unsettled)
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await alice.crash()
            assert await waiting is direct.Outcome.UNKNOWN
