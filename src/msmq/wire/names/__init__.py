"""Queue names (MS-MQMQ 2.1) as values, with their parsers and their text.

========================  =============================================  ==============================
value                     text                                           section
========================  =============================================  ==============================
`QueuePath`               ``srv\\private$\\orders``                      2.1.1
`DirectName`              ``DIRECT=OS:srv\\PRIVATE$\\orders``            2.1.2
`PublicName`              ``PUBLIC=<guid>``                              2.1.3
`PrivateName`             ``PRIVATE=<guid>\\0000000A``                   2.1.4
`DistributionListName`    ``DL=<guid>@corp.example``                     2.1.5
`MachineName`             ``MACHINE=<guid>;DEADLETTER``                  2.1.6
`ConnectorName`           ``CONNECTOR=<guid>;XACTONLY``                  2.1.6
`MulticastName`           ``MULTICAST=234.1.1.1:8001``                   2.1.6
`MultipleElementName`     ``DIRECT=OS:a\\q,PUBLIC=<guid>``               2.1.7
========================  =============================================  ==============================

Values are not checked when they are made: ``str(value)`` prints one, and ``check(name)`` parses the printed text again,
so that the parsers are the only grammar. The literals of the grammar are matched in any case and printed in the case of
the specification.
"""

from msmq.wire.names.common import MsmqVersion, QueueKind, SuffixType
from msmq.wire.names.direct import DirectName, Protocol
from msmq.wire.names.format_name import (
    ConnectorName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleElementName,
    PrivateName,
    PublicName,
    SingleName,
    check,
    parse_format_name,
)
from msmq.wire.names.path import QueuePath
from msmq.wire.names.questions import (
    QueueTarget,
    is_read_only,
    target_of,
)

__all__ = [
    "ConnectorName",
    "DirectName",
    "DistributionListName",
    "FormatName",
    "MachineName",
    "MsmqVersion",
    "MulticastName",
    "MultipleElementName",
    "PrivateName",
    "Protocol",
    "PublicName",
    "QueueKind",
    "QueuePath",
    "QueueTarget",
    "SingleName",
    "SuffixType",
    "check",
    "is_read_only",
    "parse_format_name",
    "target_of",
]
