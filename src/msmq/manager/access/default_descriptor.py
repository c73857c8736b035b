"""The security descriptor of a queue whose creator gave none, or half of one (MS-MQDMPR 3.1.7.1.3.1).

Two rules stand here. :func:`specified_descriptor` is the one of the specification: a domain user owns the
queue and alone may do everything with it, anybody may look at its properties; without a domain there is no
user to give it to, so the owner is anonymous and everybody may do everything.

:func:`ruled_descriptor` is what runs unless the operator asks for the other one
(``Settings.strict_default_security``): whoever creates the queue owns it, in a domain or not; owner and
administrators may do everything, everybody may look and send. A queue that nobody can send to, or that no
administrator can repair, helps no one, and one that any stranger may empty helps the stranger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msmq.errors import DecodeError, IllegalSecurityDescriptorError
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, Sid
from msmq.wire.access_masks import QueueAccessMask

_LOOK: Final = int(QueueAccessMask.GET_QUEUE_PROPERTIES | QueueAccessMask.GET_QUEUE_PERMISSIONS)
_SEND: Final = int(QueueAccessMask.WRITE_MESSAGE)
_KEEP: Final = _LOOK | int(
    QueueAccessMask.SET_QUEUE_PROPERTIES
    | QueueAccessMask.CHANGE_QUEUE_PERMISSIONS
    | QueueAccessMask.DELETE_QUEUE
)
_ALL: Final = int(QueueAccessMask.QUEUE_GENERIC_ALL)

_GUEST: Final = 501
"""DOMAIN_USER_RID_GUEST (MS-SAMR 2.2.1.14)."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances that the descriptor of a new queue depends on."""

    caller: Token | None = None
    """The creator of the queue; None for the queue manager itself."""
    in_domain: bool = False
    machine: Sid | None = None
    """The account of this computer in the domain, if the directory tells it."""
    reachable_by_srmp: bool = False

    def is_domain_user(self, sid: Sid) -> bool:
        """Whether a SID is that of a domain account, S-1-5-21-...; well-known and built-in principals are not, and a
        workgroup has no domain."""
        return self.in_domain and str(sid).startswith("S-1-5-21-")


def decode_supplied(security: bytes | None) -> SecurityDescriptor:
    """SuppliedSecurity: what the creator gave, or an empty descriptor."""
    if not security:
        return SecurityDescriptor()
    try:
        return SecurityDescriptor.decode(security)
    except DecodeError as error:
        raise IllegalSecurityDescriptorError(str(error)) from error


def specified_descriptor(supplied: SecurityDescriptor, given: Circumstances) -> SecurityDescriptor:
    """The rule of the specification, to the letter."""
    owner = supplied.owner or (given.caller.user if given.caller else ANONYMOUS)
    if not given.is_domain_user(owner):
        owner = ANONYMOUS
    owned = owner != ANONYMOUS and owner.sub_authorities[-1] != _GUEST
    entries = {
        EVERYONE: (_LOOK if owned else _ALL) | (_SEND if given.reachable_by_srmp else 0),
        **_strangers(given),
    }
    if owned:
        entries[owner] = _ALL
    return _final(supplied, owner, entries)


def ruled_descriptor(supplied: SecurityDescriptor, given: Circumstances) -> SecurityDescriptor:
    """The rule that is used: owner and administrators have all rights, everybody may look and send. In a domain the
    queue manager maintains the object with the account of its computer, which therefore may change and delete it."""
    owner = supplied.owner or (given.caller.user if given.caller else ADMINISTRATORS)
    if owner in (ANONYMOUS, EVERYONE):  # otherwise everybody would have all rights
        owner = ADMINISTRATORS
    entries = {EVERYONE: _LOOK | _SEND, **_strangers(given)}
    if given.machine is not None:
        entries[given.machine] = _KEEP
    entries |= {owner: _ALL, ADMINISTRATORS: _ALL}
    return _final(supplied, owner, entries)


def _strangers(given: Circumstances) -> dict[Sid, int]:
    entries = {}
    if given.reachable_by_srmp:
        entries[ANONYMOUS] = _SEND
    if given.machine is not None:
        entries[given.machine] = _LOOK
    return entries


def _final(supplied: SecurityDescriptor, owner: Sid, entries: dict[Sid, int]) -> SecurityDescriptor:
    """FinalSecurity: both lists as supplied, and a default DACL where there was none."""
    default = Acl.of(*(Ace(AceType.ACCESS_ALLOWED, mask, sid) for sid, mask in entries.items()))
    return SecurityDescriptor(
        owner=owner, group=supplied.group or owner, dacl=supplied.dacl or default, sacl=supplied.sacl
    )
