"""Faults as exceptions."""

from __future__ import annotations

from msmq.errors import MsmqError
from msmq.rpc.status import FaultStatus, RpcBindError, RpcConnectionError, RpcFault


def test_a_fault_says_what_it_is() -> None:
    assert str(RpcFault(FaultStatus.ACCESS_DENIED)) == "ACCESS_DENIED 0x00000005"
    assert str(RpcFault(0xC00E0003)) == "status 0xC00E0003"
    assert RpcFault(5, did_not_execute=True).did_not_execute


def test_the_tree() -> None:
    assert issubclass(RpcBindError, RpcConnectionError)
    assert issubclass(RpcConnectionError, ConnectionError)
    assert issubclass(RpcFault, MsmqError)
