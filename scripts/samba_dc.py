"""A real Active Directory domain controller for the tests: Samba in a network of its own.

The controller needs root and the well-known ports. It gets both without touching the host's: a supervisor binds
ports of the system's choosing on 127.0.0.1, moves itself into a new network namespace, starts Samba on the
loopback interface there, and relays. Nothing of the host is seen inside, and outside nothing but the relay.

Provisioning takes many seconds, so its result is kept in ``build/`` and copied for each run; a controller lives as
long as somebody holds a *lease* on it, a connection to the supervisor that ends with the process that made it.

    with lease(directory) as controller: ...      # start one, or share the one that runs there
    python -m scripts.samba_dc                    # install what is missing and provision, for a fresh machine

Tests take it from the fixture ``domain_controller`` (tests/plugins/domain.py).
"""

from __future__ import annotations

import asyncio
import ctypes
import datetime
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / "build" / "samba_dc"

REALM: Final = "MSMQ.TEST"
DOMAIN: Final = "MSMQTEST"
ROOT_DN: Final = "DC=msmq,DC=test"
HOST: Final = "dc1.msmq.test"
ADMINISTRATOR: Final = f"Administrator@{REALM}"
PASSWORD: Final = "P@ssw0rd!msmq"
USERS: Final = ("alice", "bob")
"""Ordinary users, who have the same password."""

SERVICES: Final = {"ldap": 389, "ldaps": 636, "gc": 3268, "gcs": 3269, "kdc": 88, "kpasswd": 464}

PACKAGES: Final = {
    "/usr/sbin/samba": "samba samba-ad-dc",
    "/usr/share/samba/setup/provision.ldif": "samba-ad-provision",
    "/usr/sbin/winbindd": "winbind",
    "/usr/bin/kinit": "krb5-user",
    "/usr/bin/ldbsearch": "ldb-tools",
    "/usr/lib/python3/dist-packages/samba/__init__.py": "python3-samba",
    "/usr/bin/ldapsearch": "ldap-utils",
}
"""Files we need and the Debian packages that bring them."""

_CLONE_NEWNET: Final = 0x40000000
_PR_SET_PDEATHSIG: Final = 1
_START_S: Final = 120
_STOP_S: Final = 20


class DomainControllerError(Exception):
    """The controller cannot be had; the message says why and what to do."""


