from __future__ import annotations

from enum import Enum, IntFlag
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import AccessDeniedError
from msmq.security.access import (
    GENERIC_MAPPINGS,
    REQUIRED_RIGHTS,
    GenericMapping,
    Operation,
    Privilege,
    QueueManagerOperation,
    QueueOperation,
    Token,
    check_access,
    default_queue_manager_descriptor,
    granted_access,
)
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import EVERYONE, OWNER_RIGHTS, PRINCIPAL_SELF, Sid
from msmq.wire.access_masks import (
    AccessMask,
    ConnectedNetworkAccessMask,
    EnterpriseAccessMask,
    QueueAccessMask,
    QueueManagerAccessMask,
    SiteAccessMask,
)
from tests.security.samples import OTHER, OWNER, USER, allow, deny, granting

TOKEN = Token.authenticated(USER)
QUEUE = GENERIC_MAPPINGS[QueueAccessMask]
OBJECT_GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")

SINGLE_RIGHTS: list[tuple[str, Operation, IntFlag, int]] = [
    (
        "MQMQ-2.2.23-b",
        QueueManagerOperation.DELETE_DEADLETTER_MESSAGE,
        QueueManagerAccessMask.DELETE_DEADLETTER_MESSAGE,
        0x1,
    ),
    (
        "MQMQ-2.2.23-c",
        QueueManagerOperation.PEEK_DEADLETTER_MESSAGE,
        QueueManagerAccessMask.PEEK_DEADLETTER_MESSAGE,
        0x2,
    ),
    ("MQMQ-2.2.23-d", QueueManagerOperation.CREATE_QUEUE, QueueManagerAccessMask.CREATE_QUEUE, 0x4),
    (
        "MQMQ-2.2.23-e",
        QueueManagerOperation.SET_PROPERTIES,
        QueueManagerAccessMask.SET_MACHINE_PROPERTIES,
        0x10,
    ),
    (
        "MQMQ-2.2.23-f",
        QueueManagerOperation.GET_PROPERTIES,
        QueueManagerAccessMask.GET_MACHINE_PROPERTIES,
        0x20,
    ),
    (
        "MQMQ-2.2.23-g",
        QueueManagerOperation.DELETE_JOURNAL_MESSAGE,
        QueueManagerAccessMask.DELETE_JOURNAL_QUEUE_MESSAGE,
        0x40,
    ),
    (
        "MQMQ-2.2.23-h",
        QueueManagerOperation.PEEK_JOURNAL_MESSAGE,
        QueueManagerAccessMask.PEEK_JOURNAL_QUEUE_MESSAGE,
        0x80,
    ),
    ("MQMQ-2.2.23-i", QueueManagerOperation.DELETE, QueueManagerAccessMask.DELETE_MACHINE, 0x10000),
    (
        "MQMQ-2.2.23-j",
        QueueManagerOperation.GET_PERMISSIONS,
        QueueManagerAccessMask.GET_MACHINE_PERMISSIONS,
        0x20000,
    ),
    (
        "MQMQ-2.2.23-k",
        QueueManagerOperation.CHANGE_PERMISSIONS,
        QueueManagerAccessMask.CHANGE_MACHINE_PERMISSIONS,
        0x40000,
    ),
    (
        "MQMQ-2.2.23-l",
        QueueManagerOperation.TAKE_OWNERSHIP,
        QueueManagerAccessMask.TAKE_MACHINE_OWNERSHIP,
        0x80000,
    ),
    ("MQMQ-2.2.24-b", QueueOperation.DELETE_MESSAGE, QueueAccessMask.DELETE_MESSAGE, 0x1),
    ("MQMQ-2.2.24-c", QueueOperation.PEEK_MESSAGE, QueueAccessMask.PEEK_MESSAGE, 0x2),
    ("MQMQ-2.2.24-d", QueueOperation.WRITE_MESSAGE, QueueAccessMask.WRITE_MESSAGE, 0x4),
    ("MQMQ-2.2.24-e", QueueOperation.DELETE_JOURNAL_MESSAGE, QueueAccessMask.DELETE_JOURNAL_MESSAGE, 0x8),
    ("MQMQ-2.2.24-f", QueueOperation.SET_PROPERTIES, QueueAccessMask.SET_QUEUE_PROPERTIES, 0x10),
    ("MQMQ-2.2.24-g", QueueOperation.GET_PROPERTIES, QueueAccessMask.GET_QUEUE_PROPERTIES, 0x20),
    ("MQMQ-2.2.24-h", QueueOperation.DELETE, QueueAccessMask.DELETE_QUEUE, 0x10000),
    ("MQMQ-2.2.24-i", QueueOperation.GET_PERMISSIONS, QueueAccessMask.GET_QUEUE_PERMISSIONS, 0x20000),
    ("MQMQ-2.2.24-j", QueueOperation.CHANGE_PERMISSIONS, QueueAccessMask.CHANGE_QUEUE_PERMISSIONS, 0x40000),
    ("MQMQ-2.2.24-k", QueueOperation.TAKE_OWNERSHIP, QueueAccessMask.TAKE_QUEUE_OWNERSHIP, 0x80000),
]


