"""How the hosts of the simulated network name their queues: in a directory if one of them is a router, and by numbers
that name nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final, Self

from msmq.directory.local import LocalDirectory
from msmq.manager.messages.message import CodedName, CodedNames, Message
from msmq.testing.network_book import QueueKey
from msmq.wire.headers import QueueReference

_BY_NUMBER: Final = "DIRECT=OS:elsewhere\\private$\\by-number"


class AnsweredByNumber(Message):
    """A message as other programs may write it: its administration queue is a number on the destination's host. Beside
    a direct name, which does not tell the GUID of that host, the number names nothing."""

    @classmethod
    def of(cls, message: Message) -> Self:
        by_number = cls(**{each.name: getattr(message, each.name) for each in fields(message)})
        # Queue managers remember kinds of messages by their properties: give this message a kind of its own.
        by_number.administration_queue_format_name = _BY_NUMBER
        return by_number

    def coded_names(self) -> CodedNames:
        by_number = CodedName(QueueReference.PRIVATE_ON_DESTINATION, 7)
        return super().coded_names()._replace(administration=by_number)


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
