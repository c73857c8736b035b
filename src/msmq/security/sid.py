"""Security identifiers of users, groups and computers (MS-DTYP 2.4.2).

A SID is kept as its numbers; ``encode`` and ``decode`` are for the packet form of 2.4.2.2, ``str`` and ``parse`` for
the text of 2.4.2.1. Well-known SIDs have a name (2.4.2.4); those of a domain are the domain's SID and one more number.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from msmq.errors import DecodeError, EncodeError

_HEAD_SIZE = 8
_REVISION = 1
MAX_SUB_AUTHORITIES = 15

SID_PATTERN = r"S-1-(?:0x[0-9A-Fa-f]{12}|[0-9]{1,10})(?:-[0-9]{1,10}){0,15}"
_SID = re.compile(SID_PATTERN)


@dataclass(frozen=True, slots=True, order=True)
class Sid:
    """A security identifier: the 48-bit authority that issued it and up to fifteen 32-bit numbers below."""

    authority: int
    sub_authorities: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.authority < 1 << 48:
            raise EncodeError("the identifier authority of a SID takes 48 bits")
        if len(self.sub_authorities) > MAX_SUB_AUTHORITIES:
            raise EncodeError(f"a SID has at most {MAX_SUB_AUTHORITIES} sub-authorities")
        if any(not 0 <= number < 1 << 32 for number in self.sub_authorities):
            raise EncodeError("a sub-authority of a SID takes 32 bits")

    def __str__(self) -> str:
        # In text, an authority that needs more than 32 bits is hexadecimal.
        authority = str(self.authority) if self.authority < 1 << 32 else f"0x{self.authority:012X}"
        return "-".join(["S-1", authority, *map(str, self.sub_authorities)])

    @classmethod
    def parse(cls, text: str) -> Sid:
        """Read ``S-1-5-32-544``. A SID without sub-authorities is accepted too: 2.4.2.4 itself lists S-1-5."""
        if not _SID.fullmatch(text):
            raise DecodeError("a SID reads S-1-<authority>-<number>-...")
        authority, *numbers = text.split("-")[2:]
        try:
            return cls(int(authority, 16 if authority.startswith("0x") else 10), tuple(map(int, numbers)))
        except EncodeError as error:
            raise DecodeError(str(error)) from None

    @property
    def size(self) -> int:
        return _HEAD_SIZE + 4 * len(self.sub_authorities)

    def child(self, relative_identifier: int) -> Sid:
        """The SID one level below, such as a group of a domain."""
        return Sid(self.authority, (*self.sub_authorities, relative_identifier))

    def is_parent_of(self, other: Sid) -> bool:
        """Whether a SID is one level below this one."""
        return self.authority == other.authority and self.sub_authorities == other.sub_authorities[:-1]

    def encode(self) -> bytes:
        count = len(self.sub_authorities)
        return (
            bytes((_REVISION, count))
            + self.authority.to_bytes(6, "big")
            + struct.pack(f"<{count}I", *self.sub_authorities)
        )

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> Sid:
        """Read the SID that begins at ``offset``; its ``size`` tells where it ends."""
        if len(data) - offset < _HEAD_SIZE:
            raise DecodeError("a SID ends inside its 8 fixed bytes", offset)
        revision, count = data[offset], data[offset + 1]
        if revision != _REVISION:
            raise DecodeError(f"a SID has revision 1, not {revision}", offset)
        if count > MAX_SUB_AUTHORITIES:
            raise DecodeError(
                f"a SID has at most {MAX_SUB_AUTHORITIES} sub-authorities, not {count}", offset + 1
            )
        if len(data) - offset - _HEAD_SIZE < 4 * count:
            raise DecodeError("a SID ends inside its sub-authorities", offset + _HEAD_SIZE)
        authority = int.from_bytes(data[offset + 2 : offset + 8], "big")
        return cls(authority, struct.unpack_from(f"<{count}I", data, offset + _HEAD_SIZE))


WELL_KNOWN: Mapping[str, Sid] = MappingProxyType(
    {
        name: Sid.parse(text)
        for name, text in {
            "NULL": "S-1-0-0",
            "EVERYONE": "S-1-1-0",
            "LOCAL": "S-1-2-0",
            "CONSOLE_LOGON": "S-1-2-1",
            "CREATOR_OWNER": "S-1-3-0",
            "CREATOR_GROUP": "S-1-3-1",
            "OWNER_SERVER": "S-1-3-2",
            "GROUP_SERVER": "S-1-3-3",
            "OWNER_RIGHTS": "S-1-3-4",
            "DIALUP": "S-1-5-1",
            "NETWORK": "S-1-5-2",
            "BATCH": "S-1-5-3",
            "INTERACTIVE": "S-1-5-4",
            "SERVICE": "S-1-5-6",
            "ANONYMOUS": "S-1-5-7",
            "PROXY": "S-1-5-8",
            "ENTERPRISE_DOMAIN_CONTROLLERS": "S-1-5-9",
            "PRINCIPAL_SELF": "S-1-5-10",
            "AUTHENTICATED_USERS": "S-1-5-11",
            "RESTRICTED_CODE": "S-1-5-12",
            "TERMINAL_SERVER_USER": "S-1-5-13",
            "REMOTE_INTERACTIVE_LOGON": "S-1-5-14",
            "THIS_ORGANIZATION": "S-1-5-15",
            "IUSR": "S-1-5-17",
            "LOCAL_SYSTEM": "S-1-5-18",
            "LOCAL_SERVICE": "S-1-5-19",
            "NETWORK_SERVICE": "S-1-5-20",
            "BUILTIN_ADMINISTRATORS": "S-1-5-32-544",
            "BUILTIN_USERS": "S-1-5-32-545",
            "BUILTIN_GUESTS": "S-1-5-32-546",
            "POWER_USERS": "S-1-5-32-547",
            "ACCOUNT_OPERATORS": "S-1-5-32-548",
            "SERVER_OPERATORS": "S-1-5-32-549",
            "PRINTER_OPERATORS": "S-1-5-32-550",
            "BACKUP_OPERATORS": "S-1-5-32-551",
            "REPLICATOR": "S-1-5-32-552",
            "ALIAS_PREW2KCOMPACC": "S-1-5-32-554",
            "REMOTE_DESKTOP": "S-1-5-32-555",
            "NETWORK_CONFIGURATION_OPS": "S-1-5-32-556",
            "INCOMING_FOREST_TRUST_BUILDERS": "S-1-5-32-557",
            "PERFMON_USERS": "S-1-5-32-558",
            "PERFLOG_USERS": "S-1-5-32-559",
            "WINDOWS_AUTHORIZATION_ACCESS_GROUP": "S-1-5-32-560",
            "TERMINAL_SERVER_LICENSE_SERVERS": "S-1-5-32-561",
            "DISTRIBUTED_COM_USERS": "S-1-5-32-562",
            "IIS_IUSRS": "S-1-5-32-568",
            "CRYPTOGRAPHIC_OPERATORS": "S-1-5-32-569",
            "EVENT_LOG_READERS": "S-1-5-32-573",
            "CERTIFICATE_SERVICE_DCOM_ACCESS": "S-1-5-32-574",
            "RDS_REMOTE_ACCESS_SERVERS": "S-1-5-32-575",
            "RDS_ENDPOINT_SERVERS": "S-1-5-32-576",
            "RDS_MANAGEMENT_SERVERS": "S-1-5-32-577",
            "HYPER_V_ADMINS": "S-1-5-32-578",
            "ACCESS_CONTROL_ASSISTANCE_OPS": "S-1-5-32-579",
            "REMOTE_MANAGEMENT_USERS": "S-1-5-32-580",
            "STORAGE_REPLICA_ADMINS": "S-1-5-32-582",
            "WRITE_RESTRICTED_CODE": "S-1-5-33",
            "NTLM_AUTHENTICATION": "S-1-5-64-10",
            "SCHANNEL_AUTHENTICATION": "S-1-5-64-14",
            "DIGEST_AUTHENTICATION": "S-1-5-64-21",
            "THIS_ORGANIZATION_CERTIFICATE": "S-1-5-65-1",
            "ALL_SERVICES": "S-1-5-80-0",
            "USER_MODE_DRIVERS": "S-1-5-84-0-0-0-0-0",
            "LOCAL_ACCOUNT": "S-1-5-113",
            "LOCAL_ACCOUNT_AND_MEMBER_OF_ADMINISTRATORS_GROUP": "S-1-5-114",
            "OTHER_ORGANIZATION": "S-1-5-1000",
            "ALL_APP_PACKAGES": "S-1-15-2-1",
            "ML_UNTRUSTED": "S-1-16-0",
            "ML_LOW": "S-1-16-4096",
            "ML_MEDIUM": "S-1-16-8192",
            "ML_MEDIUM_PLUS": "S-1-16-8448",
            "ML_HIGH": "S-1-16-12288",
            "ML_SYSTEM": "S-1-16-16384",
            "ML_PROTECTED_PROCESS": "S-1-16-20480",
            "AUTHENTICATION_AUTHORITY_ASSERTED_IDENTITY": "S-1-18-1",
            "SERVICE_ASSERTED_IDENTITY": "S-1-18-2",
        }.items()
    }
)
"""The SIDs that are the same on every machine, by their names in MS-DTYP 2.4.2.4."""

DOMAIN_IDENTIFIERS: Mapping[str, int] = MappingProxyType(
    {
        "ENTERPRISE_READONLY_DOMAIN_CONTROLLERS": 498,
        "ADMINISTRATOR": 500,
        "GUEST": 501,
        "KRBTGT": 502,
        "DOMAIN_ADMINS": 512,
        "DOMAIN_USERS": 513,
        "DOMAIN_GUESTS": 514,
        "DOMAIN_COMPUTERS": 515,
        "DOMAIN_DOMAIN_CONTROLLERS": 516,
        "CERT_PUBLISHERS": 517,
        "SCHEMA_ADMINISTRATORS": 518,
        "ENTERPRISE_ADMINS": 519,
        "GROUP_POLICY_CREATOR_OWNERS": 520,
        "READONLY_DOMAIN_CONTROLLERS": 521,
        "CLONEABLE_CONTROLLERS": 522,
        "RAS_SERVERS": 553,
    }
)
"""The last number of the well-known SIDs of a domain, S-1-5-21-<domain>-<number>."""

EVERYONE = WELL_KNOWN["EVERYONE"]
ANONYMOUS = WELL_KNOWN["ANONYMOUS"]
AUTHENTICATED_USERS = WELL_KNOWN["AUTHENTICATED_USERS"]
ADMINISTRATORS = WELL_KNOWN["BUILTIN_ADMINISTRATORS"]
LOCAL_SYSTEM = WELL_KNOWN["LOCAL_SYSTEM"]
OWNER_RIGHTS = WELL_KNOWN["OWNER_RIGHTS"]
PRINCIPAL_SELF = WELL_KNOWN["PRINCIPAL_SELF"]

_NAMES = {sid: name for name, sid in WELL_KNOWN.items()}


def well_known_name(sid: Sid) -> str | None:
    """The name of a SID that is the same on every machine, or None."""
    return _NAMES.get(sid)
