"""How well a caller must be authenticated to open a queue (MS-MQRR 3.1.4.2, 5.1, notes 19, 26, 38).

The switches are those of Windows. The level is checked when a queue is opened and for every later call with its
handle. Anybody may connect and ask for the port, which tells nothing of value.
"""

from __future__ import annotations

from dataclasses import dataclass

from msmq.rpc.pdu import AuthLevel


@dataclass(frozen=True, slots=True)
class Policy:
    """Which callers are admitted with less than ``minimum_level``."""

    minimum_level: AuthLevel = AuthLevel.PRIVACY
    allow_nonauthenticated: bool = False
    """Admit callers without authentication (AllowNonauthenticatedRpc)."""
    deny_workgroup: bool = False
    """Limit ``allow_nonauthenticated`` to callers that say they are in a workgroup (DenyWorkgroupClient)."""
    allow_none_security: bool = False
    """Admit callers without authentication to queues that anonymous callers may open (AllowNoneSecurityClient)."""

    def required(self, *, workgroup: bool, anonymous_may: bool) -> AuthLevel:
        """The level that a caller needs. ``workgroup`` is its own claim, ``anonymous_may`` says whether anonymous
        callers may open the queue like this."""
        if self.allow_nonauthenticated and (workgroup or not self.deny_workgroup):
            return AuthLevel.NONE
        if self.allow_none_security and anonymous_may:
            return AuthLevel.NONE
        return self.minimum_level