def allowed(descriptor: SecurityDescriptor, operations: type[Enum], token: Token = TOKEN) -> set[Enum]:
    """The operations that pass."""
    passed = set()
    for operation in operations:
        try:
            check_access(descriptor, token, operation)  # type: ignore[arg-type]
        except AccessDeniedError:
            continue
        passed.add(operation)
    return passed


def maximum(descriptor: SecurityDescriptor, mapping: GenericMapping, token: Token = TOKEN) -> int:
    return granted_access(descriptor, token, AccessMask.MAXIMUM_ALLOWED, mapping)


@pytest.mark.parametrize(
    ("operation", "right", "value"),
    [
        pytest.param(operation, right, value, marks=pytest.mark.spec(row), id=row)
        for row, operation, right, value in SINGLE_RIGHTS
    ],
)
def test_one_right_opens_one_operation(operation: Operation, right: IntFlag, value: int) -> None:
    assert right == REQUIRED_RIGHTS[operation] == value
    assert allowed(granting(allow(value)), type(operation)) == {operation}
    everything_else = 0xFFFFFFFF & ~value & ~0xF0000000
    assert operation not in allowed(granting(allow(everything_else)), type(operation))
    assert operation not in allowed(granting(deny(value), allow(0x0FFFFFFF)), type(operation))


@pytest.mark.parametrize(
    ("operations", "mask"),
    [
        pytest.param(
            QueueManagerOperation,
            QueueManagerAccessMask,
            marks=pytest.mark.spec("MQMQ-2.2.23-a"),
            id="queue manager",
        ),
        pytest.param(QueueOperation, QueueAccessMask, marks=pytest.mark.spec("MQMQ-2.2.24-a"), id="queue"),
    ],
)
def test_every_bit_of_a_mask_opens_exactly_its_operation(operations: type[Enum], mask: type[IntFlag]) -> None:
    opened = [allowed(granting(allow(bit)), operations) for bit in mask]
    assert all(len(passed) == 1 for passed in opened)
    needing_one_bit = {op for op in operations if int(REQUIRED_RIGHTS[op]).bit_count() == 1}  # type: ignore[index]
    assert set().union(*opened) == needing_one_bit
    for bit in range(32):
        if 1 << bit not in list(mask) and bit < 28:
            assert not allowed(granting(allow(1 << bit)), operations)


