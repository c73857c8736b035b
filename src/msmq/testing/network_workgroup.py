"""The directory of a simulated network whose hosts reach each other only through one of them."""

from __future__ import annotations

from collections.abc import Mapping

from msmq.directory.local import LocalDirectory
from msmq.testing.network_book import QueueKey


class Workgroup:
    """Hosts that reach each other only through one of them, and the names of their queues."""

    def __init__(self, addresses: Mapping[str, str], router: str) -> None:
        """``addresses`` maps the names of the hosts to their addresses."""
        self.directory = LocalDirectory(
            {
                "sites": [{"name": "Paris"}],
                "hosts": [
                    {
                        "name": name,
                        "addresses": [address],
                        "sites": ["Paris"],
                        **({"routing_server": True} if name == router else {"out_routing_servers": [router]}),
                    }
                    for name, address in addresses.items()
                ],
            }
        )
        self.router = addresses[router]
        self.names: dict[QueueKey, str] = {}

    def between(self, source: str, target: str) -> str:
        """Return the address of the router between two hosts, or an empty text if one of them is the router."""
        return "" if self.router in (source, target) else self.router
