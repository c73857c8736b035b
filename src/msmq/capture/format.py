"""How a file with packets is written; by itself, because the help of the command line needs nothing else."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How the input is written."""

    AUTO = "auto"
    HEX = "hex"
    RAW = "raw"
    PCAP = "pcap"