@pytest.mark.parametrize(
    ("mask", "totals"),
    [
        pytest.param(
            QueueManagerAccessMask,
            (0x000200E3, 0x00020024, 0x000F00F7),
            marks=pytest.mark.spec("MQMQ-2.2.23-m"),
            id="queue manager",
        ),
        pytest.param(
            QueueAccessMask,
            (0x0002002B, 0x00020024, 0x000F003F),
            marks=pytest.mark.spec("MQMQ-2.2.24-l"),
            id="queue",
        ),
        pytest.param(
            SiteAccessMask,
            (0x00020020, 0x00020024, 0x000F0037),
            marks=pytest.mark.spec("MQMQ-2.2.25-k"),
            id="site",
        ),
        pytest.param(
            EnterpriseAccessMask,
            (0x00020021, 0x00020027, 0x000F0037),
            marks=pytest.mark.spec("MQMQ-2.2.26-k"),
            id="enterprise",
        ),
        pytest.param(
            ConnectedNetworkAccessMask,
            (0x00020020, 0, 0x000F0031),
            marks=pytest.mark.spec("MQMQ-2.2.27-i"),
            id="connected network",
        ),
    ],
)
def test_generic_rights_stand_for_their_sets(mask: type[IntFlag], totals: tuple[int, int, int]) -> None:
    mapping = GENERIC_MAPPINGS[mask]
    rights = (AccessMask.GENERIC_READ, AccessMask.GENERIC_WRITE, AccessMask.GENERIC_ALL)
    for right, total in zip(rights, totals, strict=True):
        assert mapping.map(right) == total
        granted = granting(allow(right))
        # Exactly those bits: each alone is granted, and nothing beside them.
        assert [b for b in range(24) if _passes(granted, 1 << b, mapping)] == [
            b for b in range(24) if total >> b & 1
        ]
        if total:
            assert maximum(granted, mapping) == total
            assert granted_access(granting(allow(total)), TOKEN, right, mapping) == total
            with pytest.raises(AccessDeniedError):
                granted_access(granting(allow(total & total - 1)), TOKEN, right, mapping)
    composites = {name: value for name, value in mask.__members__.items() if value.bit_count() > 1}
    assert composites == COMPOSITES[mask]


COMPOSITES: dict[type[IntFlag], dict[str, int]] = {
    QueueManagerAccessMask: {
        "RECEIVE_DEADLETTER_MESSAGE": 0x1 | 0x2,
        "RECEIVE_JOURNAL_QUEUE_MESSAGE": 0x40 | 0x80,
        "MACHINE_GENERIC_READ": 0x20 | 0x20000 | 0x1 | 0x2 | 0x40 | 0x80,
        "MACHINE_GENERIC_WRITE": 0x20 | 0x20000 | 0x4,
        "MACHINE_GENERIC_ALL": 0x1 | 0x2 | 0x4 | 0x10 | 0x20 | 0x40 | 0x80 | 0xF0000,
        "MACHINE_WORLD_RIGHTS": 0x20 | 0x20000,
    },
    QueueAccessMask: {
        "RECEIVE_MESSAGE": 0x1 | 0x2,
        "RECEIVE_JOURNAL_MESSAGE": 0x8 | 0x2,
        "QUEUE_GENERIC_READ": 0x20 | 0x20000 | 0x1 | 0x2 | 0x8,
        "QUEUE_GENERIC_WRITE": 0x20 | 0x20000 | 0x4,
        "QUEUE_GENERIC_ALL": 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0xF0000,
    },
    SiteAccessMask: {
        "SITE_GENERIC_READ": 0x20 | 0x20000,
        "SITE_GENERIC_WRITE": 0x20 | 0x20000 | 0x4,
        "SITE_GENERIC_ALL": 0x1 | 0x2 | 0x4 | 0x10 | 0x20 | 0xF0000,
    },
    EnterpriseAccessMask: {
        "ENTERPRISE_GENERIC_READ": 0x1 | 0x20 | 0x20000,
        "ENTERPRISE_GENERIC_WRITE": 0x1 | 0x20 | 0x20000 | 0x2 | 0x4,
        "ENTERPRISE_GENERIC_ALL": 0x1 | 0x2 | 0x4 | 0x10 | 0x20 | 0xF0000,
    },
    ConnectedNetworkAccessMask: {
        "CN_GENERIC_READ": 0x20 | 0x20000,
        "CN_GENERIC_ALL": 0x1 | 0x10 | 0x20 | 0xF0000,
    },
}


@pytest.mark.parametrize(
    ("operation", "bits"),
    [
        (QueueManagerOperation.RECEIVE_DEADLETTER_MESSAGE, (0x1, 0x2)),
        (QueueManagerOperation.RECEIVE_JOURNAL_MESSAGE, (0x40, 0x80)),
        (QueueOperation.RECEIVE_MESSAGE, (0x1, 0x2)),
        (QueueOperation.RECEIVE_JOURNAL_MESSAGE, (0x8, 0x2)),
    ],
)
def test_a_receive_needs_to_peek_and_to_delete(operation: Operation, bits: tuple[int, int]) -> None:
    both = bits[0] | bits[1]
    check_access(granting(allow(both)), TOKEN, operation)
    check_access(granting(allow(bits[0]), allow(bits[1], EVERYONE)), TOKEN, operation)
    for bit in bits:
        with pytest.raises(AccessDeniedError):
            check_access(granting(allow(0x0FFFFFFF & ~bit)), TOKEN, operation)


