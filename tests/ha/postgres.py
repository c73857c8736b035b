"""Real PostgreSQL servers for tests: each with a directory and a port of its own, as a user that is not root.

The first one of a computer is made by initdb and kept in ``build/postgres``; the others are copies of it, which are
there in a fraction of a second. A copy of a server that was shut down is also a base backup: with a file in it that
says so, it follows another one.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.ports import free_port as free_port

ROOT = Path(__file__).resolve().parent.parent.parent
HOST = "127.0.0.1"
USER, PASSWORD, DATABASE = "msmq", "orders and acknowledgments", "queues"
_SETTINGS = """
listen_addresses = '127.0.0.1'
max_connections = 60
shared_buffers = '48MB'
max_wal_size = '512MB'
wal_keep_size = '256MB'
hot_standby = on
wal_log_hints = on
logging_collector = off
log_min_messages = fatal
autovacuum_naptime = '5s'
"""
_HBA = """
local all all trust
host replication all 127.0.0.1/32 trust
host all postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""
_PATIENT_S = 120.0


@cache
def programs() -> Path:
    found = subprocess.run([ROOT / "scripts" / "postgres.sh"], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


@cache
def owner() -> int | None:
    """Whom servers run as: PostgreSQL refuses to be run by root."""
    return pwd.getpwnam("postgres").pw_uid if os.getuid() == 0 else None


def run(*command: object, check: bool = True, **options: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(
        words,
        check=check,
        user=owner(),
        cwd="/",
        capture_output=True,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def give_away(path: Path) -> None:
    """Let the user of the servers own a directory and what is in it."""
    if (uid := owner()) is not None:
        for each in (path, *path.rglob("*")):
            os.chown(each, uid, pwd.getpwuid(uid).pw_gid)


def copy_tree(source: Path, target: Path) -> None:
    run("cp", "-a", source, target)


def base() -> Path:
    """The directory that all others are copies of."""
    home = Path(tempfile.gettempdir()) / f"msmq-postgres-{os.getuid()}"
    home.mkdir(exist_ok=True)
    home.chmod(0o755)
    made = home / f"base-{programs().parent.name}"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            _make(made)
    return made


def _make(made: Path) -> None:
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    give_away(made)
    data = made / "data"
    run(
        programs() / "initdb",
        "--no-sync",
        "--auth=trust",
        "--username=postgres",
        "--encoding=UTF8",
        "--locale=C",
        data,
    )
    with (data / "postgresql.conf").open("a") as file:
        file.write(_SETTINGS)
    (data / "pg_hba.conf").write_text(_HBA)
    server = Server(data, free_port())
    server.start()
    server.sql(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'", f"CREATE DATABASE {DATABASE} OWNER {USER}")
    server.stop()
    (made / "complete").touch()


def end_in_order() -> None:
    """Let a program that is told to end take its servers with it: they are in sessions of their own."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


class Server:
    """One server."""

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self.log = data.parent / f"{data.name}.log"

    def address(self, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password.replace(' ', '%20')}@{HOST}:{self.port}/{DATABASE}"

    def configure(self, **settings: str) -> None:
        """Change settings; they count from the next start, or from the next :meth:`reload`."""
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self, *, wait: bool = True) -> None:
        command = [programs() / "postgres", "-D", self.data, "-p", self.port, "-k", self.data]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                user=owner(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until it lets us in."""
        end = time.monotonic() + _PATIENT_S
        while time.monotonic() < end:
            if (
                run(programs() / "pg_isready", "-q", "-h", self.data, "-p", self.port, check=False).returncode
                == 0
            ):
                return
            assert self.process is None or self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"the server on port {self.port} does not start")

    def sql(self, *statements: str, database: str = "postgres") -> str:
        """Run statements as the owner of everything; gives what they said."""
        command = [
            programs() / "psql",
            "-qAtX",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            self.data,
            "-p",
            self.port,
            "-U",
            "postgres",
        ]
        return run(
            *command, "-d", database, *(word for text in statements for word in ("-c", text))
        ).stdout.strip()

    def reload(self) -> None:
        self.sql("SELECT pg_reload_conf()")

    def promote(self) -> None:
        self.sql("SELECT pg_promote()")

    def _signal(self, number: int) -> None:
        """To the server and everything it has started: each of these is a process of a session of its own."""
        assert self.process is not None
        listed = subprocess.run(
            ["ps", "-eo", "pid=,ppid="], check=True, capture_output=True, text=True
        ).stdout
        children = [
            int(line.split()[0]) for line in listed.splitlines() if int(line.split()[1]) == self.process.pid
        ]
        for pid in (self.process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """As if its computer had lost power, except for the disk."""
        self._signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()
        self.process = None
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None:
            self.thaw()
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            self.process = None

    def follow(self, other: Server, name: str) -> None:
        """Be a standby of another server from the next start on."""
        (self.data / "standby.signal").touch()
        give_away(self.data / "standby.signal")
        self.configure(
            primary_conninfo=f"host={HOST} port={other.port} user=postgres application_name={name}"
        )


@contextmanager
def new_server(**settings: str) -> Iterator[Server]:
    """A server with an empty database."""
    with scratch() as directory:
        server = _copy(directory / "one", **settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def new_cluster(**settings: str) -> Iterator[list[Server]]:
    """A primary and two standbys, one of which has to confirm each commit."""
    with scratch() as directory:
        names = ("one", "two", "three")
        servers = [_copy(directory / name, **settings) for name in names]
        for server in servers:
            server.configure(synchronous_standby_names="ANY 1 (one, two, three)")
        for server, name in list(zip(servers, names, strict=True))[1:]:
            server.follow(servers[0], name)
        for server in servers:
            server.start()
        try:
            yield servers
        finally:
            for server in reversed(servers):
                if server.process is not None:
                    server.kill()


def _copy(target: Path, **settings: str) -> Server:
    copy_tree(base() / "data", target)
    server = Server(target, free_port())
    server.configure(**settings)
    return server


@contextmanager
def scratch() -> Iterator[Path]:
    scratch = Path(tempfile.mkdtemp(prefix="msmq-ha-"))
    give_away(scratch)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
