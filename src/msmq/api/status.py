"""Errors in answers: the one place where a status of MS-MQMQ 2.4 becomes a gRPC status and back."""

from __future__ import annotations

from typing import Final

from msmq import errors
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import MQError, MsmqError, error_for

METADATA_KEY: Final = "msmq-error-bin"

_CODES: Final[tuple[tuple[type[MQError], str], ...]] = (
    (errors.AccessDeniedError, "PERMISSION_DENIED"),
    (errors.PrivilegeNotHeldError, "PERMISSION_DENIED"),
    (errors.QueueNotFoundError, "NOT_FOUND"),
    (errors.MessageNotFoundError, "NOT_FOUND"),
    (errors.QueueExistsError, "ALREADY_EXISTS"),
    (errors.IoTimeoutError, "DEADLINE_EXCEEDED"),
    (errors.OperationCancelledError, "CANCELLED"),
    (errors.InsufficientResourcesError, "RESOURCE_EXHAUSTED"),
    (errors.MessageStorageFailedError, "DATA_LOSS"),
    (errors.ServiceNotAvailableError, "UNAVAILABLE"),
    (errors.UnsupportedOperationError, "UNIMPLEMENTED"),
    (errors.TransactionError, "FAILED_PRECONDITION"),
    (errors.QueueNameError, "INVALID_ARGUMENT"),
    (errors.PropertyError, "INVALID_ARGUMENT"),
    (errors.PropertyArrayError, "INVALID_ARGUMENT"),
    (errors.InvalidParameterError, "INVALID_ARGUMENT"),
    (errors.IllegalSecurityDescriptorError, "INVALID_ARGUMENT"),
)
"""The first class that matches counts; all other errors are FAILED_PRECONDITION. The statuses are names, because
clients import this module too, and need no gRPC on a unix socket."""


def grpc_code(error: MQError) -> str:
    """The name of the nearest gRPC status."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), "FAILED_PRECONDITION")


def to_mq_error(error: MsmqError) -> MQError:
    """Convert any error of this project to a status; an error without one becomes InvalidParameterError."""
    return error if isinstance(error, MQError) else errors.InvalidParameterError(str(error))


def to_message(error: MQError) -> pb.Error:
    """An error in the form it has in an answer."""
    return pb.Error(
        code=error.code,
        name=error.name,
        description=error.description,
        detail=error.detail or "",
        advice=error.advice,
    )


def trailing_metadata(error: MQError) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata of a failed call, which contain the error."""
    return ((METADATA_KEY, to_message(error).SerializeToString()),)


def from_message(message: pb.Error) -> MQError:
    """The exception for an error in an answer."""
    error = error_for(message.code, message.detail or None)
    error.advice = message.advice or error.advice
    return error
