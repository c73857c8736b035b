"""Brokers that a reader may know, on the same machine in the same run: durable messages of 1 KB per second.

``bench/transfer.py --peers``, ``bench/client.py`` and ``bench/paths.py`` call this; ``scripts/peers.sh`` unpacks the
brokers into ``build/`` when they are not there. Each client is a plain socket that writes frames and counts
confirmations, with at most a window of them missing: it costs almost nothing, so that what is measured is the broker.
Who syncs before it confirms: RabbitMQ 3.10 (both queues) and Redis with ``appendfsync=always`` do, NATS JetStream syncs
every two minutes.

* **Sending** (``measure_peers``): a message counts when the broker has confirmed it; nobody receives.
* **End to end** (``produce_...`` and ``consume_...``, jobs of two processes): until the consumer has acknowledged the
  last message, as many in one acknowledgment as a read brought. Neither broker confirms what a consumer acknowledges
  the way a queue manager does, so that this flatters them a little.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from clients.applications import BODY_BYTES, NUMBER_BYTES, Load, numbered

ROOT = Path(__file__).parent.parent
BROKERS = ROOT / "build" / "peers"
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


DELIVER = b"\0\x3c\0\x3c"


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
        self._queue = queue
        header = struct.pack(">HHQHB", 60, 0, len(BODY), 0x1000, 2)  # delivery mode 2
        self._publish = method(1, 60, 40, b"\0\0" + short(b"") + short(queue) + b"\0") + amqp_frame(
            2, 1, header
        )
        self._tag = 0
        self._low = 0
        self._single: set[int] = set()

    def frame(self, body: bytes) -> bytes:
        """A message, as it is published."""
        return self._publish + amqp_frame(3, 1, body)

    def subscribe(self, prefetch: int) -> None:
        self._ask(1, 60, 10, struct.pack(">IHB", 0, prefetch, 0))
        self._ask(1, 60, 20, b"\0\0" + short(self._queue) + short(b"c") + b"\0" + long(b""))

    def delivered(self) -> list[bytes]:
        """The bodies in what was read; acknowledges them."""
        data, start, tag, bodies = self.data, 0, 0, []
        while len(data) - start >= 8:
            kind, _, size = struct.unpack_from(">BHI", data, start)
            end = start + size + 8
            if end > len(data):
                break
            if kind == 1:
                assert data[start + 7 : start + 11] == DELIVER, data[start:end]
                (self._tag,) = struct.unpack_from(">Q", data, start + 12 + data[start + 11])
            elif kind == 3:
                bodies.append(data[start + 7 : end - 1])
                tag = self._tag
            start = end
        self.data = data[start:]
        if tag:
            self.write(method(1, 60, 80, struct.pack(">QB", tag, 1)))
        return bodies

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
        return sending_rate(client, client.frame(BODY), client.confirmed, count, window)
    finally:
        client.close()


# --- Redis and NATS ---------------------------------------------------------------------------------------------------


def command(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Redis(Socket):
    """A stream, and a group of one consumer if it is read."""

    def __init__(self, key: bytes) -> None:
        super().__init__(REDIS)
        self._key = key
        self._publish, _ = command(b"XADD", key, b"*", b"b", BODY).split(BODY)
        self._read = b""

    def frame(self, body: bytes) -> bytes:
        """A message, as it is added."""
        return self._publish + body + b"\r\n"

    def confirmed(self) -> int:
        """How many confirmations were read: each is two lines, a length and an identifier."""
        lines = self.data.split(b"\r\n")
        answers = (len(lines) - 1) // 2
        self.data = b"\r\n".join(lines[2 * answers :])
        return answers

    def subscribe(self, prefetch: int) -> None:
        self.write(command(b"XGROUP", b"CREATE", self._key, b"g", b"0", b"MKSTREAM"))
        while b"\r\n" not in self.data:
            self.read()
        assert self.data == b"+OK\r\n", self.data
        self.data = b""
        asked = (b"COUNT", b"%d" % prefetch, b"BLOCK", b"0", b"STREAMS", self._key, b">")
        self._read = command(b"XREADGROUP", b"GROUP", b"g", b"c", *asked)
        self.write(self._read)

    def delivered(self) -> list[bytes]:
        """The bodies of the next answer, once it is there whole; acknowledges and deletes them and asks for more."""
        answer = self.data
        # An answer for one stream with entries of one field each; those of the acknowledgment stand in front of it.
        start = answer.find(b"*1\r\n*2\r\n$")
        if start < 0 or (head := answer.find(b"\r\n*", start + 10)) < 0:
            return []
        end = answer.find(b"\r\n", head + 3)
        if end < 0:
            return []
        count = int(answer[head + 3 : end])
        ids: list[bytes] = []
        bodies: list[bytes] = []
        at = end + 2
        for _ in range(count):  # *2 $n id *2 $1 b $m body
            first = answer.find(b"\r\n", at + 5)
            identifier_end = answer.find(b"\r\n", first + 2)
            body = identifier_end + len(b"\r\n*2\r\n$1\r\nb\r\n$1024\r\n")
            at = body + BODY_BYTES + 2
            if first < 0 or identifier_end < 0 or at > len(answer):
                return []
            ids.append(answer[first + 2 : identifier_end])
            bodies.append(answer[body : at - 2])
        self.data = answer[at:]
        done = command(b"XACK", self._key, b"g", *ids) + command(b"XDEL", self._key, *ids)
        self.write(done + self._read)
        return bodies


def redis(count: int, window: int) -> float:
    client = Redis(b"bench-%d" % time.monotonic_ns())
    try:
        return sending_rate(client, client.frame(BODY), client.confirmed, count, window)
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


# --- end to end -------------------------------------------------------------------------------------------------------


def produce_rabbit(pipe: Pipe, queue: bytes, load: Load) -> tuple[float, float]:
    return _produce(pipe, Amqp(queue, b"quorum"), load)


def consume_rabbit(pipe: Pipe, queue: bytes, load: Load) -> tuple[float, float]:
    return _consume(pipe, Amqp(queue, b"quorum"), load)


def produce_redis(pipe: Pipe, queue: bytes, load: Load) -> tuple[float, float]:
    return _produce(pipe, Redis(queue), load)


def consume_redis(pipe: Pipe, queue: bytes, load: Load) -> tuple[float, float]:
    return _consume(pipe, Redis(queue), load)


def _produce(pipe: Pipe, client: Amqp | Redis, load: Load) -> tuple[float, float]:
    """Send numbered messages; gives when the first one left and when the last one was confirmed."""

    def frames(first: int, group: int) -> bytes:
        bodies = numbered(range(past + first, past + first + group), BODY_BYTES)
        return b"".join([client.frame(body) for body in bodies])

    try:
        past = 0
        windowed(client, frames, client.confirmed, load.warm, load.window)
        past = load.warm
        pipe.send("warm")
        pipe.recv()
        return windowed(client, frames, client.confirmed, load.count, load.window)
    finally:
        client.close()


def _consume(pipe: Pipe, client: Amqp | Redis, load: Load) -> tuple[float, float]:
    """Receive numbered messages, each exactly once; gives when it began and when the last one was acknowledged."""
    seen = bytearray(load.total)
    taken = 0

    def receive(upto: int) -> float:
        nonlocal taken
        while taken < upto:
            client.read()
            while bodies := client.delivered():
                for body in bodies:
                    number = int.from_bytes(body[:NUMBER_BYTES], "little")
                    assert not seen[number], f"number {number} came twice"
                    seen[number] = 1
                taken += len(bodies)
        return time.monotonic()

    try:
        client.subscribe(load.window)
        pipe.send("open")
        began = receive(load.warm)
        pipe.send("warm")
        return began, receive(load.total)
    finally:
        client.close()


# --- starting them ----------------------------------------------------------------------------------------------------


def fetch_brokers() -> None:
    """Have the brokers in ``build/``."""
    if not (BROKERS / "usr/lib/rabbitmq").exists():
        print("unpacking the brokers", file=sys.stderr)
        script = [str(ROOT / "scripts" / "peers.sh"), str(BROKERS)]
        subprocess.run(script, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def running(program: list[str], port: int, log: Path, environment: dict[str, str]) -> Iterator[int]:
    """The process of a broker, once its port is open."""
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        raise RuntimeError(f"port {port} is taken, perhaps by a broker of another run")
    with log.open("wb") as output:
        process = subprocess.Popen(
            program, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent
        )
    try:
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"{program[0]} did not start: {log.read_text()[-2000:]}") from None
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class RabbitNode:
    """A node of RabbitMQ, unpacked below ``root``, with everything it writes below ``base``."""

    def __init__(
        self, root: Path, base: Path, name: str, port: int, dist_port: int, cluster: list[str]
    ) -> None:
        self.home = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        self.base = base
        self.port = port
        base.mkdir()
        settings = [f"listeners.tcp.1 = 127.0.0.1:{port}"]
        if cluster:
            settings.append("cluster_formation.peer_discovery_backend = rabbit_peer_discovery_classic_config")
            settings += [
                f"cluster_formation.classic_config.nodes.{number} = {each}"
                for number, each in enumerate(cluster, 1)
            ]
        (base / "rabbitmq.conf").write_text("\n".join(settings) + "\n")
        (base / "plugins").write_text("[].")
        (base / "env.conf").touch()
        self.environment = _erlang(root, base.parent) | {
            "RABBITMQ_HOME": str(self.home),
            "RABBITMQ_NODENAME": name,
            "RABBITMQ_DIST_PORT": str(dist_port),
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
            "RABBITMQ_PLUGINS_DIR": str(self.home / "plugins"),
        }

    def control(self, *words: str) -> str:
        """What ``rabbitmqctl`` says."""
        command = [str(self.home / "sbin/rabbitmqctl"), *words]
        done = subprocess.run(
            command, env=os.environ | self.environment, check=False, capture_output=True, text=True
        )
        return done.stdout

    @contextmanager
    def running(self) -> Iterator[int]:
        """The process of its virtual machine, once its port is open."""
        program = [str(self.home / "sbin/rabbitmq-server")]
        with running(program, self.port, self.base / "server.log", self.environment):
            try:
                yield int((self.base / "pid").read_text())
            finally:
                self.control("stop")


def _erlang(root: Path, home: Path) -> dict[str, str]:
    """What all programs of Erlang need; nodes with the same home have the same cookie."""
    return {
        "HOME": str(home),
        "PATH": f"{root / 'usr/lib/erlang/bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": libraries(root),
        "ERL_EPMD_PORT": str(EPMD),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }


@contextmanager
def _port_mapper(root: Path, home: Path) -> Iterator[None]:
    """What nodes find each other by."""
    program = [str(root / "usr/lib/erlang/bin/epmd"), "-address", "127.0.0.1", "-port", str(EPMD)]
    with running(program, EPMD, home / "epmd.log", _erlang(root, home)):
        yield


@contextmanager
def rabbit_server(root: Path, directory: Path) -> Iterator[int]:
    """The process of RabbitMQ's virtual machine, once quorum queues can be made."""
    home = directory / "rabbitmq"
    home.mkdir()
    node = RabbitNode(root, home / "node", "bench@localhost", RABBIT, DIST, [])
    with _port_mapper(root, home), node.running() as pid:
        time.sleep(3)  # its queues start after its port
        # Quorum queues are a feature that a fresh node of Debian's has not switched on.
        node.control("enable_feature_flag", "all")
        yield pid


