"""What a reader makes of a packet."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from msmq.errors import DecodeError
from msmq.manager.mailbox.stored import StoredMessage
from msmq.remote_read.remote_message import RemoteMessage
from msmq.remote_read.sections import packet_of
from msmq.wire.headers import BaseHeader
from msmq.wire.optional_headers import TransactionHeader
from tests.manager.support import Host
from tests.wire.builders import build

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "labelled": {"label": "a label"},
    "urgent": {"base": BaseHeader(flags=7)},
    "transactional": {"transaction": TransactionHeader()},
}


@cache
def packet(kind: str = "plain", body: bytes = b"the body", *, trailers: bool = True) -> bytes:
    host = Host()
    stored = StoredMessage(build(body=body, **KINDS[kind]))
    return packet_of(host.queue(), stored, host.manager.transactions) if trailers else stored.packet.data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trailers", [True, False], ids=["trailers", "bare"])
def test_what_a_message_says_is_what_its_headers_say(kind: str, trailers: bool) -> None:
    data = packet(kind, trailers=trailers)
    found = RemoteMessage(data, 5, 7)
    assert found.body == found.packet.body == b"the body"
    assert found.body_size == found.packet.properties.message_size
    assert found.label == found.packet.label
    assert found.lookup_id == (found.lookup_id >> 56) << 56 | 7
    assert (found.trailers is not None) is trailers


def test_a_label_without_its_end_is_refused() -> None:
    data = packet("labelled")
    end = data.index("a label".encode("utf-16-le")) + 2 * len("a label")
    changed = bytearray(data)
    changed[end] = 1
    with pytest.raises(DecodeError):
        RemoteMessage(bytes(changed), 5, 7)


@pytest.mark.parametrize("cut", [1, 4, 28])
def test_trailers_that_are_cut_off_are_refused(cut: int) -> None:
    with pytest.raises(DecodeError):
        RemoteMessage(packet()[:-cut], 5, 7)
