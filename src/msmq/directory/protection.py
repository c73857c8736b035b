"""The security descriptors of objects as we write them (MS-MQDSSM 3.1.6.1.1.8, 3.1.6.1.3.4), in MSMQ's bits.

Two things hold for every descriptor made here. Its owner is one that Active Directory accepts from us: ourselves, or a
group of administrators that we belong to (MS-ADTS 6.1.3.5); any other owner is left out, and the directory makes us
the owner. And the account we log on with keeps the rights it needs to manage the object, whatever the list says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msmq.manager.directory import ObjectClass
from msmq.security.descriptor import Ace, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, Sid
from msmq.wire.access_masks import QueueAccessMask, QueueManagerAccessMask, SiteAccessMask

_GUEST: Final = 501
"""DOMAIN_USER_RID_GUEST (MS-SAMR 2.2.1.14)."""

MACHINE_SELF_RIGHTS: Final = int(
    QueueManagerAccessMask.GET_MACHINE_PROPERTIES
    | QueueManagerAccessMask.GET_MACHINE_PERMISSIONS
    | QueueManagerAccessMask.SET_MACHINE_PROPERTIES
    | QueueManagerAccessMask.CREATE_QUEUE
)
"""MQSEC_MACHINE_SELF_RIGHTS, which no document defines; the entry before it grants the machine everything anyway."""

_KEEP: Final[Mapping[ObjectClass, int]] = {
    ObjectClass.QUEUE: int(
        QueueAccessMask.GET_QUEUE_PROPERTIES
        | QueueAccessMask.GET_QUEUE_PERMISSIONS
        | QueueAccessMask.SET_QUEUE_PROPERTIES
        | QueueAccessMask.CHANGE_QUEUE_PERMISSIONS
        | QueueAccessMask.DELETE_QUEUE
    ),
    ObjectClass.QUEUE_MANAGER: int(QueueManagerAccessMask.MACHINE_GENERIC_ALL),
}
"""The rights that a queue manager needs to its own objects."""
_OWNING_GROUPS: Final = (512, 519)
"""Relative identifiers of Domain Admins and Enterprise Admins."""


def acceptable(
    descriptor: SecurityDescriptor, account: Sequence[Sid], object_class: ObjectClass
) -> SecurityDescriptor:
    """A descriptor that the directory accepts from ``account``, our SID and those of our groups, and that does not
    lock us out.

    Administrators are not added to the list: they can always access an object.
    """
    if descriptor.owner is not None and not _may_own(descriptor.owner, account):
        descriptor = replace(descriptor, owner=None, group=None)
    if not account or ADMINISTRATORS in account:
        return descriptor
    return looked_after(descriptor, account[0], object_class)


def looked_after(
    descriptor: SecurityDescriptor, account: Sid, object_class: ObjectClass
) -> SecurityDescriptor:
    """The descriptor with an entry that lets ``account`` manage the object; unchanged if it has one."""
    mask = _KEEP.get(object_class, 0)
    if descriptor.dacl is None or not mask or keeps(descriptor, account, object_class):
        return descriptor
    aces = list(descriptor.dacl.aces)
    behind = max((at for at, ace in enumerate(aces, 1) if ace.type is AceType.ACCESS_DENIED), default=0)
    aces.insert(behind, _allow(mask, account))
    return replace(descriptor, dacl=Acl.of(*aces))


def keeps(descriptor: SecurityDescriptor, account: Sid, object_class: ObjectClass) -> bool:
    """Whether the entries of a descriptor let ``account`` manage the object."""
    mask, aces = _KEEP[object_class], descriptor.dacl.aces if descriptor.dacl is not None else ()
    granted = 0
    for ace in aces:
        if ace.type is AceType.ACCESS_ALLOWED and ace.sid == account:
            granted |= ace.mask
    return descriptor.dacl is None or granted & mask == mask


def _may_own(owner: Sid, account: Sequence[Sid]) -> bool:
    if not account:
        return False
    among = owner == ADMINISTRATORS or (
        str(owner).startswith("S-1-5-21-") and owner.sub_authorities[-1] in _OWNING_GROUPS
    )
    return owner == account[0] or (among and owner in account)


def _allow(mask: int, sid: Sid) -> Ace:
    return Ace(AceType.ACCESS_ALLOWED, int(mask), sid)


def queue_manager_descriptor(
    supplied: SecurityDescriptor, machine: Sid | None, caller: Sid | None, *, foreign: bool
) -> SecurityDescriptor:
    """The descriptor of a queue manager: everybody may read its properties, and create queues if it is a foreign
    system; the computer and the creator may do everything.

    Of the supplied descriptor only the owner counts, not its lists. ``caller`` is our own account.
    """
    world = (
        QueueManagerAccessMask.MACHINE_GENERIC_WRITE
        if foreign
        else QueueManagerAccessMask.MACHINE_WORLD_RIGHTS
    )
    aces = [_allow(world, EVERYONE)]
    if machine is not None:
        aces.append(_allow(QueueManagerAccessMask.MACHINE_GENERIC_ALL, machine))
        aces.append(_allow(MACHINE_SELF_RIGHTS, machine))
    user = supplied.owner or caller
    if user is not None:
        aces.append(_allow(QueueManagerAccessMask.MACHINE_GENERIC_ALL, user))
    return SecurityDescriptor(dacl=Acl.of(*aces))


def site_descriptor(supplied: SecurityDescriptor, caller: Sid | None) -> SecurityDescriptor:
    """The descriptor of a site: the supplied lists, or else full rights for the owner and reading for everybody;
    without a proper owner everybody has full rights."""
    owner = supplied.owner or caller
    domain_user = owner is not None and str(owner).startswith("S-1-5-21-")
    if owner is None or not domain_user:
        owner = ANONYMOUS
    dacl = supplied.dacl
    if dacl is None:
        if owner == ANONYMOUS or owner.sub_authorities[-1] == _GUEST:
            dacl = Acl.of(_allow(SiteAccessMask.SITE_GENERIC_ALL, EVERYONE))
        else:
            dacl = Acl.of(
                _allow(SiteAccessMask.SITE_GENERIC_READ, EVERYONE),
                _allow(SiteAccessMask.SITE_GENERIC_ALL, owner),
            )
    control = Control(supplied.control & (Control.DACL_PROTECTED | Control.SACL_PROTECTED))
    return SecurityDescriptor(dacl=dacl, sacl=supplied.sacl, control=control)
