"""What protects the fragments of a connection once its handshake is over (MS-RPCE 2.2.2.11, 3.3.1.5.2).

A seal signs and, at the privacy level, encrypts; it is made once for a security context and keeps its ciphers and keyed
hashes, so that a fragment costs the cryptography and little else. `NtlmSeal` does what MS-NLMP 3.4 says with OpenSSL.
`GssSeal` leaves it to the Kerberos library, which keeps its own keys.

What a signature covers: the whole PDU when headers are signed, else the stub with its padding. NTLM with extended
session security always covers the whole PDU; Kerberos does when both sides announced header signing.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

from cryptography.hazmat.primitives.hashes import MD5
from cryptography.hazmat.primitives.hmac import HMAC
from spnego import ContextProxy
from spnego._ntlm import NTLMProxy
from spnego._ntlm_raw.messages import NegotiateFlags
from spnego.iov import BufferType

KERBEROS_MIC_SIZE: Final = 28
"""Of the AES types with SHA-1, the ones Windows issues: header of 16 and checksum of 12 (RFC 4121 4.2.6.1)."""
_NTLM_VERSION: Final = b"\1\0\0\0"
_NUMBER: Final = struct.Struct("<I")


class WrongSignatureError(Exception):
    """Something was changed on the way."""


class Seal(Protocol):
    """``head`` and ``trailer`` stand around the stub."""

    @property
    def signature_size(self) -> int: ...

    def protect(self, head: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        """What goes out instead of ``stub``, and the signature."""

    def unprotect(self, head: bytes, stub: bytes, trailer: bytes, signature: bytes) -> bytes:
        """The stub as it was before `protect`; any exception if something was changed."""


class _NtlmDirection:
    """One of the two directions of NTLM: its cipher, its keyed hash, and the number of the next message."""

    def __init__(self, context: NTLMProxy, direction: str) -> None:
        self.cipher = getattr(context, f"_handle_{direction}").update
        self._keyed = HMAC(getattr(context, f"_sign_key_{direction}"), MD5())  # what NTLM has
        # SPNEGO may have signed its list of mechanisms already. Asking for the number counts it.
        self._number = int(getattr(context, f"_seq_num_{direction}"))
        self._exchanged = bool(context._context_attr & NegotiateFlags.key_exch)

    def sign(self, message: bytes) -> bytes:
        """The signature of the next message (MS-NLMP 3.4.4.2)."""
        number = _NUMBER.pack(self._number)
        self._number = self._number + 1 & 0xFFFFFFFF
        keyed = self._keyed.copy()
        keyed.update(number + message)
        checksum = keyed.finalize()[:8]
        return _NTLM_VERSION + (self.cipher(checksum) if self._exchanged else checksum) + number


class NtlmSeal:
    """NTLM with extended session security."""

    signature_size = 16

    def __init__(self, context: NTLMProxy, *, secret: bool) -> None:
        if not context._context_attr & NegotiateFlags.extended_session_security:
            raise ValueError("NTLM without extended session security protects nothing")
        self._secret = secret
        self._out = _NtlmDirection(context, "out")
        self._in = _NtlmDirection(context, "in")

    def protect(self, head: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        sealed = self._out.cipher(stub) if self._secret else stub
        return sealed, self._out.sign(head + stub + trailer)

    def unprotect(self, head: bytes, stub: bytes, trailer: bytes, signature: bytes) -> bytes:
        opened: bytes = self._in.cipher(stub) if self._secret else stub
        if self._in.sign(head + opened + trailer) != signature:
            raise WrongSignatureError("the signature is wrong")
        return opened


class GssSeal:
    """Kerberos, by the system's library."""

    def __init__(self, context: ContextProxy, *, secret: bool, header_signing: bool) -> None:
        self._context = context
        self._secret = secret
        self._header_signing = header_signing
        self.signature_size = context.query_message_sizes().header if secret else KERBEROS_MIC_SIZE

    def _covered(self, head: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        return (head, trailer) if self._header_signing else (b"", b"")

    def protect(self, head: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        head, trailer = self._covered(head, trailer)
        if not self._secret:
            return stub, self._context.sign(head + stub + trailer)
        sealed = self._context.wrap_iov(
            [
                (BufferType.sign_only, head),
                (BufferType.data, stub),
                (BufferType.sign_only, trailer),
                BufferType.header,
            ]
        )
        return sealed.buffers[1].data or b"", sealed.buffers[3].data or b""

    def unprotect(self, head: bytes, stub: bytes, trailer: bytes, signature: bytes) -> bytes:
        head, trailer = self._covered(head, trailer)
        if not self._secret:
            self._context.verify(head + stub + trailer, signature)
            return stub
        opened = self._context.unwrap_iov(
            [
                (BufferType.sign_only, head),
                (BufferType.data, stub),
                (BufferType.sign_only, trailer),
                (BufferType.header, signature),
            ]
        )
        return opened.buffers[1].data or b""
