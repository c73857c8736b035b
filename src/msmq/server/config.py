"""The configuration of a daemon: its options, with their defaults and meanings.

One TOML file holds everything; each option below is a key of the same name, times of the protocol are in the table
``[timers]``. Options of the command line override the file.
"""

from __future__ import annotations

import socket
import tomllib
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Final, TypeVar, get_type_hints

from msmq.admission.gate import Crowding
from msmq.api.callers import Rules
from msmq.api.door import Doorplate
from msmq.errors import DecodeError, EncodeError
from msmq.ha.settings import HaSettings
from msmq.security.policy import CryptoPolicy
from msmq.security.sid import Sid
from msmq.security.signatures import HashPolicy
from msmq.server import descriptors
from msmq.server.directory_settings import ConfigError as ConfigError
from msmq.server.directory_settings import DirectorySettings
from msmq.server.logs import FORMATS
from msmq.server.remote_read_door import SERVED, RpcSettings
from msmq.server.web_settings import WebSettings
from msmq.transfer.timers import TimerSettings
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.packets import UNLIMITED_SESSIONS

DEFAULT_PORT: Final = 1801
DEFAULT_PING_PORT: Final = 3527
_PREFERRED: Final = {
    PrivacyLevel.BASE: "preferred_base_algorithm",
    PrivacyLevel.ENHANCED: "preferred_enhanced_algorithm",
    PrivacyLevel.ADVANCED: "preferred_advanced_algorithm",
}
_WILDCARDS: Final = ("0.0.0.0", "::")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
RELOADABLE: Final = frozenset(
    {
        "log_level",
        "log_format",
        "max_in_sessions",
        "max_connections",
        "max_connections_per_address",
        "max_opening_connections",
        "opening_timeout_s",
        "max_opening_bytes",
        "max_unstored_bytes",
        "ping_before_connecting",
        "send_insecure_nacks",
    }
)
"""The options that a reload (SIGHUP) changes; existing connections keep the limits they began with."""
API_NEEDS_RESTART: Final = ("enabled", "listen", "socket_mode")
"""The options of the channel that a reload does not change."""


