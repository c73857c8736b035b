"""Who may do what: the access check (MS-DTYP 2.5.3.2) and the rights MSMQ asks for (MS-MQMQ 2.2.23-27).

A `Token` identifies the caller. `check_access` looks up the right that an operation needs in the table of its object
and raises `AccessDeniedError` if the descriptor does not grant it; `granted_access` is the underlying algorithm.

MSMQ objects have no object tree, so entries about one property or child type neither grant nor deny
(MS-DTYP 2.5.3.2 finds no node for them). Conditions of callback entries are unknown to us, and an unknown
condition never grants and always denies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntFlag, auto
from types import MappingProxyType

from msmq.errors import AccessDeniedError
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, OWNER_RIGHTS, Sid
from msmq.wire.access_masks import (
    AccessMask,
    ConnectedNetworkAccessMask,
    EnterpriseAccessMask,
    QueueAccessMask,
    QueueManagerAccessMask,
    SiteAccessMask,
)


class Privilege(Enum):
    """The privileges that take part in an access check."""

    SECURITY = "SeSecurityPrivilege"
    TAKE_OWNERSHIP = "SeTakeOwnershipPrivilege"


@dataclass(frozen=True, slots=True)
class Token:
    """An authorization context (MS-DTYP 2.5.2): the user, the groups and the privileges of a caller."""

    user: Sid
    groups: frozenset[Sid] = frozenset()
    privileges: frozenset[Privilege] = frozenset()

    @classmethod
    def authenticated(cls, user: Sid, groups: Iterable[Sid] = ()) -> Token:
        """The token of an authenticated user, who is also in Everyone and Authenticated Users."""
        return cls(user, frozenset({*groups, EVERYONE, AUTHENTICATED_USERS}))

    @classmethod
    def anonymous(cls) -> Token:
        """The token of a caller without an identity, who is still in Everyone."""
        return cls(ANONYMOUS, frozenset({EVERYONE}))

    def has(self, sid: Sid) -> bool:
        """SidInToken (MS-DTYP 2.5.3.1.1). Without a substitute, PRINCIPAL_SELF is in no token."""
        return sid == self.user or sid in self.groups


_GENERIC = int(
    AccessMask.GENERIC_READ | AccessMask.GENERIC_WRITE | AccessMask.GENERIC_EXECUTE | AccessMask.GENERIC_ALL
)


@dataclass(frozen=True, slots=True)
class GenericMapping:
    """What the four generic rights mean on one kind of object. MSMQ gives execute no meaning."""

    read: int
    write: int
    all: int
    execute: int = 0

    def map(self, mask: int) -> int:
        """``mask`` with its generic bits replaced by the specific ones."""
        # Plain integers: the complement of an IntFlag forgets bits that its class does not name.
        mapped = int(mask) & ~_GENERIC
        for bit, rights in (
            (AccessMask.GENERIC_READ, self.read),
            (AccessMask.GENERIC_WRITE, self.write),
            (AccessMask.GENERIC_EXECUTE, self.execute),
            (AccessMask.GENERIC_ALL, self.all),
        ):
            if mask & bit:
                mapped |= int(rights)
        return mapped


class QueueManagerOperation(Enum):
    """Operations on a queue manager and its system queues."""

    DELETE_DEADLETTER_MESSAGE = auto()
    PEEK_DEADLETTER_MESSAGE = auto()
    RECEIVE_DEADLETTER_MESSAGE = auto()
    DELETE_JOURNAL_MESSAGE = auto()
    PEEK_JOURNAL_MESSAGE = auto()
    RECEIVE_JOURNAL_MESSAGE = auto()
    CREATE_QUEUE = auto()
    SET_PROPERTIES = auto()
    GET_PROPERTIES = auto()
    DELETE = auto()
    GET_PERMISSIONS = auto()
    CHANGE_PERMISSIONS = auto()
    TAKE_OWNERSHIP = auto()


class QueueOperation(Enum):
    """Operations on a queue; a purge is a receive of all messages."""

    DELETE_MESSAGE = auto()
    PEEK_MESSAGE = auto()
    RECEIVE_MESSAGE = auto()
    WRITE_MESSAGE = auto()
    DELETE_JOURNAL_MESSAGE = auto()
    RECEIVE_JOURNAL_MESSAGE = auto()
    SET_PROPERTIES = auto()
    GET_PROPERTIES = auto()
    DELETE = auto()
    GET_PERMISSIONS = auto()
    CHANGE_PERMISSIONS = auto()
    TAKE_OWNERSHIP = auto()


Operation = QueueManagerOperation | QueueOperation

REQUIRED_RIGHTS: Mapping[Operation, IntFlag] = MappingProxyType(
    {
        QueueManagerOperation.DELETE_DEADLETTER_MESSAGE: QueueManagerAccessMask.DELETE_DEADLETTER_MESSAGE,
        QueueManagerOperation.PEEK_DEADLETTER_MESSAGE: QueueManagerAccessMask.PEEK_DEADLETTER_MESSAGE,
        QueueManagerOperation.RECEIVE_DEADLETTER_MESSAGE: QueueManagerAccessMask.RECEIVE_DEADLETTER_MESSAGE,
        QueueManagerOperation.DELETE_JOURNAL_MESSAGE: QueueManagerAccessMask.DELETE_JOURNAL_QUEUE_MESSAGE,
        QueueManagerOperation.PEEK_JOURNAL_MESSAGE: QueueManagerAccessMask.PEEK_JOURNAL_QUEUE_MESSAGE,
        QueueManagerOperation.RECEIVE_JOURNAL_MESSAGE: QueueManagerAccessMask.RECEIVE_JOURNAL_QUEUE_MESSAGE,
        QueueManagerOperation.CREATE_QUEUE: QueueManagerAccessMask.CREATE_QUEUE,
        QueueManagerOperation.SET_PROPERTIES: QueueManagerAccessMask.SET_MACHINE_PROPERTIES,
        QueueManagerOperation.GET_PROPERTIES: QueueManagerAccessMask.GET_MACHINE_PROPERTIES,
        QueueManagerOperation.DELETE: QueueManagerAccessMask.DELETE_MACHINE,
        QueueManagerOperation.GET_PERMISSIONS: QueueManagerAccessMask.GET_MACHINE_PERMISSIONS,
        QueueManagerOperation.CHANGE_PERMISSIONS: QueueManagerAccessMask.CHANGE_MACHINE_PERMISSIONS,
        QueueManagerOperation.TAKE_OWNERSHIP: QueueManagerAccessMask.TAKE_MACHINE_OWNERSHIP,
        QueueOperation.DELETE_MESSAGE: QueueAccessMask.DELETE_MESSAGE,
        QueueOperation.PEEK_MESSAGE: QueueAccessMask.PEEK_MESSAGE,
        QueueOperation.RECEIVE_MESSAGE: QueueAccessMask.RECEIVE_MESSAGE,
        QueueOperation.WRITE_MESSAGE: QueueAccessMask.WRITE_MESSAGE,
        QueueOperation.DELETE_JOURNAL_MESSAGE: QueueAccessMask.DELETE_JOURNAL_MESSAGE,
        QueueOperation.RECEIVE_JOURNAL_MESSAGE: QueueAccessMask.RECEIVE_JOURNAL_MESSAGE,
        QueueOperation.SET_PROPERTIES: QueueAccessMask.SET_QUEUE_PROPERTIES,
        QueueOperation.GET_PROPERTIES: QueueAccessMask.GET_QUEUE_PROPERTIES,
        QueueOperation.DELETE: QueueAccessMask.DELETE_QUEUE,
        QueueOperation.GET_PERMISSIONS: QueueAccessMask.GET_QUEUE_PERMISSIONS,
        QueueOperation.CHANGE_PERMISSIONS: QueueAccessMask.CHANGE_QUEUE_PERMISSIONS,
        QueueOperation.TAKE_OWNERSHIP: QueueAccessMask.TAKE_QUEUE_OWNERSHIP,
    }
)
"""The right each operation needs on its object."""

GENERIC_MAPPINGS: Mapping[type[IntFlag], GenericMapping] = MappingProxyType(
    {
        QueueManagerAccessMask: GenericMapping(
            read=QueueManagerAccessMask.MACHINE_GENERIC_READ,
            write=QueueManagerAccessMask.MACHINE_GENERIC_WRITE,
            all=QueueManagerAccessMask.MACHINE_GENERIC_ALL,
        ),
        QueueAccessMask: GenericMapping(
            read=QueueAccessMask.QUEUE_GENERIC_READ,
            write=QueueAccessMask.QUEUE_GENERIC_WRITE,
            all=QueueAccessMask.QUEUE_GENERIC_ALL,
        ),
        SiteAccessMask: GenericMapping(
            read=SiteAccessMask.SITE_GENERIC_READ,
            write=SiteAccessMask.SITE_GENERIC_WRITE,
            all=SiteAccessMask.SITE_GENERIC_ALL,
        ),
        EnterpriseAccessMask: GenericMapping(
            read=EnterpriseAccessMask.ENTERPRISE_GENERIC_READ,
            write=EnterpriseAccessMask.ENTERPRISE_GENERIC_WRITE,
            all=EnterpriseAccessMask.ENTERPRISE_GENERIC_ALL,
        ),
        ConnectedNetworkAccessMask: GenericMapping(
            read=ConnectedNetworkAccessMask.CN_GENERIC_READ,
            write=0,
            all=ConnectedNetworkAccessMask.CN_GENERIC_ALL,
        ),
    }
)
"""The generic rights of each kind of object, by the mask that names its rights."""


def check_access(descriptor: SecurityDescriptor, token: Token, operation: Operation) -> None:
    """Raise `AccessDeniedError` unless the descriptor allows ``operation``."""
    required = REQUIRED_RIGHTS[operation]
    granted_access(descriptor, token, required, GENERIC_MAPPINGS[type(required)])


_ALLOW = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_OBJECT})
_DENY = frozenset(
    {
        AceType.ACCESS_DENIED,
        AceType.ACCESS_DENIED_OBJECT,
        AceType.ACCESS_DENIED_CALLBACK,
        AceType.ACCESS_DENIED_CALLBACK_OBJECT,
    }
)
_SPEAKING = _ALLOW | _DENY

# MS-DTYP 2.4.3: bits that can be asked for but not granted by an entry.
_SYSTEM_SECURITY = int(AccessMask.ACCESS_SYSTEM_SECURITY)
_MAXIMUM_ALLOWED = int(AccessMask.MAXIMUM_ALLOWED)
_NEVER_GRANTED = _SYSTEM_SECURITY | _MAXIMUM_ALLOWED


def granted_access(
    descriptor: SecurityDescriptor, token: Token, desired: int, mapping: GenericMapping
) -> int:
    """The access check of MS-DTYP 2.5.3.2. Returns the granted rights or raises `AccessDeniedError`.

    With MAXIMUM_ALLOWED in ``desired`` these are all rights that the descriptor grants; otherwise ``desired`` with its
    generic bits mapped.
    """
    desired = mapping.map(desired)
    if desired & _SYSTEM_SECURITY and Privilege.SECURITY not in token.privileges:
        # Only the privilege opens the SACL; no entry can grant it.
        raise AccessDeniedError("The audit list needs SeSecurityPrivilege.")
    if descriptor.dacl is None:
        return desired & ~_MAXIMUM_ALLOWED | int(mapping.all) if desired & _MAXIMUM_ALLOWED else desired
    remaining = desired & ~_NEVER_GRANTED
    if desired & _MAXIMUM_ALLOWED:
        maximum = _maximum_allowed(descriptor, token, mapping)
        if not maximum or remaining & ~maximum:
            raise AccessDeniedError
        return maximum | desired & _SYSTEM_SECURITY
    remaining &= ~_implicit_rights(descriptor, token)
    for ace, mask in _effective_entries(descriptor, token, mapping):
        if not remaining:
            break
        if ace.type in _ALLOW:
            remaining &= ~mask
        elif remaining & mask:
            raise AccessDeniedError
    if remaining:
        raise AccessDeniedError
    return desired


def _maximum_allowed(descriptor: SecurityDescriptor, token: Token, mapping: GenericMapping) -> int:
    """All rights that entries allow and none denies, whatever their order."""
    allowed = denied = 0
    for ace, mask in _effective_entries(descriptor, token, mapping):
        if ace.type in _ALLOW:
            allowed |= mask
        else:
            denied |= mask
    return allowed & ~denied | _implicit_rights(descriptor, token)


def _implicit_rights(descriptor: SecurityDescriptor, token: Token) -> int:
    """The rights of a token without an entry: by privilege, and as the owner unless there is an entry for
    OWNER_RIGHTS."""
    rights = 0
    if Privilege.TAKE_OWNERSHIP in token.privileges:
        rights |= int(AccessMask.WRITE_OWNER)
    if _owns(descriptor, token) and not any(
        ace.sid == OWNER_RIGHTS and not ace.flags & AceFlags.INHERIT_ONLY
        for ace in (descriptor.dacl.aces if descriptor.dacl else ())
    ):
        rights |= int(AccessMask.READ_CONTROL | AccessMask.WRITE_DAC)
    return rights


def _owns(descriptor: SecurityDescriptor, token: Token) -> bool:
    return descriptor.owner is not None and token.has(descriptor.owner)


def _effective_entries(
    descriptor: SecurityDescriptor, token: Token, mapping: GenericMapping
) -> Iterator[tuple[Ace, int]]:
    """The entries of the DACL that apply to this token and this object, in order, with their rights.

    Generic bits should have been mapped when the descriptor was set. They are mapped again here, because a
    denial that still carries them must not pass unnoticed.
    """
    owner = _owns(descriptor, token)
    for ace in descriptor.dacl.aces if descriptor.dacl else ():
        if ace.flags & AceFlags.INHERIT_ONLY or ace.object_type or ace.type not in _SPEAKING:
            continue
        if token.has(ace.sid) or (owner and ace.sid == OWNER_RIGHTS):
            yield ace, mapping.map(ace.mask) & ~_NEVER_GRANTED


def default_queue_manager_descriptor(owner: Sid, group: Sid | None = None) -> SecurityDescriptor:
    """The descriptor of a new queue manager: full rights for owner and administrators, reading for Everyone."""
    full = QueueManagerAccessMask.MACHINE_GENERIC_ALL
    trustees = {EVERYONE: QueueManagerAccessMask.MACHINE_WORLD_RIGHTS, ADMINISTRATORS: full, owner: full}
    dacl = Acl.of(*(Ace(AceType.ACCESS_ALLOWED, int(mask), sid) for sid, mask in trustees.items()))
    return SecurityDescriptor(owner, group, dacl, control=Control.DACL_DEFAULTED)
