"""Tasks of the worker that the tests of the transport start."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject

import msmq.celery

assert msmq.celery.Transport

app = Celery("tasks", broker=os.environ["MSMQ_TEST_BROKER"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_lost_wait=1.0,
    broker_connection_retry_on_startup=True,
)


@app.task
def write(file: str, text: str) -> None:
    with Path(file).open("a") as stream:
        stream.write(f"{text}\n")


@app.task
def begin_and_wait(file: str) -> None:
    """Say that it has begun, and end only if another one has begun before."""
    path = Path(file)
    again = path.exists()
    with path.open("a") as stream:
        stream.write("begun\n")
    if not again:
        time.sleep(600)
    with path.open("a") as stream:
        stream.write("done\n")


@app.task(bind=True, max_retries=5)
def retry_twice(self: Any, file: str, text: str) -> None:
    """Succeed at the third try."""
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    write(file, text)


@app.task
def die_once(file: str, text: str) -> None:
    """Kill the process that works on it, the first time."""
    mark = Path(f"{file}.{text}")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    write(file, text)


@app.task(bind=True)
def refuse(self: Any) -> None:
    """Reject its own message for good."""
    raise Reject("no good", requeue=False)


@app.task(bind=True, max_retries=5)
def stormy(self: Any, file: str, number: int) -> None:
    """Succeed at once, at the third try a moment later each, or after the process that worked on it was killed."""
    if number % 3 == 1 and self.request.retries < 2:
        raise self.retry(countdown=0.2 * (number % 5))
    if number % 29 == 2:
        die_once(file, str(number))
    else:
        write(file, str(number))
