"""A real cluster: three PostgreSQL servers, Patroni in quorum mode in front of each, three etcd.

The others reach each server by a line of its own, and each Patroni has such lines to the etcd servers, so that they can
be cut off from each other; and each server has a clock that can be set wrong.

Servers are copies of the one in :mod:`tests.ha.postgres`. What Patroni needs to know is put into etcd first, so that it
finds a cluster whose members were all switched off, and begins by choosing a primary.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.ha.clocks import Clock
from tests.ha.cuts import Line, Wiring
from tests.ha.postgres import (
    DATABASE,
    HOST,
    PASSWORD,
    ROOT,
    USER,
    base,
    copy_tree,
    free_port,
    give_away,
    owner,
    programs,
    run,
    scratch,
)

NAMES = ("one", "two", "three")
_PATIENT_S = 300.0
_SCOPE = "/service/msmq"
CONFIG = {
    "ttl": 20,
    "loop_wait": 1,
    "retry_timeout": 3,
    # A primary that died is replaced, and not waited for.
    "primary_start_timeout": 0,
    "synchronous_mode": "quorum",
    "synchronous_mode_strict": True,
    "postgresql": {
        "use_pg_rewind": True,
        "parameters": {"max_connections": 60, "wal_keep_size": "256MB", "wal_log_hints": "on"},
    },
}


@cache
def etcd_program() -> Path:
    made = ROOT / "build" / "etcd"
    found = subprocess.run([ROOT / "scripts" / "etcd.sh", made], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


@cache
def python() -> tuple[list[str], dict[str, str]]:
    """A Python that the user of the servers may run, with Patroni: ours, or the system's with our packages."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    for command, environment in (([sys.executable], {}), (["/usr/bin/python3"], {"PYTHONPATH": packages})):
        with suppress(OSError, subprocess.CalledProcessError):
            run(*command, "-c", "import patroni, psycopg, etcd", env={**os.environ, **environment})
            return command, environment
    raise AssertionError("no Python runs Patroni as another user")


