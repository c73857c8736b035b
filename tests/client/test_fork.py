"""A client in processes of every start method, whatever its parent did before."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import msmq
from msmq.client.problems import ConnectionLostError
from msmq.client.sync import SyncConnection
from tests.api.authority import Authority
from tests.cli.support import Live, serving
from tests.server.support import free_port

QUEUE = ".\\private$\\q"


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("host")) as running:
        yield running


def in_child(work: Callable[[], object]) -> None:
    """Do something in a forked child, and insist that it succeeds."""
    child = os.fork()
    if not child:
        try:
            signal.alarm(30)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def send_one(address: str, body: bytes) -> None:
    with msmq.connect_sync(address) as mq:
        mq.queue(QUEUE).send(body)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_child_connects_for_itself(live: Live, method: str) -> None:
    with msmq.connect_sync(live.socket) as mq:
        mq.create_queue(QUEUE)
        mq.queue(QUEUE).send(b"parent")
        context = multiprocessing.get_context(method)
        children = [context.Process(target=send_one, args=(live.socket, b"%d" % n)) for n in range(3)]  # type: ignore[attr-defined]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
            assert child.exitcode == 0
        found = {mq.queue(QUEUE).receive(10).body for _ in range(4)}
    assert found == {b"parent", b"0", b"1", b"2"}


def test_a_connection_goes_on_in_the_child_and_in_the_parent(live: Live) -> None:
    with msmq.connect_sync(live.socket) as mq:
        queue = mq.create_queue(QUEUE)
        queue.send(b"before")
        in_child(lambda: queue.send(b"child"))
        queue.send(b"after")
        assert [queue.receive(10).body for _ in range(3)] == [b"before", b"child", b"after"]


def test_what_is_held_is_the_parents(live: Live) -> None:
    with msmq.connect_sync(live.socket) as mq:
        queue = mq.create_queue(QUEUE)
        queue.send(b"held")
        with queue.receiver() as receiver:
            message = receiver.receive(10)

            def child() -> None:
                with pytest.raises(ConnectionLostError, match="another process"):
                    message.acknowledge()
                with pytest.raises(ConnectionLostError, match="another process"):
                    receiver.receive(0)
                mq.close()

            in_child(child)
            message.acknowledge()
        assert live.bodies(QUEUE) == []


def test_the_end_of_the_parent_is_the_end_of_its_lines(live: Live) -> None:
    """A child that lives on does not keep what its parent held."""
    ready, report = os.pipe()
    with msmq.connect_sync(live.socket) as mq:
        mq.create_queue(QUEUE).send(b"held")
        parent = os.fork()
        if not parent:
            own = msmq.connect_sync(live.socket)
            receiver = own.queue(QUEUE).receiver().__enter__()
            receiver.receive(10)
            child = os.fork()
            if not child:
                signal.alarm(60)
                signal.pause()
            os.write(report, b"%d\n" % child)
            signal.pause()
        child = int(os.read(ready, 100))
        try:
            os.kill(parent, signal.SIGKILL)
            os.waitpid(parent, 0)
            assert mq.queue(QUEUE).receive(10).body == b"held"
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_fork_of_a_client_of_tcp(tmp_path: Path, tls: bool) -> None:
    """Parent and child share nothing: each has a connection of its own, and says again who it is."""
    authority = Authority(tmp_path / "certificates")
    certificate, key = authority.issue("localhost")
    address = f"{'tls:' if tls else ''}localhost:{free_port()}"
    api = f"""
        [api]
        listen = ["unix:{tmp_path / "s"}", "{address}"]
        certificate = "{certificate}"
        private_key = "{key}"
    """
    with serving(tmp_path, api=api) as live:
        token = live.object("token", "create", "forking", "--as", "BUILTIN_ADMINISTRATORS")["token"]
        live.good("manager", "acl", "set", "--allow", "BUILTIN_ADMINISTRATORS=create-queue")
        trust = msmq.Tls(authorities=authority.file) if tls else None
        with msmq.connect_sync(address, token=token, tls=trust) as mq:
            queue = mq.create_queue(QUEUE)
            queue.send(b"before")
            with queue.receiver() as receiver:
                held = receiver.receive(10)
                in_child(lambda: queue.send(b"child"))
                held.acknowledge()
            queue.send(b"after")
            assert [queue.receive(10).body for _ in range(2)] == [b"child", b"after"]


def test_a_child_of_a_child(live: Live) -> None:
    mq: SyncConnection = msmq.connect_sync(live.socket)
    queue = mq.create_queue(QUEUE)

    def child() -> None:
        queue.send(b"child")
        in_child(lambda: queue.send(b"grandchild"))

    in_child(child)
    assert [queue.receive(10).body for _ in range(2)] == [b"child", b"grandchild"]
    mq.close()
    with pytest.raises(ConnectionLostError, match="closed"):
        queue.send(b"too late")
