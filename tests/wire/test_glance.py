"""The body of a packet at a glance is what reading the whole packet gives, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.wire.glance import body_at_a_glance
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SecurityHeader
from tests.wire.builders import build, messages, patched_u16, patched_u32, user_header

SENDER = SecurityHeader(flags=1, security_id=bytes.fromhex("010100000000000512000000"))


@given(messages)
def test_it_never_contradicts_the_whole_packet(message: UserMessage) -> None:
    assert body_at_a_glance(message.data) in (None, message.body)


@pytest.mark.parametrize(
    "destination",
    ["DIRECT=OS:host\\private$\\orders", 7, bytes(range(16))],
    ids=["direct", "private", "public"],
)
@pytest.mark.parametrize("security", [None, SENDER], ids=["nobody", "sender"])
@pytest.mark.parametrize("label", ["", "a label"])
@pytest.mark.parametrize("extension", [b"", b"extension"], ids=["plain", "extension"])
def test_usual_packets_are_read_like_this(
    destination: str | int | bytes, security: SecurityHeader | None, label: str, extension: bytes
) -> None:
    name = destination.removeprefix("DIRECT=") if isinstance(destination, str) else destination
    body = bytes(range(256))
    message = build(user=user_header(name), security=security, label=label, extension=extension, body=body)
    assert body_at_a_glance(message.data) == message.body == body


def test_an_empty_body_is_one() -> None:
    message = build(label="with a label that is long enough for a glance")
    assert body_at_a_glance(message.data) == b""


@given(st.binary(max_size=400))
def test_garbage_raises_nothing(data: bytes) -> None:
    found = body_at_a_glance(data)
    assert found is None or found in data


@given(st.integers(0, 300), st.integers(0, 0xFFFFFFFF))
def test_wrong_numbers_raise_nothing(offset: int, value: int) -> None:
    data = build(security=SENDER, label="label", body=bytes(200)).data
    changed = patched_u32(data, min(offset, len(data) - 4), value)
    found = body_at_a_glance(changed)
    assert found is None or found in changed


def test_a_name_that_reaches_behind_the_packet_is_left_to_others() -> None:
    data = build(body=bytes(200)).data
    assert body_at_a_glance(patched_u16(data, 64, 0xFFFF)) is None
