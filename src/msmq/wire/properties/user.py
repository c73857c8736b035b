"""Properties of users in the MSMQ directory (MS-MQMQ 2.3.6)."""

from __future__ import annotations

from typing import Final

from msmq.wire.properties.model import Content, Property
from msmq.wire.variant import VT

USER: Final = (
    Property(701, "PROPID_U_SID", VT.BLOB, "The user's security identifier.", content=Content.SID),
    Property(703, "PROPID_U_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(704, "PROPID_U_SEQNUM", VT.BLOB, "Sequence number of the directory object."),
    Property(
        702, "PROPID_U_SIGN_CERT", VT.BLOB, "The user's certificates.", content=Content.USER_CERTIFICATES
    ),
    Property(705, "PROPID_U_DIGEST", VT.VECTOR | VT.CLSID, "MD5 digests of the certificates, as raw bytes."),
    Property(706, "PROPID_U_ID", VT.CLSID, "The user's identifier."),
)
