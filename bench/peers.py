"""Brokers that a reader may know, on the same machine in the same run: durable messages of 1 KB per second.

``bench/transfer.py --peers`` calls this; ``scripts/peers.sh`` unpacks the brokers before. Each client is a plain socket
that writes frames made beforehand and counts confirmations, with at most a window of them missing: it costs almost
nothing, so that what is measured is the broker. A message counts when the broker has confirmed it. Who syncs before it
confirms: RabbitMQ 3.10 (both queues) and Redis with ``appendfsync=always`` do, NATS JetStream syncs every two minutes.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BODY = bytes(range(256)) * 4
CHUNK = 64
START_S = 60.0
RABBIT, NATS, REDIS, EPMD, DIST = 15673, 14222, 16379, 14369, 15674


class Socket:
    """A connection to a broker, and what was read of it and not understood yet."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, *, block: bool = True) -> None:
        if block or select.select([self._socket], [], [], 0)[0]:
            data = self._socket.recv(1 << 18)
            if not data:
                raise EOFError("the broker hung up")
            self.data += data

    def close(self) -> None:
        self._socket.close()


def windowed(
    connection: Socket,
    frames: Callable[[int, int], bytes],
    confirmed: Callable[[], int],
    count: int,
    window: int,
    tail: int = 0,
) -> tuple[float, float]:
    """Send messages with at most ``window`` of them unconfirmed; gives when the first one left and when ``count`` were
    confirmed. ``frames`` gives the bytes of so many messages from a number on, ``confirmed`` takes what was read and
    gives how many confirmations were in it. ``tail`` messages follow that are sent and confirmed, but not timed."""
    began = time.monotonic()
    ended = 0.0
    sent = done = 0
    while done < count + tail:
        group = min(window - (sent - done), count + tail - sent, CHUNK)
        if group > 0:
            connection.write(frames(sent, group))
            sent += group
        connection.read(block=group <= 0)
        done += confirmed()
        if done >= count and not ended:
            ended = time.monotonic()
    return began, ended


def sending_rate(
    connection: Socket, frame: bytes, confirmed: Callable[[], int], count: int, window: int
) -> float:
    """Messages per second, all of them the same, until all are confirmed."""
    began, ended = windowed(connection, lambda _, group: frame * group, confirmed, count, window)
    return count / (ended - began)


# --- AMQP 0-9-1 -------------------------------------------------------------------------------------------------------


def amqp_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return amqp_frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


class Amqp(Socket):
    """A channel in confirm mode and one durable queue."""

    def __init__(self, queue: bytes, kind: bytes) -> None:
        super().__init__(RABBIT)
        self.write(b"AMQP\0\0\x09\x01")
        self._answer()
        self._ask(0, 10, 11, long(b"") + short(b"PLAIN") + long(b"\0guest\0guest") + short(b"en_US"))
        self.write(method(0, 10, 31, struct.pack(">HIH", 2_047, 131_072, 0)))
        self._ask(0, 10, 40, short(b"/") + short(b"") + b"\0")
        self._ask(1, 20, 10, short(b""))
        arguments = short(b"x-queue-type") + b"S" + long(kind)
        self._ask(1, 50, 10, b"\0\0" + short(queue) + b"\x02" + long(arguments))
        self._ask(1, 85, 10, b"\0")
        header = struct.pack(">HHQHB", 60, 0, len(BODY), 0x1000, 2)  # delivery mode 2
        self.frame = (
            method(1, 60, 40, b"\0\0" + short(b"") + short(queue) + b"\0")
            + amqp_frame(2, 1, header)
            + amqp_frame(3, 1, BODY)
        )
        self._low = 0
        self._single: set[int] = set()

    def _answer(self) -> bytes:
        while len(self.data) < 7 or len(self.data) < struct.unpack_from(">I", self.data, 3)[0] + 8:
            self.read()
        size = struct.unpack_from(">I", self.data, 3)[0] + 8
        answer, self.data = self.data[:size], self.data[size:]
        if answer[0] == 1 and answer[7:11] in (b"\0\x0a\0\x32", b"\0\x14\0\x28"):  # close
            raise ConnectionError(f"RabbitMQ refuses: {answer!r}")
        return answer

    def _ask(self, channel: int, class_id: int, method_id: int, arguments: bytes) -> None:
        self.write(method(channel, class_id, method_id, arguments))
        self._answer()

    def confirmed(self) -> int:
        before = self._low + len(self._single)
        start = 0
        while len(self.data) - start >= 21:
            tag, multiple = struct.unpack_from(">QB", self.data, start + 11)
            start += 21
            if multiple:
                self._low = max(self._low, tag)
                self._single = {each for each in self._single if each > tag}
            else:
                self._single.add(tag)
            while self._low + 1 in self._single:
                self._low += 1
                self._single.remove(self._low)
        self.data = self.data[start:]
        return self._low + len(self._single) - before


