"""The security descriptors of new objects (MS-MQDSSM 3.1.6.1.1.8, 3.1.6.1.3.4), in MSMQ's bits."""

from __future__ import annotations

from typing import Final

from msmq.security.descriptor import Ace, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import ANONYMOUS, EVERYONE, Sid
from msmq.wire.access_masks import QueueManagerAccessMask, SiteAccessMask

_GUEST: Final = 501
"""DOMAIN_USER_RID_GUEST (MS-SAMR 2.2.1.14)."""

MACHINE_SELF_RIGHTS: Final = int(
    QueueManagerAccessMask.GET_MACHINE_PROPERTIES
    | QueueManagerAccessMask.GET_MACHINE_PERMISSIONS
    | QueueManagerAccessMask.SET_MACHINE_PROPERTIES
    | QueueManagerAccessMask.CREATE_QUEUE
)
"""MQSEC_MACHINE_SELF_RIGHTS, which no document defines; the entry before it grants the machine everything anyhow."""


def _allow(mask: int, sid: Sid) -> Ace:
    return Ace(AceType.ACCESS_ALLOWED, int(mask), sid)


def queue_manager_descriptor(
    supplied: SecurityDescriptor, machine: Sid | None, caller: Sid | None, *, foreign: bool
) -> SecurityDescriptor:
    """Everybody may look, into a foreign system also send; the computer and the creator may do everything.

    Of the supplied descriptor only the owner counts; its lists are passed over. ``caller`` is whom the
    directory knows us as.
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
    """The supplied lists, or else: the owner may do everything and everybody look; without a proper owner
    everybody may do everything."""
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
