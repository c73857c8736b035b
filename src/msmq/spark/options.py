"""The options of the source and the sink, parsed and checked once.

Options have the same names as in Spark's connector for Kafka, where it has them. Tokens are kept out of all texts:
`repr` of options shows none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from socket import gethostname
from typing import Any, Final, TypeVar

from msmq.spark.bodies import BODY_READERS
from msmq.spark.offsets import FleetOffset, OffsetError
from msmq.spark.telling import PlainError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BROWSE: Final = "browse"
CONSUME: Final = "consume"
ACCESS_OPTIONS: Final = (
    "server", "token", "tokenFile", "authorities", "user", "password", "passwordFile", "timeout",
)  # fmt: skip
EXTRA_OPTIONS: Final = ("includeText", "includeValue", "includeHeaders")
SOURCE_OPTIONS: Final = (
    *ACCESS_OPTIONS, "servers", "serversFile", "serversDirectory", "serversAddress", "serversSite",
    "failOnUnreachable", "queue", "queues", "queuePattern", "mode", "checkpointLocation", "startingOffsets",
    "startingTimestamp", "endingOffsets", "endingTimestamp", "minMessagesPerTrigger", "maxTriggerDelay",
    "maxMessagesPerTrigger", "maxBytesPerTrigger", "failOnDataLoss", "body", *EXTRA_OPTIONS, "pushFilters",
    "partitions", "minPartitions",
)  # fmt: skip
_MAX_DELAY_S: Final = 900.0
MAX_BYTES: Final = 128 << 20
"""The default size of a batch of a stream. What Spark's sinks hold of it at once fits into the gigabyte that its
virtual machine usually has."""
_LEAST_TIMEOUT_S: Final = 0.001
REMOTE_READ: Final = "mqrr:"
"""The prefix of a server that is read by MS-MQRR."""

USUAL_ADDRESS: Final = "tls:{host}:8181"
_NOT_PUBLIC: Final = ("private$", "system$", "deadletter$", "xactdeadletter$", "journal$")
"""Prefixes of queues that no directory lists."""

_OF_A_TABLE: Final = "provider"
"""The key that Spark adds to the options when a table of its catalog is made."""

_T = TypeVar("_T")


class OptionError(PlainError, ValueError):
    """An option with an impossible value."""


def check_names(options: Mapping[str, str], known: Collection[str]) -> None:
    """Check the names of options.

    Raises:
        OptionError: an option is unknown, and would silently do nothing.
    """
    if _OF_A_TABLE in options:
        raise OptionError(
            "Spark keeps the options of CREATE TABLE ... USING msmq to itself when the table is read: nobody could "
            "read it. CREATE TEMPORARY VIEW ... USING msmq OPTIONS (...) has them."
        )
    spelt = {name.lower(): name for name in known}
    for name in options:
        if name.lower() not in spelt:
            near = get_close_matches(name.lower(), spelt, 1)
            meant = f"Is {spelt[near[0]]} meant?" if near else f"There are: {', '.join(known)}."
            raise OptionError(f"There is no option {name}. {meant}")


@dataclass(frozen=True, slots=True)
class Access:
    """The address of the queue manager, and the credentials for it."""

    server: str | None = None
    token: str | None = field(default=None, repr=False)
    authorities: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout_s: float = 30.0

    @property
    def by_remote_read(self) -> bool:
        return self.server is not None and self.server.startswith(REMOTE_READ)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Access:
        return cls(
            options.get("server"),
            _secret(options, "token", "MSMQ_TOKEN"),
            options.get("authorities"),
            options.get("user"),
            _secret(options, "password", "MSMQ_PASSWORD"),
            _number(options, "timeout", _LEAST_TIMEOUT_S, float) or 30.0,
        )


def _secret(options: Mapping[str, str], name: str, variable: str) -> str | None:
    """Return a secret that is given directly, in a file, or in a variable."""
    file = options.get(f"{name}File")
    if options.get(name) is not None or file is None:
        return options.get(name) or os.environ.get(variable)
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OptionError(f"{name}File: {error}") from error


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, and how."""

    access: Access
    servers: tuple[str, ...]
    servers_file: str | None
    directory: str | None
    """The configuration of a queue manager, which says where the directory is that lists the servers."""
    address: str
    """How the names in the directory are turned into addresses."""
    site: str | None
    fail_on_unreachable: bool
    queues: tuple[str, ...]
    pattern: str | None
    starting: str | FleetOffset
    starting_time_s: float | None
    ending: str | FleetOffset
    ending_time_s: float | None
    consume: bool
    fail_on_data_loss: bool
    extras: tuple[str, ...]
    """The options that add columns."""
    body: str
    partitions: int | None
    min_partitions: int
    max_messages: int
    min_messages: int
    max_delay_s: float
    """How long a batch waits for ``min_messages`` messages."""
    max_bytes: int
    checkpoint: str | None
    push_filters: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        check_names(options, SOURCE_OPTIONS)
        queues, pattern = _queues(options)
        consume = _choice(options, "mode", (BROWSE, CONSUME)) == CONSUME
        servers, servers_file = _servers(options)
        starting_s, ending_s = _time(options, "starting", "begin"), _time(options, "ending", "end")
        return cls(
            access=Access.of(options),
            servers=servers,
            servers_file=servers_file,
            directory=options.get("serversDirectory"),
            address=_address(options),
            site=options.get("serversSite"),
            fail_on_unreachable=_truth(options, "failOnUnreachable", True),
            queues=queues,
            pattern=pattern,
            starting=_offset(options, "startingOffsets", EARLIEST, queues, pattern),
            starting_time_s=starting_s,
            ending=_offset(options, "endingOffsets", LATEST, queues, pattern),
            ending_time_s=ending_s,
            consume=consume,
            fail_on_data_loss=_truth(options, "failOnDataLoss", consume),
            extras=tuple(name for name in EXTRA_OPTIONS if _truth(options, name, False)),
            body=_choice(options, "body", tuple(BODY_READERS)),
            partitions=_number(options, "partitions", 1, int),
            min_partitions=_number(options, "minPartitions", 1, int) or 0,
            max_messages=_number(options, "maxMessagesPerTrigger", 1, int) or 0,
            min_messages=_number(options, "minMessagesPerTrigger", 1, int) or 0,
            max_delay_s=_number(options, "maxTriggerDelay", _LEAST_TIMEOUT_S, float) or _MAX_DELAY_S,
            max_bytes=_number(options, "maxBytesPerTrigger", 1, int) or MAX_BYTES,
            checkpoint=options.get("checkpointLocation"),
            push_filters=_truth(options, "pushFilters", False),
        )

    def accesses(self) -> dict[str, Access]:
        """Return the servers by their names; the only one of the option ``server`` has an empty name."""
        names = self.servers if self.servers_file is None else _names_in(self.servers_file)
        return {name: self.access_to(name) for name in names or ("",)}

    def access_to(self, name: str) -> Access:
        """Return the access to a server of that name; tasks on executors have no list of them."""
        return replace(self.access, server=name) if name else self.access

    @property
    def holder(self) -> str:
        """The name of the consumer, for others that would like to consume."""
        return f"process {os.getpid()} on {gethostname()} with the checkpoint {self.checkpoint}"


