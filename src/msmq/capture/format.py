"""The formats of files with packets; in a module of its own, because the help of the command line needs nothing
else."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """The format of the input."""

    AUTO = "auto"
    HEX = "hex"
    RAW = "raw"
    PCAP = "pcap"
