"""A message and its record."""

from __future__ import annotations

import pytest

from msmq.manager.stored import LocalAttributes, StoredMessage
from tests.manager.support import NOON, Host, message


@pytest.mark.parametrize(
    "local",
    [
        LocalAttributes(),
        LocalAttributes(allow_peek_when_locked=True, application_deadletter_queue="HOST\\private$\\dead ☠"),
    ],
)
def test_what_no_header_carries_survives_beside_the_packet(local: LocalAttributes) -> None:
    host = Host()
    queue = host.queue()
    sent = message(b"body", recoverable=True)
    sent.local = local
    _, position = host.manager.sending.enqueue(queue, sent)
    assert position is not None
    host.kill()
    again = host.find()
    entry = again.positions.get(position.lookup_id)
    assert entry is not None
    loaded = host.manager.core.load(again, entry)
    assert loaded.local == local
    assert loaded.packet.data == sent.packet.data
    assert (loaded.lookup_id, loaded.arrival_time) == (position.lookup_id, NOON)


def test_size_and_expiry_follow_from_the_packet() -> None:
    plain = message(b"body")
    assert plain.size == len(plain.packet.data)
    assert plain.expiry is None
    assert message(sent_time=NOON, time_to_be_received_s=10).expiry == NOON + 10


def test_a_copy_is_for_another_place() -> None:
    first = message(b"body")
    copy = first.same_place(7)
    assert isinstance(copy, StoredMessage)
    assert (copy.lookup_id, copy.packet) == (7, first.packet)
