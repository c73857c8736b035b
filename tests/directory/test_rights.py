"""Descriptors between MSMQ and the directory."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.directory import rights
from msmq.directory.rights import RIGHTS, from_directory, to_directory
from msmq.errors import DecodeError
from msmq.manager.directory import ObjectClass
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from msmq.wire.access_masks import QueueAccessMask, QueueManagerAccessMask

USER = Sid.parse("S-1-5-21-1-2-3-1105")
ALLOW, DENY = AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED
SEND = UUID("06bd3202-df3e-11d1-9c86-006008764d0e")


def descriptor(*aces: Ace) -> SecurityDescriptor:
    return SecurityDescriptor(dacl=Acl.of(*aces))


def there(ace: Ace, object_class: ObjectClass = ObjectClass.QUEUE) -> list[tuple[int, UUID | None]]:
    made = to_directory(descriptor(ace), object_class).dacl
    assert made is not None
    return [(entry.mask, entry.object_type) for entry in made.aces]


def back(*aces: Ace, object_class: ObjectClass = ObjectClass.QUEUE) -> list[int]:
    made = from_directory(descriptor(*aces), object_class).dacl
    assert made is not None
    return [ace.mask for ace in made.aces]


def test_looking_and_changing_are_not_confused() -> None:
    assert there(Ace(ALLOW, 0x20020, EVERYONE)) == [(0x20094, None)]
    assert there(Ace(ALLOW, 0x10, EVERYONE)) == [(0x20, None)]
    assert back(Ace(ALLOW, 0x20094, EVERYONE)) == [0x20020]
    assert back(Ace(ALLOW, 0x20, EVERYONE)) == [0x10]


def test_sending_is_a_control_access_right() -> None:
    assert there(Ace(ALLOW, int(QueueAccessMask.WRITE_MESSAGE), USER)) == [(0x100, SEND)]


@pytest.mark.parametrize("object_class", list(RIGHTS), ids=lambda kind: str(kind.value))
@given(data=st.data())
def test_nobody_gets_more_than_was_said(object_class: ObjectClass, data: st.DataObject) -> None:
    mask = data.draw(st.integers(0, 0xFF)) | data.draw(st.sampled_from([0, 0x20000, 0xF0000]))
    kind = data.draw(st.sampled_from([ALLOW, DENY]))
    known = 0
    for right in RIGHTS[object_class]:
        known |= right.bits
    there_and_back = from_directory(
        to_directory(descriptor(Ace(kind, mask, USER)), object_class), object_class
    )
    assert there_and_back.dacl is not None
    kept = 0
    for ace in there_and_back.dacl.aces:
        kept |= ace.mask
    if kind is ALLOW:
        assert kept & ~mask == 0
    else:
        assert mask & (known | 0xFFFF0000) & ~kept == 0


@pytest.mark.parametrize(
    ("object_class", "mask"),
    [
        (ObjectClass.QUEUE, int(QueueAccessMask.QUEUE_GENERIC_ALL)),
        (ObjectClass.QUEUE, int(QueueAccessMask.RECEIVE_JOURNAL_MESSAGE)),
        (ObjectClass.QUEUE_MANAGER, int(QueueManagerAccessMask.MACHINE_GENERIC_ALL)),
        (ObjectClass.QUEUE_MANAGER, int(QueueManagerAccessMask.MACHINE_GENERIC_WRITE)),
    ],
    ids=["queue-all", "queue-journal", "machine-all", "machine-write"],
)
def test_the_common_sets_survive(object_class: ObjectClass, mask: int) -> None:
    made = to_directory(descriptor(Ace(ALLOW, mask, USER)), object_class).dacl
    assert made is not None
    assert back(*made.aces, object_class=object_class) == [mask]


def test_full_control_of_the_directory_is_full_control() -> None:
    assert back(Ace(ALLOW, 0xF01FF, USER)) == [int(QueueAccessMask.QUEUE_GENERIC_ALL)]


def test_inherited_entries_are_read_and_not_written() -> None:
    inherited = Ace(ALLOW, 0x20, USER, AceFlags.INHERITED)
    assert there(inherited) == []
    assert back(inherited) == [0x10]


def test_entries_about_something_else_say_nothing() -> None:
    other = UUID(int=7)
    assert back(Ace(AceType.ACCESS_ALLOWED_OBJECT, 0x30, USER, object_type=other)) == []
    assert back(Ace(ALLOW, 0x10, USER, AceFlags.INHERIT_ONLY)) == []


def test_no_list_stays_no_list() -> None:
    assert to_directory(SecurityDescriptor(owner=USER), ObjectClass.QUEUE).dacl is None
    assert from_directory(SecurityDescriptor(owner=USER), ObjectClass.QUEUE).dacl is None


def test_bytes() -> None:
    given = descriptor(Ace(ALLOW, 0x20020, EVERYONE))
    security, written = given.encode(), to_directory(given, ObjectClass.QUEUE)
    assert rights.decode(written.encode(), ObjectClass.QUEUE) == security
    with pytest.raises(DecodeError):
        rights.decode(b"nonsense", ObjectClass.QUEUE)
