"""Search filters (RFC 4515)."""

from __future__ import annotations

import ldap3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap3.operation.search import search_operation

from msmq.directory import filters
from msmq.manager.directory import Relation


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (Relation.EQUALS, "(a=1)"),
        (Relation.NOT_EQUALS, "(!(a=1))"),
        (Relation.LESS_THAN, "(&(a<=1)(!(a=1)))"),
        (Relation.GREATER_THAN, "(&(a>=1)(!(a=1)))"),
        (Relation.LESS_THAN_OR_EQUAL, "(a<=1)"),
        (Relation.GREATER_THAN_OR_EQUAL, "(a>=1)"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_operators(relation: Relation, expected: str) -> None:
    assert filters.condition("a", relation, b"1") == expected


def test_what_has_a_meaning_in_a_filter_is_escaped() -> None:
    assert filters.escape(b"*()\\\0") == "\\2a\\28\\29\\5c\\00"


@given(st.binary(min_size=1, max_size=60))
def test_a_value_stays_a_value(value: bytes) -> None:
    """Whatever it contains, what would be sent is one comparison with these very bytes."""
    text = filters.condition("label", Relation.EQUALS, value)
    request = search_operation("", text, ldap3.BASE, ldap3.DEREF_NEVER, ["a"], 0, 0, False, False, False)
    asked = request["filter"]
    assert asked.getName() == "equalityMatch"
    assert bytes(asked["equalityMatch"]["attributeDesc"]) == b"label"
    assert bytes(asked["equalityMatch"]["assertionValue"]) == value


def test_several_conditions_must_all_hold() -> None:
    assert filters.conjunction(["(a=1)"]) == "(a=1)"
    assert filters.conjunction(["(a=1)", "(b=2)"]) == "(&(a=1)(b=2))"
