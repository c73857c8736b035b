"""Plain random mutation with a fixed seed: a fuzzer that runs anywhere and always does the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

INTERESTING = (0, 1, 2, 3, 4, 8, 0x10, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF)
INTERESTING_LARGE = (0x10000, 0x400000, 0x400001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF)


def mutations(seeds: Sequence[bytes], count: int, max_len: int, seed: int) -> Iterator[bytes]:
    """``count`` inputs, each a seed after one to six changes."""
    dice = random.Random(seed)
    for _ in range(count):
        data = bytearray(dice.choice(seeds))
        for _ in range(dice.randint(1, 6)):
            dice.choice(_CHANGES)(dice, data, seeds)
        yield bytes(data[:max_len])


def _flip(dice: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _set_byte(dice: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] = dice.randrange(256)


def _set_number(dice: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    width = dice.choice((2, 4, 8))
    if len(data) >= width:
        at = dice.randrange(len(data) - width + 1)
        number = dice.choice((*INTERESTING, *INTERESTING_LARGE, len(data), len(data) - at))
        data[at : at + width] = (number & (1 << 8 * width) - 1).to_bytes(width, "little")


def _insert(dice: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    at = dice.randint(0, len(data))
    data[at:at] = bytes([dice.choice((0, 0xFF, dice.randrange(256)))]) * dice.choice((1, 2, 4, 16))


def _delete(dice: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    at = dice.randint(0, len(data))
    del data[at : at + dice.choice((1, 2, 4, 16))]


def _repeat(dice: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    at = dice.randint(0, len(data))
    data[at:at] = data[at : at + dice.choice((2, 4, 8, 32))]


def _truncate(dice: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    del data[dice.randint(0, len(data)) :]


def _splice(dice: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = dice.choice(seeds)
    data[dice.randint(0, len(data)) :] = other[dice.randint(0, len(other)) :]


_CHANGES: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...] = (
    *(_flip, _set_byte, _set_number, _insert, _delete, _repeat, _truncate, _splice),
)


def claimed_lengths(seed: bytes, widths: Sequence[int] = (2, 4)) -> Iterator[bytes]:
    """``seed`` with each of its numbers, wherever they may lie, claiming far more than there is."""
    for width in widths:
        for number in (0x7F << 8 * (width - 1), (1 << 8 * width) - 1):
            claim = number.to_bytes(width, "little")
            for at in range(0, len(seed) - width + 1, 2):
                yield seed[:at] + claim + seed[at + width :]
