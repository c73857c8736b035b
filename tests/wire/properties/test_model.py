"""Rules as the tables use them."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import pytest

from msmq.errors import IllegalPropertyValueError
from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Property, Rule, at_most, between, each, one_of, parses
from msmq.wire.variant import VT, Variant

V6 = MsmqVersion.V6


class Colour(IntEnum):
    RED = 1
    BLUE = 3


class Word(StrEnum):
    ON = "ON"


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (one_of(Colour), (1, 3), (0, 2, 4)),
        (one_of(Word), ("ON",), ("on", "")),
        (between(-2, 2), (-2, 0, 2), (-3, 3)),
        (at_most(3), ("", "abc", "a\N{GRINNING FACE}"), ("abcd", "ab\N{GRINNING FACE}")),
        (each(between(0, 1)), ((), (0, 1)), ((0, 2),)),
    ],
    ids=["one_of", "one_of texts", "between", "at_most", "each"],
)
def test_rules(rule: Rule, good: tuple[object, ...], bad: tuple[object, ...]) -> None:
    for value in good:
        rule.check(value, V6)
    for value in bad:
        with pytest.raises(IllegalPropertyValueError, match="must be"):
            rule.check(value, V6)


def test_a_parser_answers_with_its_own_status() -> None:
    def parse(text: str) -> None:
        if text != "good":
            raise IllegalPropertyValueError("Only good is good.")

    rule = parses("good", parse)
    rule.check("good", V6)
    with pytest.raises(IllegalPropertyValueError, match="Only good"):
        rule.check("bad", V6)


def test_named_values_are_found_through_the_rule() -> None:
    assert one_of(Colour).choices is Colour
    assert between(0, 1).choices is None


def test_a_default_has_the_type_of_its_property() -> None:
    assert Property(1, "P", VT.UI2, "Doc.", default=7).default_variant == Variant(VT.UI2, 7)
    assert Property(1, "P", VT.UI2, "Doc.").default_variant is None
