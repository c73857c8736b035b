"""Memory that stays with the process, and memory that does not."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from msmq.server import allocator

FREED = """
import resource, sys
from msmq.server.allocator import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    assert keep_freed_memory()
body = bytes(3_900_000)
for _ in range(3):
    first = body + b"a"; second = first[1:]; third = second + b"b"
    del first, second, third
before = faults()
for _ in range(10):
    first = body + b"a"; second = first[1:]; third = second + b"b"
    del first, second, third
print(faults() - before)
"""
"""Large bodies that are copied and freed, and how many pages the system had to make for that."""
MANY = """
import resource, sys
from msmq.server.allocator import keep_freed_memory

assert keep_freed_memory()
def hold(count):
    return [bytes(bytearray(3_900_000)) for _ in range(count)]
hold(45)  # more than may stay
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
hold(20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

BETWEEN = """
import os
from pathlib import Path
from msmq.server.allocator import give_back_freed_memory, keep_freed_memory

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

assert keep_freed_memory()
held = [bytes(bytearray(1 << 20)) for _ in range(200)]
del held[:-2:2], held[:-40]
before = resident_mb()
assert give_back_freed_memory()
print(before - resident_mb())
"""
"""Blocks of a megabyte, most of them freed from between the others."""


def page_faults(program: str, how: str = "") -> int:
    done = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_large_bodies_are_copied_into_memory_that_is_there() -> None:
    assert os.confstr("CS_GNU_LIBC_VERSION")
    assert page_faults(FREED, "kept") < page_faults(FREED, "given back") / 4


def test_not_all_memory_goes_when_there_is_too_much_of_it() -> None:
    assert page_faults(MANY) < 20 * 3_900_000 // os.sysconf("SC_PAGE_SIZE") / 4


def test_a_library_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not allocator.keep_freed_memory()
    assert not allocator.give_back_freed_memory()


def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allocator.keep_freed_memory()
    assert not allocator.give_back_freed_memory()


def test_what_is_free_between_what_is_in_use_is_given_back() -> None:
    assert (
        int(
            subprocess.run([sys.executable, "-c", BETWEEN], capture_output=True, text=True, check=True).stdout
        )
        > 60
    )
