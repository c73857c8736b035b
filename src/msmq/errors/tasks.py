"""What becomes of an error that nobody expects, in a task or in work that must not end half way.

asyncio keeps it until somebody looks at the task, and tells of it when nobody ever did, which may be hours later. So
every task that nobody waits for has one of these callbacks. What they raise is reported by the loop at once, to the
owner of the loop, who decides what follows (``msmq.server.daemon``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Task(Protocol):
    """A task of asyncio that has ended."""

    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...


def raise_again(task: Task, expected: tuple[type[BaseException], ...] = ()) -> None:
    """Raise what ended a task, unless it is one of the errors that are ``expected``. Whatever comes from here stops the
    queue manager: nobody does what the task would have done."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, expected):
        raise error


def carried_through(work: Callable[[], _T]) -> _T:
    """Do what follows a change and belongs to it, such as to hand over what was taken out of a queue. An error that
    nobody expects stops the queue manager here too, so that the change is not kept without what follows."""
    return work()


def closing(close: Callable[[], None]) -> Callable[[Task], None]:
    """A callback for a task that works for one connection only: what ended it closes the connection, and is then raised
    as if it had been met while the connection was read."""

    def ended(task: Task) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            close()
            raise error

    return ended
