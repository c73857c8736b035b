"""Association groups, context handles and their rundown."""

from __future__ import annotations

import pytest

from msmq.errors import MessageStorageFailedError
from msmq.rpc.association import AssociationGroups, ContextHandles
from msmq.rpc.pdu import Syntax
from msmq.rpc.status import FaultStatus, RpcFault
from msmq.security.access import Token
from tests.rpc.support import ALICE, BOB

HERE, ELSEWHERE = Syntax(bytes(16), 1), Syntax(bytes(range(16)), 1)
WHO = Token.authenticated(ALICE)


def test_a_handle_is_found_until_it_is_closed() -> None:
    handles = ContextHandles()
    handle = handles.open("it", HERE, WHO)
    assert len(handle) == 20
    assert handle[:4] == bytes(4)
    assert handle[4:] != bytes(16)
    assert handles.find(handle, HERE, WHO) == "it"
    assert handles.close(handle, HERE, WHO) == "it"
    for use in (handles.find, handles.close):
        with pytest.raises(RpcFault) as refused:
            use(handle, HERE, WHO)
        assert refused.value.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_a_handle_is_for_one_interface_and_one_user() -> None:
    handles = ContextHandles()
    handle = handles.open("it", HERE, WHO)
    for interface, token in ((ELSEWHERE, WHO), (HERE, Token.authenticated(BOB)), (HERE, Token.anonymous())):
        with pytest.raises(RpcFault):
            handles.find(handle, interface, token)
    with pytest.raises(RpcFault):
        handles.find(bytes(20), HERE, WHO)


def test_handles_are_bounded() -> None:
    handles = ContextHandles(max_handles=2)
    for _ in range(2):
        handles.open("it", HERE, WHO)
    with pytest.raises(RpcFault):
        handles.open("it", HERE, WHO)


def test_a_handle_that_cannot_be_run_down_for_a_known_reason_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    groups = AssociationGroups()
    group = groups.join("one", 0)
    assert group is not None

    def full(target: str) -> None:
        raise MessageStorageFailedError("no room")

    group.handles.open("a", HERE, WHO, full)
    groups.leave("one", group)
    assert "no room" in caplog.text


def test_the_last_to_leave_runs_everything_down(caplog: pytest.LogCaptureFixture) -> None:
    groups = AssociationGroups()
    gone: list[str] = []
    group = groups.join("one", 0)
    assert group is not None
    assert groups.join("two", group.group_id) is group
    assert groups.join("three", group.group_id + 1) is None

    def broken(target: str) -> None:
        raise ZeroDivisionError

    group.handles.open("a", HERE, WHO, gone.append)
    group.handles.open("b", HERE, WHO, broken)
    group.handles.open("c", HERE, WHO, gone.append)
    group.handles.open("d", HERE, WHO)
    groups.leave("one", group)
    assert gone == []
    with pytest.raises(ZeroDivisionError):
        groups.leave("two", group)
    assert gone == ["a", "c"]
    assert "run down" in caplog.text
    assert (len(groups), list(groups)) == (0, [])
    groups.leave("two", group)
