"""Privacy levels of messages that arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.wire.classes import MessageClass
from msmq.wire.layout import PROPERTIES
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SecurityHeader
from tests.server.support import BOB, Peer, eventually, neighbourhood

NACK_ARRIVAL = 0x4


@pytest.mark.spec("MQMQ-2.2.19.3-u")
@pytest.mark.parametrize("secured", [False, True], ids=["without a SecurityHeader", "with a sender's name"])
async def test_a_privacy_level_outside_the_table_is_refused_on_a_clear_message_too(
    tmp_path: Path, secured: bool
) -> None:
    async with neighbourhood(tmp_path, send_insecure_nacks=True) as here:
        bob = await here.node(BOB)
        orders, admin = bob.queue(), bob.queue("admin")
        peer = Peer()
        await peer.connect(BOB, here.port)
        header = (
            SecurityHeader(flags=1, security_id=bytes.fromhex("010100000000000100000000"))
            if secured
            else None
        )
        for level, body in ((2, b"refused"), (4, b"refused"), (6, b"refused"), (0, b"taken")):
            packet = peer.message(
                body,
                recoverable=True,
                security=header,
                admin="OS:bob\\private$\\admin",
                acknowledge=NACK_ARRIVAL,
            )
            data = bytearray(packet.data)
            start = packet.properties_offset + PROPERTIES["privacy_level"]
            data[start : start + 4] = level.to_bytes(4, "little")
            peer.send(UserMessage.decode(bytes(data)))
        await eventually(lambda: bob.bodies(orders))
        assert bob.bodies(orders) == [b"taken"]
        await eventually(lambda: len(admin.positions) == 3)
        told = {packet.properties.message_class for packet in bob.packets(admin)}
        assert told == {MessageClass.NACK_BAD_SIGNATURE}
        await peer.close()
