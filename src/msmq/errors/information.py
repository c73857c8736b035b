"""The statuses of MS-MQMQ 2.4 that are not failures."""

from __future__ import annotations

from enum import IntEnum

MQ_OK = 0


class Information(IntEnum):
    """The call succeeded, with a remark."""

    MQ_INFORMATION_PROPERTY = 0x400E0001
    MQ_INFORMATION_ILLEGAL_PROPERTY = 0x400E0002
    MQ_INFORMATION_PROPERTY_IGNORED = 0x400E0003
    MQ_INFORMATION_UNSUPPORTED_PROPERTY = 0x400E0004
    MQ_INFORMATION_DUPLICATE_PROPERTY = 0x400E0005
    MQ_INFORMATION_OPERATION_PENDING = 0x400E0006
    MQ_INFORMATION_FORMATNAME_BUFFER_TOO_SMALL = 0x400E0009
    MQ_INFORMATION_INTERNAL_USER_CERT_EXIST = 0x400E000A
    MQ_INFORMATION_OWNER_IGNORED = 0x400E000B

    @property
    def description(self) -> str:
        """What the remark means, in one sentence."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Information.MQ_INFORMATION_PROPERTY: "At least one property has a remark.",
    Information.MQ_INFORMATION_ILLEGAL_PROPERTY: "The property identifier is not known.",
    Information.MQ_INFORMATION_PROPERTY_IGNORED: "The property has no meaning here and was ignored.",
    Information.MQ_INFORMATION_UNSUPPORTED_PROPERTY: "The property is not supported and was ignored.",
    Information.MQ_INFORMATION_DUPLICATE_PROPERTY: "The property was given before; the second was ignored.",
    Information.MQ_INFORMATION_OPERATION_PENDING: "The operation goes on in the background.",
    Information.MQ_INFORMATION_FORMATNAME_BUFFER_TOO_SMALL: (
        "The queue was created, but its format name does not fit the buffer."
    ),
    Information.MQ_INFORMATION_INTERNAL_USER_CERT_EXIST: "The user had an internal certificate already.",
    Information.MQ_INFORMATION_OWNER_IGNORED: "The owner of the queue was not changed.",
}
