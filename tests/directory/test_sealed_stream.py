"""Sealed messages (RFC 4422 3.7) between two security contexts."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from spnego import ContextProxy
from spnego.exceptions import BadMICError

from msmq.directory.sealed_stream import MAX_TOKEN_BYTES, Channel


class Backwards:
    """A security context that turns messages round and likes no zeros."""

    def wrap(self, data: bytes) -> Any:
        return SimpleNamespace(data=data[::-1])

    def unwrap(self, data: bytes) -> Any:
        if b"\0" in data:
            raise BadMICError(context_msg="not ours")
        return SimpleNamespace(data=data[::-1])


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket, list[bytes]]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    seen: list[bytes] = []
    channel = Channel(ours, seen.append)
    with ours, theirs:
        yield channel, theirs, seen


Ends = tuple[Channel, socket.socket, list[bytes]]


def sealed(ends: Ends) -> Ends:
    ends[0].seal(cast(ContextProxy, Backwards()))
    return ends


def test_before_sealing_bytes_pass_through(ends: Ends) -> None:
    channel, other, seen = ends
    channel.sendall(b"hello")
    assert other.recv(100) == b"hello"
    other.sendall(b"world")
    assert channel.recv(100) == b"world"
    assert seen == [b"hello"]


def test_a_message_is_a_length_and_a_token(ends: Ends) -> None:
    channel, other, seen = sealed(ends)
    channel.sendall(b"hello")
    assert other.recv(100) == b"\0\0\0\5olleh"
    assert seen == [b"hello"]


def test_tokens_may_come_in_pieces(ends: Ends) -> None:
    channel, other, _ = sealed(ends)
    other.sendall(b"\0\0\0\5ol")
    other.sendall(b"leh\0\0\0\1x")
    assert channel.recv(3) == b"hel"
    assert channel.recv(3) == b"lo"
    assert channel.recv(3) == b"x"


@pytest.mark.parametrize(
    "data",
    [struct.pack(">I", MAX_TOKEN_BYTES + 1), b"\0\0\0\5ab", b"\0\0", b"\0\0\0\1\0"],
    ids=["too-long", "cut", "cut-length", "forged"],
)
def test_what_is_no_sealed_message(ends: Ends, data: bytes) -> None:
    channel, other, _ = sealed(ends)
    other.sendall(data)
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(OSError, match="message"):
        channel.recv(100)


def test_the_end(ends: Ends) -> None:
    channel, other, _ = sealed(ends)
    assert channel.is_alive()
    other.close()
    assert not channel.is_alive()
    assert channel.recv(100) == b""


def test_an_unexpected_word_is_the_end_too(ends: Ends) -> None:
    channel, other, _ = ends
    other.sendall(b"bye")
    assert not channel.is_alive()
    channel.shutdown(socket.SHUT_RDWR)
    channel.close()
