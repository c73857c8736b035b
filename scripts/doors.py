"""Knock at every door of an installed msmq and say what answered; run with the interpreter it is installed for.

It uses nothing of the source tree: ``python -I scripts/doors.py`` in a clean environment shows that a wheel is whole
there. Optional doors (captures, Celery) are tried when their packages are installed, and named when they are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

SECRET = "Secret-1"
HOST = "127.0.0.41"
QUEUE = r".\private$\doors"
PING = "017D485504000000D1587355509195954997B6E611EA26C6"


def free_ports() -> Iterator[int]:
    """Ports that nobody has on this program's own address, below those that the system gives to connections."""
    for port in random.sample(range(20_000, 32_768), 2_000):
        with socket.socket() as door, contextlib.suppress(OSError):
            door.bind((HOST, port))
            yield port


class Manager:
    """A queue manager in a process of its own, with every door open at ports of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = f"unix:{directory / 'api.sock'}"
        self.port, self.rpc_port, self.api_port, self.web_port = itertools.islice(free_ports(), 4)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MSMQ_", "PYTHON"))},
            "MSMQ_SERVER": self.socket,
            "MSMQ_REMOTE_PORT": str(self.rpc_port),
            "MSMQ_USER": "alice",
            "MSMQ_PASSWORD": SECRET,
        }

    def msmq(self, *arguments: str, given: str | None = None, **environment: str) -> str:
        """What a command prints that must do its work."""
        done = subprocess.run(
            [sys.executable, "-I", "-m", "msmq", *arguments],
            input=given,
            capture_output=True,
            text=True,
            env=self.environment | environment,
            cwd=self.directory,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"msmq {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        command = [sys.executable, "-I", "-m", "msmq", "serve", "--data", "data", "--name", "DOORS"]
        command += [
            "--listen",
            HOST,
            "--port",
            str(self.port),
            "--ping-port",
            "0",
            "--rpc-port",
            str(self.rpc_port),
        ]
        command += [
            "--web",
            f"{HOST}:{self.web_port}",
            "--api",
            self.socket,
            "--api",
            f"{HOST}:{self.api_port}",
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=self.environment, cwd=self.directory
        ) as process:
            try:
                assert process.stdout is not None
                if not process.stdout.readline().startswith("ready"):
                    raise SystemExit("the queue manager did not start")
                yield
            finally:
                process.terminate()
        if process.returncode:
            raise SystemExit(f"the queue manager ended with {process.returncode}")


def channel_of_applications(manager: Manager) -> None:
    import msmq

    with msmq.connect_sync(manager.socket) as mq:
        queue = mq.queue(QUEUE)
        queue.send("by the unix socket")
        assert queue.receive(timeout=60).text == "by the unix socket"


def token_for(manager: Manager, user: str) -> str:
    """The secret of a new token with an administrator's rights."""
    created = manager.msmq("token", "create", user, "--as", "BUILTIN_ADMINISTRATORS", "--json")
    return str(json.loads(created)["token"])


def channel_by_tcp(manager: Manager) -> None:
    """The line of the Python client, with a token."""
    import msmq

    async def call() -> None:
        async with msmq.connect(f"{HOST}:{manager.api_port}", token=token_for(manager, "line")) as mq:
            await mq.queue(QUEUE).send("by TCP")
            assert (await mq.queue(QUEUE).receive(timeout=60)).text == "by TCP"

    asyncio.run(call())


def channel_by_grpc(manager: Manager) -> None:
    """gRPC, which other languages use, with a token."""
    import grpc

    from msmq.api.generated import msmq_pb2 as pb

    bearer = (("authorization", f"Bearer {token_for(manager, 'grpc')}"),)
    with grpc.insecure_channel(f"{HOST}:{manager.api_port}") as channel:
        send = channel.unary_unary(
            f"/{pb.DESCRIPTOR.services_by_name['Messages'].full_name}/Send",
            request_serializer=pb.SendRequest.SerializeToString,
            response_deserializer=pb.SendReply.FromString,
        )
        request = pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=b"by gRPC", body_type=30)])
        assert send(request, metadata=bearer, timeout=60).ordinals[0]
    assert "by gRPC" in manager.msmq("receive", QUEUE, "--timeout", "60")


