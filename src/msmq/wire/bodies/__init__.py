"""Message bodies as Python values: the formatters of MSMQ's clients.

The protocol never looks into a body: BodyType (MessagePropertiesHeader, MS-MQMQ 2.2.19.3) is only what the sender
claims.

============  ===================  ====================================================================================
formatter     BodyType             who writes it
============  ===================  ====================================================================================
``native``    a VARTYPE            this project's client: numbers and text as OLE has them, dict and list as JSON
``activex``   a VARTYPE            COM, and System.Messaging's ActiveXMessageFormatter
``xml``       0                    System.Messaging's XmlMessageFormatter, its default
``binary``    0x300                System.Messaging's BinaryMessageFormatter
``json``      0                    Rebus and NServiceBus, beside others
============  ===================  ====================================================================================

Reading never runs, imports or instantiates what a body names, and raises nothing but DecodeError.
"""

from msmq.wire.bodies.formatter import (
    Body,
    Formatter,
    formatter_of,
    read_as,
    read_value,
    text_of,
    to_json,
    write_body,
)
from msmq.wire.bodies.headers import HeaderDialect, read_headers, with_headers, write_headers

__all__ = [
    "Body",
    "Formatter",
    "HeaderDialect",
    "formatter_of",
    "read_as",
    "read_headers",
    "read_value",
    "text_of",
    "to_json",
    "with_headers",
    "write_body",
    "write_headers",
]
