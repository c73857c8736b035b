"""Attributes of queues and of the queue manager as properties."""

from __future__ import annotations

import pytest

from msmq.manager.queues.properties import MACHINE, QUEUE, read_machine, read_queue
from msmq.wire.properties import ObjectType, lookup
from msmq.wire.variant import VT
from tests.manager.support import Host


def test_every_property_shown_is_declared_and_every_attribute_exists() -> None:
    host = Host()
    queue = host.queue()
    for propid, shown in QUEUE.items():
        assert lookup(ObjectType.QUEUE, propid).id == propid
        assert hasattr(queue, shown.attribute)
    for propid, shown in MACHINE.items():
        assert lookup(ObjectType.MACHINE, propid).id == propid
        assert hasattr(host.manager.core.record, shown.attribute)


def test_values_have_the_declared_types() -> None:
    host = Host()
    queue = host.queue(label="orders", journaling=True, quota_kb=9)
    values = dict(zip(QUEUE, read_queue(queue, host.manager.core.record, tuple(QUEUE)), strict=True))
    for propid, variant in values.items():
        assert variant.vt in (lookup(ObjectType.QUEUE, propid).vt, VT.EMPTY)
    assert (values[104].value, values[105].value, values[108].value) == (1, 9, "orders")


@pytest.mark.spec("MQMQ-2.3.2.3-a")
def test_the_path_name_of_the_queue_manager_is_the_name_of_its_host() -> None:
    (name,) = read_machine(Host().manager.core.record, (203,))
    assert name.value == "HOST"