# --- what others use ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """How a copy of an object differs from it; its common name is one that needs no escaping."""

    cn: str
    guid: bytes
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class DomainController:
    """A controller that runs. It is found at ``address`` and answers to the name ``HOST``."""

    directory: Path
    ports: Mapping[str, int]
    control: socket.socket
    address: str = "127.0.0.1"

    @property
    def certificate_authority(self) -> Path:
        """Who vouches for the controller's certificate."""
        return self.directory / "tls" / "ca.pem"

    @property
    def krb5_config(self) -> Path:
        """What to point KRB5_CONFIG at."""
        return self.directory / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """For programs that use Kerberos or TLS with this controller."""
        return os.environ | {"KRB5_CONFIG": str(self.krb5_config), "LDAPTLS_REQCERT": "never"}

    def url(self, service: str = "ldap") -> str:
        scheme = "ldaps" if service in ("ldaps", "gcs") else "ldap"
        return f"{scheme}://{self.address}:{self.ports[service]}"

    def tool(self, *arguments: str) -> str:
        """Run samba-tool on the controller's own database."""
        return _run("/usr/bin/samba-tool", *arguments, f"--configfile={self.directory}/etc/smb.conf")

    def ldapsearch(
        self, base: str, *attributes: str, conditions: str = "(objectClass=*)", scope: str = "sub"
    ) -> str:
        """What OpenLDAP's own client finds: LDIF without comments, one line per value."""
        command = [
            "ldapsearch",
            "-x",
            "-LLL",
            "-o",
            "ldif-wrap=no",
            "-H",
            self.url("ldaps"),
            "-D",
            ADMINISTRATOR,
        ]
        command += ["-w", PASSWORD, "-b", base, "-s", scope, conditions, *attributes]
        return _run(*command, environment=self.environment)

    def multiply(self, dn: str, copies: Sequence[Copy]) -> None:
        """Have very many copies of an object beside it, past LDAP, which would take its time for each."""
        given = [{"cn": copy.cn, "guid": copy.guid.hex(), "attributes": copy.attributes} for copy in copies]
        script = str(Path(__file__).with_name("samba_copies.py"))
        database = str(self.directory / "private" / "sam.ldb")
        config = str(self.directory / "etc" / "smb.conf")
        limit_s = max(_START_S, len(copies) // 40)
        _run("/usr/bin/python3", script, config, database, dn, stdin=json.dumps(given), limit_s=limit_s)

    def export_keytab(self, principal: str, path: Path) -> Path:
        """The keys of an account, as a service or a client without a password uses them."""
        self.tool("domain", "exportkeytab", str(path), f"--principal={principal}")
        return path

    def ticket(self, principal: str, path: Path, password: str = PASSWORD) -> dict[str, str]:
        """Log on as a user; gives the environment with the credential cache."""
        environment = self.environment | {"KRB5CCNAME": f"FILE:{path}"}
        _run("kinit", f"{principal}@{REALM}", environment=environment, stdin=password + "\n")
        return environment

    def stop(self) -> None:
        """Stop answering, as in an outage; what is stored stays. Not for a controller that others share."""
        self._say("stop")

    def start(self) -> None:
        self._say("start")

    def _say(self, command: str) -> None:
        self.control.sendall(f"{command}\n".encode())
        answer = self.control.recv(64)
        if answer != b"done\n":
            raise DomainControllerError(f"{command}: {answer!r}; see {self.directory}/samba.log")


@contextmanager
def lease(directory: Path) -> Iterator[DomainController]:
    """Hold the controller of a directory, starting it if it does not run yet; the last to let go stops it."""
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory / "lock"):
        control = _connect(directory)
        if control is None:
            _launch(directory)
            control = _connect(directory)
    if control is None:
        raise DomainControllerError(f"the controller went away at once; see {directory}/samba.log")
    with control:
        ports = json.loads((directory / "ready.json").read_text(encoding="utf-8"))
        yield DomainController(directory, ports, control)


def _connect(directory: Path) -> socket.socket | None:
    try:
        ports = json.loads((directory / "ready.json").read_text(encoding="utf-8"))
        return socket.create_connection(("127.0.0.1", ports["control"]), timeout=_START_S)
    except (OSError, ValueError):
        return None


def _launch(directory: Path) -> None:
    install()
    state = provision()
    for name in ("ready.json", "failed"):
        (directory / name).unlink(missing_ok=True)
    _adopt(state, directory)
    with (directory / "samba.log").open("ab") as log:
        command = [sys.executable, "-m", "scripts.samba_dc", "serve", str(directory)]
        subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, check=True)  # it goes on in the background
    deadline = time.monotonic() + _START_S
    while not (directory / "ready.json").exists():
        if (directory / "failed").exists() or time.monotonic() > deadline:
            tail = (directory / "samba.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise DomainControllerError(f"Samba did not start; the end of its log:\n{tail}")
        time.sleep(0.05)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(
    *command: str,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
    limit_s: float | None = None,
) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, input=stdin, timeout=limit_s or _START_S
    )
    if done.returncode:
        raise DomainControllerError(
            f"{' '.join(command[:3])}: {(done.stderr or done.stdout).strip()[-2000:]}"
        )
    return done.stdout


# --- making one ---------------------------------------------------------------------------------------------


