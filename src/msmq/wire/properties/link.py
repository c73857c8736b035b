"""Properties of routing links (MS-MQMQ 2.3.7)."""

from __future__ import annotations

from typing import Final

from msmq.wire.names import MsmqVersion
from msmq.wire.properties.model import Property, between
from msmq.wire.properties.texts import DISTINGUISHED_NAME, DISTINGUISHED_NAMES
from msmq.wire.variant import VT

MIN_COST: Final = 1
MAX_COST: Final = 999_999
V2: Final = MsmqVersion.V2
_COST: Final = between(MIN_COST, MAX_COST)

ROUTING_LINK: Final = (
    Property(801, "PROPID_L_NEIGHBOR1", VT.CLSID, "One of the two sites."),
    Property(802, "PROPID_L_NEIGHBOR2", VT.CLSID, "The other site."),
    Property(803, "PROPID_L_COST", VT.UI4, "Relative cost of the link.", rule=_COST, default=MIN_COST),
    Property(804, "PROPID_L_PARTITIONID", VT.CLSID, "Groups objects for replication by old versions."),
    Property(805, "PROPID_L_SEQNUM", VT.BLOB, "Sequence number of the directory object."),
    Property(806, "PROPID_L_ID", VT.CLSID, "The link's identifier."),
    Property(
        807,
        "PROPID_L_GATES_DN",
        VT.VECTOR | VT.LPWSTR,
        "Distinguished names of the gates on the link.",
        since=MsmqVersion.V3,
        rule=DISTINGUISHED_NAMES,
    ),
    Property(
        808,
        "PROPID_L_NEIGHBOR1_DN",
        VT.LPWSTR,
        "Distinguished name of one site.",
        since=V2,
        rule=DISTINGUISHED_NAME,
    ),
    Property(
        809,
        "PROPID_L_NEIGHBOR2_DN",
        VT.LPWSTR,
        "Distinguished name of the other site.",
        since=V2,
        rule=DISTINGUISHED_NAME,
    ),
    Property(810, "PROPID_L_DESCRIPTION", VT.LPWSTR, "A description for people.", since=V2),
    Property(
        811,
        "PROPID_L_FULL_PATH",
        VT.LPWSTR,
        "Distinguished name of the link.",
        since=V2,
        rule=DISTINGUISHED_NAME,
    ),
    Property(812, "PROPID_L_ACTUAL_COST", VT.UI4, "Cost before translation.", since=V2, rule=_COST),
    Property(813, "PROPID_L_GATES", VT.VECTOR | VT.CLSID, "The gates on the link.", since=V2),
)
