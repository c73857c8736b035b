"""Properties of computers in the directory (MS-MQMQ 2.3.10); MSMQ 1.0 has none of them."""

from __future__ import annotations

from typing import Final

from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Content, Property, Rule
from msmq.wire.properties.texts import DISTINGUISHED_NAME, FQDN
from msmq.wire.variant import VT

V2: Final = MsmqVersion.V2
_MAX_ACCOUNT_NAME: Final = 19


def sam_account(computer_name: str) -> str:
    """Return the PROPID_COM_SAM_ACCOUNT of a computer: its name, cut to 19 characters, and a dollar sign."""
    return f"{computer_name[:_MAX_ACCOUNT_NAME]}$"


_SAM_ACCOUNT: Final = Rule(
    "a name of 1 to 19 characters and a dollar sign",
    lambda value, _version: isinstance(value, str) and len(value) > 1 and value == sam_account(value[:-1]),
)

COMPUTER: Final = (
    Property(
        5201,
        "PROPID_COM_FULL_PATH",
        VT.LPWSTR,
        "Distinguished name of the computer.",
        since=V2,
        rule=DISTINGUISHED_NAME,
    ),
    Property(
        5202,
        "PROPID_COM_SAM_ACCOUNT",
        VT.LPWSTR,
        "Its account name.",
        since=V2,
        rule=_SAM_ACCOUNT,
    ),
    Property(5204, "PROPID_COM_ACCOUNT_CONTROL", VT.UI4, "Account flags (MS-SAMR 2.2.1.13).", since=V2),
    Property(
        5205, "PROPID_COM_DNS_HOSTNAME", VT.LPWSTR, "Full DNS name of the computer.", since=V2, rule=FQDN
    ),
    Property(
        5206, "PROPID_COM_SID", VT.BLOB, "The computer's security identifier.", since=V2, content=Content.SID
    ),
    Property(
        5207,
        "PROPID_COM_SIGN_CERT",
        VT.BLOB,
        "The computer's certificate.",
        since=V2,
        content=Content.CERTIFICATE,
    ),
    Property(
        5208,
        "PROPID_COM_DIGEST",
        VT.VECTOR | VT.CLSID,
        "MD5 digests of certificates, as raw bytes.",
        since=V2,
    ),
    Property(5209, "PROPID_COM_ID", VT.CLSID, "The computer's identifier.", since=V2),
)
