"""TLS behind the gate."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop

import msmq
from msmq.api.callers import token_digest
from msmq.server.daemon import Daemon
from msmq.testing.traffic import Delivery, Door, Draft, Surroundings, Traffic, client_message
from tests.api.authority import Authority
from tests.api.support import QUEUE, address, config, daemon
from tests.server.support import eventually

ALICE = "S-1-5-21-1-2-3-1001"


def sealed(directory: Path) -> tuple[Authority, dict[str, Any]]:
    authority = Authority(directory / "authority")
    certificate, key = authority.issue("localhost")
    api = {
        "listen": ("tls:localhost:0",),
        "certificate": str(certificate),
        "private_key": str(key),
        "tokens": {token_digest("sesame"): ALICE},
        "administrators": (ALICE,),
    }
    return authority, api


async def test_who_is_slow_at_the_handshake_is_counted(tmp_path: Path) -> None:
    """A connection that never finishes its handshake takes the room of its own address, and not for long."""

    authority, api = sealed(tmp_path)
    wanted = replace(config(tmp_path / "a", **api), max_connections_per_address=3)
    running = Daemon(wanted)
    await running.start()
    try:
        place = address(running, "tls")
        port = int(place.rpartition(":")[2])
        slow = []
        for _ in range(5):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")  # the beginning of a ClientHello
            slow.append(sock)
        await eventually(lambda: running.gate.inside == 3)
        assert running.gate.opening == 3
        tls = msmq.Tls(authorities=authority.file)
        async with msmq.connect(place, token="sesame", tls=tls) as mq:
            assert (await mq.manager()).caller == ALICE
        for sock in slow:
            sock.close()
        await eventually(lambda: running.gate.inside == 0)
    finally:
        await running.stop()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_every_kind_of_message_in_both_directions(tmp_path: Path, loop: Any) -> None:
    """Whatever the size, from nothing to what a packet holds, and whatever it says; the priorities order them."""
    rng = Random(16)
    world = Surroundings(bytes(16), bytes(16), computer="HOST", unreachable="127.0.0.99", largest_body=70_000)
    traffic = Traffic(rng, world, Door.CLIENT, everything=True)
    limits = {"time_to_reach_queue_s": None, "time_to_be_received_s": None}
    kinds = [Delivery.EXPRESS, Delivery.RECOVERABLE]
    drafts = [traffic.draft(destination=QUEUE, delivery=rng.choice(kinds), **limits) for _ in range(60)]
    drafts += [Draft(QUEUE, rng.randbytes(size)) for size in (0, 1 << 14, 1_000_000, 4_190_000)]
    sent = sorted(drafts, key=lambda draft: -draft.priority)

    async def test() -> None:
        authority, api = sealed(tmp_path)
        async with daemon(tmp_path / "a", **api) as running:
            tls = msmq.Tls(authorities=authority.file)
            async with msmq.connect(address(running, "tls"), token="sesame", tls=tls) as mq:
                queue = await mq.create_queue(QUEUE)
                await queue.send_many([client_message(draft) for draft in drafts])
                seen = [message async for message in queue.browse()]
                taken = [await queue.receive(10) for _ in drafts]
                for found in (seen, taken):
                    assert [(each.body, each.label, each.extension) for each in found] == [
                        (draft.body, draft.label, draft.extension) for draft in sent
                    ]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test())


async def test_an_end_within_tls_is_an_end(tmp_path: Path) -> None:
    """Whoever takes leave, or sends what is no TLS, is gone; nothing of it stays."""

    authority, api = sealed(tmp_path)
    async with daemon(tmp_path / "a", **api) as running:
        port = int(address(running, "tls").rpartition(":")[2])
        context = ssl.create_default_context(cafile=authority.file)
        context.set_alpn_protocols(["h2"])
        for said in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"msmq-line/2\n", b"msmq-else"):
            reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
            writer.write(said)
            await writer.drain()
            if said.startswith(b"msmq-line"):
                assert await reader.readexactly(len(said)) == said
            writer.close()
            await eventually(lambda: running.gate.inside == 0)
        reader, writer = await asyncio.open_connection("localhost", port)
        writer.write(b"msmq-line/2\n")
        assert b"Only TLS is spoken here" in await reader.read()
        writer.close()
        await eventually(lambda: running.gate.inside == 0)
