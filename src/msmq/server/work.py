"""Counters of the daemon's work since its start: commits, their duration, delays of the loop, and the resources it
uses."""

from __future__ import annotations

import os
import shutil
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msmq.api.generated import msmq_pb2 as pb

_SECONDS: Final = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_RECORDS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000)
_BYTES: Final = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24)


class Histogram:
    """Counts values by size."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def to_proto(self) -> pb.Histogram:
        return pb.Histogram(bounds=self._bounds, counts=self.counts, sum=self.total)


class Work:
    """The figures of one daemon."""

    def __init__(self) -> None:
        self.commit_seconds = Histogram(_SECONDS)
        self.commit_bytes = Histogram(_BYTES)
        self.commit_records = Histogram(_RECORDS)
        self.loop_lag_seconds = Histogram(_SECONDS)
        self._durable: Callable[[], int] = lambda: 0
        self._counted = 0

    def follow(self, durable: Callable[[], int]) -> None:
        """Start counting commits, by the number of durable records in the store."""
        self._durable, self._counted = durable, durable()

    def committed(self, size: int, seconds: float) -> None:
        """Count a batch of this size that was written in this time."""
        durable = self._durable()
        self.commit_seconds.add(seconds)
        self.commit_bytes.add(size)
        self.commit_records.add(durable - self._counted)
        self._counted = durable

    def late(self, seconds: float) -> None:
        """Count how late the loop was with its periodic work."""
        self.loop_lag_seconds.add(max(seconds, 0.0))

    def to_proto(
        self, store_bytes: int, store_live_bytes: int, attempts: Mapping[str, int], directory: Path
    ) -> pb.Work:
        return pb.Work(
            commits_total=sum(self.commit_bytes.counts),
            committed_bytes_total=int(self.commit_bytes.total),
            commit_seconds=self.commit_seconds.to_proto(),
            commit_bytes=self.commit_bytes.to_proto(),
            loop_lag_seconds=self.loop_lag_seconds.to_proto(),
            store_bytes=store_bytes,
            store_live_bytes=store_live_bytes,
            commit_records=self.commit_records.to_proto(),
            connection_attempts=attempts,
            memory_bytes=memory_bytes(),
            disk_free_bytes=disk_free_bytes(directory),
        )


def memory_bytes() -> int:
    """The memory that this process uses; 0 if the system does not tell."""
    if sys.platform == "win32":
        return 0
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def disk_free_bytes(directory: Path) -> int:
    """The free bytes on the disk of a directory; 0 if the system does not tell."""
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return 0
