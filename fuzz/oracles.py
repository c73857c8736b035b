"""What every fuzz target asks of the code under test; no fuzzing engine is needed to ask it.

A decoder may refuse its input in one way only: with the error its documentation names. Anything else that
escapes is a finding, and so is a broken promise: a value that does not survive being written and read again,
a byte too many that is accepted, memory out of proportion to the input.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from msmq.errors import DecodeError, MQError

T = TypeVar("T")

MEMORY_CONSTANT = 96 * 1024
"""What one call may take whatever its input: objects, caches that fill up, the texts of errors."""


class BrokenPromiseError(AssertionError):
    """The code under test broke a promise."""


@dataclass(frozen=True, slots=True)
class Target:
    """One entry point and the promises it makes."""

    name: str
    check: Callable[[bytes], None]
    max_len: int
    weight: int
    """Its share of a campaign, in proportion to the weights of the others."""
    memory_factor: int
    """How many bytes of memory one byte of input may cost."""
    text: bool
    """Whether the input is text, and so takes the dictionary of names."""

    @property
    def dictionary(self) -> str:
        return "text.dict" if self.text else "binary.dict"


TARGETS: dict[str, Target] = {}
"""Every target by its name; `fuzz.targets` fills it."""


def target(
    *, max_len: int = 1024, weight: int = 1, memory_factor: int = 32, text: bool = False
) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
    """Enter a function into `TARGETS` under its own name."""

    def enter(check: Callable[[bytes], None]) -> Callable[[bytes], None]:
        name = check.__name__
        TARGETS[name] = Target(name, check, max_len, weight, memory_factor, text)
        return check

    return enter


def require(promise: bool, what: str) -> None:
    if not promise:
        raise BrokenPromiseError(what)


def attempt(read: Callable[..., T], *arguments: Any, **options: Any) -> T | None:
    """What ``read`` gives, or None when it refuses its bytes as it may."""
    try:
        return read(*arguments, **options)
    except DecodeError:
        return None


def attempt_text(parse: Callable[..., T], *arguments: Any, **options: Any) -> T | None:
    """The same for the parsers of names, which answer with a status of MS-MQMQ 2.4."""
    try:
        return parse(*arguments, **options)
    except (MQError, DecodeError):
        return None


def refuses(read: Callable[..., object], data: bytes, **options: Any) -> bool:
    try:
        read(data, **options)
    except DecodeError:
        return True
    return False


def require_exact(read: Callable[..., object], data: bytes, **options: Any) -> None:
    """``read`` took ``data``, so with one byte more or less it must not."""
    require(refuses(read, data + b"\0", **options), "a trailing byte was accepted")
    require(refuses(read, data[:-1], **options), "the last byte was not missed")


def as_text(data: bytes) -> str:
    """Every text can be reached, lone surrogates included, and every input is a text."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def memory_limit(target: Target, data: bytes) -> int:
    return MEMORY_CONSTANT + target.memory_factor * len(data)


def check_memory(target: Target, data: bytes) -> None:
    """Run the target with its allocations counted; tracemalloc may be on already."""
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start(1)
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        target.check(data)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        if started:
            tracemalloc.stop()
    limit = memory_limit(target, data)
    require(peak <= limit, f"{len(data)} bytes of input took {peak} bytes of memory, above {limit}")