def _passes(
    descriptor: SecurityDescriptor, desired: int, mapping: GenericMapping = QUEUE, token: Token = TOKEN
) -> bool:
    try:
        granted_access(descriptor, token, desired, mapping)
    except AccessDeniedError:
        return False
    return True


def test_absent_and_null_lists_open_everything_and_an_empty_one_nothing() -> None:
    absent = SecurityDescriptor(OWNER)
    null = SecurityDescriptor(OWNER, control=Control.DACL_PRESENT)
    for descriptor in (absent, null):
        assert allowed(descriptor, QueueOperation) == set(QueueOperation)
        assert maximum(descriptor, QUEUE) == QueueAccessMask.QUEUE_GENERIC_ALL
        wanted = AccessMask.MAXIMUM_ALLOWED | AccessMask.SYNCHRONIZE
        assert granted_access(descriptor, TOKEN, wanted, QUEUE) == 0x001F003F
    empty = SecurityDescriptor(OWNER, dacl=Acl())
    assert allowed(empty, QueueOperation) == set()
    with pytest.raises(AccessDeniedError):
        maximum(empty, QUEUE)


def test_the_order_of_entries_decides() -> None:
    assert not _passes(granting(deny(4), allow(4)), 4)
    assert _passes(granting(allow(4), deny(4)), 4)
    assert not _passes(granting(allow(4), deny(2), allow(2)), 6)
    assert _passes(granting(deny(2, OTHER), allow(2)), 2)
    # MAXIMUM_ALLOWED takes a denial into account wherever it stands.
    assert maximum(granting(allow(6), deny(4)), QUEUE) == 2


def test_entries_for_others_and_inherit_only_entries_do_not_count() -> None:
    assert not _passes(granting(allow(4, OTHER)), 4)
    assert not _passes(granting(allow(4, flags=AceFlags.INHERIT_ONLY)), 4)
    assert _passes(granting(deny(4, flags=AceFlags.INHERIT_ONLY), allow(4)), 4)
    assert _passes(granting(allow(4, flags=AceFlags.INHERITED | AceFlags.CONTAINER_INHERIT)), 4)
    assert not _passes(granting(Ace(AceType.SYSTEM_AUDIT, 4, USER)), 4)
    assert not _passes(granting(allow(4, PRINCIPAL_SELF)), 4)


def test_groups_count_like_the_user() -> None:
    member = Token(USER, frozenset({OTHER}))
    assert _passes(granting(allow(4, OTHER)), 4, token=member)
    assert not _passes(granting(deny(4, OTHER), allow(4)), 4, token=member)
    assert _passes(granting(allow(4, EVERYONE)), 4, token=Token.anonymous())
    assert not _passes(granting(allow(4, Sid.parse("S-1-5-11"))), 4, token=Token.anonymous())


def test_the_owner_reads_and_changes_permissions_without_an_entry() -> None:
    owner = Token.authenticated(OWNER)
    free = {QueueOperation.GET_PERMISSIONS, QueueOperation.CHANGE_PERMISSIONS}
    assert allowed(granting(), QueueOperation, owner) == free
    assert allowed(granting(deny(0xF0000, OWNER)), QueueOperation, owner) == free
    assert maximum(granting(allow(4, OWNER)), QUEUE, owner) == 0x60004
    assert allowed(SecurityDescriptor(dacl=Acl()), QueueOperation, owner) == set()
    # An entry for OWNER RIGHTS replaces what is implied.
    assert allowed(granting(allow(4, OWNER_RIGHTS)), QueueOperation, owner) == {QueueOperation.WRITE_MESSAGE}
    assert allowed(granting(allow(4, OWNER_RIGHTS)), QueueOperation) == set()
    unused = allow(4, OWNER_RIGHTS, flags=AceFlags.INHERIT_ONLY)
    assert allowed(granting(unused), QueueOperation, owner) == free


