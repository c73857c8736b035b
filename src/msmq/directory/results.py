"""LDAP result codes as results of the directory events (MS-MQDSSM 2.2.6)."""

from __future__ import annotations

from typing import Final

from msmq.manager.directory import DirectoryResult

SUCCESS: Final = 0
REFERRAL: Final = 10
NO_SUCH_ATTRIBUTE: Final = 16
NO_SUCH_OBJECT: Final = 32
ENTRY_ALREADY_EXISTS: Final = 68

_RESULTS: Final = {
    SUCCESS: DirectoryResult.SUCCESS,
    NO_SUCH_OBJECT: DirectoryResult.OBJECT_NOT_FOUND,
    NO_SUCH_ATTRIBUTE: DirectoryResult.ATTRIBUTE_NOT_FOUND,
    ENTRY_ALREADY_EXISTS: DirectoryResult.OBJECT_ALREADY_EXISTS,
}


def result_of(code: int) -> DirectoryResult:
    return _RESULTS.get(code, DirectoryResult.GENERIC_ERROR)


class DirectoryFailure(Exception):  # noqa: N818 - it is a result on its way to the caller of an event
    """An event ends with this result. The exception never leaves this room."""

    def __init__(self, result: DirectoryResult, reason: str = "", *, referred: bool = False) -> None:
        super().__init__(reason or result.value)
        self.result = result
        self.referred = referred
        """Whether the server referred us to others."""
        self.reason = reason or result.value


def generic(reason: str) -> DirectoryFailure:
    return DirectoryFailure(DirectoryResult.GENERIC_ERROR, reason)