class Etcd:
    """One of three."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.directory = directory
        self.client, self.peer = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, members: list[Etcd]) -> None:
        client, peer = f"http://{HOST}:{self.client}", f"http://{HOST}:{self.peer}"
        cluster = ",".join(f"{each.name}=http://{HOST}:{each.peer}" for each in members)
        command = [
            str(etcd_program()),
            "--name",
            self.name,
            "--data-dir",
            str(self.directory / f"etcd-{self.name}"),
        ]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", cluster, "--election-timeout", "3000", "--heartbeat-interval", "300"]
        with (self.directory / f"etcd-{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, user=owner(), cwd="/")

    def put(self, key: str, value: str) -> None:
        words = {"key": key, "value": value}
        body = {name: base64.b64encode(text.encode()).decode() for name, text in words.items()}
        request = urllib.request.Request(f"http://{HOST}:{self.client}/v3/kv/put", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 200

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Member:
    """A PostgreSQL server and the Patroni in front of it."""

    def __init__(self, directory: Path, name: str, wiring: Wiring) -> None:
        self.name = name
        self.directory = directory
        self.data = directory / name
        self.port, self.api = free_port(), free_port()
        self._wiring = wiring
        self.entrance = wiring.line(self.port)
        """Where the other servers reach this one."""
        self.etcd_lines: list[Line] = []
        self.clock = Clock(directory, name)
        self.process: subprocess.Popen[bytes] | None = None
        copy_tree(base() / "data", self.data)

    def _programs(self) -> Path:
        """PostgreSQL's programs, of which the server has a clock of its own. Patroni gives it no environment."""
        made = self.directory / f"programs-{self.name}"
        made.mkdir()
        for program in programs().iterdir():
            (made / program.name).symlink_to(program)
        clock = " ".join(f"{name}='{value}'" for name, value in self.clock.environment.items())
        server = made / "postgres"
        server.unlink()
        server.write_text(f'#!/bin/sh\nexec env {clock} {programs() / "postgres"} "$@"\n')
        server.chmod(0o755)
        give_away(made)
        return made

    def configure(self, etcd: list[Etcd]) -> None:
        trusted = {"username": "postgres"}
        self.etcd_lines = [self._wiring.line(each.client) for each in etcd]
        config: dict[str, Any] = {
            "scope": "msmq",
            "name": self.name,
            "restapi": {"listen": f"{HOST}:{self.api}", "connect_address": f"{HOST}:{self.api}"},
            # Not what etcd says of itself: that would lead past the lines.
            "etcd3": {
                "hosts": [f"{HOST}:{line.port}" for line in self.etcd_lines],
                "use_proxies": True,
            },
            "postgresql": {
                "listen": f"{HOST}:{self.port}",
                "connect_address": f"{HOST}:{self.entrance.port}",
                "data_dir": str(self.data),
                "bin_dir": str(self._programs()),
                "pgpass": str(self.directory / f"pgpass-{self.name}"),
                "authentication": {"superuser": trusted, "replication": trusted, "rewind": trusted},
                "parameters": {"unix_socket_directories": str(self.data), "shared_buffers": "48MB"},
                "pg_hba": [
                    "local all all trust",
                    "host replication all 127.0.0.1/32 trust",
                    "host all postgres 127.0.0.1/32 trust",
                    "host all all 127.0.0.1/32 scram-sha-256",
                ],
            },
        }
        path = self.directory / f"{self.name}.json"  # which is YAML too
        path.write_text(json.dumps(config))
        give_away(path)

    def start(self) -> None:
        command, environment = python()
        with (self.directory / f"patroni-{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "-m", "patroni", str(self.directory / f"{self.name}.json")],
                stdout=log,
                stderr=log,
                user=owner(),
                cwd="/",
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def is_primary(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.api}/primary", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def pids(self) -> list[int]:
        """The server and everything it has started."""
        with suppress(OSError, ValueError):
            postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
            listed = subprocess.run(
                ["ps", "-eo", "pid=,ppid="], check=True, capture_output=True, text=True
            ).stdout
            pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
            return [postmaster, *(pid for pid, parent in pairs if parent == postmaster)]
        return []

    def signal_server(self, number: int) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def signal_patroni(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def look_after(self) -> None:
        """As a supervisor does: start Patroni again when it is gone."""
        if self.process is not None and self.process.poll() is not None:
            self.start()

    def stop(self) -> None:
        self.signal_patroni(signal.SIGCONT)
        self.signal_patroni(signal.SIGKILL)
        self.signal_server(signal.SIGCONT)
        self.signal_server(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()


class Cluster:
    """The members and their etcd."""

    def __init__(self, directory: Path, wiring: Wiring) -> None:
        self.wiring = wiring
        self.etcd = [Etcd(directory, name) for name in NAMES]
        self.members = [Member(directory, name, wiring) for name in NAMES]

    @property
    def address(self) -> str:
        return self.address_by([member.port for member in self.members])

    def address_by(self, ports: list[int]) -> str:
        """By way of other ports, where something stands in between."""
        nodes = ",".join(f"{HOST}:{port}" for port in ports)
        return f"postgresql://{USER}:{PASSWORD.replace(' ', '%20')}@{nodes}/{DATABASE}"

    @property
    def primary(self) -> Member | None:
        return next((member for member in self.members if member.is_primary), None)

    def start(self) -> None:
        for etcd in self.etcd:
            etcd.start(self.etcd)
        control = run(programs() / "pg_controldata", self.members[0].data).stdout
        identifier = re.search(r"system identifier:\s+(\d+)", control)
        assert identifier is not None
        self._wait(lambda: self._put("config", json.dumps(CONFIG)))
        self._put("initialize", identifier[1])
        for member in self.members:
            member.configure(self.etcd)
            member.start()
        self.wait()

    def _put(self, name: str, value: str) -> bool:
        with suppress(OSError):
            self.etcd[0].put(f"{_SCOPE}/{name}", value)
            return True
        return False

    def wait(self) -> Member:
        """Until there is a primary that others confirm the commits of."""
        found: list[Member] = []

        def confirmed() -> bool:
            primary = self.primary
            if primary is None:
                return False
            found[:] = [primary]
            asked = run(
                *(
                    programs() / "psql",
                    "-qAtX",
                    "-h",
                    primary.data,
                    "-p",
                    primary.port,
                    "-U",
                    "postgres",
                    "-c",
                ),
                "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'",
                check=False,
            )
            return asked.stdout.strip() not in ("", "0")

        self._wait(confirmed)
        return found[0]

    def _wait(self, condition: Any) -> None:
        end = time.monotonic() + _PATIENT_S
        while not condition():
            assert time.monotonic() < end, "the cluster does not come up"
            time.sleep(0.2)

    def stop(self) -> None:
        for member in self.members:
            member.stop()
        for etcd in self.etcd:
            etcd.stop()


@contextmanager
def new_patroni() -> Iterator[Cluster]:
    """A cluster that has a primary and others that confirm."""
    with scratch() as directory, Wiring() as wiring:
        cluster = Cluster(directory, wiring)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
