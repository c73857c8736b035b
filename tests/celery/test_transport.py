"""The transport for kombu and Celery, with both of them, against a live daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

import kombu
import pytest
from kombu.exceptions import InconsistencyError

from msmq.api.addresses import server_address
from msmq.api.callers import token_digest
from msmq.celery.transport import address_of
from msmq.errors import AccessDeniedError
from tests.api.authority import Authority
from tests.cli.support import Live, serving
from tests.server.support import free_port

WAIT_S = 120


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with serving(tmp_path / "host") as running:
        yield running


def broker(live: Live) -> str:
    return f"msmq://{live.socket.removeprefix('unix:')}"


def until(condition: Callable[[], object], wait_s: float = WAIT_S) -> None:
    end = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("other", 8181, "/"), "other:8181"),
        ((None, None, "run/msmq/api.sock"), "unix:/run/msmq/api.sock"),
        ((None, None, "/"), server_address()),
    ],
    ids=["host", "socket", "usual"],
)
def test_addresses(parts: tuple[str | None, int | None, str], expected: str) -> None:
    assert address_of(*parts) == expected


def test_an_address_with_a_token_and_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    port = free_port()
    api = f"""
        [api]
        listen = ["tls:localhost:{port}"]
        certificate = "{certificate}"
        private_key = "{key}"
        tokens = {{"{token_digest("s/same")}" = "S-1-5-32-544"}}
    """
    with serving(tmp_path / "host", api=api):
        address = f"msmqs://:s%2Fsame@localhost:{port}?ssl_ca_certs={authority.file}"
        with kombu.Connection(address) as connection:
            queue = connection.SimpleQueue("simple")
            queue.put({"number": 1})
            message = queue.get(timeout=WAIT_S)
            assert message.payload == {"number": 1}
            message.ack()
            queue.close()
        with (
            kombu.Connection(address.replace("s%2F", "")) as wrong,
            pytest.raises(AccessDeniedError, match="token"),
        ):
            wrong.SimpleQueue("simple")


def test_messages_are_put_got_acknowledged_and_given_back(live: Live) -> None:
    with kombu.Connection(broker(live)) as connection:
        queue = connection.SimpleQueue("simple")
        assert len(queue) == 0
        for number in range(3):
            queue.put({"number": number})
        assert len(queue) == 3
        first = queue.get(timeout=WAIT_S)
        assert first.payload == {"number": 0}
        first.requeue()
        again = queue.get(timeout=WAIT_S)
        assert again.payload == {"number": 0}
        assert again.delivery_info["redelivered"]
        again.ack()
        queue.get(timeout=WAIT_S).reject()
        assert len(live.bodies(".\\private$\\simple;rejected")) == 1
        assert queue.qsize() == 1
        assert queue.clear() == 1
        with pytest.raises(queue.Empty):
            queue.get(block=False)
        queue.close()
    assert live.bodies(".\\private$\\simple") == []


def test_what_was_not_acknowledged_comes_back(live: Live) -> None:
    with kombu.Connection(broker(live)) as connection:
        queue = connection.SimpleQueue("simple")
        queue.put("once")
        queue.get(timeout=WAIT_S)
        with pytest.raises(Empty):
            queue.get(timeout=0.2)
    with kombu.Connection(broker(live)) as connection:
        queue = connection.SimpleQueue("simple")
        message = queue.get(timeout=WAIT_S)
        assert message.payload == "once"
        message.ack()
        queue.close()


def test_consumers_that_acknowledge_nothing(live: Live) -> None:
    with kombu.Connection(broker(live)) as connection:
        queue = connection.SimpleQueue("simple", no_ack=True)
        queue.put("gone")
        assert queue.get(timeout=WAIT_S).payload == "gone"
        queue.close()
    assert live.bodies(".\\private$\\simple") == []


@contextmanager
def worker(live: Live, *options: str, at: str = "") -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "celery", "-A", "tests.celery.tasks", "worker", "-Q", "celery"]
    command += options or ("--pool", "solo")
    environment = {**os.environ, "MSMQ_TEST_BROKER": at or broker(live)}
    with (live.directory / "worker").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(120)


def send(live: Live, name: str, *arguments: Any, at: str = "") -> None:
    from celery import Celery

    with Celery(broker=at or broker(live)) as app:
        app.send_task(f"tests.celery.tasks.{name}", arguments)


def test_a_worker_does_what_is_asked(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "written"
    for number in range(3):
        send(live, "write", str(file), str(number))
    with worker(live):
        until(lambda: file.exists() and file.read_text() == "0\n1\n2\n")
        until(lambda: not live.bodies(".\\private$\\celery"))


def test_the_task_of_a_worker_that_is_killed_is_done_by_another(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "begun"
    send(live, "begin_and_wait", str(file))
    with worker(live) as first:
        until(file.exists)
        first.send_signal(signal.SIGKILL)
        first.wait(120)
    with worker(live):
        until(lambda: file.read_text() == "begun\nbegun\ndone\n")
        until(lambda: not live.bodies(".\\private$\\celery"))


POOLS = {
    "prefork": ("--pool", "prefork", "-c", "2", "--max-tasks-per-child", "3"),
    "threads": ("--pool", "threads", "-c", "3"),
    "gevent": ("--pool", "gevent", "-c", "3"),
    "eventlet": ("--pool", "eventlet", "-c", "3"),
}


@pytest.mark.parametrize("pool", sorted(POOLS))
def test_tasks_that_try_again_are_done_in_every_pool(tmp_path: Path, pool: str) -> None:
    """Those of prefork are recycled meanwhile: each child is forked from a parent that has used the transport. By TLS:
    the other tests use the unix socket."""
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("localhost")
    port = free_port()
    api = f"""
        [api]
        listen = ["unix:{tmp_path / "s"}", "tls:localhost:{port}"]
        certificate = "{certificate}"
        private_key = "{key}"
        tokens = {{"{token_digest("sesame")}" = "S-1-5-32-544"}}
    """
    at = f"msmqs://:sesame@localhost:{port}?ssl_ca_certs={authority.file}"
    file = tmp_path / "written"
    numbers = [str(number) for number in range(12)]
    with serving(tmp_path, api=api) as live:
        for number in numbers:
            send(live, "retry_twice", str(file), number, at=at)
        with worker(live, *POOLS[pool], at=at):
            until(lambda: file.exists() and sorted(file.read_text().split()) == sorted(numbers))
            until(lambda: not live.bodies(".\\private$\\celery"))
        assert live.bodies(".\\private$\\celery;rejected") == []


def test_children_that_are_killed_lose_no_task(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "written"
    numbers = [str(number) for number in range(3)]
    for number in numbers:
        send(live, "die_once", str(file), number)
        send(live, "retry_twice", str(file), f"{number}r")
    expected = sorted([*numbers, *(f"{number}r" for number in numbers)])
    with worker(live, *POOLS["prefork"]):
        until(lambda: file.exists() and sorted(file.read_text().split()) == expected)
        until(lambda: not live.bodies(".\\private$\\celery"))


def test_workers_of_every_pool_that_are_killed_lose_no_task(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "written"
    numbers = [str(number) for number in range(40)]
    for number in numbers:
        send(live, "retry_twice", str(file), number)
    done = 0
    for pool in sorted(POOLS):
        with worker(live, *POOLS[pool]) as process:
            more = done + 1
            until(lambda: file.exists() and len(file.read_text().split()) >= more)  # noqa: B023
            process.kill()
            process.wait(120)
        done = len(file.read_text().split())
    with worker(live, *POOLS["threads"]):
        until(lambda: set(file.read_text().split()) == set(numbers))
        until(lambda: not live.bodies(".\\private$\\celery"))


def test_what_is_rejected_is_kept(live: Live) -> None:
    """Celery rejects a task, too, whose next try it could not send: that is no reason to throw it away."""
    send(live, "refuse")
    with worker(live):
        until(lambda: len(live.bodies(".\\private$\\celery;rejected")) == 1)
    assert live.bodies(".\\private$\\celery") == []


def test_remote_control_and_events_see_the_workers(live: Live, tmp_path: Path) -> None:
    """What ``celery inspect`` and Flower do."""
    from celery import Celery

    file = tmp_path / "written"
    with (
        worker(live, "--pool", "threads", "-c", "1", "-n", "one@host", "-E"),
        worker(live, "--pool", "threads", "-c", "1", "-n", "two@host", "-E"),
        Celery(broker=broker(live)) as app,
    ):
        both = {"one@host", "two@host"}
        until(lambda: set(app.control.inspect(timeout=2, limit=2).ping() or ()) == both)
        assert (
            "tests.celery.tasks.write"
            in app.control.inspect(timeout=WAIT_S, limit=2).registered()["one@host"]
        )
        assert app.control.inspect(["two@host"], timeout=WAIT_S, limit=1).stats().keys() == {"two@host"}
        seen: dict[str, set[str]] = {}

        def see(event: dict[str, Any]) -> None:
            seen.setdefault(event["type"], set()).add(event["hostname"])
            if len(seen.get("worker-heartbeat", ())) == 2 and "task-succeeded" in seen:
                receiver.should_stop = True

        with app.connection() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": see})
            with receiver.consumer_context():
                app.send_task("tests.celery.tasks.write", (str(file), "x"))
                for _ in receiver.consume(limit=None, timeout=WAIT_S, wakeup=False):
                    if receiver.should_stop:
                        break
        assert seen["worker-heartbeat"] == {"one@host", "two@host"}
    assert app.control.broadcast("shutdown") is None


def test_a_binding_of_a_queue_that_is_gone_is_forgotten(live: Live) -> None:
    fanout = kombu.Exchange("news", "fanout")
    with kombu.Connection(broker(live)) as connection:
        for name in ("a", "b"):
            kombu.Queue(name, fanout)(connection.channel()).declare()
        live.good("queue", "delete", ".\\private$\\a", "--yes")
        producer = connection.Producer(exchange=fanout)
        producer.publish("extra")
        assert len(live.bodies(".\\private$\\b")) == 1
        assert len(live.bodies(".\\private$\\kombu.exchange.news")) == 1


def test_what_no_queue_is_bound_for_is_refused(live: Live) -> None:
    with kombu.Connection(broker(live)) as connection, pytest.raises(InconsistencyError, match="'nowhere'"):
        connection.Producer(exchange=kombu.Exchange("orders", "direct")).publish("x", routing_key="nowhere")
