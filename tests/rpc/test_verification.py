"""The verification trailer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.rpc.pdu import Syntax
from msmq.rpc.syntaxes import NDR, NDR64
from msmq.rpc.verification import SIGNATURE, Meant, append_trailer, check_trailer

MEANT = Meant(Syntax(bytes(range(16)), 1), NDR, 7, 2, 3, True)


@pytest.mark.parametrize("length", range(9))
def test_what_was_meant_passes(length: int) -> None:
    stub = bytes(range(length))
    check_trailer(append_trailer(stub, MEANT), length, MEANT)


@pytest.mark.parametrize(
    "changed",
    [
        replace(MEANT, interface=Syntax(bytes(16), 1)),
        replace(MEANT, transfer=NDR64),
        replace(MEANT, call_id=8),
        replace(MEANT, context_id=3),
        replace(MEANT, opnum=4),
        replace(MEANT, header_signing=False),
    ],
    ids=["interface", "syntax", "call", "context", "operation", "header signing"],
)
def test_what_was_changed_is_noticed(changed: Meant) -> None:
    with pytest.raises(DecodeError):
        check_trailer(append_trailer(b"stub", MEANT), 4, changed)


@pytest.mark.parametrize(
    "rest", ["", "00", "0000000000", "ff" * 40], ids=["nothing", "one", "padding", "junk"]
)
def test_other_bytes_mean_nothing(rest: str) -> None:
    check_trailer(b"stub" + bytes.fromhex(rest), 4, MEANT)


def test_commands_nobody_knows() -> None:
    check_trailer(SIGNATURE + bytes.fromhex("09400000"), 0, MEANT)
    with pytest.raises(DecodeError):
        check_trailer(SIGNATURE + bytes.fromhex("09c00000"), 0, MEANT)


@pytest.mark.parametrize("rest", ["", "0200", "0240080000", "01400300000000"])
def test_trailers_that_are_broken(rest: str) -> None:
    with pytest.raises(DecodeError):
        check_trailer(SIGNATURE + bytes.fromhex(rest), 0, MEANT)


@given(st.binary(max_size=100), st.integers(0, 20))
def test_whatever_follows(rest: bytes, end: int) -> None:
    try:
        check_trailer(bytes(end + -end % 4) + SIGNATURE + rest, end, MEANT)
    except DecodeError:
        return
