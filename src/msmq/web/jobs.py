"""Jobs: operations on many messages, a batch at a time, with progress and a record of who did what.

Each message is resubmitted or moved by Exchange, which sends one message and removes the other in one event. So an
interrupted job has handled each of its messages once or not at all, and can be started again.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, Final

from msmq.client import Message, ReceivedMessage
from msmq.client.connection import Connection
from msmq.client.records import RecordError, again, suited, to_message, to_record, transactional
from msmq.errors import MessageNotFoundError, MsmqError
from msmq.web.audit import Audit
from msmq.web.failures import rows
from msmq.web.shapes import home_of

_KEPT: Final = 200
_AT_ONCE: Final = 4
_MOST_ERRORS: Final = 20
_MOST_MESSAGES: Final = 10_000_000


@dataclass(slots=True)
class Job:
    """A job that is running or has run."""

    job: str
    action: str
    queue: str
    target: str
    who: str
    name: str
    whence: str
    host: str
    dry_run: bool
    batch: int
    rate: float
    state: str = "running"
    """running, done, failed or cancelled."""
    started: float = 0.0
    ended: float = 0.0
    total: int = 0
    """How many messages the job has, 0 until they are chosen; ``looked_at`` is how many it has gone through."""
    looked_at: int = 0
    done: int = 0
    gone: int = 0
    """Messages that somebody else took first."""
    failed: int = 0
    targets: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        shown = asdict(self)
        for name in ("started", "ended"):
            moment = getattr(self, name)
            shown[name] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) if moment else ""
        return shown


@dataclass(frozen=True, slots=True)
class Order:
    """The order for a job."""

    action: str
    queue: str
    target: str = ""
    lookup_ids: tuple[int, ...] = ()
    filters: dict[str, Any] = field(default_factory=dict)
    group: tuple[str, str, str] | None = None
    """Reason, destination and exception of the group."""
    edit: dict[str, Any] = field(default_factory=dict)
    batch: int = 100
    rate: float = 0.0
    """Messages a second; 0 for no limit."""
    dry_run: bool = False


class Jobs:
    """The jobs of this process."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._numbers = count(1)
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def all(self) -> list[Job]:
        return list(reversed(self._jobs.values()))

    def get(self, number: str) -> Job | None:
        return self._jobs.get(number)

    def begin(self, order: Order, mq: Connection, who: tuple[str, str, str], host: str) -> Job:
        """Start a job in somebody's name: SID, name and address."""
        job = Job(
            str(next(self._numbers)), order.action, order.queue, order.target, *who, host, order.dry_run,
            order.batch, order.rate, started=time.time(),
        )  # fmt: skip
        self._jobs[job.job] = job
        over = [number for number, each in self._jobs.items() if each.state != "running"]
        for number in over[: max(len(self._jobs) - _KEPT, 0)]:
            del self._jobs[number]
        self._tasks[job.job] = asyncio.get_running_loop().create_task(self._run(job, order, mq))
        return job

    def cancel(self, number: str) -> bool:
        task = self._tasks.get(number)
        return task is not None and task.cancel()

    async def finished(self, number: str) -> None:
        """Wait until a job has ended."""
        if number in self._tasks:
            await asyncio.wait({self._tasks[number]})

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, job: Job, order: Order, mq: Connection) -> None:
        try:
            await _Work(job, order, mq).run()
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
        except (MsmqError, OSError) as error:
            job.state = "failed"
            job.errors.append(str(error))
        finally:
            job.ended = time.time()
            self._tasks.pop(job.job, None)
            if not job.dry_run:
                self._audit.note(
                    job.who, job.whence, f"{job.action}_messages", job.state, name=job.name, job=job.job,
                    queue=job.queue, done=job.done, gone=job.gone, failed=job.failed, targets=job.targets,
                )  # fmt: skip


class _Work:
    """One job while it runs."""

    def __init__(self, job: Job, order: Order, mq: Connection) -> None:
        self._job = job
        self._order = order
        self._mq = mq
        self._queue = mq.queue(order.queue)
        self._kinds: dict[str, bool | None] = {}
        self._computer = ""

    async def run(self) -> None:
        self._computer = (await self._mq.manager()).computer_name
        chosen = self._order.lookup_ids or await self._chosen()
        self._job.total = len(chosen)
        for start in range(0, len(chosen), self._order.batch):
            await self._batch(list(chosen[start : start + self._order.batch]))

    async def _chosen(self) -> array[int]:
        """Return the lookup identifiers of the messages to handle. All are determined before the first is handled,
        because later ones do not belong to the job: they may be its own messages that failed once more."""
        order, found = self._order, array("Q")
        async for each in rows(self._mq, order.queue, order.filters, _MOST_MESSAGES):
            if order.group is None or each.key == order.group:
                found.append(each.lookup_id)
        return found

    async def _batch(self, ids: list[int]) -> None:
        started = time.monotonic()
        do: Callable[[list[int]], Any] = (
            self._delete if self._order.action == "delete" else self._exchange_all
        )
        await do(ids)
        self._job.looked_at += len(ids)
        if self._order.rate > 0:
            await asyncio.sleep(max(len(ids) / self._order.rate - (time.monotonic() - started), 0))

    async def _delete(self, ids: list[int]) -> None:
        if self._order.dry_run:
            self._job.done += len(ids)
            return
        removal = await self._queue.remove(ids)
        self._job.done += removal.removed
        self._job.gone += len(ids) - removal.removed

    async def _exchange_all(self, ids: list[int]) -> None:
        for start in range(0, len(ids), _AT_ONCE):
            await asyncio.gather(*map(self._exchange, ids[start : start + _AT_ONCE]))

    async def _exchange(self, lookup_id: int) -> None:
        job = self._job
        try:
            message = await self._queue.lookup(lookup_id)
            target = self._order.target or home_of(message, self._computer)
            other = await self._other(message, target)
            if not self._order.dry_run:
                await self._queue.exchange(lookup_id, target, other)
        except MessageNotFoundError:
            job.gone += 1
        except (MsmqError, ValueError) as error:
            job.failed += 1
            if len(job.errors) < _MOST_ERRORS:
                job.errors.append(f"{lookup_id}: {error}")
        else:
            job.done += 1
            job.targets[target] = job.targets.get(target, 0) + 1

    async def _other(self, message: ReceivedMessage, target: str) -> Message:
        """Return the message that is sent in place of another: the same one, with the user's edits."""
        if target not in self._kinds:
            self._kinds[target] = await transactional(self._mq, target)
        if not self._order.edit:
            return again(message, self._kinds[target])
        record = to_record(message, exact=True)
        if "body" in self._order.edit:
            record.pop("body_encoding", None)
        try:
            return suited(to_message(record | self._order.edit), self._kinds[target])
        except RecordError as error:
            raise ValueError(str(error)) from error