def session(manager: Manager) -> None:
    """MS-MQQB on TCP 1801, without a queue manager of one's own."""
    from msmq import direct

    async def call() -> None:
        name = f"DIRECT=TCP:{HOST}\\private$\\doors"
        outcome = await direct.send(name, b"by a session", label="x", port=manager.port)
        assert outcome.name == "DELIVERED", outcome

    asyncio.run(call())
    assert "by a session" in manager.msmq("receive", QUEUE, "--timeout", "60")


def remote_read(manager: Manager) -> None:
    """MS-MQRR on TCP 2103, with NTLM."""
    manager.msmq("send", QUEUE, "--body", "by remote read")
    assert "by remote read" in manager.msmq(
        "receive", f"DIRECT=TCP:{HOST}\\private$\\doors", "--timeout", "60"
    )


def decode(manager: Manager) -> None:
    """A capture with one ping, the first sample frame of MS-MQQB."""
    packet = bytes.fromhex(PING)
    loopback = bytes([127, 0, 0, 1])
    datagram = struct.pack(">HHHH", 3527, 3527, 8 + len(packet), 0) + packet
    frame = bytes(12) + b"\x08\x00"
    frame += (
        struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0)
        + loopback
        + loopback
        + datagram
    )
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    capture = manager.directory / "one.pcap"
    capture.write_bytes(header + struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    assert "Ping" in manager.msmq("decode", str(capture))


def celery(manager: Manager) -> None:
    from kombu import Connection

    import msmq.celery  # noqa: F401 - makes msmq:// an address

    with Connection("msmq://" + manager.socket.removeprefix("unix:")) as connection:
        queue = connection.SimpleQueue("doors-celery")
        queue.put({"coffees": 2})
        message = queue.get(timeout=60)
        assert message.payload == {"coffees": 2}
        message.ack()
        queue.close()


def console(manager: Manager) -> None:
    """The web console: its page, and a call of its HTTP interface by a token."""
    address = f"http://{HOST}:{manager.web_port}"
    with urllib.request.urlopen(f"{address}/", timeout=60) as page:
        assert b"<html" in page.read()
    bearer = {"Authorization": f"Bearer {token_for(manager, 'console')}"}
    asked = urllib.request.Request(f"{address}/metrics", headers=bearer)
    with urllib.request.urlopen(asked, timeout=60) as figures:
        assert b"windows_msmq_messages_in_queue" in figures.read()


OPTIONAL = {"starlette": ("console", console), "dpkt": ("captures", decode), "kombu": ("Celery", celery)}
DOORS = {
    "channel on the unix socket": channel_of_applications,
    "channel by TCP, token": channel_by_tcp,
    "channel by gRPC, token": channel_by_grpc,
    "session, MS-MQQB": session,
    "remote read, MS-MQRR, NTLM": remote_read,
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="msmq-doors-") as place:
        manager = Manager(Path(place))
        print(f"{manager.msmq('--version').strip()} on Python {sys.version.split()[0]}")
        (manager.directory / "data").mkdir(mode=0o700)
        manager.msmq("user", "add", "data/accounts", "alice", given=f"{SECRET}\n")
        with manager.serving():
            manager.msmq("queue", "create", QUEUE)
            manager.msmq("queue", "acl", "set", QUEUE, "--allow", "EVERYONE=full")
            print("  yes  command line")
            for name, door in DOORS.items():
                door(manager)
                print(f"  yes  {name}")
            for module, (name, door) in OPTIONAL.items():
                if importlib.util.find_spec(module) is None:
                    print(f"  -    {name}: {module} is not installed")
                else:
                    door(manager)
                    print(f"  yes  {name}")
            manager.msmq("send", QUEUE, "--body", "kept", "--recoverable")
        manager.msmq("store", "check", "data/store")
        with manager.serving():
            assert "kept" in manager.msmq("receive", QUEUE, "--timeout", "60")
        print("  yes  store: checked, and kept over a restart")


if __name__ == "__main__":
    main()
