"""Many parts of bytes that are written together, joined to few pieces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def gathered(parts: Sequence[bytes], large: int) -> list[bytes]:
    """Join neighbours of fewer than ``large`` bytes. Larger parts are pieces of their own, and are not copied."""
    if max(map(len, parts), default=0) < large:
        return [b"".join(parts)]
    pieces: list[bytes] = []
    for is_large, group in groupby(parts, lambda part: len(part) >= large):
        together = list(group)
        pieces += together if is_large else (b"".join(together),)
    return pieces
