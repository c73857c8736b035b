"""Translation of security descriptors between MSMQ and the directory.

The two give the same bits different meanings: 0x20 lets somebody *read* the properties of a queue in MSMQ and *write*
them in the directory. So descriptors are translated, in both directions. Reading and writing properties and creating
queues have rights of the directory; sending, receiving and peeking have none, and become control access rights, which
every forest has under CN=Extended-Rights, each in an entry of its own.

Some MSMQ bits only count together (receiving is deleting and peeking). A permission is translated when all bits of it
are granted, a prohibition when any of its own bits is denied: nobody ever gets more than was granted.

Inherited entries are not written: the directory adds its own. Entries about single properties or about other extended
rights do not concern MSMQ and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from uuid import UUID

from msmq.errors import DecodeError
from msmq.manager.directory import ObjectClass
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, Control, SecurityDescriptor

CREATE_CHILD: Final = 0x0001
LIST_CHILDREN: Final = 0x0004
READ_PROPERTY: Final = 0x0010
WRITE_PROPERTY: Final = 0x0020
LIST_OBJECT: Final = 0x0080
CONTROL_ACCESS: Final = 0x0100

_STANDARD: Final = 0xFFFF0000
"""Rights with the same meaning on both sides: delete, read and change the descriptor, take ownership, generic
rights."""

_SEE: Final = READ_PROPERTY | LIST_CHILDREN | LIST_OBJECT


@dataclass(frozen=True, slots=True)
class Right:
    """MSMQ bits, and the right of the directory that stands for them."""

    bits: int
    mask: int
    extended: UUID | None = None
    own_bits: int = 0
    """The bits that no lesser right has; zero if that is all of them."""

    @property
    def denied_bits(self) -> int:
        return self.own_bits or self.bits


def _control(bits: int, guid: str, own_bits: int = 0) -> Right:
    return Right(bits, CONTROL_ACCESS, UUID(guid), own_bits)


_READ: Final = Right(0x20, _SEE)
_WRITE: Final = Right(0x10, WRITE_PROPERTY)
QUEUE_CLASS: Final = UUID("9a0dc343-c100-11d1-bbc5-0080c76670c0")

RIGHTS: Final[Mapping[ObjectClass, tuple[Right, ...]]] = {
    ObjectClass.QUEUE_MANAGER: (
        _READ,
        _WRITE,
        Right(0x04, CREATE_CHILD, QUEUE_CLASS),
        _control(0x03, "4b6e08c0-df3c-11d1-9c86-006008764d0e", 0x01),  # msmq-Receive-Dead-Letter
        _control(0x02, "4b6e08c1-df3c-11d1-9c86-006008764d0e"),  # msmq-Peek-Dead-Letter
        _control(0xC0, "4b6e08c2-df3c-11d1-9c86-006008764d0e", 0x40),  # msmq-Receive-computer-Journal
        _control(0x80, "4b6e08c3-df3c-11d1-9c86-006008764d0e"),  # msmq-Peek-computer-Journal
    ),
    ObjectClass.QUEUE: (
        _READ,
        _WRITE,
        _control(0x03, "06bd3200-df3e-11d1-9c86-006008764d0e", 0x01),  # msmq-Receive
        _control(0x02, "06bd3201-df3e-11d1-9c86-006008764d0e"),  # msmq-Peek
        _control(0x04, "06bd3202-df3e-11d1-9c86-006008764d0e"),  # msmq-Send
        _control(0x0A, "06bd3203-df3e-11d1-9c86-006008764d0e", 0x08),  # msmq-Receive-journal
    ),
    ObjectClass.SITE: (_READ, _WRITE, Right(0x07, CREATE_CHILD)),
    ObjectClass.ENTERPRISE: (_READ, _WRITE, Right(0x07, CREATE_CHILD)),
}

_ALLOWED: Final = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_OBJECT})
_DENIED: Final = frozenset({AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_OBJECT})
_PLAIN: Final = {AceType.ACCESS_ALLOWED_OBJECT: AceType.ACCESS_ALLOWED} | {
    AceType.ACCESS_DENIED_OBJECT: AceType.ACCESS_DENIED
}
_OF_OBJECT: Final = {plain: typed for typed, plain in _PLAIN.items()}


def to_directory(descriptor: SecurityDescriptor, object_class: ObjectClass) -> SecurityDescriptor:
    """A descriptor of MSMQ as the directory keeps it, without the SACL, which is left to the directory."""
    control = Control(descriptor.control & ~(Control.SACL_PRESENT | Control.SACL_DEFAULTED))
    if descriptor.dacl is None:
        return replace(descriptor, sacl=None, control=control)
    aces = [
        entry
        for ace in descriptor.dacl.aces
        if not ace.flags & AceFlags.INHERITED
        for entry in _for_directory(ace, RIGHTS[object_class])
    ]
    return replace(descriptor, dacl=Acl.of(*aces), sacl=None, control=control)


def _for_directory(ace: Ace, rights: tuple[Right, ...]) -> Iterator[Ace]:
    if ace.type not in _ALLOWED | _DENIED or ace.object_type is not None:
        return
    ace = replace(ace, type=_PLAIN.get(ace.type, ace.type))
    chosen = [
        right
        for right in rights
        if (ace.mask & right.bits == right.bits if ace.type in _ALLOWED else ace.mask & right.denied_bits)
    ]
    plain = ace.mask & _STANDARD
    for right in chosen:
        if right.extended is None:
            plain |= right.mask
    if plain:
        yield replace(ace, mask=plain)
    for right in chosen:
        if right.extended is not None:
            yield replace(ace, type=_OF_OBJECT[ace.type], mask=right.mask, object_type=right.extended)


def from_directory(descriptor: SecurityDescriptor, object_class: ObjectClass) -> SecurityDescriptor:
    """A descriptor of the directory in MSMQ's bits; consecutive entries about the same trustee become one."""
    if descriptor.dacl is None:
        return descriptor
    aces: list[Ace] = []
    for ace in descriptor.dacl.aces:
        mask = _for_msmq(ace, RIGHTS[object_class])
        if not mask:
            continue
        entry = replace(
            ace, type=_PLAIN.get(ace.type, ace.type), mask=mask, object_type=None, inherited_object_type=None
        )
        last = aces[-1] if aces else None
        if last is not None and (last.type, last.sid, last.flags) == (entry.type, entry.sid, entry.flags):
            aces[-1] = replace(last, mask=last.mask | entry.mask)
        else:
            aces.append(entry)
    return replace(descriptor, dacl=Acl.of(*aces))


def _for_msmq(ace: Ace, rights: tuple[Right, ...]) -> int:
    if ace.type not in _ALLOWED | _DENIED or ace.flags & AceFlags.INHERIT_ONLY:
        return 0
    mask = ace.mask & _STANDARD if ace.object_type is None else 0
    for right in rights:
        about_it = ace.object_type is None or ace.object_type == right.extended
        needed = READ_PROPERTY if right is _READ else right.mask
        if about_it and ace.mask & needed == needed:
            mask |= right.bits if ace.type in _ALLOWED else right.denied_bits
    return mask


@lru_cache(maxsize=1_024)
def decode(value: bytes, object_class: ObjectClass) -> bytes:
    """The content of nTSecurityDescriptor in MSMQ's bits. Cached, since very many queues have the same one."""
    try:
        return from_directory(SecurityDescriptor.decode(value), object_class).encode()
    except DecodeError as error:
        raise DecodeError(f"nTSecurityDescriptor: {error}") from error
