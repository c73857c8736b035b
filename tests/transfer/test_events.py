"""The events of one call: grouped, in order, the closing last."""

from __future__ import annotations

from msmq.transfer.events import Closed, Established, MessagesAcknowledged, MessagesReceived
from msmq.wire.packets import ConnectionParameters, EstablishConnection
from tests.transfer import support
from tests.transfer.support import OURS, START_MS, THEIRS


def test_one_event_for_all_messages_of_a_read() -> None:
    """Per message the machine makes nothing but the message."""
    session = support.open_acceptor()
    data = b"".join(support.packet(number, recoverable=number % 2 == 0) for number in range(1, 8))
    (event,) = session.receive_data(data, START_MS)
    assert isinstance(event, MessagesReceived)
    assert list(event.messages.message_ids) == list(range(1, 8))
    assert (event.first_recoverable, event.recoverables) == (1, 3)
    (event,) = session.receive_data(data, START_MS)
    assert isinstance(event, MessagesReceived)
    assert (event.first_recoverable, event.recoverables) == (4, 3)


def test_everything_at_once() -> None:
    """A peer that sends its whole part in one go, and breaks off."""
    session = support.acceptor()
    session.receive_data(EstablishConnection.request(OURS, THEIRS, 0).encode(), START_MS)
    offer = ConnectionParameters.of(500, 20_000, 64).encode()
    events = session.receive_data(offer + support.packet(1, recoverable=True) + bytes(40), START_MS)
    assert [type(event) for event in events] == [Established, MessagesReceived, Closed]
    open_session = support.open_acceptor()
    open_session.send(support.packet(1), "one", START_MS)
    events = open_session.receive_data(support.packet(2) + support.ack(1, sent=1) + support.ack(9), START_MS)
    assert [type(event) for event in events] == [MessagesReceived, MessagesAcknowledged, Closed]