def _time(options: Mapping[str, str], which: str, what: str) -> float | None:
    time_ms = _number(options, f"{which}Timestamp", 0, int)
    if time_ms is not None and f"{which}Offsets" in options:
        raise OptionError(f"Say where to {what} by {which}Offsets or by {which}Timestamp, not by both.")
    return None if time_ms is None else time_ms / 1_000


def _servers(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    given = [name for name in ("server", "servers", "serversFile", "serversDirectory") if options.get(name)]
    if len(given) > 1:
        raise OptionError(f"Say where to read by one of the options {' and '.join(given)}.")
    file = options.get("serversFile")
    if file is not None:
        _names_in(file)
        return (), file
    names = [name.strip() for name in options.get("servers", "").split(",") if name.strip()]
    if options.get("servers") is not None and not names:
        raise OptionError("servers names none: addresses are separated by commas.")
    return tuple(dict.fromkeys(names)), None


def _address(options: Mapping[str, str]) -> str:
    for name in ("serversAddress", "serversSite"):
        if name in options and "serversDirectory" not in options:
            raise OptionError(f"{name} is for servers that a directory lists: serversDirectory says which.")
    address = options.get("serversAddress", USUAL_ADDRESS)
    try:
        made = address.format(host="host", computer="COMPUTER")
    except (KeyError, IndexError, ValueError):
        made = address
    if made == address:
        raise OptionError(
            f"serversAddress is an address with {{host}} or {{computer}} in it, as in {USUAL_ADDRESS}, not {address!r}."
        )
    return address


def _names_in(file: str) -> list[str]:
    """Return the addresses in a file, one per line; text after a number sign is a comment."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise OptionError(f"serversFile: {error}") from error
    names = [name for line in lines if (name := line.partition("#")[0].strip())]
    if not names:
        raise OptionError(f"serversFile: there is no address in {file}.")
    return list(dict.fromkeys(names))


def _queues(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    given = [name for name in ("queue", "queues", "queuePattern") if options.get(name)]
    if len(given) != 1:
        raise OptionError(
            "Say what to read by one of the options queue, queues (separated by commas) and queuePattern (a regular "
            f"expression); {' and '.join(given) or 'none of them'} was given."
        )
    value = options[given[0]]
    if given[0] == "queue":
        return (value.strip(),), None
    if given[0] == "queues":
        names = [name.strip() for name in value.split(",") if name.strip()]
        return tuple(dict.fromkeys(names)), None
    try:
        re.compile(value)
    except re.error as error:
        raise OptionError(f"queuePattern is no regular expression: {error}") from error
    return (), value


def _offset(
    options: Mapping[str, str], name: str, usual: str, queues: tuple[str, ...], pattern: str | None
) -> str | FleetOffset:
    value = options.get(name, usual)
    if value.lower() in (EARLIEST, LATEST):
        if name == "endingOffsets" and value.lower() == EARLIEST:
            raise OptionError("endingOffsets: nothing lies before the earliest message.")
        return value.lower()
    try:
        offset = FleetOffset.parse(value)
    except OffsetError as error:
        raise OptionError(f"{name}: {error}") from error
    named = {queue for part in offset.parts.values() for queue in part.queues}
    if pattern is None:
        known = {_inside(queue) for queue in queues}
        others = [queue for queue in named if _inside(queue) not in known]
    else:  # only the server knows its computer
        others = [
            queue
            for queue in named
            if not queue.startswith(".") and not re.fullmatch(pattern, queue, re.IGNORECASE)
        ]
    if others:
        raise OptionError(
            f"{name} has positions in queues that are not read: {', '.join(sorted(others))}. Names of queues are spelt "
            "there as in the options queue and queues, or as rows have them."
        )
    return offset


def _inside(queue: str) -> str:
    """Return the name of a queue without its computer."""
    return (queue.partition("\\")[2] or queue).lower()


def public_name(queue: str) -> str | None:
    """Return the name of a public queue on its computer; None for other queues."""
    name = _inside(queue)
    return None if "=" in queue or name.startswith(_NOT_PUBLIC) else name.partition(";")[0]


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name, choices[0]).lower()
    if value not in choices:
        raise OptionError(f"{name} is one of {', '.join(choices)}, not {value!r}.")
    return value


def _truth(options: Mapping[str, str], name: str, usual: bool) -> bool:
    value = options.get(name)
    if value is None:
        return usual
    if value.lower() not in ("true", "false"):
        raise OptionError(f"{name} is true or false, not {value!r}.")
    return value.lower() == "true"


def _number(options: Mapping[str, str], name: str, least: float, kind: type[_T]) -> _T | None:
    value = options.get(name)
    if value is None:
        return None
    try:
        number: Any = kind(value)  # type: ignore[call-arg]
    except ValueError:
        raise OptionError(f"{name} is a number, not {value!r}.") from None
    if not number >= least:
        raise OptionError(f"{name} is at least {least}, not {value}.")
    return number  # type: ignore[no-any-return]
