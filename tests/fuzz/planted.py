"""A registry with one target that is broken on purpose, to see that the fuzzer finds it and says so."""

from __future__ import annotations

from fuzz.oracles import Target
from msmq.errors import DecodeError
from msmq.wire.packets import Ping


def planted(data: bytes) -> None:
    try:
        Ping.parse(data)
    except DecodeError:
        if data[:1] == b"!":
            raise IndexError("planted") from None


TARGETS = {"planted": Target("planted", planted, max_len=32, weight=1, memory_factor=32, text=False)}
