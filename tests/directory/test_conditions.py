"""What people may write behind ``msmq directory find``."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.directory.conditions import ConditionError, conditions_of
from msmq.directory.schema import KINDS, Use
from msmq.manager.directory import ObjectClass
from msmq.manager.model import QueuePrivacyLevel
from msmq.security.sid import EVERYONE
from msmq.wire.guid import guid_text

QUEUE = ObjectClass.QUEUE
GUID = bytes(range(16))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (QUEUE, "label=true", "true"),
        (QUEUE, "label=12", "12"),
        (QUEUE, "label=a=b", "a=b"),
        (QUEUE, "pathname=QM1\\orders", "QM1\\orders"),
        (QUEUE, "journaling=true", True),
        (QUEUE, "transactional=NO", False),
        (QUEUE, "quota_kb=4294967295", 0xFFFFFFFF),
        (QUEUE, "base_priority=-7", -7),
        (QUEUE, f"identifier={guid_text(GUID)}", GUID),
        (QUEUE, "privacy_level=body", QueuePrivacyLevel.BODY),
        (ObjectClass.USER, f"security_identifier={EVERYONE}", EVERYONE.encode()),
        (ObjectClass.QUEUE_MANAGER, f"site_identifier_list={guid_text(GUID)}", GUID),
        (ObjectClass.ROUTING_LINK, f"site1_identifier={guid_text(GUID)}", GUID),
    ],
)
def test_a_value_is_of_the_kind_of_its_attribute(kind: ObjectClass, text: str, value: Any) -> None:
    ((name, _, given),) = conditions_of(kind, [text])
    assert (name, given) == (text.partition("=")[0], value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("quota_kb=abc", "a number"),
        ("quota_kb=99999999999", "32 bits"),
        ("journaling=perhaps", "true or false"),
        ("security=1", "cannot be searched for; try"),
        ("colour=red", "no attribute"),
        ("label", "is no condition"),
        ("label=", "a value is needed"),
        ("=x", "is no condition"),
        ("privacy_level=secret", "one of none"),
        ("identifier=red", "identifier=red"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConditionError, match=complaint):
        conditions_of(QUEUE, [text])


@pytest.mark.parametrize(
    "text", ["", "true", "1", "-1", "abc", "{}", "\u00e9", "S-1-1-0", "00" * 16, "x" * 300]
)
def test_nothing_but_our_own_error(text: str) -> None:
    """Whatever the attribute, a value is read or refused."""
    for kind in KINDS.values():
        for entry in kind.attributes:
            try:
                ((name, _, _),) = conditions_of(kind.object_class, [f"{entry.name}={text}"])
            except ConditionError:
                continue
            assert name == entry.name
            assert entry.use & Use.FILTER
