"""The properties of one object."""

from __future__ import annotations

import pytest

from msmq.errors import IllegalPropertyValueError, IllegalPropidError, PropertyNotallowedError
from msmq.wire.names import MsmqVersion
from msmq.wire.properties import ObjectType, PropertyBag
from msmq.wire.variant import VT, Variant
from tests.wire.properties.support import NOW_S, PATH, fresh


def test_a_write_is_kept_whole_or_not_at_all() -> None:
    bag = fresh(ObjectType.QUEUE)
    with pytest.raises(IllegalPropertyValueError):
        bag.set([108, 104], [Variant(VT.LPWSTR, "new"), Variant(VT.UI1, 9)], NOW_S + 9)
    assert bag.get([108, 110]) == (Variant(VT.LPWSTR, ""), Variant(VT.I4, NOW_S))


def test_what_was_never_written_reads_as_default_or_empty() -> None:
    bag = fresh(ObjectType.QUEUE)
    assert bag.get([112, 116]) == (Variant(VT.UI4, 1), Variant(VT.EMPTY))
    assert set(bag.values) == {103, 109, 110}


def test_the_version_bounds_reads_too() -> None:
    with pytest.raises(IllegalPropidError):
        fresh(ObjectType.QUEUE, MsmqVersion.V1).get([121])


def test_a_property_that_is_only_set_cannot_be_read() -> None:
    with pytest.raises(PropertyNotallowedError):
        fresh(ObjectType.MACHINE).get([1205])


def test_private_queues_are_known_by_their_path() -> None:
    private = PropertyBag(ObjectType.QUEUE)
    assert not private.is_private_queue
    private.create([103], [Variant(VT.LPWSTR, "srv\\private$\\q")], NOW_S)
    assert private.is_private_queue
    assert not fresh(ObjectType.QUEUE).is_private_queue


def test_an_object_is_created_once() -> None:
    bag = fresh(ObjectType.QUEUE)
    with pytest.raises(AssertionError):
        bag.create([103], [Variant(VT.LPWSTR, PATH)], NOW_S)
