"""The accepting half of NTLM (MS-NLMP 3.2.5), on top of pyspnego.

pyspnego's own acceptor takes the client's response apart, writes it anew and computes the proof over that. A client
whose bytes differ from what pyspnego would have written is turned away, although its proof is right. Here the proof
and the MIC are computed over the bytes that came. Passwords are asked of an `AccountSource` instead of a file that an
environment variable names, and only NTLMv2 with extended session security is accepted.

Its CHALLENGE has the Version field only for clients that ask for one; by MS-NLMP 2.2.1.2 the field is always there,
and zero for the others. It also returns every flag that the client sent; here only those that this server supports.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher
from spnego._credential import NTLMHash
from spnego._ntlm import NTLMProxy
from spnego._ntlm_raw.messages import (
    Authenticate,
    AvFlags,
    AvId,
    Challenge,
    FileTime,
    Negotiate,
    NegotiateFlags,
    NTClientChallengeV2,
    TargetInfo,
    Version,
)
from spnego.exceptions import InvalidTokenError

from msmq.security.access import Token

_PROOF_SIZE: Final = 16
_MIN_NTLM2_RESPONSE: Final = _PROOF_SIZE + 28
_MIC_SIZE: Final = 16
_F: Final = NegotiateFlags
_SUPPORTED: Final = (
    _F.unicode | _F.oem | _F.sign | _F.seal | _F.always_sign | _F.extended_session_security
    | _F.version | _F.key_128 | _F.key_exch | _F.key_56
)  # fmt: skip
_ALWAYS: Final = _F.request_target | _F.ntlm | _F.target_info | _F.target_type_server
_NO_VERSION: Final = Version(revision=0)


@dataclass(frozen=True, slots=True)
class Account:
    """A user with a password, as NTLM needs it."""

    name: str
    nt_hash: bytes
    token: Token


class AccountSource(Protocol):
    """A source of accounts."""

    def find(self, name: str) -> Account | None:
        """Return the account of this name in either case, or None."""


def nt_hash_of(password: str) -> bytes:
    """NTOWFv1 (MS-NLMP 3.3.1), from which NTLM derives all keys."""
    from spnego._ntlm_raw.crypto import ntowfv1

    return bytes(ntowfv1(password))


class NtlmAcceptor(NTLMProxy):
    """The accepting half of NTLM. Once ``complete``, ``account`` is the user who was proven."""

    def __init__(self, accounts: AccountSource) -> None:
        # The base class insists on a credential file for accepting, and on any credential for initiating.
        super().__init__(NTLMHash(username="-", lm_hash="0" * 32, nt_hash="0" * 32), usage="initiate")
        self.usage = "accept"
        self._credential = None
        self._accounts = accounts
        self._received_negotiate = b""
        self._sent_challenge = b""
        self.account: Account | None = None
        self.claimed = ""
        """The user name that the client claims."""

    @property
    def client_principal(self) -> str | None:
        return self.account.name if self.account is not None else None

    def new_context(self) -> NtlmAcceptor:
        return NtlmAcceptor(self._accounts)

    @property
    def _requires_mech_list_mic(self) -> bool:
        # SPNEGO asks this. A client that cannot sign could not check our MIC, and one that can sends its own first.
        return False

    def _step_accept_negotiate(self, token: bytes) -> bytes:
        """Make the CHALLENGE (3.2.5.1.1)."""
        negotiate = Negotiate.unpack(token)
        flags = negotiate.flags & _SUPPORTED | _ALWAYS
        if flags & _F.unicode:
            flags &= ~_F.oem
        elif not flags & _F.oem:
            raise InvalidTokenError(context_msg="the client knows neither Unicode nor OEM text")
        host = socket.gethostname()
        info = TargetInfo()
        info[AvId.nb_computer_name] = info[AvId.nb_domain_name] = host.partition(".")[0].upper()
        info[AvId.dns_computer_name] = host
        info[AvId.timestamp] = FileTime.now()
        challenge = Challenge(
            flags,
            secrets.token_bytes(8),
            info[AvId.nb_computer_name],
            info,
            Version.get_current() if flags & _F.version else _NO_VERSION,
        )
        challenge.flags = flags  # Challenge sets the flag of a Version that is given
        self._temp_negotiate, self._temp_challenge = negotiate, challenge
        self._received_negotiate, self._sent_challenge = token, challenge.pack()
        return self._sent_challenge

    def _step_accept_authenticate(self, token: bytes, channel_bindings: Any) -> None:
        auth = Authenticate.unpack(token)
        response = auth.nt_challenge_response or b""
        if not auth.flags & NegotiateFlags.extended_session_security or len(response) < _MIN_NTLM2_RESPONSE:
            raise InvalidTokenError(context_msg="only NTLMv2 with extended session security is accepted")
        assert self._temp_challenge is not None
        user, domain = auth.user_name or "", auth.domain_name or ""
        self.claimed = user
        account = self._accounts.find(user)
        # An unknown user takes as long as a known one with the wrong password.
        nt_hash = account.nt_hash if account is not None else secrets.token_bytes(16)
        response_key = _hmac_md5(nt_hash, (user.upper() + domain).encode("utf-16-le", "surrogatepass"))
        proof = _hmac_md5(response_key, self._temp_challenge.server_challenge + response[_PROOF_SIZE:])
        if not hmac.compare_digest(proof, response[:_PROOF_SIZE]) or account is None:
            raise InvalidTokenError(context_msg="unknown user name or wrong password")
        session_key = _hmac_md5(response_key, proof)
        if auth.flags & NegotiateFlags.key_exch and auth.flags & (NegotiateFlags.sign | NegotiateFlags.seal):
            encrypted = auth.encrypted_random_session_key or b""
            if len(encrypted) != len(session_key):
                raise InvalidTokenError(context_msg="the session key has a wrong size")
            session_key = Cipher(ARC4(session_key), mode=None).encryptor().update(encrypted)
        self._check_mic(token, auth._get_mic_offset(), response, session_key)
        self._session_key = session_key
        self._context_attr = auth.flags
        self.account = account
        self._complete = True

    def _check_mic(self, token: bytes, offset: int, response: bytes, session_key: bytes) -> None:
        """Check the MIC if there is one. The client states under its proof whether there is, so nobody can remove it.
        It stands behind the Version, or in its place if the client leaves that out."""
        pairs = NTClientChallengeV2.unpack(response[_PROOF_SIZE:]).av_pairs
        if not pairs.get(AvId.flags, 0) & AvFlags.mic:
            return
        end = offset + _MIC_SIZE
        if not offset or len(token) < end:
            raise InvalidTokenError(context_msg="the MIC is missing")
        without = token[:offset] + bytes(_MIC_SIZE) + token[end:]
        expected = _hmac_md5(session_key, self._received_negotiate + self._sent_challenge + without)
        if not hmac.compare_digest(expected, token[offset:end]):
            raise InvalidTokenError(context_msg="the MIC is wrong")


def _hmac_md5(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.md5).digest()
