"""What a reader makes of a packet, and which packets are laid out alike."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.manager.mailbox.stored import StoredMessage
from msmq.remote_read.remote_message import Layout, Layouts, RemoteMessage
from msmq.remote_read.sections import packet_of
from msmq.wire.headers import BaseHeader
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.trailers import MessagePacket
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
def test_what_a_layout_says_is_what_the_headers_say(kind: str, trailers: bool) -> None:
    data = packet(kind, trailers=trailers)
    found = RemoteMessage(data, Layout(data), 5, 7)
    assert found.body == found.packet.body == b"the body"
    assert found.body_size == found.packet.properties.message_size
    assert found.label == found.packet.label
    assert found.lookup_id == (found.lookup_id >> 56) << 56 | 7
    assert (found.trailers is not None) is trailers


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_has_nothing_but_the_usual_headers_is_compared(kind: str) -> None:
    layouts, data = Layouts(), packet(kind)
    assert (layouts.of(data) is layouts.of(data)) is (kind != "transactional")


@pytest.mark.parametrize("trailers", [True, False], ids=["trailers", "bare"])
@pytest.mark.parametrize("kind", KINDS)
@given(
    edits=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 6) | st.just(0),
    more=st.binary(max_size=3),
)
def test_what_is_laid_out_alike_is_sound(
    kind: str, trailers: bool, edits: list[tuple[int, int]], cut: int, more: bytes
) -> None:
    """A packet that fits the layout of a sound one can be read like any other, and says the same in both ways."""
    data = packet(kind, trailers=trailers)
    layout = Layout(data)
    changed = bytearray(data[: len(data) - cut] + more)
    for place, octet in edits:
        changed[place % len(changed)] = octet
    other = bytes(changed)
    if not layout.usual or not layout.fits(other):
        return
    fresh = Layout(other)
    assert (fresh.body_start, fresh.body_size, fresh.lane, fresh.size) == (
        layout.body_start, layout.body_size, layout.lane, layout.size,
    )  # fmt: skip
    quick = RemoteMessage(other, layout, 5, 7)
    assert quick.body == quick.packet.body
    if trailers:
        MessagePacket.decode(other)


@pytest.mark.parametrize(
    "place", [0, 2, 4, 8, 60, 61, -1, -28, -188, -184], ids=lambda place: f"byte {place}"
)
def test_what_a_layout_depends_on_is_compared(place: int) -> None:
    data = packet()
    changed = bytearray(data)
    changed[place] ^= 0x81
    assert Layout(data).fits(data)
    assert not Layout(data).fits(bytes(changed))


def test_bodies_numbers_and_times_may_differ() -> None:
    data = packet()
    other = packet(body=b"BODY THE")
    layout = Layout(data)
    assert layout.fits(other)
    assert RemoteMessage(other, layout, 1, 2).body == b"BODY THE"
    assert not layout.fits(packet(body=b"longer than it"))


def test_a_label_without_its_end_does_not_fit() -> None:
    data = packet("labelled")
    end = data.index("a label".encode("utf-16-le")) + 2 * len("a label")
    changed = bytearray(data)
    changed[end] = 1
    assert not Layout(data).fits(bytes(changed))
    with pytest.raises(DecodeError):
        Layout(bytes(changed))


def test_many_layouts_are_not_all_remembered() -> None:
    layouts = Layouts()
    for size in range(200):
        assert layouts.of(packet(body=bytes(4 * size))).body_size == 4 * size
    assert len(layouts._known) <= 64