def install() -> None:
    """Have the packages there that are missing."""
    missing = [name for path, names in PACKAGES.items() if not Path(path).exists() for name in names.split()]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        names = " ".join(missing)
        raise DomainControllerError(f"the tests of the directory need Samba: apt-get install {names}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with _locked(Path("/var/lock/msmq-samba-install")):
        _run("apt-get", "update", "-qq", environment=environment)
        apt = ("apt-get", "install", "-y", "-qq", "--no-install-recommends")
        subprocess.run([*apt, *missing], check=True, env=environment, stdout=sys.stderr, timeout=900)


def provision() -> Path:
    """The state of a fresh domain, made once for each version of Samba and of this file, and where it is: paths are in
    it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    version = _run("/usr/sbin/samba", "--version")
    known = f"{version} {CACHE}\n".encode() + Path(__file__).read_bytes()
    mark = hashlib.sha256(known).hexdigest()[:16]
    state = CACHE / mark
    with _locked(CACHE / "lock"):
        if not state.exists():
            scratch = CACHE / f"{mark}.new"
            shutil.rmtree(scratch, ignore_errors=True)
            _provision(scratch)
            scratch.rename(state)
    return state


def _provision(target: Path) -> None:
    empty = target.with_suffix(".conf")
    empty.write_text("[global]\n", encoding="utf-8")
    _run(
        "/usr/bin/samba-tool", "domain", "provision", f"--configfile={empty}", f"--realm={REALM}",
        f"--domain={DOMAIN}", "--server-role=dc", "--dns-backend=NONE", f"--adminpass={PASSWORD}",
        f"--targetdir={target}", "--host-name=dc1", "--host-ip=127.0.0.1",
        "--option=interfaces=lo", "--option=bind interfaces only=yes",
    )  # fmt: skip
    empty.unlink()
    for user in USERS:
        _run("/usr/bin/samba-tool", "user", "create", user, PASSWORD, f"--configfile={target}/etc/smb.conf")
    for service in ("ldap", "GC"):  # a service that does not run here would register them
        spn = ("spn", "add", f"{service}/{HOST}", "DC1$")
        _run("/usr/bin/samba-tool", *spn, f"--configfile={target}/etc/smb.conf")
    _make_certificates(target / "tls")


def _adopt(state: Path, directory: Path) -> None:
    """A copy of the provisioned state, with the paths of its configuration moved along."""
    for entry in state.iterdir():
        shutil.rmtree(directory / entry.name, ignore_errors=True)
    shutil.copytree(state, directory, symlinks=True, dirs_exist_ok=True)
    config = directory / "etc" / "smb.conf"
    text = config.read_text(encoding="utf-8").replace(f"{state}.new", str(directory))
    options = f"""
    pid directory = {directory}/pid
    ncalrpc dir = {directory}/ncalrpc
    log file = {directory}/samba.log
    tls keyfile = {directory}/tls/key.pem
    tls certfile = {directory}/tls/certificate.pem
    tls cafile = {directory}/tls/ca.pem
    ldap server require strong auth = yes
"""
    config.write_text(text.replace("[global]\n", f"[global]\n{options}", 1), encoding="utf-8")
    for name in ("pid", "ncalrpc"):
        (directory / name).mkdir(mode=0o755, exist_ok=True)


def _make_certificates(directory: Path) -> None:
    """An authority and a certificate for HOST; the controller would make a self-signed one, slowly."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    directory.mkdir()
    now = datetime.datetime.now(datetime.UTC)

    def certificate(
        name: str, key: rsa.RSAPrivateKey, issuer: str, issuer_key: rsa.RSAPrivateKey, *, authority: bool
    ) -> bytes:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
        builder = builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=3650))
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority_key, key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    authority = "MSMQ test authority"
    ca = certificate(authority, authority_key, authority, authority_key, authority=True)
    (directory / "ca.pem").write_bytes(ca)
    (directory / "certificate.pem").write_bytes(
        certificate(HOST, key, authority, authority_key, authority=False)
    )
    secret = directory / "key.pem"
    secret.touch(mode=0o600)
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


