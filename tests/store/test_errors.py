"""What the errors of the store say."""

from __future__ import annotations

from msmq.errors import STATUS, MessageStorageFailedError, MsmqError
from msmq.store import DamagedRecordError, StoreError, StoreFullError, StoreLockedError


def test_a_full_store_is_a_status_of_the_sender() -> None:
    error = StoreFullError("There are 0 bytes.")
    assert isinstance(error, StoreError)
    assert isinstance(error, MessageStorageFailedError)
    assert error.code == STATUS["MQ_ERROR_MESSAGE_STORAGE_FAILED"]
    assert str(error).endswith("The durable store has no room for this. There are 0 bytes.")


def test_an_unreadable_lock_names_no_process() -> None:
    assert "by another process" in str(StoreLockedError("here", None))


def test_damage_names_its_place() -> None:
    error = DamagedRecordError("00000001.log", 48, "it is wrong")
    assert isinstance(error, MsmqError)
    assert str(error).endswith("00000001.log at offset 48: it is wrong.")
