"""The errors of the client's calls: always an MQError, whatever the server or the connection did."""

from __future__ import annotations

from typing import TypeVar

from msmq.errors import (
    AccessDeniedError,
    InvalidHandleError,
    MQError,
    OperationNotSupportedByRemoteComputerError,
    RemoteMachineNotAvailableError,
    error_for,
)
from msmq.errors.base import failed
from msmq.rpc.client import RpcClient
from msmq.rpc.interface import Operation
from msmq.rpc.ndr import Parameters
from msmq.rpc.status import FaultStatus, RpcConnectionError, RpcError, RpcFault

Q = TypeVar("Q", bound=Parameters)
R = TypeVar("R", bound=Parameters)


async def call(client: RpcClient, operation: Operation[Q, R], request: Q) -> R:
    """Make a call. An HRESULT in a fault, another fault and a lost connection differ only in the class of the error."""
    try:
        return await client.call(operation, request)
    except (RpcFault, RpcConnectionError) as error:
        raise error_of(error, operation.name) from error


def error_of(error: RpcError, name: str) -> MQError:
    """The error to raise for a failed call."""
    if isinstance(error, RpcFault):
        return _error_of(error, name)
    return RemoteMachineNotAvailableError(f"{name}: {error}")


def _error_of(fault: RpcFault, name: str) -> MQError:
    if fault.status == FaultStatus.ACCESS_DENIED:
        return AccessDeniedError(f"{name}: the server asks for better authentication.")
    if fault.status == FaultStatus.NCA_OP_RANGE_ERROR:
        return OperationNotSupportedByRemoteComputerError(f"The server does not know {name}.")
    if fault.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH:
        return InvalidHandleError(f"{name}: the server does not know this handle.")
    if failed(fault.status):
        return error_for(fault.status, name)
    return RemoteMachineNotAvailableError(f"{name}: {fault}")


def check_status(status: int) -> None:
    """Raise the error of ``status`` if it is a failure."""
    if failed(status):
        raise error_for(status)
