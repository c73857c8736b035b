"""The descriptors of new objects (MS-MQDSSM 3.1.6.1.1.8, 3.1.6.1.3.4)."""

from __future__ import annotations

import pytest

from msmq.directory.protection import MACHINE_SELF_RIGHTS, queue_manager_descriptor, site_descriptor
from msmq.security.descriptor import Ace, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sid import ANONYMOUS, EVERYONE, Sid

MACHINE = Sid.parse("S-1-5-21-1-2-3-1104")
USER = Sid.parse("S-1-5-21-1-2-3-1105")
GUEST = Sid.parse("S-1-5-21-1-2-3-501")
EMPTY = SecurityDescriptor()


def entries(descriptor: SecurityDescriptor) -> list[tuple[int, Sid]]:
    assert descriptor.dacl is not None
    return [(ace.mask, ace.sid) for ace in descriptor.dacl.aces]


@pytest.mark.spec("DSSM-3.1.6.1.1.8-c", "DSSM-3.1.6.1.1.8-e", "DSSM-3.1.6.1.1.8-f", "DSSM-3.1.6.1.1.8-g")
def test_a_queue_manager() -> None:
    made = entries(queue_manager_descriptor(EMPTY, MACHINE, USER, foreign=False))
    assert made == [(0x20020, EVERYONE), (0xF00F7, MACHINE), (MACHINE_SELF_RIGHTS, MACHINE), (0xF00F7, USER)]
    assert MACHINE_SELF_RIGHTS & ~0xF00F7 == 0


@pytest.mark.spec("DSSM-3.1.6.1.1.8-d")
def test_a_foreign_queue_manager() -> None:
    assert entries(queue_manager_descriptor(EMPTY, None, USER, foreign=True))[0] == (0x20024, EVERYONE)


@pytest.mark.spec("DSSM-3.1.6.1.1.8-b", "DSSM-3.1.6.1.1.8-h")
def test_of_a_supplied_descriptor_only_the_owner_counts() -> None:
    stranger = Ace(AceType.ACCESS_ALLOWED, 0x4, Sid.parse("S-1-5-21-9-9-9-9"))
    supplied = SecurityDescriptor(owner=USER, dacl=Acl.of(stranger))
    made = entries(queue_manager_descriptor(supplied, MACHINE, GUEST, foreign=False))
    assert made[-1] == (0xF00F7, USER)
    assert stranger.sid not in {sid for _, sid in made}
    assert GUEST not in {sid for _, sid in made}


@pytest.mark.spec("DSSM-3.1.6.1.3.4-f", "DSSM-3.1.6.1.3.4-b")
def test_a_site_of_a_domain_user() -> None:
    supplied = SecurityDescriptor(owner=USER)
    assert entries(site_descriptor(supplied, GUEST)) == [(0x20020, EVERYONE), (0xF0037, USER)]
    assert entries(site_descriptor(EMPTY, USER)) == [(0x20020, EVERYONE), (0xF0037, USER)]


@pytest.mark.spec("DSSM-3.1.6.1.3.4-e")
def test_a_site_of_a_guest() -> None:
    assert entries(site_descriptor(SecurityDescriptor(owner=GUEST), None)) == [(0xF0037, EVERYONE)]


@pytest.mark.spec("DSSM-3.1.6.1.3.4-d")
@pytest.mark.parametrize(
    "owner", [Sid.parse("S-1-5-32-544"), ANONYMOUS, None], ids=["builtin", "anonymous", "none"]
)
def test_a_site_of_nobody_in_the_domain(owner: Sid | None) -> None:
    assert entries(site_descriptor(SecurityDescriptor(owner=owner), None)) == [(0xF0037, EVERYONE)]


@pytest.mark.spec("DSSM-3.1.6.1.3.4-c")
def test_supplied_lists_of_a_site_are_kept() -> None:
    own = Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20, USER))
    audit = Acl.of(Ace(AceType.SYSTEM_AUDIT, 0x20, USER))
    made = site_descriptor(SecurityDescriptor(owner=USER, dacl=own, sacl=audit), None)
    assert made.dacl == own
    assert made.sacl == audit


@pytest.mark.spec("DSSM-3.1.6.1.3.4-g")
def test_the_result_is_self_relative() -> None:
    encoded = site_descriptor(EMPTY, USER).encode()
    assert int.from_bytes(encoded[2:4], "little") & Control.SELF_RELATIVE == 0x8000
