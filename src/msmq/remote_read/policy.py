"""How well a caller must be authenticated to open a queue (MS-MQRR 3.1.4.2, 5.1, notes 19, 26, 38).

The switches are those that Windows has; the level is asked for when a queue is opened and for every later call on its
handle. Connecting and asking for the port are free: there is nothing to be learned from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from msmq.rpc.pdu import AuthLevel


@dataclass(frozen=True, slots=True)
class Policy:
    """Which callers may come with less than ``minimum_level``."""

    minimum_level: AuthLevel = AuthLevel.PRIVACY
    allow_nonauthenticated: bool = False
    """Callers without authentication (AllowNonauthenticatedRpc), those that say they are in a workgroup at least."""
    deny_workgroup: bool = False
    """Only those that say so, not everybody (DenyWorkgroupClient)."""
    allow_none_security: bool = False
    """Callers without authentication where the queue lets anonymous callers in (AllowNoneSecurityClient)."""

    def required(self, *, workgroup: bool, anonymous_may: bool) -> AuthLevel:
        """The level a caller needs. ``workgroup`` is what it says of itself, ``anonymous_may`` whether the queue could
        be opened like this by anybody."""
        if self.allow_nonauthenticated and (workgroup or not self.deny_workgroup):
            return AuthLevel.NONE
        if self.allow_none_security and anonymous_may:
            return AuthLevel.NONE
        return self.minimum_level