def rabbit(kind: bytes, count: int, window: int) -> float:
    client = Amqp(b"bench-%s-%d" % (kind, time.monotonic_ns()), kind)
    try:
        return sending_rate(client, client.frame, client.confirmed, count, window)
    finally:
        client.close()


# --- Redis and NATS ---------------------------------------------------------------------------------------------------


def redis(count: int, window: int) -> float:
    client = Socket(REDIS)
    key = b"bench-%d" % time.monotonic_ns()
    parts = (b"XADD", key, b"*", b"b", BODY)
    frame = b"*5\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)

    def confirmed() -> int:
        """An answer is two lines: a length and an identifier."""
        lines = client.data.split(b"\r\n")
        answers = (len(lines) - 1) // 2
        client.data = b"\r\n".join(lines[2 * answers :])
        return answers

    try:
        return sending_rate(client, frame, confirmed, count, window)
    finally:
        client.close()


def nats(count: int, window: int) -> float:
    client = Socket(NATS)
    client.read()
    name = b"bench%d" % time.monotonic_ns()
    stream = b'{"name":"%s","subjects":["%s"],"storage":"file","retention":"workqueue"}' % (name, name)
    client.write(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB _INBOX.a 1\r\n')
    client.write(b"PUB $JS.API.STREAM.CREATE.%s _INBOX.a %d\r\n%s\r\n" % (name, len(stream), stream))
    client.data = b""
    while b"\r\n" not in client.data.partition(b"MSG ")[2].partition(b"\r\n")[2]:
        client.read()
    if b'"error"' in client.data:
        raise ConnectionError(f"NATS refuses: {client.data!r}")
    client.data = b""
    frame = b"PUB %s _INBOX.a %d\r\n%s\r\n" % (name, len(BODY), BODY)

    def confirmed() -> int:
        answers, start = 0, 0
        while (end := client.data.find(b"\r\n", start)) >= 0:
            line = client.data[start:end]
            following = end + 2
            if line.startswith(b"MSG"):
                following += int(line.rpartition(b" ")[2]) + 2
                if following > len(client.data):
                    break
                answers += 1
            elif line == b"PING":
                client.write(b"PONG\r\n")
            start = following
        client.data = client.data[start:]
        return answers

    try:
        return sending_rate(client, frame, confirmed, count, window)
    finally:
        client.close()


# --- starting them ----------------------------------------------------------------------------------------------------


@contextmanager
def running(command: list[str], port: int, log: Path, environment: dict[str, str]) -> Iterator[None]:
    """A broker, once its port is open."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent
        )
    try:
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-2000:]}") from None
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def rabbit_server(root: Path, directory: Path) -> Iterator[None]:
    home = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    base = directory / "rabbitmq"
    base.mkdir()
    (base / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{RABBIT}\n")
    (base / "plugins").write_text("[].")
    (base / "env.conf").touch()
    erlang = root / "usr/lib/erlang/bin"
    environment = {
        "HOME": str(base),
        "PATH": f"{erlang}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": libraries(root),
        "ERL_EPMD_PORT": str(EPMD),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_HOME": str(home),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_DIST_PORT": str(DIST),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_MNESIA_BASE": str(base / "mnesia"),
        "RABBITMQ_LOG_BASE": str(base / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(base / "env.conf"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(base / "generated"),
        "RABBITMQ_SCHEMA_DIR": str(base / "schema"),
        "RABBITMQ_CONFIG_FILE": str(base / "rabbitmq"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(base / "advanced.config"),
        "RABBITMQ_PID_FILE": str(base / "pid"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(base / "flags"),
        "RABBITMQ_PLUGINS_DIR": str(home / "plugins"),
    }
    epmd = [str(erlang / "epmd"), "-address", "127.0.0.1", "-port", str(EPMD)]
    with (
        running(epmd, EPMD, base / "epmd.log", environment),
        running([str(home / "sbin/rabbitmq-server")], RABBIT, base / "server.log", environment),
    ):
        time.sleep(3)  # its queues start after its port
        control = [str(home / "sbin/rabbitmqctl")]
        # Quorum queues are a feature that a fresh node of Debian's has not switched on.
        flags = [*control, "enable_feature_flag", "all"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(flags, env=os.environ | environment, check=False, **quiet)  # type: ignore[call-overload]
        try:
            yield
        finally:
            subprocess.run([*control, "stop"], env=os.environ | environment, check=False, **quiet)  # type: ignore[call-overload]


def libraries(root: Path) -> str:
    return f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"


def redis_server(root: Path, directory: Path) -> list[str]:
    (directory / "redis").mkdir()
    options = {"bind": "127.0.0.1", "port": str(REDIS), "dir": str(directory / "redis")}
    options |= {"appendonly": "yes", "appendfsync": "always", "save": ""}
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [str(root / "usr/bin/redis-server"), *arguments]


def nats_server(root: Path, directory: Path) -> list[str]:
    configuration = directory / "nats.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{NATS}"\njetstream {{ store_dir: "{directory / "jetstream"}" }}\n'
    )
    return [str(root / "usr/sbin/nats-server"), "-c", str(configuration)]


def measure_peers(
    count: int, rounds: int, window: int, directory: Path, ours: Callable[[], float]
) -> dict[str, float]:
    """Messages per second of each broker, and of ``ours`` between them."""
    root = Path(__file__).parent.parent / "build" / "peers"
    if not root.exists():
        raise SystemExit("there are no brokers in build/peers: run scripts/peers.sh first")
    environment = {"LD_LIBRARY_PATH": libraries(root)}
    log = directory / "peer.log"
    found: dict[str, list[float]] = {"msmq recoverable": []}

    def take(name: str, measure: Callable[[], float]) -> None:
        measure()  # warm
        for _ in range(rounds):
            found.setdefault(name, []).append(measure())
        found["msmq recoverable"].append(ours())

    with rabbit_server(root, directory):
        for kind in (b"classic", b"quorum"):
            take(f"RabbitMQ {kind.decode()}", lambda kind=kind: rabbit(kind, count, window))  # type: ignore[misc]
    with running(redis_server(root, directory), REDIS, log, environment):
        take("Redis Streams, always", lambda: redis(count, window))
    with running(nats_server(root, directory), NATS, log, environment):
        take("NATS JetStream", lambda: nats(count, window))
    shutil.rmtree(directory / "redis")
    middle = {name: statistics.median(values) for name, values in found.items()}
    mine = middle["msmq recoverable"]
    for name, value in middle.items():
        print(
            f"{name:24}{value:>10,.0f}/s{mine / value:>8.2f}   {' '.join(f'{each:,.0f}' for each in found[name])}"
        )
    return middle
