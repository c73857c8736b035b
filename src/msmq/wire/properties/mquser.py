"""Properties of users migrated from MQIS (MS-MQMQ 2.3.9); MSMQ 1.0 has none of them."""

from __future__ import annotations

from typing import Final

from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Content, Property
from msmq.wire.variant import VT

V2: Final = MsmqVersion.V2

MQUSER: Final = (
    Property(
        5401, "PROPID_MQU_SID", VT.BLOB, "The user's security identifier.", since=V2, content=Content.SID
    ),
    Property(
        5402, "PROPID_MQU_SIGN_CERT", VT.BLOB, "One certificate.", since=V2, content=Content.CERTIFICATE
    ),
    Property(
        5405,
        "PROPID_MQU_DIGEST",
        VT.VECTOR | VT.CLSID,
        "MD5 digests of certificates, as raw bytes.",
        since=V2,
    ),
    Property(5406, "PROPID_MQU_ID", VT.CLSID, "The user's identifier.", since=V2),
    Property(
        5407,
        "PROPID_MQU_SECURITY",
        VT.BLOB,
        "The user's security descriptor, with the entries Windows NT 4.0 knows.",
        since=V2,
        content=Content.SECURITY_DESCRIPTOR,
    ),
)
