"""How errors travel: the one place where a status of MS-MQMQ 2.4 becomes a gRPC status and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import grpc

from msmq import errors
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import MQError, MsmqError, error_for

METADATA_KEY: Final = "msmq-error-bin"

_CODES: Final[tuple[tuple[type[MQError], grpc.StatusCode], ...]] = (
    (errors.AccessDeniedError, grpc.StatusCode.PERMISSION_DENIED),
    (errors.PrivilegeNotHeldError, grpc.StatusCode.PERMISSION_DENIED),
    (errors.QueueNotFoundError, grpc.StatusCode.NOT_FOUND),
    (errors.MessageNotFoundError, grpc.StatusCode.NOT_FOUND),
    (errors.QueueExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (errors.IoTimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (errors.OperationCancelledError, grpc.StatusCode.CANCELLED),
    (errors.InsufficientResourcesError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.MessageStorageFailedError, grpc.StatusCode.DATA_LOSS),
    (errors.ServiceNotAvailableError, grpc.StatusCode.UNAVAILABLE),
    (errors.UnsupportedOperationError, grpc.StatusCode.UNIMPLEMENTED),
    (errors.TransactionError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.QueueNameError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.PropertyError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.PropertyArrayError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.InvalidParameterError, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.IllegalSecurityDescriptorError, grpc.StatusCode.INVALID_ARGUMENT),
)
"""The first class that fits counts; everything else is FAILED_PRECONDITION."""


def grpc_code(error: MQError) -> grpc.StatusCode:
    """The gRPC status that comes nearest."""
    return next(
        (code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.FAILED_PRECONDITION
    )


def to_mq_error(error: MsmqError) -> MQError:
    """Any error of this project as a status; what is not one already is a bad parameter."""
    return error if isinstance(error, MQError) else errors.InvalidParameterError(str(error))


def to_message(error: MQError) -> pb.Error:
    """An error as it stands in an answer."""
    return pb.Error(
        code=error.code,
        name=error.name,
        description=error.description,
        detail=error.detail or "",
        advice=error.advice,
    )


def message_of_code(code: int) -> pb.Error:
    """The same for a bare status, as reads give them."""
    return to_message(error_for(code))


def trailing_metadata(error: MQError) -> tuple[tuple[str, bytes], ...]:
    """What goes with a failed call."""
    return ((METADATA_KEY, to_message(error).SerializeToString()),)


def from_message(message: pb.Error) -> MQError:
    """The exception that an answer tells of."""
    return error_for(message.code, message.detail or None)


def from_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> MQError | None:
    """The exception that the trailing metadata of a failed call tells of, if it does."""
    for key, value in metadata or ():
        if key == METADATA_KEY and isinstance(value, bytes):
            return from_message(pb.Error.FromString(value))
    return None
