"""The accepting half of NTLM, against impacket's and pyspnego's tokens."""

from __future__ import annotations

import hashlib

import pytest
import spnego
from impacket import ntlm
from spnego.exceptions import SpnegoError

from msmq.rpc.ntlm import NtlmAcceptor, nt_hash_of
from tests.rpc.support import PASSWORD, Known


def test_the_hash_of_a_password() -> None:
    assert nt_hash_of("Password") == bytes.fromhex("a4f49c406510bdcab6824ee7c30fd852")
    assert nt_hash_of("Password") == ntlm.compute_nthash("Password")


def impackets(acceptor: NtlmAcceptor, user: str, password: str, domain: str = "", v2: bool = True) -> bytes:
    first = ntlm.getNTLMSSPType1("", "", signingRequired=True, use_ntlmv2=v2)
    challenge = acceptor.step(first.getData())
    third, key = ntlm.getNTLMSSPType3(first, challenge, user, password, domain, use_ntlmv2=v2)
    acceptor.step(third.getData())
    return bytes(key)


@pytest.mark.parametrize("domain", ["", "WORKGROUP", "dömäin"])
def test_impacket_as_shipped(domain: str) -> None:
    acceptor = NtlmAcceptor(Known())
    key = impackets(acceptor, "alice", PASSWORD, domain)
    assert acceptor.complete
    assert acceptor.client_principal == "alice"
    assert acceptor.session_key == key


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("", PASSWORD)])
def test_who_does_not_get_in(user: str, password: str) -> None:
    acceptor = NtlmAcceptor(Known())
    with pytest.raises(SpnegoError):
        impackets(acceptor, user, password)
    assert not acceptor.complete
    assert acceptor.account is None


def test_version_one_does_not_get_in() -> None:
    with pytest.raises(SpnegoError):
        impackets(NtlmAcceptor(Known()), "alice", PASSWORD, v2=False)


def spnegos(acceptor: NtlmAcceptor) -> bytes:
    client = spnego.client("alice", PASSWORD, hostname="host", protocol="ntlm")
    token: bytes = client.step(acceptor.step(client.step()))  # type: ignore[assignment]
    return token


def test_a_message_with_a_mic() -> None:
    acceptor = NtlmAcceptor(Known())
    acceptor.step(spnegos(acceptor))
    assert acceptor.complete


def test_a_changed_message_fails_its_mic() -> None:
    acceptor = NtlmAcceptor(Known())
    token = bytearray(spnegos(acceptor))
    token[60] ^= 0x20  # a flag of no importance: only the MIC covers it
    with pytest.raises(SpnegoError):
        acceptor.step(bytes(token))


def test_a_new_context_begins_anew() -> None:
    acceptor = NtlmAcceptor(Known())
    acceptor.step(spnegos(acceptor))
    again = acceptor.new_context()
    assert not again.complete
    assert hashlib.sha256(again.session_key).digest() != hashlib.sha256(acceptor.session_key).digest()
