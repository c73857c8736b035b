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

CALL = 7
MEANT = Meant(Syntax(bytes(range(16)), 1), NDR, 2, 3, True)


@pytest.mark.parametrize("length", range(9))
def test_what_was_meant_passes(length: int) -> None:
    stub = bytes(range(length))
    check_trailer(append_trailer(stub, MEANT, CALL), length, MEANT, CALL)


@pytest.mark.parametrize(
    "changed",
    [
        replace(MEANT, interface=Syntax(bytes(16), 1)),
        replace(MEANT, transfer=NDR64),
        replace(MEANT, context_id=3),
        replace(MEANT, opnum=4),
        replace(MEANT, header_signing=False),
    ],
    ids=["interface", "syntax", "context", "operation", "header signing"],
)
def test_what_was_changed_is_noticed(changed: Meant) -> None:
    with pytest.raises(DecodeError):
        check_trailer(append_trailer(b"stub", MEANT, CALL), 4, changed, CALL)


def test_another_call_is_noticed() -> None:
    with pytest.raises(DecodeError):
        check_trailer(append_trailer(b"stub", MEANT, CALL), 4, MEANT, CALL + 1)


@pytest.mark.parametrize(
    "rest", ["", "00", "0000000000", "ff" * 40], ids=["nothing", "one", "padding", "junk"]
)
def test_other_bytes_mean_nothing(rest: str) -> None:
    check_trailer(b"stub" + bytes.fromhex(rest), 4, MEANT, CALL)


def test_commands_nobody_knows() -> None:
    check_trailer(SIGNATURE + bytes.fromhex("09400000"), 0, MEANT, CALL)
    with pytest.raises(DecodeError):
        check_trailer(SIGNATURE + bytes.fromhex("09c00000"), 0, MEANT, CALL)


@pytest.mark.parametrize("rest", ["", "0200", "0240080000", "01400300000000"])
def test_trailers_that_are_broken(rest: str) -> None:
    with pytest.raises(DecodeError):
        check_trailer(SIGNATURE + bytes.fromhex(rest), 0, MEANT, CALL)


@given(st.binary(max_size=100), st.integers(0, 20))
def test_whatever_follows(rest: bytes, end: int) -> None:
    try:
        check_trailer(bytes(end + -end % 4) + SIGNATURE + rest, end, MEANT, CALL)
    except DecodeError:
        return


def test_commands_in_another_order_are_the_same() -> None:
    """Of another careful client: bits, then the header, then the contexts, and nothing is left out."""
    usual = append_trailer(b"", MEANT, CALL)[len(SIGNATURE) :]
    bits, context, header = usual[:8], usual[8:52], usual[52:]
    other = SIGNATURE + bits + b"\3" + b"\0" + header[2:] + b"\2\x40" + context[2:]
    check_trailer(other, 0, MEANT, CALL)
    with pytest.raises(DecodeError):
        check_trailer(other, 0, replace(MEANT, opnum=4), CALL)
    with pytest.raises(DecodeError):
        check_trailer(other, 0, replace(MEANT, transfer=NDR64), CALL)
