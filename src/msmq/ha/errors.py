"""The errors of high availability::

MsmqError
└── StoreError
    └── HaError
        ├── NotLeaderError     this instance does not lead any more, or cannot know
        ├── DatabaseError      the database cannot be used as it is: password, rights, settings
        ├── NewerSchemaError   a newer program made the tables
        └── BehindError        the database has lost what it had confirmed
"""

from __future__ import annotations

from msmq.store import StoreError


class HaError(StoreError):
    """The shared log cannot be used."""


class NotLeaderError(HaError):
    """Another instance leads, or it is unknown who does; rows under way may or may not be in the log."""


class DatabaseError(HaError):
    """The database cannot be used as it is; an administrator has to change something there."""


class NewerSchemaError(HaError):
    """A newer program created the tables."""


class BehindError(HaError):
    """The database lacks rows that it had confirmed: a replica that was behind was promoted."""
