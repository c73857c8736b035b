"""The published conversation (MS-MQQB 4.1), frames 3 to 8: two of our machines say the same, byte for byte.

GUIDs and times are inputs; the GUIDs of frame 4 are not those of frame 3, so that the opening is played once with
each pair. The second byte of a packet is reserved and holds whatever was in the writer's memory; ours is zero.
"""

from __future__ import annotations

import pytest

from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role, State
from msmq.transfer.timers import TimerSettings
from msmq.wire.packets import EstablishConnection
from tests.transfer import support
from tests.wire import vectors
from tests.wire.vectors import Vector

ROUND_TRIP_MS = 187
TIMERS = TimerSettings(ack_wait_timeout_ms=120_000)


def without_junk(data: bytes) -> bytes:
    return data[:1] + b"\0" + data[2:]


@pytest.mark.spec("MQQB-3.1.1.7.1-a")
@pytest.mark.parametrize("guids", [vectors.ESTABLISH_REQUEST, vectors.ESTABLISH_RESPONSE], ids=["3", "4"])
@pytest.mark.parametrize("cut", [support.whole, support.byte_by_byte, support.at_random])
def test_the_published_conversation(guids: Vector, cut: support.Cutter) -> None:
    published = EstablishConnection.decode(guids.data).header
    now = published.time_stamp
    client, server = published.client_guid, published.server_guid
    initiator: Session[str] = Session(Role.INITIATOR, SessionConfig(client, timers=TIMERS), now)
    acceptor: Session[str] = Session(Role.ACCEPTOR, SessionConfig(server), now)
    initiator.connected(now, server)

    def carry(source: Session[str], target: Session[str], at_ms: int) -> bytes:
        data = b"".join(source.data_to_send())
        for piece in cut(data):
            target.receive_data(piece, at_ms)
        return data

    request = carry(initiator, acceptor, now + 100)
    response = carry(acceptor, initiator, now + ROUND_TRIP_MS)
    if guids is vectors.ESTABLISH_REQUEST:
        assert request == without_junk(vectors.ESTABLISH_REQUEST.data)
    else:
        assert response == without_junk(vectors.ESTABLISH_RESPONSE.data)
    now += ROUND_TRIP_MS
    assert carry(initiator, acceptor, now) == without_junk(vectors.PARAMETERS_REQUEST.data)
    assert carry(acceptor, initiator, now) == without_junk(vectors.PARAMETERS_RESPONSE.data)
    assert initiator.state is acceptor.state is State.OPEN

    message = vectors.USER_MESSAGE.data
    assert initiator.send(message, "frame 7", now)
    assert carry(initiator, acceptor, now) == message
    assert acceptor.data_to_send() == []
    assert acceptor.next_deadline_ms == now + 60_000  # half of AckTimeout
    acceptor.handle_timer(now + 60_000)
    ack = b"".join(acceptor.data_to_send())
    assert ack == without_junk(vectors.SESSION_ACK.data)
    assert support.settled(initiator.receive_data(ack, now + 60_001)) == ["frame 7"]


@pytest.mark.spec("MQQB-4.1.3-b")
def test_the_bit_of_a_session_without_a_ping() -> None:
    """The dump has SE set although a ping was sent; ours is set when none was."""
    for pinged, system in ((False, 0x0310), (True, 0x0210)):
        (data,) = support.initiator(pinged=pinged).data_to_send()
        assert EstablishConnection.decode(data).header.operating_system == system
