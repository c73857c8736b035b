"""Report errors in one line, for people who see them at the end of a trace of Spark.

Spark shows the trace of what a data source raises, with those of its causes, and adds one of its own. So functions that
Spark calls raise errors without causes and traces, which say what to do about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msmq.client.problems import ServerNotAvailableError
from msmq.errors import AccessDeniedError, MsmqError, QueueNotFoundError, RemoteMachineNotAvailableError

if TYPE_CHECKING:
    from msmq.spark.options import Access


class QueueManagerError(RuntimeError):
    """The queue manager cannot be reached, or refuses what it is asked."""


class PlainError(Exception):
    """Base class of errors that say everything in one line already."""


_ELSEWHERE: Final = "Is it there that it listens? The option server says where to look."
_WHO: Final = {
    True: "The options user and passwordFile (or the variable MSMQ_PASSWORD) say who you are.",
    False: "The option tokenFile (or the variable MSMQ_TOKEN) says who you are.",
}
_WHICH: Final = "The options queue, queues and queuePattern say which queues are meant."


@contextmanager
def plainly(access: Access) -> Iterator[None]:
    """A context for everything that Spark calls; it turns errors into plain ones."""
    try:
        yield
    except PlainError as error:
        raise error.with_traceback(None) from None
    except (MsmqError, OSError) as error:
        raise QueueManagerError(told(error, access)) from None


def told(error: Exception, access: Access) -> str:
    """Describe an error, and what to do about it."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ServerNotAvailableError | RemoteMachineNotAvailableError | OSError):
        return f"{text} {_ELSEWHERE}"
    if isinstance(error, AccessDeniedError):
        return f"{text} {_WHO[access.by_remote_read]}"
    if isinstance(error, QueueNotFoundError):
        return f"{text} {_WHICH}"
    return text
