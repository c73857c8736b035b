"""Hosts that reach each other through one of them only."""

from __future__ import annotations

from msmq.testing.network_names import Workgroup


def test_who_is_between() -> None:
    workgroup = Workgroup({"ALICE": "10.0.0.1", "BOB": "10.0.0.2", "CAROL": "10.0.0.3"}, "BOB")
    assert (
        workgroup.between("10.0.0.1", "10.0.0.3") == workgroup.between("10.0.0.3", "10.0.0.1") == "10.0.0.2"
    )
    assert workgroup.between("10.0.0.1", "10.0.0.2") == workgroup.between("10.0.0.2", "10.0.0.3") == ""
