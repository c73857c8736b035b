"""Tasks of the worker that the tests of the transport start."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery

import msmq.celery

assert msmq.celery.Transport

app = Celery("tasks", broker=os.environ["MSMQ_TEST_BROKER"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
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