@contextmanager
def rabbit_cluster(root: Path, directory: Path, size: int = 3) -> Iterator[None]:
    """Several nodes that know each other; clients speak to the first one."""
    home = directory / "rabbitmq-cluster"
    home.mkdir()
    names = [f"bench{number}@localhost" for number in range(size)]
    nodes = [
        RabbitNode(root, home / f"node{number}", name, RABBIT + 10 * number, DIST + 10 * number, names)
        for number, name in enumerate(names)
    ]
    with ExitStack() as stack:
        stack.enter_context(_port_mapper(root, home))
        for node in nodes:
            stack.enter_context(node.running())
        deadline = time.monotonic() + START_S
        while (
            sum(name in nodes[0].control("cluster_status").partition("Running Nodes")[2] for name in names)
            < size
        ):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the nodes did not find each other: {nodes[0].control('cluster_status')}")
            time.sleep(1)
        nodes[0].control("enable_feature_flag", "all")
        yield


def libraries(root: Path) -> str:
    return f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"


@contextmanager
def redis_server(root: Path, directory: Path) -> Iterator[int]:
    """The process of Redis."""
    with running(
        redis_command(root, directory), REDIS, directory / "redis.log", {"LD_LIBRARY_PATH": libraries(root)}
    ) as pid:
        yield pid


def redis_command(root: Path, directory: Path) -> list[str]:
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
    fetch_brokers()
    root = BROKERS
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
    with redis_server(root, directory):
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
