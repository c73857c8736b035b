"""What protects the fragments of a connection once its handshake is over (MS-RPCE 2.2.2.11, 3.3.1.5.2).

A seal signs and, at the privacy level, encrypts. It is made once for a security context and keeps its ciphers and
keyed hashes, so that a fragment costs little more than the cryptography. A protected PDU is a front, the stub, a
trailer of `TRAILER_SIZE` bytes and the signature. `NtlmSeal` implements MS-NLMP 3.4 with OpenSSL. `GssSeal` leaves it
to the Kerberos library, which keeps its own keys.

What a signature covers: the whole PDU when headers are signed, else the stub with its padding. NTLM with extended
session security always covers the whole PDU; Kerberos does when both sides announced header signing.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final, Protocol

from cryptography.hazmat.primitives.hashes import MD5
from cryptography.hazmat.primitives.hmac import HMAC
from spnego import ContextProxy
from spnego._ntlm import NTLMProxy
from spnego._ntlm_raw.messages import NegotiateFlags
from spnego.iov import BufferType

KERBEROS_MIC_SIZE: Final = 28
"""The size of a MIC with the AES-SHA1 types, which Windows issues: header of 16 and checksum of 12 (RFC 4121
4.2.6.1)."""
TRAILER_SIZE: Final = 8
"""The size of a `msmq.rpc.pdu.SecTrailer`."""
_NTLM_VERSION: Final = b"\1\0\0\0"


class WrongSignatureError(Exception):
    """A PDU was changed on its way."""


class Seal(Protocol):
    """Protects whole PDUs and opens protected ones."""

    @property
    def signature_size(self) -> int: ...

    def protect(self, front: bytes, stub: bytes, trailer: bytes) -> bytes:
        """Return the whole PDU, followed by its signature."""

    def unprotect(self, pdu: bytes, start: int, end: int) -> bytes:
        """Return the original stub of a PDU, in which it lies from ``start`` to ``end``. Raises any exception if
        something was changed."""


class _NtlmDirection:
    """One direction of NTLM: its cipher, its keyed hash, and the number of the next message."""

    def __init__(self, context: NTLMProxy, direction: str) -> None:
        self.cipher = getattr(context, f"_handle_{direction}")._handle.update
        self._keyed = HMAC(getattr(context, f"_sign_key_{direction}"), MD5()).copy  # what NTLM has
        # SPNEGO may have signed its list of mechanisms already. Reading the number increments it, so it is read once.
        self._number = int(getattr(context, f"_seq_num_{direction}"))
        self._exchanged = bool(context._context_attr & NegotiateFlags.key_exch)

    def sign(self, message: bytes) -> bytes:
        """The signature of the next message (MS-NLMP 3.4.4.2)."""
        number = self._number.to_bytes(4, "little")
        self._number = self._number + 1 & 0xFFFFFFFF
        keyed = self._keyed()
        keyed.update(number)
        keyed.update(message)
        checksum = keyed.finalize()[:8]
        return _NTLM_VERSION + (self.cipher(checksum) if self._exchanged else checksum) + number


class NtlmSeal:
    """The seal of NTLM with extended session security."""

    signature_size = 16

    def __init__(self, context: NTLMProxy, *, secret: bool) -> None:
        if not context._context_attr & NegotiateFlags.extended_session_security:
            raise ValueError("NTLM without extended session security protects nothing")
        self._secret = secret
        out, into = _NtlmDirection(context, "out"), _NtlmDirection(context, "in")
        self._sign, self._encrypt = out.sign, out.cipher
        self._expect, self._decrypt = into.sign, into.cipher

    def protect(self, front: bytes, stub: bytes, trailer: bytes) -> bytes:
        clear = b"".join((front, stub, trailer))
        if not self._secret:
            return clear + self._sign(clear)
        sealed = self._encrypt(stub)  # before the signature, which uses the same cipher
        return b"".join((front, sealed, trailer, self._sign(clear)))

    def unprotect(self, pdu: bytes, start: int, end: int) -> bytes:
        behind = end + TRAILER_SIZE
        stub: bytes = pdu[start:end]
        clear = pdu[:behind]
        if self._secret:
            stub = self._decrypt(stub)
            clear = b"".join((pdu[:start], stub, pdu[end:behind]))
        if not compare_digest(self._expect(clear), pdu[behind:]):
            raise WrongSignatureError("the signature is wrong")
        return stub


class GssSeal:
    """The seal of Kerberos, by the system's library."""

    def __init__(self, context: ContextProxy, *, secret: bool, header_signing: bool) -> None:
        self._context = context
        self._secret = secret
        self._header_signing = header_signing
        self.signature_size = context.query_message_sizes().header if secret else KERBEROS_MIC_SIZE

    def _covered(self, front: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        return (front, trailer) if self._header_signing else (b"", b"")

    def protect(self, front: bytes, stub: bytes, trailer: bytes) -> bytes:
        before, behind = self._covered(front, trailer)
        if not self._secret:
            return b"".join((front, stub, trailer, self._context.sign(before + stub + behind)))
        sealed = self._context.wrap_iov(
            [
                (BufferType.sign_only, before),
                (BufferType.data, stub),
                (BufferType.sign_only, behind),
                BufferType.header,
            ]
        )
        return b"".join((front, sealed.buffers[1].data or b"", trailer, sealed.buffers[3].data or b""))

    def unprotect(self, pdu: bytes, start: int, end: int) -> bytes:
        value = end + TRAILER_SIZE
        stub, signature = pdu[start:end], pdu[value:]
        before, behind = self._covered(pdu[:start], pdu[end:value])
        if not self._secret:
            self._context.verify(before + stub + behind, signature)
            return stub
        opened = self._context.unwrap_iov(
            [
                (BufferType.sign_only, before),
                (BufferType.data, stub),
                (BufferType.sign_only, behind),
                (BufferType.header, signature),
            ]
        )
        return opened.buffers[1].data or b""
