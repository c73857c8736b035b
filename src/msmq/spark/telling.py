"""Report errors in one line, for people who see them at the end of a trace of Spark.

Spark shows the trace of what a data source raises, with those of its causes, and adds one of its own. So functions that
Spark calls raise errors without causes and traces, which say what to do about them.

The other way round, :func:`said_by_spark` finds the line that matters in what Spark raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

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


# --- what Spark raises ------------------------------------------------------------------------------------------------

_TRACE: Final = "Traceback (most recent call last):"
_STAGE: Final = "Job aborted due to stage failure"
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+$")
_BROKEN_OFF: Final = re.compile(r"An error occurred while calling \S+?\.(\w+)\.?")
"""All that the bridge to Java says when the connection broke during a call."""
_ADVICE: Final = (
    (
        ("OutOfMemoryError", "Not enough memory", "worker exited unexpectedly", "exited with code 137"),
        "Spark, or this computer, has run out of memory: give it more (spark.driver.memory and spark.executor.memory, "
        "for spark-submit --driver-memory and --executor-memory).",
    ),
    (
        ("No space left on device", "Disk quota exceeded"),
        "The disk is full: make room, or say where Spark may put what does not fit into memory (SPARK_LOCAL_DIRS).",
    ),
    (
        ("broke off the call",),
        "Most often its virtual machine has no memory left: give it more (spark.driver.memory, for spark-submit "
        "--driver-memory).",
    ),
    (
        ("failed to connect back",),
        "The computer was too busy to start Python in time, or cannot start it: give the command again.",
    ),
)


def said_by_spark(error: Exception) -> str:
    """Return the cause of an error of Spark in one line, and what to do about it as far as that is known.

    Spark wraps what goes wrong in a task, in its virtual machine or in Python, several times. What lies at the root
    says most, with the innermost error that Spark itself gives a name if that says something else, such as which file
    it is about.
    """
    said = [line for line in _all_lines(error) if line]
    *_, inner = said or [" ".join(str(error).split()) or type(error).__name__]
    outer = said[:-1] or [inner]
    around = next((line for line in reversed(outer) if line.startswith("[")), outer[-1])
    if inner not in around:
        inner = f"{_SQL_STATE.sub('', around).removesuffix('.')}: {inner}"
    elif _STAGE not in around:
        inner = around
    advice = next((advice for words, advice in _ADVICE if any(word in inner for word in words)), None)
    return inner if advice is None else f"{inner.removesuffix('.')}. {advice}"


def _all_lines(error: Exception) -> list[str]:
    """Return what each of Spark's errors says. Those of Java are in its virtual machine, which may have ended
    meanwhile."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        return list(_lines(error))
    except (Py4JError, OSError):
        return [_line("", str(error))]


def _lines(error: Any) -> Iterator[str]:
    """Yield what each of Spark's errors says, from the outermost to its root."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        broken = _BROKEN_OFF.fullmatch(str(error).strip())
        yield (
            _line("", str(error))
            if broken is None
            else f"Spark broke off the call {broken[1]} without a reason"
        )
    while java is not None:
        yield _line(java.getClass().getName(), java.getMessage() or "")
        java = java.getCause()


def _line(kind: str, text: str) -> str:
    """Return the line that matters in the text of one error."""
    if _TRACE in text:  # of Python: its last error is the line after the calls
        calls = text[text.rindex(_TRACE) + len(_TRACE) :].splitlines()
        text = next((line for line in calls if line.strip() and not line.startswith(" ")), "")
        name, _, said = text.partition(": ")
        return said if said and name.startswith("msmq.") else text.removeprefix("builtins.")
    first = text.strip().partition("\n")[0]
    name = kind.rpartition(".")[2]
    if kind.startswith("org.apache.spark.") or not kind or (not first and not name.endswith("Error")):
        return first
    return f"{name}: {first}" if first else name
