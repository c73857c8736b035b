"""The accepting half of NTLM, against impacket's and pyspnego's tokens."""

from __future__ import annotations

import hashlib

import pytest
import spnego
from impacket import ntlm
from spnego._ntlm_raw.messages import Challenge
from spnego.exceptions import SpnegoError

from msmq.rpc.ntlm import NtlmAcceptor, nt_hash_of
from tests.rpc.ntlm_client import NtlmClient
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


OFFERS = {
    "Windows": 0xE2088297,
    "Windows that identifies": 0xE2188297,
    "Windows 2000": 0xA0088297,
    "Samba": 0x62088215,
    "impacket": 0x60088235,
    "go-msrpc": 0x60088235 | 0x80000000,
    "without key exchange": 0x20088235,
    "with 56 bits": 0xC0088235,
    "OEM text": 0x62088216 | 0x20,
    "both kinds of text": 0xE2088237,
    "with a LAN Manager key": 0x620882B5,
    "anonymous, it says": 0x62088A35,
}


def log_in(acceptor: NtlmAcceptor, client: NtlmClient) -> tuple[bytes, bytes]:
    """The challenge and the answer to it."""
    challenge = acceptor.step(client.negotiate())
    assert challenge is not None
    token = client.authenticate(challenge)
    acceptor.step(token)
    return challenge, token


@pytest.mark.parametrize("layout", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("offer", OFFERS)
def test_every_offer_and_every_layout(offer: str, layout: tuple[bool, bool]) -> None:
    """What is optional in MS-NLMP may be there or not; the flags are those that clients send."""
    acceptor = NtlmAcceptor(Known())
    version, mic = layout
    client = NtlmClient(OFFERS[offer], "alice", nt_hash_of(PASSWORD), "CORP", version=version, mic=mic)
    challenge, token = log_in(acceptor, client)
    assert acceptor.complete
    assert acceptor.session_key == client.session_key
    strong = 0xE0000030 & OFFERS[offer]  # keys of 128 and 56 bits, their exchange, signing and sealing
    assert Challenge.unpack(challenge).flags & 0xE0000030 == strong, "what a client wants and we can it gets"
    if mic:
        changed = bytearray(token)
        changed[12] ^= 1  # the size of the LAN Manager response, which nobody reads
        again = NtlmAcceptor(Known())
        again.step(client.first)
        again._temp_challenge, again._sent_challenge = Challenge.unpack(challenge), challenge
        with pytest.raises(SpnegoError, match="MIC"):
            again.step(bytes(changed))


@pytest.mark.parametrize("flags", [0x62088214, 0x62000215], ids=["no text", "no extended session security"])
def test_offers_that_are_refused(flags: int) -> None:
    with pytest.raises(SpnegoError):
        log_in(NtlmAcceptor(Known()), NtlmClient(flags, "alice", nt_hash_of(PASSWORD)))


def test_a_new_context_begins_anew() -> None:
    acceptor = NtlmAcceptor(Known())
    acceptor.step(spnegos(acceptor))
    again = acceptor.new_context()
    assert not again.complete
    assert hashlib.sha256(again.session_key).digest() != hashlib.sha256(acceptor.session_key).digest()
