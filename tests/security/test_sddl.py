from __future__ import annotations

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sddl import (
    ACE_TYPES,
    DOMAIN_ALIASES,
    RIGHTS,
    ROOT_DOMAIN_ALIASES,
    SID_ALIASES,
    format_sddl,
    parse_sddl,
)
from msmq.security.sid import DOMAIN_IDENTIFIERS, EVERYONE, Sid
from tests.security.samples import USER, aces, acls, allow, sids
from tests.security.test_descriptor import EXAMPLE, EXAMPLE_BYTES

EXAMPLE_TEXT = (
    "O:BAG:BAD:P(A;CIOI;GRGX;;;BU)(A;CIOI;GA;;;BA)(A;CIOI;GA;;;SY)(A;CIOI;GA;;;CO)S:P(AU;FA;GR;;;WD)"
)
DOMAIN = Sid.parse("S-1-5-21-1-2-3")
ROOT = Sid.parse("S-1-5-21-7-8-9")


def test_the_published_example() -> None:
    assert parse_sddl(EXAMPLE_TEXT).encode() == EXAMPLE_BYTES
    assert format_sddl(EXAMPLE) == EXAMPLE_TEXT


@pytest.mark.parametrize(
    ("text", "descriptor"),
    [
        ("", SecurityDescriptor()),
        ("O:S-1-5-21-1-2-3-1000", SecurityDescriptor(USER)),
        ("O:S-1-1-1G:S-1-5-32", SecurityDescriptor(Sid(1, (1,)), Sid(5, (32,)))),
        ("D:", SecurityDescriptor(dacl=Acl())),
        ("D:S:", SecurityDescriptor(dacl=Acl(), sacl=Acl())),
        ("D:NO_ACCESS_CONTROL", SecurityDescriptor(control=Control.DACL_PRESENT)),
        (
            "D:PARAI",
            SecurityDescriptor(
                dacl=Acl(),
                control=Control.DACL_PROTECTED
                | Control.DACL_COMPUTED_INHERITANCE_REQUIRED
                | Control.DACL_AUTO_INHERITED,
            ),
        ),
        (
            "D:PS:AI",
            SecurityDescriptor(
                None, None, Acl(), Acl(), Control.DACL_PROTECTED | Control.SACL_AUTO_INHERITED
            ),
        ),
        # WRITE_MESSAGE, GET_QUEUE_PROPERTIES and GET_QUEUE_PERMISSIONS of a queue.
        ("D:(A;;0x20024;;;WD)", SecurityDescriptor(dacl=Acl.of(allow(0x20024, EVERYONE)))),
        ("D:(A;;WORCSD;;;WD)", SecurityDescriptor(dacl=Acl.of(allow(0xB0000, EVERYONE)))),
        ("D:(A;;;;;WD)", SecurityDescriptor(dacl=Acl.of(allow(0, EVERYONE)))),
        (
            "D:(OA;IO;GR;00112233-4455-6677-8899-aabbccddeeff;;WD)(OD;;GR;;00112233-4455-6677-8899-aabbccddeeff;WD)",
            SecurityDescriptor(
                dacl=Acl.of(
                    Ace(
                        AceType.ACCESS_ALLOWED_OBJECT,
                        0x80000000,
                        EVERYONE,
                        AceFlags.INHERIT_ONLY,
                        UUID("00112233-4455-6677-8899-aabbccddeeff"),
                    ),
                    Ace(
                        AceType.ACCESS_DENIED_OBJECT,
                        0x80000000,
                        EVERYONE,
                        inherited_object_type=UUID("00112233-4455-6677-8899-aabbccddeeff"),
                    ),
                )
            ),
        ),
    ],
)
def test_both_ways(text: str, descriptor: SecurityDescriptor) -> None:
    assert parse_sddl(text) == descriptor
    assert format_sddl(descriptor) == text


@pytest.mark.parametrize(
    ("rights", "mask"),
    [
        ("0x0", 0),
        ("0xffffffff", 0xFFFFFFFF),
        ("0XFF", None),
        ("010", 8),
        ("10", 10),
        ("0", 0),
        ("KA", 0x000F003F),
        ("CCDCLCSWRPWPDTLOCR", 0x1FF),
        ("0x100000000", None),
        ("4294967296", None),
        ("99999999999999999999", None),
        ("09", 9),
        ("-1", None),
        ("GRG", None),
        ("QQ", None),
        ("gr", None),
        ("GR GW", None),
    ],
)
def test_rights(rights: str, mask: int | None) -> None:
    text = f"D:(A;;{rights};;;WD)"
    if mask is None:
        with pytest.raises(DecodeError):
            parse_sddl(text)
    else:
        assert parse_sddl(text) == SecurityDescriptor(dacl=Acl.of(allow(mask, EVERYONE)))


def test_every_letter_is_understood() -> None:
    for letters, mask in RIGHTS.items():
        assert parse_sddl(f"D:(A;;{letters};;;WD)") == SecurityDescriptor(dacl=Acl.of(allow(mask, EVERYONE)))
    for name, kind in ACE_TYPES.items():
        parsed = parse_sddl(f"S:({name};;GR;;;WD)").sacl
        assert parsed is not None
        assert parsed.aces[0].type is kind


