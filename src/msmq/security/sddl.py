"""Security descriptors as text: the Security Descriptor Description Language (MS-DTYP 2.5.1).

    O:BAG:BAD:P(A;;0x20024;;;WD)(A;;GA;;;BA)

The owner, the group, then the two lists with their flags and entries. Generic and standard rights are printed with
letters, others as a hexadecimal mask: the letters for the lower bits belong to files, registry keys and directory
objects and would mislead for a queue. All letters can be read.

Aliases such as ``DA`` stand for a group of a domain and can be read only if the domain's SID is known. Conditional and
resource-attribute entries have no text form here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from msmq.errors import DecodeError, EncodeError
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import DOMAIN_IDENTIFIERS, SID_PATTERN, WELL_KNOWN, Sid
from msmq.wire.access_masks import AccessMask
from msmq.wire.guid import GUID_PATTERN

_ALIASES = {
    "ED": "ENTERPRISE_DOMAIN_CONTROLLERS",
    "BA": "BUILTIN_ADMINISTRATORS",
    "BG": "BUILTIN_GUESTS",
    "BU": "BUILTIN_USERS",
    "AO": "ACCOUNT_OPERATORS",
    "BO": "BACKUP_OPERATORS",
    "PO": "PRINTER_OPERATORS",
    "SO": "SERVER_OPERATORS",
    "AU": "AUTHENTICATED_USERS",
    "PS": "PRINCIPAL_SELF",
    "CO": "CREATOR_OWNER",
    "CG": "CREATOR_GROUP",
    "SY": "LOCAL_SYSTEM",
    "PU": "POWER_USERS",
    "WD": "EVERYONE",
    "RE": "REPLICATOR",
    "IU": "INTERACTIVE",
    "NU": "NETWORK",
    "SU": "SERVICE",
    "RC": "RESTRICTED_CODE",
    "WR": "WRITE_RESTRICTED_CODE",
    "AN": "ANONYMOUS",
    "RU": "ALIAS_PREW2KCOMPACC",
    "LS": "LOCAL_SERVICE",
    "NS": "NETWORK_SERVICE",
    "RD": "REMOTE_DESKTOP",
    "NO": "NETWORK_CONFIGURATION_OPS",
    "MU": "PERFMON_USERS",
    "LU": "PERFLOG_USERS",
    "IS": "IIS_IUSRS",
    "CY": "CRYPTOGRAPHIC_OPERATORS",
    "OW": "OWNER_RIGHTS",
    "ER": "EVENT_LOG_READERS",
    "CD": "CERTIFICATE_SERVICE_DCOM_ACCESS",
    "AC": "ALL_APP_PACKAGES",
    "RA": "RDS_REMOTE_ACCESS_SERVERS",
    "ES": "RDS_ENDPOINT_SERVERS",
    "MS": "RDS_MANAGEMENT_SERVERS",
    "UD": "USER_MODE_DRIVERS",
    "HA": "HYPER_V_ADMINS",
    "AA": "ACCESS_CONTROL_ASSISTANCE_OPS",
    "RM": "REMOTE_MANAGEMENT_USERS",
    "LW": "ML_LOW",
    "ME": "ML_MEDIUM",
    "MP": "ML_MEDIUM_PLUS",
    "HI": "ML_HIGH",
    "SI": "ML_SYSTEM",
}
SID_ALIASES: Mapping[str, Sid] = {alias: WELL_KNOWN[name] for alias, name in _ALIASES.items()}

DOMAIN_ALIASES: Mapping[str, str] = {
    "DA": "DOMAIN_ADMINS",
    "DG": "DOMAIN_GUESTS",
    "DU": "DOMAIN_USERS",
    "DD": "DOMAIN_DOMAIN_CONTROLLERS",
    "DC": "DOMAIN_COMPUTERS",
    "LA": "ADMINISTRATOR",
    "LG": "GUEST",
    "CA": "CERT_PUBLISHERS",
    "RS": "RAS_SERVERS",
    "PA": "GROUP_POLICY_CREATOR_OWNERS",
    "CN": "CLONEABLE_CONTROLLERS",
}
ROOT_DOMAIN_ALIASES: Mapping[str, str] = {
    "SA": "SCHEMA_ADMINISTRATORS",
    "EA": "ENTERPRISE_ADMINS",
    "RO": "ENTERPRISE_READONLY_DOMAIN_CONTROLLERS",
}

ACE_TYPES: Mapping[str, AceType] = {
    "A": AceType.ACCESS_ALLOWED,
    "D": AceType.ACCESS_DENIED,
    "AU": AceType.SYSTEM_AUDIT,
    "OA": AceType.ACCESS_ALLOWED_OBJECT,
    "OD": AceType.ACCESS_DENIED_OBJECT,
    "OU": AceType.SYSTEM_AUDIT_OBJECT,
    "ML": AceType.SYSTEM_MANDATORY_LABEL,
    "SP": AceType.SYSTEM_SCOPED_POLICY_ID,
}

ACE_FLAGS: Mapping[str, AceFlags] = {
    "CI": AceFlags.CONTAINER_INHERIT,
    "OI": AceFlags.OBJECT_INHERIT,
    "NP": AceFlags.NO_PROPAGATE_INHERIT,
    "IO": AceFlags.INHERIT_ONLY,
    "ID": AceFlags.INHERITED,
    "SA": AceFlags.SUCCESSFUL_ACCESS,
    "FA": AceFlags.FAILED_ACCESS,
}

PRINTED_RIGHTS: Mapping[str, int] = {
    "GR": AccessMask.GENERIC_READ,
    "GW": AccessMask.GENERIC_WRITE,
    "GX": AccessMask.GENERIC_EXECUTE,
    "GA": AccessMask.GENERIC_ALL,
    "WO": AccessMask.WRITE_OWNER,
    "WD": AccessMask.WRITE_DAC,
    "RC": AccessMask.READ_CONTROL,
    "SD": AccessMask.DELETE,
}
RIGHTS: Mapping[str, int] = {
    **PRINTED_RIGHTS,
    "FA": 0x001F01FF,
    "FX": 0x001200A0,
    "FW": 0x00120116,
    "FR": 0x00120089,
    "KA": 0x000F003F,
    "KR": 0x00020019,
    "KX": 0x00020019,
    "KW": 0x00020006,
    "CR": 0x00000100,
    "LO": 0x00000080,
    "DT": 0x00000040,
    "WP": 0x00000020,
    "RP": 0x00000010,
    "SW": 0x00000008,
    "LC": 0x00000004,
    "DC": 0x00000002,
    "CC": 0x00000001,
}

_ACL_FLAGS: Mapping[str, Mapping[str, Control]] = {
    "D": {
        "P": Control.DACL_PROTECTED,
        "AR": Control.DACL_COMPUTED_INHERITANCE_REQUIRED,
        "AI": Control.DACL_AUTO_INHERITED,
    },
    "S": {
        "P": Control.SACL_PROTECTED,
        "AR": Control.SACL_COMPUTED_INHERITANCE_REQUIRED,
        "AI": Control.SACL_AUTO_INHERITED,
    },
}
_PRESENT = {"D": Control.DACL_PRESENT, "S": Control.SACL_PRESENT}

# A list that is present but NULL. It is not in the grammar of MS-DTYP; the name is that of the Windows SDK.
_NULL_ACL = "NO_ACCESS_CONTROL"

_SID = re.compile(rf"{SID_PATTERN}|[A-Z]{{2}}")
_GUID = re.compile(GUID_PATTERN)
_ACL_FLAG = re.compile(r"P|AR|AI")
_ACE = re.compile(r"\(([^()]*)\)")
# Hexadecimal, octal, decimal, in the order in which they are tried.
_NUMBER = re.compile(r"(?P<hex>0x[0-9A-Fa-f]{1,16})|(?P<octal>0[0-7]{1,22})|(?P<decimal>[0-9]{1,20})")


def format_sddl(descriptor: SecurityDescriptor) -> str:
    """Print a descriptor. Raises `EncodeError` if SDDL has no form for it."""
    text = ""
    if descriptor.owner is not None:
        text += f"O:{_format_sid(descriptor.owner)}"
    if descriptor.group is not None:
        text += f"G:{_format_sid(descriptor.group)}"
    for letter, acl in (("D", descriptor.dacl), ("S", descriptor.sacl)):
        if descriptor.control & _PRESENT[letter]:
            flags = "".join(f for f, bit in _ACL_FLAGS[letter].items() if descriptor.control & bit)
            aces = _NULL_ACL if acl is None else "".join(map(_format_ace, acl.aces))
            text += f"{letter}:{flags}{aces}"
    return text


_ALIAS_OF = {sid: alias for alias, sid in SID_ALIASES.items()}
_TYPE_NAMES = {value: name for name, value in ACE_TYPES.items()}


def _format_sid(sid: Sid) -> str:
    return _ALIAS_OF.get(sid) or str(sid)


def _format_ace(ace: Ace) -> str:
    name = _TYPE_NAMES.get(ace.type)
    if name is None or ace.application_data:
        raise EncodeError(f"an ACE of type {ace.type.name} with conditions or data has no SDDL form")
    flags = "".join(letters for letters, bit in ACE_FLAGS.items() if ace.flags & bit)
    if sum(ACE_FLAGS[flags[i : i + 2]] for i in range(0, len(flags), 2)) != ace.flags:
        raise EncodeError(f"the ACE flags 0x{int(ace.flags):02X} have no SDDL form")
    guids = (ace.object_type, ace.inherited_object_type)
    object_type, inherited = (str(guid) if guid else "" for guid in guids)
    return f"({name};{flags};{_format_rights(ace.mask)};{object_type};{inherited};{_format_sid(ace.sid)})"


def _format_rights(mask: int) -> str:
    letters = [name for name, bit in PRINTED_RIGHTS.items() if mask & bit]
    if mask == sum(PRINTED_RIGHTS[name] for name in letters):
        return "".join(letters)
    return f"0x{mask:x}"


def parse_sddl(text: str, domain: Sid | None = None, root_domain: Sid | None = None) -> SecurityDescriptor:
    """Read a descriptor. Raises only `DecodeError`.

    ``domain`` is the domain of aliases like ``DA`` and ``LA``, ``root_domain`` the one of ``EA``, ``SA`` and ``RO``;
    in a forest of one domain it may be left out.
    """
    try:
        return _Parser(text, domain, root_domain or domain).descriptor()
    except EncodeError as error:
        raise DecodeError(str(error)) from None


@dataclass(slots=True)
class _Parser:
    """Reads one text from left to right."""

    text: str
    domain: Sid | None
    root_domain: Sid | None
    position: int = 0

    def descriptor(self) -> SecurityDescriptor:
        sids: dict[str, Sid] = {}
        acls: dict[str, Acl | None] = {}
        control = Control(0)
        while self.position < len(self.text):
            letter = self.text[self.position]
            if letter not in "OGDS" or self.text[self.position + 1 : self.position + 2] != ":":
                raise self.error("O:, G:, D: or S: is expected")
            if letter in sids or letter in acls:
                raise self.error(f"{letter}: comes twice")
            self.position += 2
            if letter in "OG":
                sids[letter] = self.sid()
            else:
                acls[letter], flags = self.acl(letter)
                control |= flags | _PRESENT[letter]
        return SecurityDescriptor(sids.get("O"), sids.get("G"), acls.get("D"), acls.get("S"), control)

    def error(self, reason: str) -> DecodeError:
        return DecodeError(f"not SDDL: {reason}", self.position)

    def sid(self) -> Sid:
        match = _SID.match(self.text, self.position)
        if match is None:
            raise self.error("a SID or its two-letter alias is expected")
        sid = self.sid_of(match[0])
        self.position = match.end()
        return sid

    def sid_of(self, text: str) -> Sid:
        if len(text) != 2:
            return Sid.parse(text)
        if text in SID_ALIASES:
            return SID_ALIASES[text]
        for aliases, domain in ((DOMAIN_ALIASES, self.domain), (ROOT_DOMAIN_ALIASES, self.root_domain)):
            if text in aliases:
                if domain is None:
                    raise self.error(f"the alias {text} needs a domain")
                return domain.child(DOMAIN_IDENTIFIERS[aliases[text]])
        raise self.error(f"{text} is no alias of a SID")

    def acl(self, letter: str) -> tuple[Acl | None, Control]:
        flags = Control(0)
        while match := _ACL_FLAG.match(self.text, self.position):
            flags |= _ACL_FLAGS[letter][match[0]]
            self.position = match.end()
        if self.text.startswith(_NULL_ACL, self.position):
            self.position += len(_NULL_ACL)
            return None, flags
        aces = []
        while match := _ACE.match(self.text, self.position):
            aces.append(self.ace(match[1]))
            self.position = match.end()
        return Acl.of(*aces), flags

    def ace(self, text: str) -> Ace:
        fields = text.split(";")
        if len(fields) != 6:
            raise self.error("an ACE has six fields")
        name, flags, rights, object_type, inherited_object_type, sid = fields
        if name not in ACE_TYPES:
            raise self.error("an ACE has an unknown type")
        if not _SID.fullmatch(sid):
            raise self.error("an ACE ends with a SID or its alias")
        return Ace(
            ACE_TYPES[name],
            self.rights(rights),
            self.sid_of(sid),
            AceFlags(self.letters(flags, ACE_FLAGS)),
            self.guid(object_type),
            self.guid(inherited_object_type),
        )

    def rights(self, text: str) -> int:
        number = _NUMBER.fullmatch(text)
        if number is None:
            return self.letters(text, RIGHTS)
        base = {"hex": 16, "octal": 8, "decimal": 10}[number.lastgroup or "decimal"]
        return int(text, base)

    def letters(self, text: str, table: Mapping[str, int]) -> int:
        mask = 0
        for start in range(0, len(text), 2):
            pair = text[start : start + 2]
            if pair not in table:
                raise self.error("an ACE has an unknown flag or right")
            mask |= table[pair]
        return mask

    def guid(self, text: str) -> UUID | None:
        if not text:
            return None
        if not _GUID.fullmatch(text):
            raise self.error("an ACE has a malformed GUID")
        return UUID(text)