def _computer_name() -> str:
    return socket.gethostname().partition(".")[0] or "localhost"


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """The channel of applications."""

    enabled: Annotated[bool, "Whether there is one."] = True
    listen: Annotated[
        tuple[str, ...],
        "Where applications connect: unix:PATH, HOST:PORT of this computer, or tls:HOST:PORT. Empty: `msmq serve` "
        "takes the usual socket of its user, other programs open none.",
    ] = ()
    socket_mode: Annotated[str, "Who may connect to unix sockets, as an octal mode."] = "0666"
    certificate: Annotated[str, "PEM file with the certificates of this server, for tls:."] = ""
    private_key: Annotated[str, "PEM file with its private key."] = ""
    allow_anonymous: Annotated[
        bool, "Whether callers on TCP may come without a token or a certificate of their own."
    ] = False
    client_authorities: Annotated[
        str, "PEM file with the authorities of client certificates; clients need one then."
    ] = ""
    administrators: Annotated[
        tuple[str, ...], "Users, @groups and SIDs beside root and the server's user."
    ] = ()
    users: Annotated[dict[str, str], "Users of this computer, by name or number, and their SIDs."] = field(
        default_factory=dict
    )
    tokens: Annotated[dict[str, str], "SHA-256 of bearer tokens, in hexadecimal, and their SIDs."] = field(
        default_factory=dict
    )
    certificates: Annotated[dict[str, str], "Names in client certificates and their SIDs."] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        for table in (self.users, self.tokens, self.certificates):
            for name, sid in table.items():
                try:
                    Sid.parse(sid)
                except (DecodeError, EncodeError, ValueError):
                    raise ConfigError(
                        f"api: {name} = {sid!r} is no SID, which looks like S-1-5-21-1-2-3-1000."
                    ) from None
        try:
            int(self.socket_mode, 8)
        except ValueError:
            raise ConfigError(f"api: socket_mode is {self.socket_mode!r}; write it like 0660.") from None

    @property
    def plate(self) -> Doorplate:
        """The settings that the channel's door needs."""

        def path(text: str) -> Path | None:
            return Path(text) if text else None

        return Doorplate(
            self.listen if self.enabled else (),
            int(self.socket_mode, 8),
            path(self.certificate),
            path(self.private_key),
            path(self.client_authorities),
            Rules(self.users, self.administrators, self.tokens, self.certificates, self.allow_anonymous),
        )

    def reloaded(self, wanted: ApiConfig) -> tuple[ApiConfig, list[str]]:
        """Like :meth:`Config.reloaded`. Admitting clients without a certificate, if they needed one before, takes a
        restart."""
        fixed = {name: getattr(self, name) for name in API_NEEDS_RESTART}
        if bool(self.client_authorities) != bool(wanted.client_authorities):
            fixed["client_authorities"] = self.client_authorities
        left = [f"api.{name}" for name, value in fixed.items() if value != getattr(wanted, name)]
        return replace(wanted, **fixed), left


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration of a daemon."""

    data: Annotated[Path, "Directory of everything the queue manager keeps."] = Path("msmq-data")
    name: Annotated[str, "Name of this computer, as it stands in path names."] = field(
        default_factory=_computer_name
    )
    dns_domain: Annotated[str, "DNS domain of this computer, empty if there is none."] = ""
    listen: Annotated[
        tuple[str, ...],
        "Addresses to listen on, IPv4 or IPv6. Connections to others start from the first one of their family, "
        "unless it stands for all addresses.",
    ] = ("0.0.0.0",)
    port: Annotated[int, "TCP port of sessions, here and on other hosts; 0 for none."] = DEFAULT_PORT
    ping_port: Annotated[int, "UDP port of pings, here and on other hosts; 0 for none."] = DEFAULT_PING_PORT
    enable_ping_service: Annotated[bool, "Whether pings are answered (EnablePingService)."] = False
    ping_before_connecting: Annotated[bool, "Whether a host is pinged before connecting to it."] = False
    max_in_sessions: Annotated[int, "Sessions that others may have open here (MaxInSessions)."] = (
        UNLIMITED_SESSIONS
    )
    max_connections: Annotated[
        int, "Accepted connections there may be: sessions, applications and remote readers together."
    ] = 10_000
    max_connections_per_address: Annotated[
        int, "How many of them one address may have, or one user on a unix socket."
    ] = 1_000
    max_opening_connections: Annotated[
        int,
        "How many of them may be open without a session or a first call. The greediest address pays for more.",
    ] = 500
    opening_timeout_s: Annotated[int, "How long a connection may be like that."] = 20
    lock_out_after: Annotated[
        int,
        "Wrong passwords in a row that lock an account of remote read, wherever they come from; 0 for never.",
    ] = 0
    lock_out_minutes: Annotated[int, "How long it is locked then."] = 15
    max_opening_bytes: Annotated[int, "What a connection may send before its session is open."] = 4_096
    max_unstored_bytes: Annotated[
        int, "What a connection may send ahead of the disk before it is read no further."
    ] = 8 << 20
    max_unstored_total_bytes: Annotated[
        int, "What all connections together may send ahead of the disk before they are read no further."
    ] = 64 << 20
    window_size: Annotated[
        int,
        "Messages a peer may send without an answer. The smaller one of both sides counts; Windows has 64.",
    ] = 512
    tolerate_wrong_message_count: Annotated[
        bool, "Whether a session survives a wrong UserMsgSequenceNumber, which some peers send."
    ] = False
    send_insecure_nacks: Annotated[
        bool, "Whether senders are told of refusals that also tell strangers about this host."
    ] = False
    accepted_hashes: Annotated[
        tuple[str, ...],
        "Hash algorithms whose signatures are believed: md2, md4, md5, sha1, sha256, sha512. All but the last two are "
        "broken or nearly so.",
    ] = ("sha512",)
    accepted_ciphers: Annotated[
        tuple[str, ...],
        "Algorithms that bodies may be encrypted with: rc2, rc4, aes128, aes192, aes256. The first two, which the "
        "privacy levels Base and Enhanced need, are broken.",
    ] = ("aes128", "aes192", "aes256")
    preferred_advanced_algorithm: Annotated[
        str, "What bodies of privacy level Advanced are encrypted with: aes128, aes192 or aes256."
    ] = "aes256"
    preferred_enhanced_algorithm: Annotated[
        str, "What bodies of privacy level Enhanced are encrypted with: rc2 or rc4."
    ] = "rc4"
    preferred_base_algorithm: Annotated[
        str, "What bodies of privacy level Base are encrypted with: rc2 or rc4."
    ] = "rc4"
    send_enhanced_rc2_using_40_bit_keys: Annotated[
        bool, "Whether RC2 keys of level Enhanced have 40 bits only, for very old peers."
    ] = False
    reject_enhanced_rc2_using_40_bit_keys: Annotated[bool, "Whether messages with such keys are refused."] = (
        False
    )
    slow_algorithm_limit_bytes: Annotated[
        int, "The largest message that is signed with md2 or md4 or encrypted with rc2, which are slow here."
    ] = 16_384
    believe_unsigned_senders: Annotated[
        bool,
        "Whether the sender that an unsigned message names counts in access checks. Anybody can name anybody; a "
        "sender whom nothing proves is anonymous otherwise.",
    ] = False
    user_cert_cache_size: Annotated[int, "Certificates kept that the directory has confirmed."] = 53
    receive_symmetric_key_cache_size: Annotated[int, "Keys of received messages kept."] = 127
    send_symmetric_key_cache_size: Annotated[int, "Keys of sent messages kept."] = 53
    enable_report_messages: Annotated[
        bool,
        "Whether messages that ask to be traced are reported to the queue they name (EnableReportMessages).",
    ] = False
    max_incidental_queues: Annotated[
        int,
        "Outgoing queues there may be that no application asked for: for acknowledgments and messages in transit.",
    ] = 1_000
    incidental_queue_idle_s: Annotated[int, "How long such a queue stays when it is empty."] = 600
    routing_refresh_s: Annotated[int, "How long it is remembered what the directory says about routes."] = (
        3_600
    )
    express_limit_bytes: Annotated[int, "Memory that express messages may take."] = 1 << 30
    log_level: Annotated[str, "What is logged: debug, info, warning or error."] = "info"
    log_format: Annotated[str, "How it is logged: text, or json for one object in each line."] = "text"
    directory: Annotated[
        DirectorySettings, "In which directory this host is: none, the file of a workgroup, or a domain."
    ] = field(default_factory=DirectorySettings)
    ha: Annotated[
        HaSettings, "High availability: a log that several instances of this queue manager share."
    ] = field(default_factory=HaSettings)
    rpc: Annotated[RpcSettings, "Remote read."] = field(default_factory=RpcSettings)
    timers: Annotated[TimerSettings, "Times of the protocol, named as in MS-MQQB 3.1.2."] = field(
        default_factory=TimerSettings
    )
    api: Annotated[ApiConfig, "The channel of applications."] = field(default_factory=ApiConfig)
    web: Annotated[WebSettings, "The console."] = field(default_factory=WebSettings)

    def __post_init__(self) -> None:
        for name in ("port", "ping_port"):
            if not 0 <= getattr(self, name) <= 0xFFFF:
                raise ConfigError(f"{name} is {getattr(self, name)}; ports go from 0 to 65535.")
        for address in self.listen:
            try:
                ip_address(address)
            except ValueError:
                raise ConfigError(
                    f"listen: {address} is no IP address; write one like 10.0.0.5 or ::1."
                ) from None
        if not self.listen:
            raise ConfigError("listen: there must be at least one address.")
        if self.log_level.lower() not in LOG_LEVELS:
            raise ConfigError(f"log_level is {self.log_level}; it is one of {', '.join(LOG_LEVELS)}.")
        if self.log_format not in FORMATS:
            raise ConfigError(f"log_format is {self.log_format}; it is one of {', '.join(FORMATS)}.")
        for problem in (self.rpc.problem, self.ha.problem, self.web.problem):
            if problem is not None:
                raise ConfigError(problem)
        _ = self.crypto_policy  # refuses names that there are none of
        if not 1 <= self.window_size <= 0xFFFF:
            raise ConfigError(f"window_size is {self.window_size}; it goes from 1 to 65535.")

    def reloaded(self, wanted: Config) -> tuple[Config, list[str]]:
        """This configuration with the reloadable options of another one, and the names of the options that also differ
        and need a restart."""
        differing = [
            each.name for each in fields(self) if getattr(self, each.name) != getattr(wanted, each.name)
        ]
        taken = {name: getattr(wanted, name) for name in differing if name in RELOADABLE}
        api, left = self.api.reloaded(wanted.api)
        left += [name for name in differing if name not in RELOADABLE and name != "api"]
        return replace(self, api=api, **taken), left

    @property
    def crowding(self) -> Crowding:
        """The limits for connections, as far as the process has file descriptors for them."""
        return Crowding(
            self.max_connections,
            self.max_connections_per_address,
            self.max_opening_connections,
            self.opening_timeout_s,
            descriptors.for_connections(),
            descriptors.at_once(),
        )

    @property
    def crypto_policy(self) -> CryptoPolicy:
        """The settings for signatures and encryption."""
        cipher = partial(_algorithm, EncryptionAlgorithm)
        hashes = frozenset(
            _algorithm(HashAlgorithm, "accepted_hashes", name) for name in self.accepted_hashes
        )
        try:
            return CryptoPolicy(
                hashes=HashPolicy(accepted=hashes),
                ciphers=frozenset(cipher("accepted_ciphers", name) for name in self.accepted_ciphers),
                preferred={
                    level: cipher(option, getattr(self, option)) for level, option in _PREFERRED.items()
                },
                send_enhanced_rc2_using_40_bit_keys=self.send_enhanced_rc2_using_40_bit_keys,
                reject_enhanced_rc2_using_40_bit_keys=self.reject_enhanced_rc2_using_40_bit_keys,
                slow_limit_bytes=self.slow_algorithm_limit_bytes,
                believe_unsigned_senders=self.believe_unsigned_senders,
                user_cert_cache_size=self.user_cert_cache_size,
                user_cert_lifetime_ms=self.timers.user_cert_lifetime_ms,
                receive_symmetric_key_cache_size=self.receive_symmetric_key_cache_size,
                send_symmetric_key_cache_size=self.send_symmetric_key_cache_size,
                symmetric_key_short_lifetime_ms=self.timers.symmetric_key_short_lifetime_ms,
            )
        except ValueError as error:
            raise ConfigError(f"{error}.") from None

    @property
    def own_addresses(self) -> frozenset[str]:
        """The addresses that are certainly ours: those listened on, except wildcards."""
        return frozenset(address for address in self.listen if address not in _WILDCARDS)

    def source_for(self, address: str) -> str | None:
        """The local address for connections to ``address``, None to leave it to the system."""
        version = ip_address(address).version
        ours = next((own for own in self.listen if ip_address(own).version == version), None)
        return None if ours in _WILDCARDS else ours


Algorithm = TypeVar("Algorithm", HashAlgorithm, EncryptionAlgorithm)


def _algorithm(kind: type[Algorithm], option: str, name: str) -> Algorithm:
    try:
        return kind[name.upper()]
    except KeyError:
        known = ", ".join(member.name.lower() for member in kind)
        raise ConfigError(f"{option}: {name} is none of {known}.") from None


def served() -> Config:
    """The defaults of `msmq serve`: those of any daemon, and an open port for remote read."""
    return replace(Config(), rpc=SERVED)


def load(path: Path) -> Config:
    """Read a configuration file; options that it lacks have the defaults of `msmq serve`."""
    try:
        with path.open("rb") as file:
            config = from_table(tomllib.load(file), served())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    rpc, directory = config.rpc.relative_to(path.parent), config.directory.relative_to(path.parent)
    return replace(config, rpc=rpc, directory=directory)


def from_table(table: dict[str, Any], defaults: Config | None = None) -> Config:
    """A configuration from a TOML document; unknown keys and wrong types are refused."""
    config: Config = _read_table(defaults or Config(), table)
    return config


def _read_table(defaults: Any, table: dict[str, Any], prefix: str = "") -> Any:
    return replace(defaults, **{name: _read(defaults, name, value, prefix) for name, value in table.items()})


def _read(defaults: Any, name: str, value: Any, prefix: str = "") -> Any:
    """Read one value, which must have the type of its default."""
    known = {entry.name for entry in fields(defaults)}
    if name not in known:
        raise ConfigError(f"{prefix}{name} is no option.")
    default = getattr(defaults, name)
    if is_dataclass(default):
        if not isinstance(value, dict):
            raise ConfigError(f"{name} is a table: write [{name}].")
        return _read_table(default, value, f"{name}.")
    if isinstance(default, Path) and isinstance(value, str):
        return Path(value)
    if isinstance(default, tuple):
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            return tuple(texts)
    elif isinstance(default, dict):
        if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
            return dict(value)
    elif type(value) is type(default):
        if isinstance(value, int) and value < 0:
            raise ConfigError(f"{prefix}{name} is {value}; it cannot be negative.")
        return value
    raise ConfigError(f"{prefix}{name} is {value!r}, which is not like {_toml(default)}.")


def show(config: Config) -> str:
    """The file that would give a configuration, with the meaning of each option."""
    options, tables = _shown(config)
    for name, (meaning, table) in tables.items():
        options += ["", f"# {meaning}", f"[{name}]", *_shown(table)[0]]
    return "\n".join(options) + "\n"


def _shown(settings: Any) -> tuple[list[str], dict[str, tuple[str, Any]]]:
    """The lines of the options of a dataclass, and by name the meanings and settings of its tables."""
    lines: list[str] = []
    tables: dict[str, tuple[str, Any]] = {}
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        value, meaning = getattr(settings, name), hint.__metadata__[0]
        if is_dataclass(value):
            tables[name] = meaning, value
        else:
            lines += [
                "",
                *wrap(meaning, 118, initial_indent="# ", subsequent_indent="# "),
                f"{name} = {_toml(value)}",
            ]
    return lines[1:], tables


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(text)}" for key, text in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
