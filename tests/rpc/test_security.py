"""Security contexts: both sides of ours, every provider and level."""

from __future__ import annotations

import pytest
from spnego._ntlm_raw.messages import NegotiateFlags

from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.seals import WrongSignatureError
from msmq.rpc.security import Authentication, AuthenticationError, Credentials, SecurityContext
from tests.rpc.support import ALICE, PASSWORD, Known

TYPES = [AuthType.NTLM, AuthType.NEGOTIATE]
LEVELS = [AuthLevel.CONNECT, AuthLevel.PKT, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]


def handshake(
    kind: AuthType, level: AuthLevel, password: str = PASSWORD
) -> tuple[SecurityContext, SecurityContext]:
    client = Credentials("alice", password, kind, level).initiate("host", 1)
    server = Authentication(Known()).accept(kind, level, 1)
    token = client.step(None)
    while not server.established or not client.established:
        token = server.step(token)
        if token:
            token = client.step(token)
    return client, server


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_the_caller_is_known(kind: AuthType, level: AuthLevel) -> None:
    _, server = handshake(kind, level)
    assert server.identity is not None
    assert server.identity.token.user == ALICE
    assert server.identity.principal == "alice"
    assert server.signs is (level > AuthLevel.CONNECT)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("level", LEVELS[1:], ids=lambda level: level.name)
def test_fragments_are_protected_in_both_directions(kind: AuthType, level: AuthLevel) -> None:
    client, server = handshake(kind, level)
    for sender, receiver in ((client, server), (server, client), (client, server)):
        assert sender.seal is not None
        assert receiver.seal is not None
        pdu = sender.seal.protect(b"head", b"the stub", b"trailer!")
        assert (pdu[4:12] == b"the stub") is (level is not AuthLevel.PRIVACY)
        assert len(pdu) == 20 + sender.seal.signature_size
        assert receiver.seal.unprotect(pdu, 4, 12) == b"the stub"
    assert client.seal is not None
    assert server.seal is not None
    pdu = client.seal.protect(b"head", b"the stub", b"trailer!")
    with pytest.raises(WrongSignatureError):
        server.seal.unprotect(b"hEad" + pdu[4:], 4, 12)


def test_a_first_token_that_names_no_provider_is_refused() -> None:
    token = bytearray(Credentials("alice", PASSWORD, AuthType.NEGOTIATE).initiate("host", 1).step(None))
    for damaged in (b"\1" + token[1:], token[:2] + b"\1" + token[3:], b"Kerberos?"):
        server = Authentication(Known()).accept(AuthType.NEGOTIATE, AuthLevel.CONNECT, 1)
        with pytest.raises(AuthenticationError):
            server.step(bytes(damaged))
        assert server.failed


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_a_wrong_password_fails_and_stays_failed(kind: AuthType) -> None:
    client = Credentials("alice", "wrong", kind, AuthLevel.CONNECT).initiate("host", 1)
    server = Authentication(Known()).accept(kind, AuthLevel.CONNECT, 1)
    token = client.step(server.step(client.step(None)))
    with pytest.raises(AuthenticationError):
        server.step(token)
    assert server.failed
    assert not server.established


def test_what_a_server_does_not_have() -> None:
    for authentication, kind, level in (
        (Authentication(), AuthType.NTLM, AuthLevel.CONNECT),
        (Authentication(Known()), 99, AuthLevel.CONNECT),
        (Authentication(Known()), AuthType.NTLM, AuthLevel.NONE),
        (Authentication(Known()), AuthType.NTLM, AuthLevel.CALL),
    ):
        with pytest.raises(AuthenticationError):
            authentication.accept(kind, level, 1)
    assert Authentication().auth_types == frozenset()
    assert Authentication(Known()).auth_types == {AuthType.NTLM, AuthType.NEGOTIATE}


@pytest.mark.parametrize(
    "token", [b"", b"x", b"NTLMSSP\0", b"NTLMSSP\0\1\0\0\0" + b"\xff" * 40, b"\x60\x84\xff\xff\xff\xff"]
)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_rubbish_is_an_authentication_error(kind: AuthType, token: bytes) -> None:
    server = Authentication(Known()).accept(kind, AuthLevel.INTEGRITY, 1)
    with pytest.raises(AuthenticationError):
        steps(server, token)


def steps(server: SecurityContext, token: bytes) -> None:
    """A provider may take the first token of rubbish for a wish to begin."""
    for _ in range(10):
        server.step(token)


def test_a_level_needs_the_keys_for_it() -> None:
    """A client at integrity that never negotiated signing would get signatures that sign nothing."""
    client = Credentials("alice", PASSWORD, AuthType.NTLM, AuthLevel.CONNECT).initiate("host", 1)
    client._context._context_req &= ~NegotiateFlags.sign  # type: ignore[attr-defined]
    server = Authentication(Known()).accept(AuthType.NTLM, AuthLevel.PRIVACY, 1)
    with pytest.raises(AuthenticationError):
        server.step(client.step(server.step(client.step(None))))
