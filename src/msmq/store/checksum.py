"""The checksum of everything that the store writes: zlib's CRC-32, computed by the fastest library that is installed.

zlib-ng computes the same numbers in an eighth of the time for large bodies, and in a quarter for small messages. Where
there is no build of it, Python's own zlib is used.
"""

from __future__ import annotations

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
