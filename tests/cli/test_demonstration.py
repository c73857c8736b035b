"""The link of the demonstration, and its ports."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from msmq.cli.demonstration import DemoError, Relay, Story, free_port


async def test_the_link_can_be_cut_and_restored() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(100):
                writer.write(data)
        writer.transport.abort()

    port = free_port("127.0.0.1")
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        link = Relay(("127.0.0.1", port), server.sockets[0].getsockname())
        await link.restore()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        await link.cut()
        with suppress(ConnectionError):
            assert await reader.read(1) == b""
        writer.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        await link.restore()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()
        await link.cut()
        await asyncio.sleep(0)


def test_a_story_is_good_when_everything_holds() -> None:
    told: list[tuple[str, str]] = []
    story = Story(lambda when, text: told.append((when, text)))
    assert not story.good
    story.tell("SHOP", "sent")
    assert told[0][1] == "sent"
    story.check("one", True, "")
    assert story.good
    story.check("two", False, "")
    assert not story.good


def test_addresses_that_are_not_ours() -> None:
    with pytest.raises(DemoError):
        free_port("192.0.2.1")
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        assert free_port("127.0.0.1") != door.getsockname()[1]
