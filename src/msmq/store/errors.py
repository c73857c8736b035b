"""What the store raises::

MsmqError
└── StoreError
    ├── StoreFullError      (also MessageStorageFailedError) no room for another record; nothing was changed
    ├── StoreFailedError    the disk refused a write or a sync; only a restart tells what is there
    ├── StoreLockedError    another process owns the store
    ├── NotAStoreError      the directory holds something else, or its FORMAT file is damaged
    ├── NewerFormatError    a newer program wrote the store
    └── DamagedRecordError  (also MessageStorageFailedError) a record's checksum is wrong
"""

from __future__ import annotations

from msmq.errors import MessageStorageFailedError, MsmqError


class StoreError(MsmqError):
    """Something is wrong with the durable store."""


class StoreFullError(StoreError, MessageStorageFailedError):
    """The durable store has no room for this."""

    advice = "Free disk space, drain or purge queues, or raise the limit of the store; no restart is needed."


class StoreFailedError(StoreError):
    """The disk refused a write or a sync. What it holds is unknown until the store is opened again."""


class StoreLockedError(StoreError):
    """Another process owns the store; ``pid`` is its number, when it could be read."""

    def __init__(self, where: str, pid: int | None) -> None:
        owner = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{where} is in use by {owner}; one process at a time may open a store.")
        self.pid = pid


class NotAStoreError(StoreError):
    """The directory is not a store of this program."""


class NewerFormatError(StoreError):
    """The store was written by a newer program."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} has store format {found}, but this program knows formats up to {known}; "
            "use the program that wrote it, or a newer one."
        )
        self.found = found
        self.known = known


class DamagedRecordError(StoreError, MessageStorageFailedError):
    """A record cannot be read as it was written."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file} at offset {offset}: {reason}.")
        self.file = file
        self.offset = offset
        self.reason = reason
