"""Frames of the short line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.api import rpc
from msmq.api.frames import MESSAGE, METHODS, OPEN, PONG, WINDOW, Frames, frame, window, window_size
from msmq.errors import DecodeError

frames = st.lists(
    st.tuples(st.integers(OPEN, PONG), st.integers(0, 2**64 - 1), st.binary(max_size=60)), max_size=6
)


@pytest.mark.parametrize("size", [1 << 16, 200_000])
def test_a_large_frame_may_be_cut_anywhere(size: int) -> None:
    payload = bytes(range(256)) * (size // 256)
    data = b"".join((*frame(MESSAGE, 1, payload), *frame(PONG, 0)))
    for cut in (*range(1, 20), size // 2, *range(len(data) - 20, len(data))):
        cutter = Frames()
        found = cutter.feed(data[:cut]) + cutter.feed(data[cut:])
        assert found == [(MESSAGE, 1, payload), (PONG, 0, b"")]


@given(frames, st.integers(1, 30))
def test_frames_are_found_however_they_come(given_frames: list[tuple[int, int, bytes]], step: int) -> None:
    data = b"".join(b"".join(frame(*each)) for each in given_frames)
    for size in (step, len(data) or 1):
        found: list[tuple[int, int, bytes]] = []
        cutter = Frames()
        for start in range(0, len(data), size):
            found += cutter.feed(data[start : start + size])
        assert found == given_frames


@pytest.mark.parametrize(
    "head",
    [
        (rpc.MAX_MESSAGE_BYTES + 1).to_bytes(4, "little") + b"\1" + bytes(8),
        b"\0\0\0\0\x08" + bytes(8),
        b"\0\0\1\0\0" + bytes(8),
        b"\0\0\1\0\7" + bytes(8),
    ],
    ids=["size", "kind", "a long name", "a long token"],
)
def test_what_is_no_frame_is_refused_before_it_is_there(head: bytes) -> None:
    with pytest.raises(DecodeError):
        Frames().feed(head)


@given(st.binary(max_size=200))
def test_garbage_is_frames_or_refused(data: bytes) -> None:
    try:
        found = Frames().feed(data)
    except DecodeError:
        return
    assert sum(13 + len(payload) for _, _, payload in found) <= len(data)


def test_a_window_says_how_much() -> None:
    ((kind, number, payload),) = Frames().feed(window(7, 1 << 40))
    assert (kind, number, window_size(payload)) == (WINDOW, 7, 1 << 40)
    with pytest.raises(DecodeError):
        window_size(b"short")


def test_every_call_can_be_made_like_this() -> None:
    assert len(METHODS) == len(list(rpc.methods()))
