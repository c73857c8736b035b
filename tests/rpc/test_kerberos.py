"""What Kerberos is given: keys, and tokens without a frame. Tickets are in tests/remote_read/test_kerberos.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.rpc.kerberos import KerberosAcceptor, NoKeysError, bare
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.security import Authentication, AuthenticationError
from tests.rpc.support import Known

KERBEROS = bytes.fromhex("06092a864886f712010202")
MICROSOFT = bytes.fromhex("06092a864882f712010202")
AP_REQ = b"\x6e\x03\x02\x01\x05"


def framed(inner: bytes) -> bytes:
    size = len(inner)
    if size < 0x80:
        return bytes((0x60, size)) + inner
    return bytes((0x60, 0x82)) + size.to_bytes(2, "big") + inner


@pytest.mark.parametrize("mechanism", [KERBEROS, MICROSOFT], ids=["RFC 4121", "Microsoft"])
@pytest.mark.parametrize("size", [0, 90, 2_000])
def test_the_frame_of_an_ap_req_is_taken_off(mechanism: bytes, size: int) -> None:
    request = AP_REQ + bytes(size)
    assert bare(framed(mechanism + b"\x01\x00" + request)) == request


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\x60",
        b"\x60\xff",
        AP_REQ,
        framed(KERBEROS + b"\x02\x00" + AP_REQ),
        framed(b"\x06\x01\x2a\x01\x00" + AP_REQ),
    ],
    ids=["empty", "only a tag", "a length of nothing", "bare", "another kind", "another mechanism"],
)
def test_anything_else_stays_as_it_is(token: bytes) -> None:
    assert bare(token) == token


@given(st.binary(max_size=40))
def test_nothing_is_raised(token: bytes) -> None:
    assert token.endswith(bare(b"\x60" + token)[1:])


def test_a_keytab_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoKeysError, match=r"no keys in .*missing"):
        KerberosAcceptor(tmp_path / "missing")


def test_a_keytab_that_went_away_keeps_callers_out_and_says_why(tmp_path: Path) -> None:
    class Nobody:
        def identify(self, principal: str) -> None:
            raise AssertionError(principal)

    told: list[str] = []
    authentication = Authentication(Known(), Nobody(), tmp_path / "missing", told.append)
    assert AuthType.KERBEROS in authentication.auth_types
    with pytest.raises(AuthenticationError, match="no keys"):
        authentication.accept(AuthType.KERBEROS, AuthLevel.PRIVACY, 1)
    assert len(told) == 1
    assert "missing" in told[0]
