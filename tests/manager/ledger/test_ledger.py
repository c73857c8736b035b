"""Records and what recovery makes of them."""

from __future__ import annotations

from array import array

import pytest

from msmq.manager.ledger.ledger import (
    HEAD_SIZE,
    NO_TRANSACTION,
    Gone,
    Head,
    Kind,
    Ledger,
    Moved,
    Named,
    OutcomeHead,
    Put,
    statement_of,
)
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


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_record_says_something(kind: Kind) -> None:
    """Recovery and the tables of a store both learn from this what a record means."""
    head = Head(3, 7, 0, 0, 0, bytes(range(16))).encode()
    said = statement_of(kind, head, lambda: (9).to_bytes(8, "little") + (11).to_bytes(8, "little"))
    assert (
        said
        == {
            Kind.MESSAGE: Put((7,), bytes(range(16)), 3),
            Kind.DELETE: Gone((7,), bytes(range(16))),
            Kind.DELETE_ALL: Gone(array("Q", (9, 11)), NO_TRANSACTION),
            Kind.MOVE: Moved((7,), bytes(range(16)), 3),
            Kind.OUTCOME: OutcomeHead.decode(head),
            Kind.VALUE: Named(head[:16], bytes((9, *bytes(7), 11, *bytes(7)))),
            Kind.DROP: Named(head[:16], None),
        }[kind]
    )
