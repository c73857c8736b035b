"""The durable log of the queue manager and its recovery. :mod:`msmq.store.store` says how it works."""

from msmq.store.clean import Owner
from msmq.store.disk import Answered, Disk, DiskFile, FarDisk, RealDisk
from msmq.store.errors import (
    DamagedRecordError,
    NewerFormatError,
    NotAStoreError,
    StoreError,
    StoreFailedError,
    StoreFullError,
    StoreLockedError,
)
from msmq.store.layout import HEAD_SIZE, Entry
from msmq.store.recovery import RecoveryReport
from msmq.store.scan import Damage, TornTail
from msmq.store.segment import Batch
from msmq.store.space import StoreOptions
from msmq.store.store import Store

__all__ = [
    "HEAD_SIZE",
    "Answered",
    "Batch",
    "Damage",
    "DamagedRecordError",
    "Disk",
    "DiskFile",
    "Entry",
    "FarDisk",
    "NewerFormatError",
    "NotAStoreError",
    "Owner",
    "RealDisk",
    "RecoveryReport",
    "Store",
    "StoreError",
    "StoreFailedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreOptions",
    "TornTail",
]
