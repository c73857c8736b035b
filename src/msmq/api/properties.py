"""The properties of queues and of the queue manager, with their names and numbers of MS-MQMQ 2.3."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.manager.queues.properties import SECURITY_PROPIDS
from msmq.security.access import Token
from msmq.wire.properties import TABLES, ObjectType, Use, value_texts
from msmq.wire.variant import VT, Variant, vt_name


class PropertyCalls:
    """The call GetProperties."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._administration = desk.manager.administration

    async def get_properties(self, request: pb.GetPropertiesRequest, caller: Token) -> pb.Properties:
        """The properties of an object, then its state. An outgoing queue only has a state."""
        ask, names = self._administration, self._desk.names
        if request.outgoing:
            outgoing = names.outgoing(request.queue)
            watched = _read(ObjectType.MANAGEMENT_QUEUE, lambda ids: ask.watch_queue(outgoing, ids, caller))
            return pb.Properties(properties=watched)
        if request.queue:
            queue = names.local(request.queue)
            own = _read(ObjectType.QUEUE, lambda ids: ask.get_properties(queue, ids, caller))
            watched = _read(ObjectType.MANAGEMENT_QUEUE, lambda ids: ask.watch_queue(queue, ids, caller))
        else:
            own = _read(ObjectType.MACHINE, lambda ids: ask.get_manager_properties(ids, caller))
            watched = _read(ObjectType.MANAGEMENT_MACHINE, lambda ids: ask.watch_manager(ids, caller))
        return pb.Properties(properties=own + watched)


def _read(object_type: ObjectType, read: Callable[[Sequence[int]], Sequence[Variant]]) -> list[pb.Property]:
    """Read all properties of a table that can be read and have a value. Descriptors have a call of their own."""
    rows = [
        row for row in TABLES[object_type].values() if Use.GET in row.uses and row.id not in SECURITY_PROPIDS
    ]
    return [
        pb.Property(id=row.id, name=row.name, type=vt_name(value.vt), values=value_texts(value, row))
        for row, value in zip(rows, read([row.id for row in rows]), strict=True)
        if value.vt not in (VT.EMPTY, VT.NULL)
    ]
