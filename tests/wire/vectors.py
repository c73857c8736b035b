"""The eight frames of MS-MQQB 4.1, from tests/vectors.

Each is a dump (``.hex``) and a description (``.json``) of where every field lies, which value the
specification prints for it and which bytes can be trusted. Frame 7 is cut short in the specification; its
completed form continues the body and adds the padding.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent.parent / "vectors"


@dataclass(frozen=True)
class Vector:
    name: str

    @cached_property
    def data(self) -> bytes:
        return bytes.fromhex((HOME / f"{self.name}.hex").read_text("ascii"))

    @cached_property
    def description(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads((HOME / f"{self.name}.json").read_text("utf-8"))
        return described

    def trusted(self, offset: int, size: int) -> bool:
        """Whether the dump can be believed in all of these bytes."""
        ranges = self.description["byte_ranges"]["trusted"]
        return any(start <= offset and offset + size <= end for start, end in ranges)


PING_REQUEST = Vector("frame01_ping_request")
PING_RESPONSE = Vector("frame02_ping_response")
ESTABLISH_REQUEST = Vector("frame03_establish_connection_request")
ESTABLISH_RESPONSE = Vector("frame04_establish_connection_response")
PARAMETERS_REQUEST = Vector("frame05_connection_parameters_request")
PARAMETERS_RESPONSE = Vector("frame06_connection_parameters_response")
USER_MESSAGE_DUMP = Vector("frame07_user_message")
USER_MESSAGE = Vector("frame07_user_message_completed")
SESSION_ACK = Vector("frame08_session_ack")

PINGS = [PING_REQUEST, PING_RESPONSE]
SESSION_PACKETS = [
    ESTABLISH_REQUEST,
    ESTABLISH_RESPONSE,
    PARAMETERS_REQUEST,
    PARAMETERS_RESPONSE,
    USER_MESSAGE,
    SESSION_ACK,
]
