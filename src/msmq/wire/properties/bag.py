"""The properties of one object, kept by the rules of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msmq.errors import PropertyNotallowedError
from msmq.wire.names import MsmqVersion
from msmq.wire.properties.check import (
    PROPID_Q_PATHNAME,
    TABLES,
    WIRE_CONTENTS,
    ContentDecoder,
    check_array_sizes,
    check_properties,
    is_private_path,
    lookup,
)
from msmq.wire.properties.model import Content, ObjectType, Stamp, Use
from msmq.wire.variant import VT, Variant


class PropertyBag:
    """What was written of an object, and what is read of it.

    Every write is judged as a whole before any of it is kept. Times are arguments: creating and changing
    stamp the properties that hold them. Reading what was never written gives the default, or EMPTY.
    """

    def __init__(
        self,
        object_type: ObjectType,
        version: MsmqVersion = MsmqVersion.V6,
        contents: Mapping[Content, ContentDecoder] = WIRE_CONTENTS,
    ) -> None:
        self.object_type = object_type
        self.version = version
        self._contents = contents
        self._values: dict[int, Variant] = {}

    @property
    def values(self) -> Mapping[int, Variant]:
        """What was written, without defaults."""
        return self._values

    @property
    def is_private_queue(self) -> bool:
        path = self._values.get(PROPID_Q_PATHNAME)
        return self.object_type is ObjectType.QUEUE and path is not None and is_private_path(path)

    def create(self, propids: Sequence[int], values: Sequence[Variant], now_s: int) -> tuple[int, ...]:
        """Take the properties of a new object; the statuses of the elements come back."""
        assert not self._values, "the object exists already"
        statuses = self._write(Use.CREATE, propids, values)
        self._stamp(Stamp.CREATED, now_s)
        self._stamp(Stamp.MODIFIED, now_s)
        return statuses

    def set(self, propids: Sequence[int], values: Sequence[Variant], now_s: int) -> tuple[int, ...]:
        """Change properties for a caller; the statuses of the elements come back."""
        statuses = self._write(Use.SET, propids, values)
        self._stamp(Stamp.MODIFIED, now_s)
        return statuses

    def assign(self, propids: Sequence[int], values: Sequence[Variant]) -> tuple[int, ...]:
        """Write what only the system writes: identifiers, directory names, management values."""
        return self._write(Use.SYSTEM, propids, values)

    def get(self, propids: Sequence[int]) -> tuple[Variant, ...]:
        """Read properties, in the order asked for."""
        check_array_sizes(self.object_type, propids, propids)
        return tuple(self._read(propid) for propid in propids)

    def _read(self, propid: int) -> Variant:
        row = lookup(self.object_type, propid, self.version)
        if Use.GET not in row.uses:
            raise PropertyNotallowedError(f"{row.name} cannot be read.")
        return self._values.get(propid) or row.default_variant or Variant(VT.EMPTY)

    def _write(self, operation: Use, propids: Sequence[int], values: Sequence[Variant]) -> tuple[int, ...]:
        checked = check_properties(
            self.object_type,
            operation,
            propids,
            values,
            version=self.version,
            private=self.is_private_queue,
            contents=self._contents,
        )
        self._values.update({row.id: variant for row, variant in checked.accepted if row.stored})
        return checked.statuses

    def _stamp(self, stamp: Stamp, now_s: int) -> None:
        for row in TABLES[self.object_type].values():
            if row.stamp is stamp:
                self._values[row.id] = Variant(row.vt, now_s)
