"""Security descriptors in their self-relative form (MS-DTYP 2.4.4 to 2.4.6).

A descriptor names an owner and a group and has two lists: the DACL says who may do what, the SACL which accesses are
recorded. A DACL that is absent, or present but NULL, allows everything to everybody; a DACL without entries allows
nothing. ``dacl`` is None in the first two cases, and the DACL_PRESENT bit of ``control`` tells them apart.

Values are immutable. ``encode`` and ``decode`` are exact inverses but for the order of the parts and bytes
that the specification calls meaningless: the writer puts the parts where the example of MS-DTYP 2.5.1.4 has
them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from uuid import UUID

from msmq.errors import DecodeError, EncodeError, IllegalSecurityDescriptorError
from msmq.security.sid import Sid
from msmq.wire.access_masks import SecurityInformation

_DESCRIPTOR = struct.Struct("<BBHIIII")
_ACL = struct.Struct("<BBHHH")
_ACE = struct.Struct("<BBHI")
_U32 = struct.Struct("<I")

_MIN_ACE_SIZE = _ACE.size + 8


class AceType(IntEnum):
    """ACE_HEADER.AceType (MS-DTYP 2.4.4.1) without the types it reserves."""

    ACCESS_ALLOWED = 0x00
    ACCESS_DENIED = 0x01
    SYSTEM_AUDIT = 0x02
    ACCESS_ALLOWED_OBJECT = 0x05
    ACCESS_DENIED_OBJECT = 0x06
    SYSTEM_AUDIT_OBJECT = 0x07
    ACCESS_ALLOWED_CALLBACK = 0x09
    ACCESS_DENIED_CALLBACK = 0x0A
    ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0B
    ACCESS_DENIED_CALLBACK_OBJECT = 0x0C
    SYSTEM_AUDIT_CALLBACK = 0x0D
    SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0F
    SYSTEM_MANDATORY_LABEL = 0x11
    SYSTEM_RESOURCE_ATTRIBUTE = 0x12
    SYSTEM_SCOPED_POLICY_ID = 0x13


OBJECT_ACE_TYPES = frozenset(
    {
        AceType.ACCESS_ALLOWED_OBJECT,
        AceType.ACCESS_DENIED_OBJECT,
        AceType.SYSTEM_AUDIT_OBJECT,
        AceType.ACCESS_ALLOWED_CALLBACK_OBJECT,
        AceType.ACCESS_DENIED_CALLBACK_OBJECT,
        AceType.SYSTEM_AUDIT_CALLBACK_OBJECT,
    }
)
"""ACE types that may apply to one property or child type; they have up to two GUIDs."""

NT4_ACE_TYPES = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED, AceType.SYSTEM_AUDIT})
"""The only ACE types allowed in the security properties of MS-MQMQ 2.3."""

SECURITY_PROPERTIES = frozenset({1101, 1201, 1301, 1501, 1601, 5407})
"""PROPID_Q_SECURITY, _QM_, _S_, _CN_, _E_ and PROPID_MQU_SECURITY."""


class AceFlags(IntFlag):
    """ACE_HEADER.AceFlags (MS-DTYP 2.4.4.1)."""

    OBJECT_INHERIT = 0x01
    CONTAINER_INHERIT = 0x02
    NO_PROPAGATE_INHERIT = 0x04
    INHERIT_ONLY = 0x08
    INHERITED = 0x10
    SUCCESSFUL_ACCESS = 0x40
    FAILED_ACCESS = 0x80


NO_FLAGS = AceFlags(0)


class Control(IntFlag):
    """SECURITY_DESCRIPTOR.Control (MS-DTYP 2.4.6)."""

    OWNER_DEFAULTED = 0x0001
    GROUP_DEFAULTED = 0x0002
    DACL_PRESENT = 0x0004
    DACL_DEFAULTED = 0x0008
    SACL_PRESENT = 0x0010
    SACL_DEFAULTED = 0x0020
    DACL_TRUSTED = 0x0040
    SERVER_SECURITY = 0x0080
    DACL_COMPUTED_INHERITANCE_REQUIRED = 0x0100
    SACL_COMPUTED_INHERITANCE_REQUIRED = 0x0200
    DACL_AUTO_INHERITED = 0x0400
    SACL_AUTO_INHERITED = 0x0800
    DACL_PROTECTED = 0x1000
    SACL_PROTECTED = 0x2000
    RM_CONTROL_VALID = 0x4000
    SELF_RELATIVE = 0x8000


_CONTROL_OF_PART = {
    SecurityInformation.OWNER: Control.OWNER_DEFAULTED,
    SecurityInformation.GROUP: Control.GROUP_DEFAULTED,
    SecurityInformation.DACL: (
        Control.DACL_PRESENT
        | Control.DACL_DEFAULTED
        | Control.DACL_TRUSTED
        | Control.SERVER_SECURITY
        | Control.DACL_COMPUTED_INHERITANCE_REQUIRED
        | Control.DACL_AUTO_INHERITED
        | Control.DACL_PROTECTED
    ),
    SecurityInformation.SACL: (
        Control.SACL_PRESENT
        | Control.SACL_DEFAULTED
        | Control.SACL_COMPUTED_INHERITANCE_REQUIRED
        | Control.SACL_AUTO_INHERITED
        | Control.SACL_PROTECTED
    ),
}
"""The bits of Control that belong to each part."""

_OBJECT_TYPE_PRESENT = 0x1
_INHERITED_OBJECT_TYPE_PRESENT = 0x2


@dataclass(frozen=True, slots=True)
class Ace:
    """An access control entry (MS-DTYP 2.4.4).

    ``application_data`` are the bytes after the SID: the condition of a callback entry, else without meaning.
    """

    type: AceType
    mask: int
    sid: Sid
    flags: AceFlags = NO_FLAGS
    object_type: UUID | None = None
    inherited_object_type: UUID | None = None
    application_data: bytes = b""

    def __post_init__(self) -> None:
        if not 0 <= self.mask < 1 << 32:
            raise EncodeError("an access mask takes 32 bits")
        if not 0 <= self.flags <= 0xFF:
            raise EncodeError("the flags of an ACE take 8 bits")
        if len(self.application_data) % 4:
            raise EncodeError("the data after the SID of an ACE is a multiple of 4 bytes long")
        if not self.is_object and (self.object_type or self.inherited_object_type):
            raise EncodeError(f"an ACE of type {self.type.name} carries no object type")

    @property
    def is_object(self) -> bool:
        return self.type in OBJECT_ACE_TYPES

    def encode(self) -> bytes:
        body = b""
        if self.is_object:
            present = _OBJECT_TYPE_PRESENT if self.object_type else 0
            present |= _INHERITED_OBJECT_TYPE_PRESENT if self.inherited_object_type else 0
            guids = (self.object_type, self.inherited_object_type)
            body = _U32.pack(present) + b"".join(guid.bytes_le for guid in guids if guid)
        body += self.sid.encode() + self.application_data
        size = _ACE.size + len(body)
        if size > 0xFFFF:
            raise EncodeError("an ACE is at most 65535 bytes long")
        return _ACE.pack(self.type, self.flags, size, self.mask) + body

    @classmethod
    def decode(cls, data: bytes) -> Ace:
        """Read an entry that fills ``data``, whose AceSize the caller has read already."""
        if len(data) < _MIN_ACE_SIZE:
            raise DecodeError("an ACE ends inside its fixed part", 0)
        number, flags, size, mask = _ACE.unpack_from(data)
        if size != len(data) or size % 4:
            raise DecodeError(f"an ACE of {len(data)} bytes says that it has {size}", 2)
        try:
            ace_type = AceType(number)
        except ValueError:
            # Skipping it could skip a denial, so the whole descriptor is refused.
            raise DecodeError(f"an ACE has the reserved or unknown type 0x{number:02X}", 0) from None
        offset = _ACE.size
        object_type = inherited_object_type = None
        if ace_type in OBJECT_ACE_TYPES:
            (present,) = _U32.unpack_from(data, offset)
            offset += 4
            if present & _OBJECT_TYPE_PRESENT:
                object_type, offset = _guid(data, offset)
            if present & _INHERITED_OBJECT_TYPE_PRESENT:
                inherited_object_type, offset = _guid(data, offset)
        sid = Sid.decode(data, offset)
        rest = bytes(data[offset + sid.size :])
        return cls(ace_type, mask, sid, AceFlags(flags), object_type, inherited_object_type, rest)


def _guid(data: bytes, offset: int) -> tuple[UUID, int]:
    if len(data) - offset < 16:
        raise DecodeError("an ACE ends inside a GUID", offset)
    return UUID(bytes_le=bytes(data[offset : offset + 16])), offset + 16


@dataclass(frozen=True, slots=True)
class Acl:
    """An access control list (MS-DTYP 2.4.5); the order of its entries matters."""

    REVISION = 2
    REVISION_DS = 4

    aces: tuple[Ace, ...] = ()
    revision: int = field(default=REVISION)

    def __post_init__(self) -> None:
        if self.revision not in (self.REVISION, self.REVISION_DS):
            raise EncodeError("the revision of an ACL is 2 or 4")
        if self.revision == self.REVISION and any(ace.is_object for ace in self.aces):
            raise EncodeError("an ACL with object entries has revision 4")

    @classmethod
    def of(cls, *aces: Ace) -> Acl:
        """A list of the revision that its entries need."""
        return cls(aces, cls.REVISION_DS if any(ace.is_object for ace in aces) else cls.REVISION)

    def encode(self) -> bytes:
        body = b"".join(ace.encode() for ace in self.aces)
        size = _ACL.size + len(body)
        if size > 0xFFFF:
            raise EncodeError("an ACL is at most 65535 bytes long")
        return _ACL.pack(self.revision, 0, size, len(self.aces), 0) + body

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> Acl:
        if len(data) - offset < _ACL.size:
            raise DecodeError("an ACL ends inside its 8 fixed bytes", offset)
        revision, _, size, count, _ = _ACL.unpack_from(data, offset)
        if not _ACL.size <= size <= len(data) - offset:
            raise DecodeError(f"an ACL cannot be {size} bytes long here", offset + 2)
        if count * _MIN_ACE_SIZE > size - _ACL.size:
            raise DecodeError(f"an ACL of {size} bytes cannot hold {count} entries", offset + 4)
        end = offset + size
        cursor = offset + _ACL.size
        aces = []
        for _ in range(count):
            ace, cursor = _next_ace(data, cursor, end)
            aces.append(ace)
        try:
            return cls(tuple(aces), revision)
        except EncodeError as error:
            raise DecodeError(str(error), offset) from None


def _next_ace(data: bytes, offset: int, end: int) -> tuple[Ace, int]:
    if end - offset < _MIN_ACE_SIZE:
        raise DecodeError("an ACL ends before its last entry", offset)
    size = int.from_bytes(data[offset + 2 : offset + 4], "little")
    if size < _MIN_ACE_SIZE or size % 4 or size > end - offset:
        raise DecodeError(f"an ACE cannot be {size} bytes long here", offset + 2)
    try:
        return Ace.decode(data[offset : offset + size]), offset + size
    except DecodeError as error:
        raise DecodeError(error.reason, offset + (error.offset or 0)) from None


@dataclass(frozen=True, slots=True)
class SecurityDescriptor:
    """SECURITY_DESCRIPTOR (MS-DTYP 2.4.6)."""

    owner: Sid | None = None
    group: Sid | None = None
    dacl: Acl | None = None
    sacl: Acl | None = None
    control: Control = Control.SELF_RELATIVE
    resource_manager_control: int = 0

    def __post_init__(self) -> None:
        """Set the bits that follow from the parts, so that equal descriptors compare equal."""
        control = Control(self.control) | Control.SELF_RELATIVE
        if self.dacl is not None:
            control |= Control.DACL_PRESENT
        if self.sacl is not None:
            control |= Control.SACL_PRESENT
        if not 0 <= control <= 0xFFFF or not 0 <= self.resource_manager_control <= 0xFF:
            raise EncodeError("the control fields of a security descriptor take 16 and 8 bits")
        object.__setattr__(self, "control", control)

    def select(self, information: SecurityInformation) -> SecurityDescriptor:
        """A descriptor of only the parts that ``information`` names (MS-MQMQ 2.2.3), as a getter returns it."""
        return SecurityDescriptor().update(information, self)

    def update(self, information: SecurityInformation, source: SecurityDescriptor) -> SecurityDescriptor:
        """This descriptor with the parts ``information`` names taken from ``source``, as a setter does it."""
        control = int(self.control)
        for part, bits in _CONTROL_OF_PART.items():
            if part & information:
                control = control & ~int(bits) | source.control & bits
        return replace(
            self,
            control=Control(control),
            owner=source.owner if information & SecurityInformation.OWNER else self.owner,
            group=source.group if information & SecurityInformation.GROUP else self.group,
            dacl=source.dacl if information & SecurityInformation.DACL else self.dacl,
            sacl=source.sacl if information & SecurityInformation.SACL else self.sacl,
        )

    @property
    def aces(self) -> tuple[Ace, ...]:
        """The entries of both lists."""
        return tuple(ace for acl in (self.dacl, self.sacl) if acl for ace in acl.aces)

    def encode(self) -> bytes:
        offsets = {}
        body = b""
        for part in ("sacl", "dacl", "owner", "group"):
            value: Sid | Acl | None = getattr(self, part)
            offsets[part] = _DESCRIPTOR.size + len(body) if value is not None else 0
            body += value.encode() if value is not None else b""
        head = _DESCRIPTOR.pack(
            1,
            self.resource_manager_control,
            self.control,
            offsets["owner"],
            offsets["group"],
            offsets["sacl"],
            offsets["dacl"],
        )
        return head + body

    @classmethod
    def decode(cls, data: bytes) -> SecurityDescriptor:
        if len(data) < _DESCRIPTOR.size:
            raise DecodeError("a security descriptor ends inside its 20 fixed bytes", 0)
        revision, sbz1, control, owner, group, sacl, dacl = _DESCRIPTOR.unpack_from(data)
        if revision != 1:
            raise DecodeError(f"a security descriptor has revision 1, not {revision}", 0)
        if not control & Control.SELF_RELATIVE:
            raise DecodeError("a security descriptor outside memory is self-relative", 2)
        # A list that is there but not marked present would silently allow everything.
        if (dacl and not control & Control.DACL_PRESENT) or (sacl and not control & Control.SACL_PRESENT):
            raise DecodeError("a security descriptor has an ACL that its control bits deny", 2)
        for offset in (owner, group, sacl, dacl):
            if offset and not _DESCRIPTOR.size <= offset < len(data):
                raise DecodeError(f"a security descriptor has no part at offset {offset}", 4)
        return cls(
            Sid.decode(data, owner) if owner else None,
            Sid.decode(data, group) if group else None,
            Acl.decode(data, dacl) if dacl else None,
            Acl.decode(data, sacl) if sacl else None,
            Control(control),
            sbz1,
        )


def decode_security_property(property_id: int, data: bytes) -> SecurityDescriptor:
    """Read the BLOB of a property that holds a descriptor.

    The ``*_SECURITY`` properties know only the ACE types of Windows NT 4.0 (MS-MQMQ 6, notes 27 and
    following); other entries are refused with MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR, the status for a bad
    descriptor.
    """
    try:
        descriptor = SecurityDescriptor.decode(data)
    except DecodeError as error:
        raise IllegalSecurityDescriptorError(str(error)) from error
    if property_id in SECURITY_PROPERTIES:
        for ace in descriptor.aces:
            if ace.type not in NT4_ACE_TYPES:
                raise IllegalSecurityDescriptorError(f"property {property_id} takes no {ace.type.name} entry")
    return descriptor