# --- the supervisor -----------------------------------------------------------------------------------------


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Supervisor:
    """Samba, the relay to it, and the leases."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in (*SERVICES, "control")}
        self.samba: asyncio.subprocess.Process | None = None
        self.leases = 0
        self.over = asyncio.Event()
        self.links: set[asyncio.StreamWriter] = set()

    async def run(self) -> None:
        await self.start()
        for name, listener in self.listeners.items():
            handler = self._lease if name == "control" else self._relay(SERVICES[name])
            await asyncio.start_server(handler, sock=listener)
        ports = {name: listener.getsockname()[1] for name, listener in self.listeners.items()}
        (self.directory / "krb5.conf").write_text(_krb5_conf(ports), encoding="utf-8")
        partial = self.directory / "ready.json.new"
        partial.write_text(json.dumps(ports), encoding="utf-8")
        partial.rename(self.directory / "ready.json")
        asyncio.get_running_loop().call_later(_START_S, self._give_up)
        await self.over.wait()
        (self.directory / "ready.json").unlink()
        await self.stop()

    def _give_up(self) -> None:
        """Nobody came for the controller they started."""
        if not self.leases:
            self.over.set()

    async def start(self) -> None:
        command = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL"]
        command += ["/usr/sbin/samba", "-F", "--no-process-group", "--debug-stdout", "-d1"]
        command += ["-s", str(self.directory / "etc" / "smb.conf"), "-M", "prefork"]
        command += ["--option=prefork children=1", "--option=server services=ldap,cldap,kdc"]
        command += ["--option=dcerpc endpoint servers="]
        self.samba = await asyncio.create_subprocess_exec(*command, preexec_fn=_die_with_parent)
        deadline = time.monotonic() + _START_S
        for port in (389, 636, 3268, 88):
            while not await _answers(port):
                if self.samba.returncode is not None or time.monotonic() > deadline:
                    raise DomainControllerError("Samba ended before it answered")
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self.samba is not None and self.samba.returncode is None:
            self.samba.kill()  # takes the whole process namespace with it; the databases are crash-safe
            await asyncio.wait_for(self.samba.wait(), _STOP_S)
            while await _answers(SERVICES["ldap"]):  # its children end a moment later
                await asyncio.sleep(0.01)
        self.samba = None
        for link in list(self.links):
            link.transport.abort()

    async def _lease(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.leases += 1
        try:
            while line := await reader.readline():
                await (self.stop() if line == b"stop\n" else self.start())
                writer.write(b"done\n")
                await writer.drain()
        except (OSError, DomainControllerError):
            pass
        finally:
            writer.close()
            self.leases -= 1
            if not self.leases:
                self.over.set()

    def _relay(self, port: int) -> _Handler:
        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.transport.abort()
                return
            self.links |= {writer, inner_writer}
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
            self.links -= {writer, inner_writer}

        return relay


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _krb5_conf(ports: Mapping[str, int]) -> str:
    return f"""[libdefaults]
    default_realm = {REALM}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {REALM} = {{
        kdc = 127.0.0.1:{ports["kdc"]}
        kpasswd_server = 127.0.0.1:{ports["kpasswd"]}
    }}
[domain_realm]
    .msmq.test = {REALM}
    msmq.test = {REALM}
"""


def serve(directory: Path) -> None:
    """The supervisor's life, from a new network until nobody needs it any more."""

    async def life() -> None:
        supervisor = _Supervisor(directory)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWNET):
            raise DomainControllerError(
                f"no network of its own: {os.strerror(ctypes.get_errno())} (root is needed)"
            )
        _run("ip", "link", "set", "lo", "up")
        await supervisor.run()

    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        asyncio.run(life())
    except BaseException:
        (directory / "failed").touch()
        raise


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["serve"]:
        serve(Path(arguments[1]))
    else:
        install()
        print(provision())


if __name__ == "__main__":
    main(sys.argv[1:])
