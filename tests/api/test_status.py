"""Errors on their way through the channel."""

from __future__ import annotations

import pickle

import grpc
import pytest

from msmq import errors
from msmq.api import status
from msmq.errors import STATUS, EncodeError, MQError, error_for
from tests.api.support import from_metadata


@pytest.mark.parametrize("name", sorted(STATUS))
def test_every_status_comes_back_as_itself(name: str) -> None:
    error = error_for(STATUS[name], "because")
    told = from_metadata(status.trailing_metadata(error))
    assert type(told) is type(error)
    assert told.code == error.code
    assert told.detail == "because"
    message = status.to_message(error)
    assert (message.name, message.advice, message.description) == (
        error.name,
        error.advice,
        error.description,
    )


def test_advice_of_its_own_comes_along() -> None:
    error = errors.InsufficientResourcesError("Full.", advice="Make room.")
    told = from_metadata(status.trailing_metadata(error))
    assert isinstance(told, errors.InsufficientResourcesError)
    assert told.advice == "Make room."
    assert errors.InsufficientResourcesError.advice != "Make room."
    again = pickle.loads(pickle.dumps(error))
    assert (again.detail, again.advice) == ("Full.", "Make room.")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.AccessDeniedError(), grpc.StatusCode.PERMISSION_DENIED),
        (errors.QueueNotFoundError(), grpc.StatusCode.NOT_FOUND),
        (errors.QueueExistsError(), grpc.StatusCode.ALREADY_EXISTS),
        (errors.IllegalFormatnameError(), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.TransactionSequenceError(), grpc.StatusCode.FAILED_PRECONDITION),
        (errors.SharingViolationError(), grpc.StatusCode.FAILED_PRECONDITION),
    ],
    ids=lambda value: getattr(value, "name", "") if isinstance(value, MQError) else "",
)
def test_the_nearest_status_of_grpc(error: MQError, code: grpc.StatusCode) -> None:
    assert grpc.StatusCode[status.grpc_code(error)] is code


def test_other_errors_of_ours_are_bad_parameters() -> None:
    told = status.to_mq_error(EncodeError("no GUID"))
    assert isinstance(told, errors.InvalidParameterError)
    assert told.detail == "no GUID"
