"""Properties of MSMQ objects (MS-MQMQ 2.3): one table per object type, and the checks that go with them.

``lookup(object_type, propid)`` finds a row, ``check_properties`` checks the arrays of a call, ``value_texts`` prints a
value for people. Named values are enumerations next to their table.
"""

from msmq.wire.properties.check import (
    BY_NAME,
    MAX_PROPERTIES,
    TABLES,
    WIRE_CONTENTS,
    Checked,
    ContentDecoder,
    check_array_sizes,
    check_properties,
    check_value,
    lookup,
)
from msmq.wire.properties.model import Content, ObjectType, Property, Rule, Use
from msmq.wire.properties.text import value_texts

__all__ = [
    "BY_NAME",
    "MAX_PROPERTIES",
    "TABLES",
    "WIRE_CONTENTS",
    "Checked",
    "Content",
    "ContentDecoder",
    "ObjectType",
    "Property",
    "Rule",
    "Use",
    "check_array_sizes",
    "check_properties",
    "check_value",
    "lookup",
    "value_texts",
]
