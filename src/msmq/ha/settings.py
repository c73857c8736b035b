"""The table ``[ha]`` of the configuration: where the shared log is, and the times of the lease."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Annotated, Final

SCHEMES: Final = ("postgresql://", "postgres://")
_LEAST_RENEWALS: Final = 3


def _instance_name() -> str:
    return socket.gethostname()


@dataclass(frozen=True, slots=True)
class HaSettings:
    """The settings by which instances of one queue manager share a log."""

    store: Annotated[
        str,
        "Where the log is: postgresql://USER@HOST1,HOST2,HOST3/DATABASE, with sslmode=verify-full for TLS. The "
        "password comes from PGPASSWORD or ~/.pgpass. Empty: in the directory of this queue manager, and nowhere else.",
    ] = ""
    instance: Annotated[
        str, "Name of this instance, another one for each; that of the computer when not given."
    ] = field(default_factory=_instance_name)
    schema: Annotated[str, "Schema of the tables; queue managers that share a database have one each."] = (
        "msmq"
    )
    lease_ms: Annotated[
        int, "How long a leader leads without renewing its lease; others take over when it has run out."
    ] = 4_000
    renew_ms: Annotated[int, "How often a leader renews its lease."] = 1_000
    poll_ms: Annotated[int, "How often a standby fetches what is new."] = 200
    health: Annotated[str, "HOST:PORT where /live, /ready and /leader answer; empty for nowhere."] = ""
    on_change: Annotated[
        str,
        "Command that is run with `leader` or `standby` behind it whenever that changes, to move an address.",
    ] = ""

    @property
    def problem(self) -> str | None:
        """What is wrong with these settings, or None."""
        if self.store and not self.store.startswith(SCHEMES):
            return f"ha.store is {self.store}; it begins with postgresql://."
        if self.lease_ms < _LEAST_RENEWALS * self.renew_ms or self.renew_ms < 1 or self.poll_ms < 1:
            return f"ha.lease_ms is {self.lease_ms} and ha.renew_ms {self.renew_ms}; at least three renewals fit."
        if not self.schema.replace("_", "").isalnum() or not self.schema[0].isalpha():
            return f"ha.schema is {self.schema}; write letters, digits and underscores."
        if self.health and not self.health.rpartition(":")[2].isdecimal():
            return f"ha.health is {self.health}; write HOST:PORT."
        return None