def test_every_alias_is_understood() -> None:
    # The sid-token rule of MS-DTYP 2.5.1.1.
    tokens = (
        "DADGDUEDDDDCBABGBULALGAOBOPOSOAUPSCOCGSYPUWDREIUNUSURCWRANSACARSEAPARU"
        "LSNSRDNOMULUISCYOWERROCDACRAESMSUDHACNAARMLWMEMPHISI"
    )
    pairs = {tokens[start : start + 2] for start in range(0, len(tokens), 2)}
    assert pairs == {*SID_ALIASES, *DOMAIN_ALIASES, *ROOT_DOMAIN_ALIASES}
    for alias, sid in SID_ALIASES.items():
        assert parse_sddl(f"O:{alias}").owner == sid
        assert format_sddl(SecurityDescriptor(sid)) == f"O:{alias}"
    for alias, name in DOMAIN_ALIASES.items():
        assert parse_sddl(f"O:{alias}", DOMAIN, ROOT).owner == DOMAIN.child(DOMAIN_IDENTIFIERS[name])
    for alias, name in ROOT_DOMAIN_ALIASES.items():
        assert parse_sddl(f"G:{alias}", DOMAIN, ROOT).group == ROOT.child(DOMAIN_IDENTIFIERS[name])
        assert parse_sddl(f"G:{alias}", DOMAIN).group == DOMAIN.child(DOMAIN_IDENTIFIERS[name])
    for alias in (*DOMAIN_ALIASES, *ROOT_DOMAIN_ALIASES):
        with pytest.raises(DecodeError):
            parse_sddl(f"O:{alias}")
    with pytest.raises(DecodeError):
        parse_sddl("O:DA", Sid(5, (1,) * 15))


@pytest.mark.parametrize(
    "text",
    [
        "X:BA",
        "O",
        "O:",
        "O:QQ",
        "O:ba",
        "O:BAO:BA",
        "D:D:",
        "D:Q",
        "D:(",
        "D:()",
        "D:(A;;GR;;;WD",
        "D:(A;;GR;;WD)",
        "D:(A;;GR;;;WD;)",
        "D:(Q;;GR;;;WD)",
        "D:(A;Q;GR;;;WD)",
        "D:(A;CIO;GR;;;WD)",
        "D:(A;;GR;x;;WD)",
        "D:(A;;GR;00112233-4455-6677-8899-aabbccddeeff;;WD)",
        "D:(OA;;GR;{00112233-4455-6677-8899-aabbccddeeff};;WD)",
        "D:(A;;GR;;;)",
        "D:(A;;GR;;;S-1-5-4294967296)",
        'D:(XA;;GR;;;WD;(@User.Title=="VP"))',
        "D:(A;;GR;;;WD) ",
        "O:S-1-5-21" + "-1" * 15,
    ],
)
def test_bad_text(text: str) -> None:
    with pytest.raises(DecodeError):
        parse_sddl(text)


@pytest.mark.parametrize(
    "ace",
    [
        Ace(AceType.ACCESS_ALLOWED_CALLBACK, 1, USER, application_data=b"artx"),
        allow(1, application_data=b"data"),
        allow(1, flags=AceFlags(0x20)),
    ],
)
def test_what_sddl_cannot_say(ace: Ace) -> None:
    with pytest.raises(EncodeError):
        format_sddl(SecurityDescriptor(dacl=Acl.of(ace)))


def _sayable(descriptor: SecurityDescriptor) -> SecurityDescriptor:
    """The descriptor with list revisions as SDDL makes them."""
    parts = {name: getattr(descriptor, name) for name in ("dacl", "sacl")}
    again = {name: Acl.of(*acl.aces) if acl is not None else None for name, acl in parts.items()}
    return SecurityDescriptor(
        descriptor.owner, descriptor.group, again["dacl"], again["sacl"], descriptor.control
    )


_ENTRIES = aces(frozenset(ACE_TYPES.values()), st.just(b"")).filter(lambda ace: not ace.flags & 0x20)
_CONTROL = st.sampled_from([Control(0), Control.DACL_PRESENT, Control.SACL_PRESENT])


@given(
    st.builds(
        SecurityDescriptor, st.none() | sids, st.none() | sids, acls(_ENTRIES), acls(_ENTRIES), _CONTROL
    )
)
def test_round_trip(descriptor: SecurityDescriptor) -> None:
    descriptor = _sayable(descriptor)
    assert parse_sddl(format_sddl(descriptor)) == descriptor


@given(
    st.text(max_size=60)
    | st.text("OGDSPA:();0x1-BWRI", max_size=60)
    | st.tuples(st.integers(0, len(EXAMPLE_TEXT)), st.text("OGDSPA:();0x1-BWRI", max_size=3)).map(
        lambda change: EXAMPLE_TEXT[: change[0]] + change[1] + EXAMPLE_TEXT[change[0] + 1 :]
    )
)
def test_hostile_text(text: str) -> None:
    with contextlib.suppress(DecodeError):
        parse_sddl(text, DOMAIN)
