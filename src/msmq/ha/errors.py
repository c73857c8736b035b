"""What high availability raises::

MsmqError
└── StoreError
    └── HaError
        ├── NotLeaderError     this instance does not lead any more, or does not know whether it does
        ├── DatabaseError      the database cannot be used as it is: password, rights, settings
        ├── NewerSchemaError   a newer program made the tables
        └── BehindError        the database has lost what it had confirmed
"""

from __future__ import annotations

from msmq.store import StoreError


class HaError(StoreError):
    """Something is wrong with the log that instances share."""


class NotLeaderError(HaError):
    """Another instance leads, or nobody knows; what was under way may or may not be in the log."""


class DatabaseError(HaError):
    """The database cannot be used as it is; somebody has to change something there."""


class NewerSchemaError(HaError):
    """The tables were made by a newer program."""


class BehindError(HaError):
    """The database does not have what it had confirmed: a replica was promoted that was behind."""
