"""Records and what recovery makes of them."""

from __future__ import annotations

import pytest

from msmq.manager.ledger.ledger import HEAD_SIZE, Head, Ledger
from msmq.store import HEAD_SIZE as STORE_HEAD_SIZE
from msmq.store import Store, StoreOptions
from msmq.testing.disk import SimulatedDisk


def ledger_on(disk: SimulatedDisk) -> tuple[Ledger, dict[str, object]]:
    store = Store.open(disk, StoreOptions(smallest_segment_bytes=1 << 16))
    ledger = Ledger(store)
    return ledger, ledger.recover().values


def test_the_head_is_what_the_store_keeps() -> None:
    assert HEAD_SIZE == STORE_HEAD_SIZE
    head = Head(1, 2, 3, 4, 5, bytes(range(16)))
    assert len(head.encode()) == HEAD_SIZE
    assert Head.decode(head.encode()) == head


def test_the_last_value_counts_and_a_dropped_one_is_gone() -> None:
    disk = SimulatedDisk()
    ledger, values = ledger_on(disk)
    assert values == {}
    ledger.put_value("a", 1)
    ledger.put_value("b", [1, "zwei"])
    ledger.put_value("a", 2)
    ledger.put_value("c", 3)
    ledger.drop_value("c")
    ledger.drop_value("never there")
    ledger.store.commit()
    disk.kill()
    _, values = ledger_on(disk)
    assert values == {"a": 2, "b": [1, "zwei"]}


def test_values_that_are_not_json_are_refused_before_anything_is_written() -> None:
    ledger, _ = ledger_on(SimulatedDisk())
    before = ledger.store.appended
    with pytest.raises(TypeError):
        ledger.put_value("bytes", b"raw")
    assert ledger.store.appended == before
