"""Finding out which packets are requests and which are responses: in captures by direction, otherwise by matching them
with earlier packets."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msmq.capture.inputs import Origin
from msmq.wire.describe import Description
from msmq.wire.explain import Role
from msmq.wire.packets import ConnectionParameters, EstablishConnection, Ping

_REMEMBERED: Final = 1024


class Story:
    """Remembers a bounded number of unanswered requests."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[str, int], None] = OrderedDict()

    def role(self, description: Description, origin: Origin | None) -> Role:
        if origin is not None:
            return Role.REQUEST if origin.from_initiator else Role.RESPONSE
        packet = description.decoded
        if isinstance(packet, Ping):
            return self._pair("Ping", packet.cookie)
        if isinstance(packet, EstablishConnection):
            return self._pair("EstablishConnection", packet.header.time_stamp)  # the answer repeats it
        if isinstance(packet, ConnectionParameters):
            return self._pair("ConnectionParameters", 0)
        return Role.UNKNOWN

    def _pair(self, kind: str, mark: int) -> Role:
        """The role of a packet: the second one with the same mark answers the first."""
        key = (kind, mark)
        if key in self._asked:
            del self._asked[key]
            return Role.RESPONSE
        self._asked[key] = None
        if len(self._asked) > _REMEMBERED:
            self._asked.popitem(last=False)
        return Role.REQUEST
