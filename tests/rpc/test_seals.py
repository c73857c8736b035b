"""Seals, held against pyspnego's own computation at the other end."""

from __future__ import annotations

import pytest
import spnego
from spnego import ContextReq
from spnego._ntlm import NTLMProxy
from spnego._ntlm_raw.messages import NegotiateFlags
from spnego.iov import BufferType

from msmq.rpc.ntlm import NtlmAcceptor
from msmq.rpc.seals import NtlmSeal, WrongSignatureError
from tests.rpc.support import PASSWORD, Known

HEAD, STUB, TRAILER = b"head", b"the stub", b"trailer!"
START, END = len(HEAD), len(HEAD) + len(STUB)


def contexts() -> tuple[NTLMProxy, NtlmAcceptor]:
    wanted = ContextReq.integrity | ContextReq.confidentiality | ContextReq.sequence_detect
    client = spnego.client("alice", PASSWORD, protocol="ntlm", context_req=wanted)
    server = NtlmAcceptor(Known())
    server.step(client.step(server.step(client.step(None))))
    assert isinstance(client, NTLMProxy)
    return client, server


@pytest.mark.parametrize("messages", [1, 3])
def test_what_is_sealed_here_is_opened_there_and_the_other_way_round(messages: int) -> None:
    client, server = contexts()
    seal = NtlmSeal(server, secret=True)
    for _ in range(messages):
        pdu = seal.protect(HEAD, STUB, TRAILER)
        sealed, signature = pdu[START:END], pdu[-seal.signature_size :]
        assert pdu == HEAD + sealed + TRAILER + signature
        assert sealed != STUB
        around = [(BufferType.sign_only, HEAD), (BufferType.data, sealed), (BufferType.sign_only, TRAILER)]
        assert client.unwrap_iov([*around, (BufferType.header, signature)]).buffers[1].data == STUB
        around[1] = (BufferType.data, STUB)
        theirs = client.wrap_iov([*around, BufferType.header])
        received = b"".join((HEAD, theirs.buffers[1].data or b"", TRAILER, theirs.buffers[3].data or b""))
        assert seal.unprotect(received, START, END) == STUB


def test_what_is_signed_here_is_verified_there_and_the_other_way_round() -> None:
    client, server = contexts()
    seal = NtlmSeal(server, secret=False)
    for _ in range(3):
        pdu = seal.protect(HEAD, STUB, TRAILER)
        clear, signature = pdu[: -seal.signature_size], pdu[-seal.signature_size :]
        assert clear == HEAD + STUB + TRAILER
        client.verify(clear, signature)
        assert seal.unprotect(clear + client.sign(clear), START, END) == STUB
    with pytest.raises(WrongSignatureError):
        seal.unprotect(clear + bytes(16), START, END)


def test_without_extended_session_security_nothing_is_sealed() -> None:
    client, _ = contexts()
    client._context_attr &= ~NegotiateFlags.extended_session_security
    with pytest.raises(ValueError, match="extended session security"):
        NtlmSeal(client, secret=True)
