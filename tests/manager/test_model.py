"""The plain elements of the data model."""

from __future__ import annotations

import pytest

from msmq.manager.model import (
    ConnectionStatus,
    Enterprise,
    OperatingSystemType,
    OutgoingState,
    OutgoingTransferInfo,
    QueueManagerRecord,
    RoutingLink,
)


def test_enumerations_have_the_members_of_the_specification() -> None:
    assert len(ConnectionStatus) == 17
    assert len(OutgoingState) == 8
    assert {kind.value for kind in OperatingSystemType} == {
        "Foreign", "Win95", "WinClient", "WinServer", "WinEnt", "Other",
    }  # fmt: skip


@pytest.mark.parametrize("cost", [0, 1_000_000])
def test_a_link_has_a_cost_within_bounds(cost: int) -> None:
    with pytest.raises(ValueError, match="999999"):
        RoutingLink(actual_cost=cost)
    assert RoutingLink(actual_cost=999_999).actual_cost == 999_999


def test_defaults() -> None:
    record = QueueManagerRecord()
    assert record.queue_manager_quota_kb == 0x00100000
    assert record.journal_quota_kb == 0xFFFFFFFF
    assert Enterprise().default_time_to_live_s == 345_600
    assert OutgoingTransferInfo().eod_next_seq.seq_no == 0
