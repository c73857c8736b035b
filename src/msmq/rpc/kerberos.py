"""The accepting half of Kerberos, on top of pyspnego and the system's Kerberos library (RFC 4121, MS-KILE).

A ticket for any key of the keytab is accepted: clients name a host in more than one way, and all of these names have
the key of one account. The keytab is read for each caller, so new keys count at once.

RPC uses Kerberos in DCE style: three legs, and the tokens are bare (MS-KILE 3.4.5.1). Some clients, impacket among
them, put the first token into a frame all the same (RFC 2743 3.1). Windows takes both, MIT Kerberos only what its own
client would send. So the frame is taken off here; ruling R6.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from spnego import ContextReq
from spnego._gss import HAS_GSSAPI, GSSAPIProxy

from msmq.errors import MsmqError

_FRAME: Final = 0x60
_OBJECT_IDENTIFIER: Final = 0x06
_MECHANISMS: Final = (
    bytes.fromhex("2a864886f712010202"),  # 1.2.840.113554.1.2.2
    bytes.fromhex("2a864882f712010202"),  # 1.2.840.48018.1.2.2, a slip that became usual
)
_AP_REQ: Final = b"\x01\x00"
_WANTED: Final = ContextReq.dce_style | ContextReq.integrity | ContextReq.confidentiality


class NoKeysError(MsmqError):
    """No key is available to accept callers with."""


def acceptor_credential(keytab: Path | None) -> Any:
    """Load the keys of a keytab; None stands for the keytab that Kerberos finds by itself.

    Raises:
        NoKeysError: there are none, or they cannot be read.
    """
    if not HAS_GSSAPI:
        raise NoKeysError("Kerberos needs more packages: pip install 'msmq[kerberos]'")
    import gssapi
    from gssapi.raw.misc import GSSError

    store: dict[bytes | str, bytes | str] | None = None
    if keytab is not None:
        store = {"keytab": f"FILE:{keytab}"}
    mechanism = gssapi.OID.from_int_seq("1.2.840.113554.1.2.2")
    try:
        return gssapi.Credentials(usage="accept", mechs=[mechanism], store=store)
    except GSSError as error:
        where = keytab if keytab is not None else "the usual keytab"
        raise NoKeysError(f"no keys in {where}: {_minor(error)}") from error


def _minor(error: Any) -> str:
    """The message of the Kerberos library without the general words around it."""
    said = error.get_all_statuses(error.min_code, False)
    return "; ".join(part for part in said if part) or str(error)


class KerberosAcceptor(GSSAPIProxy):
    """The accepting half of Kerberos."""

    def __init__(self, keytab: Path | None = None) -> None:
        super().__init__(context_req=_WANTED, usage="accept", _gssapi_credential=acceptor_credential(keytab))
        self._keytab = keytab

    def new_context(self) -> KerberosAcceptor:
        return KerberosAcceptor(self._keytab)

    def step(self, in_token: bytes | None = None, **options: Any) -> bytes | None:
        first = self._context is None and in_token is not None
        try:
            return super().step(bare(in_token) if first and in_token else in_token, **options)
        except AttributeError as error:
            # The library keeps an error that it wants to send to the client first; raise that instead.
            reason = getattr(self._context, "_last_err", None)
            raise (reason if isinstance(reason, Exception) else error) from None


def bare(token: bytes) -> bytes:
    """Take the frame off an AP-REQ; any other token is returned as it is."""
    if token[:1] != bytes((_FRAME,)) or len(token) < 2:
        return token
    at = 2 + (token[1] & 0x7F if token[1] & 0x80 else 0)
    for mechanism in _MECHANISMS:
        head = bytes((_OBJECT_IDENTIFIER, len(mechanism))) + mechanism + _AP_REQ
        if token[at : at + len(head)] == head:
            return token[at + len(head) :]
    return token
