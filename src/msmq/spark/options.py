"""The options of the source and of the sink, read once and checked at once.

Options are named like those of Spark's connector for Kafka where it has the same. A token is kept out of every text:
`repr` of options shows none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from msmq.spark.bodies import BODY_READERS
from msmq.spark.offsets import Offset, OffsetError
from msmq.spark.telling import PlainError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BROWSE: Final = "browse"
CONSUME: Final = "consume"
ACCESS_OPTIONS: Final = (
    "server", "token", "tokenFile", "authorities", "user", "password", "passwordFile", "timeout",
)  # fmt: skip
SOURCE_OPTIONS: Final = (
    *ACCESS_OPTIONS, "queue", "queues", "queuePattern", "mode", "checkpointLocation", "startingOffsets",
    "endingOffsets", "maxMessagesPerTrigger", "maxBytesPerTrigger", "failOnDataLoss", "body", "includeHeaders",
    "pushFilters", "partitions",
)  # fmt: skip
MAX_BYTES: Final = 128 << 20
"""Of one batch of a stream, where nobody says otherwise. What the sinks of Spark hold of it at once fits into the
gigabyte that its virtual machine usually has."""
_LEAST_TIMEOUT_S: Final = 0.001
REMOTE_READ: Final = "mqrr:"
"""How a server that is read by MS-MQRR begins."""

_T = TypeVar("_T")


class OptionError(PlainError, ValueError):
    """An option that cannot be."""


def check_names(options: Mapping[str, str], known: Collection[str]) -> None:
    """
    Raises:
        OptionError: an option is given that there is not, and would silently do nothing.
    """
    spelt = {name.lower(): name for name in known}
    for name in options:
        if name.lower() not in spelt:
            near = get_close_matches(name.lower(), spelt, 1)
            meant = f"Is {spelt[near[0]]} meant?" if near else f"There are: {', '.join(known)}."
            raise OptionError(f"There is no option {name}. {meant}")


@dataclass(frozen=True, slots=True)
class Access:
    """Where the queue manager is, and as whom to come."""

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
    """Something that is given as it is, in a file, or in a variable."""
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
    queues: tuple[str, ...]
    pattern: str | None
    starting: str | Offset
    ending: str | Offset
    consume: bool
    fail_on_data_loss: bool
    include_headers: bool
    body: str
    partitions: int | None
    max_messages: int
    max_bytes: int
    checkpoint: str | None
    push_filters: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        check_names(options, SOURCE_OPTIONS)
        queues, pattern = _queues(options)
        consume = _choice(options, "mode", (BROWSE, CONSUME)) == CONSUME
        return cls(
            access=Access.of(options),
            queues=queues,
            pattern=pattern,
            starting=_offset(options, "startingOffsets", EARLIEST, queues, pattern),
            ending=_offset(options, "endingOffsets", LATEST, queues, pattern),
            consume=consume,
            fail_on_data_loss=_truth(options, "failOnDataLoss", consume),
            include_headers=_truth(options, "includeHeaders", False),
            body=_choice(options, "body", tuple(BODY_READERS)),
            partitions=_number(options, "partitions", 1, int),
            max_messages=_number(options, "maxMessagesPerTrigger", 1, int) or 0,
            max_bytes=_number(options, "maxBytesPerTrigger", 1, int) or MAX_BYTES,
            checkpoint=options.get("checkpointLocation"),
            push_filters=_truth(options, "pushFilters", False),
        )


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
) -> str | Offset:
    value = options.get(name, usual)
    if value.lower() in (EARLIEST, LATEST):
        if name == "endingOffsets" and value.lower() == EARLIEST:
            raise OptionError("endingOffsets: nothing lies before the earliest message.")
        return value.lower()
    try:
        offset = Offset.parse(value)
    except OffsetError as error:
        raise OptionError(f"{name}: {error}") from error
    if pattern is None:
        others = [queue for queue in offset.queues if queue not in queues]
    else:
        others = [queue for queue in offset.queues if not re.fullmatch(pattern, queue, re.IGNORECASE)]
    if others:
        raise OptionError(
            f"{name} has positions in queues that are not read: {', '.join(others)}. Names of queues are spelt there "
            "as in the options queue and queues, or as rows have them."
        )
    return offset


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
