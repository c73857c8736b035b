"""Path names (MS-MQMQ 2.1.1)."""

from __future__ import annotations

from dataclasses import dataclass

from msmq.errors import IllegalQueuePathnameError
from msmq.wire.names.common import (
    JOURNAL_MARK,
    PRIVATE_MARK,
    SYSTEM_MARK,
    BadNameError,
    MsmqVersion,
    QueueKind,
    SuffixType,
    check_ascii,
    check_computer,
    check_queue_name,
    check_subqueue,
)


@dataclass(frozen=True, slots=True)
class QueuePath:
    """QueuePathName: the computer of a queue, and its name there.

    ``suffix`` is JOURNAL for ``srv\\q;JOURNAL``, which names the journal of q and never a subqueue "JOURNAL".
    """

    computer: str
    kind: QueueKind
    name: str
    subqueue: str | None = None
    suffix: SuffixType = SuffixType.NONE

    @classmethod
    def parse(cls, text: str, *, version: MsmqVersion = MsmqVersion.V6) -> QueuePath:
        """Parse a path; anything outside the grammar is MQ_ERROR_ILLEGAL_QUEUE_PATHNAME."""
        try:
            return _parse(text, version)
        except BadNameError as problem:
            raise IllegalQueuePathnameError(str(problem)) from None

    def __str__(self) -> str:
        mark = _MARKS[self.kind]
        subqueue = "" if self.subqueue is None else f";{self.subqueue}"
        journal = JOURNAL_MARK if self.suffix is SuffixType.JOURNAL else ""
        return f"{self.computer}\\{mark}{self.name}{subqueue}{journal}"


_MARKS = {QueueKind.PUBLIC: "", QueueKind.PRIVATE: PRIVATE_MARK, QueueKind.SYSTEM: SYSTEM_MARK}


def _parse(text: str, version: MsmqVersion) -> QueuePath:
    check_ascii(text)
    # VCHAR contains the backslash, so the first one must end the computer name.
    computer, backslash, rest = text.partition("\\")
    if not backslash:
        raise BadNameError("A path needs a backslash between computer and queue: COMPUTER\\QUEUE")
    check_computer(computer)

    kind = QueueKind.PUBLIC
    start = rest[: len(PRIVATE_MARK)].lower()
    if start == PRIVATE_MARK:
        kind, rest = QueueKind.PRIVATE, rest[len(PRIVATE_MARK) :]
    elif start.startswith(SYSTEM_MARK):
        kind, rest = QueueKind.SYSTEM, rest[len(SYSTEM_MARK) :]

    name, semicolon, subqueue = rest.partition(";")
    check_queue_name(name, version)
    if not semicolon:
        return QueuePath(computer, kind, name)
    check_subqueue(subqueue, version)
    if subqueue.upper() == "JOURNAL":
        return QueuePath(computer, kind, name, suffix=SuffixType.JOURNAL)
    return QueuePath(computer, kind, name, subqueue)