def test_privileges() -> None:
    sacl = AccessMask.ACCESS_SYSTEM_SECURITY
    auditor = Token(USER, privileges=frozenset({Privilege.SECURITY}))
    everything = granting(allow(0xFFFFFFFF))
    assert not _passes(everything, sacl)
    assert not _passes(SecurityDescriptor(), sacl)
    assert granted_access(granting(), auditor, sacl, QUEUE) == sacl
    assert granted_access(everything, auditor, sacl | 4, QUEUE) == sacl | 4
    assert not _passes(granting(), sacl | 4, token=auditor)
    assert not maximum(everything, QUEUE) & (sacl | AccessMask.MAXIMUM_ALLOWED)
    assert granted_access(everything, auditor, sacl | AccessMask.MAXIMUM_ALLOWED, QUEUE) & sacl
    taker = Token(USER, privileges=frozenset({Privilege.TAKE_OWNERSHIP}))
    assert allowed(granting(), QueueOperation, taker) == {QueueOperation.TAKE_OWNERSHIP}


def test_maximum_allowed_with_a_wanted_right() -> None:
    descriptor = granting(allow(6))
    assert granted_access(descriptor, TOKEN, AccessMask.MAXIMUM_ALLOWED | 4, QUEUE) == 6
    with pytest.raises(AccessDeniedError):
        granted_access(descriptor, TOKEN, AccessMask.MAXIMUM_ALLOWED | 1, QUEUE)


def test_object_entries_count_only_without_an_object_type() -> None:
    grant, refuse = AceType.ACCESS_ALLOWED_OBJECT, AceType.ACCESS_DENIED_OBJECT
    assert _passes(granting(Ace(grant, 4, USER)), 4)
    assert _passes(granting(Ace(grant, 4, USER, inherited_object_type=OBJECT_GUID)), 4)
    assert not _passes(granting(Ace(grant, 4, USER, object_type=OBJECT_GUID)), 4)
    assert not _passes(granting(Ace(refuse, 4, USER), allow(4)), 4)
    assert _passes(granting(Ace(refuse, 4, USER, object_type=OBJECT_GUID), allow(4)), 4)


def test_an_unknown_condition_never_grants_and_always_denies() -> None:
    assert not _passes(granting(Ace(AceType.ACCESS_ALLOWED_CALLBACK, 4, USER)), 4)
    assert not _passes(granting(Ace(AceType.ACCESS_ALLOWED_CALLBACK_OBJECT, 4, USER)), 4)
    for kind in (AceType.ACCESS_DENIED_CALLBACK, AceType.ACCESS_DENIED_CALLBACK_OBJECT):
        assert not _passes(granting(Ace(kind, 4, USER), allow(4)), 4)


def test_a_denial_with_generic_bits_is_a_denial() -> None:
    descriptor = granting(deny(AccessMask.GENERIC_READ), allow(AccessMask.GENERIC_ALL))
    assert QueueOperation.PEEK_MESSAGE not in allowed(descriptor, QueueOperation)
    assert QueueOperation.WRITE_MESSAGE in allowed(descriptor, QueueOperation)


def test_default_descriptor_of_a_queue_manager() -> None:
    descriptor = default_queue_manager_descriptor(OWNER)
    assert allowed(descriptor, QueueManagerOperation) == {
        QueueManagerOperation.GET_PROPERTIES,
        QueueManagerOperation.GET_PERMISSIONS,
    }
    assert allowed(descriptor, QueueManagerOperation, Token.authenticated(OWNER)) == set(
        QueueManagerOperation
    )


ENTRIES = st.lists(
    st.builds(
        Ace,
        st.sampled_from([AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED]),
        st.integers(0, 0x3F),
        st.sampled_from([USER, OTHER, EVERYONE]),
    ),
    max_size=6,
)


@given(ENTRIES, st.integers(1, 0x3F))
def test_the_first_entry_about_a_bit_decides_it(entries: list[Ace], desired: int) -> None:
    descriptor = granting(*entries)
    speaking = [ace for ace in entries if ace.sid != OTHER]
    first = {
        bit: next((ace.type for ace in speaking if ace.mask & bit), AceType.ACCESS_DENIED)
        for bit in (1 << n for n in range(6))
        if desired & bit
    }
    assert _passes(descriptor, desired) == all(kind is AceType.ACCESS_ALLOWED for kind in first.values())
