"""What all queue names share: versions, suffixes and parts of the grammar (MS-MQMQ 2.1.1, 2.2.11)."""

from __future__ import annotations

import re
from enum import Enum, IntEnum


class MsmqVersion(IntEnum):
    """The MSMQ generations whose grammars differ."""

    V1 = 1
    V2 = 2
    V3 = 3
    V4 = 4
    V5 = 5
    V6 = 6


class SuffixType(IntEnum):
    """QUEUE_SUFFIX_TYPE (MS-MQMQ 2.2.11)."""

    NONE = 0
    JOURNAL = 1
    DEADLETTER = 2
    DEADXACT = 3
    XACTONLY = 4
    SUBQUEUE = 5


class QueueKind(Enum):
    """The three forms of a path: ``srv\\q``, ``srv\\private$\\q`` and ``srv\\system$;q``."""

    PUBLIC = "public"
    PRIVATE = "private"
    SYSTEM = "system"


class BadNameError(ValueError):
    """Text outside the grammar; the public parsers turn it into the status that their caller expects."""


PRIVATE_MARK = "private$\\"
SYSTEM_MARK = "system$;"
JOURNAL_MARK = ";JOURNAL"

# VCHAR without the backslash that ends a computer name.
_COMPUTER = re.compile(r"[\x21-\x5B\x5D-\x7E]{1,256}")

# %x21-7F without backslash and semicolon; from 2.0 on also without double quote, plus and comma.
_QUEUE_NAME_V1 = re.compile(r"[\x21-\x3A\x3C-\x5B\x5D-\x7F]{1,124}")
_QUEUE_NAME_V2 = re.compile(r"[\x21\x23-\x2A\x2D-\x3A\x3C-\x5B\x5D-\x7F]{1,124}")
_SUBQUEUE = re.compile(r"[\x21\x23-\x2A\x2D-\x3A\x3C-\x5B\x5D-\x7F]{1,32}")


def check_ascii(text: str) -> None:
    """Refuse text that is not ASCII: the case mapping turns some other letters into ASCII ones."""
    if not text.isascii():
        raise BadNameError("A name is written in ASCII characters")


def check_computer(computer: str) -> None:
    """Check a Computer: 1 to 256 VCHAR."""
    if not _COMPUTER.fullmatch(computer):
        raise BadNameError(
            "A computer name is 1 to 256 printable ASCII characters without space or backslash"
        )


def check_queue_name(name: str, version: MsmqVersion) -> None:
    """Check a QueueName without its subqueue against the grammar of ``version``."""
    if version is MsmqVersion.V1:
        if not _QUEUE_NAME_V1.fullmatch(name):
            raise BadNameError("A queue name is 1 to 124 printable ASCII characters without space, \\ and ;")
    elif not _QUEUE_NAME_V2.fullmatch(name):
        raise BadNameError(
            'A queue name is 1 to 124 printable ASCII characters without space, \\ ; + , and "'
        )


def check_subqueue(subqueue: str, version: MsmqVersion) -> None:
    """Check a subqueue: 1 to 32 characters of a queue name, from MSMQ 4.0 on."""
    if version < MsmqVersion.V4:
        raise BadNameError(f"Subqueues exist from MSMQ 4.0 on, not in MSMQ {version}.0")
    if not _SUBQUEUE.fullmatch(subqueue):
        raise BadNameError(
            'A subqueue name is 1 to 32 printable ASCII characters without space, \\ ; + , and "'
        )
