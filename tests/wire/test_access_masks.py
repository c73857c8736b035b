from __future__ import annotations

from enum import IntFlag

import pytest

from msmq.wire.access_masks import (
    AccessMask,
    ConnectedNetworkAccessMask,
    EnterpriseAccessMask,
    QueueAccessMask,
    QueueManagerAccessMask,
    SecurityInformation,
    SiteAccessMask,
)


@pytest.mark.spec("MQMQ-2.2.3-a")
def test_security_information_bits() -> None:
    assert SecurityInformation.OWNER == 0x00000001
    assert SecurityInformation.GROUP == 0x00000002
    assert SecurityInformation.DACL == 0x00000004
    assert SecurityInformation.SACL == 0x00000008
    assert SecurityInformation.ALL == 0xF == SecurityInformation(1) | 2 | 4 | 8


@pytest.mark.parametrize(
    ("right", "value"),
    [
        (QueueManagerAccessMask.RECEIVE_DEADLETTER_MESSAGE, 0x00000003),
        (QueueManagerAccessMask.RECEIVE_JOURNAL_QUEUE_MESSAGE, 0x000000C0),
        (QueueManagerAccessMask.MACHINE_GENERIC_READ, 0x000200E3),
        (QueueManagerAccessMask.MACHINE_GENERIC_WRITE, 0x00020024),
        (QueueManagerAccessMask.MACHINE_GENERIC_ALL, 0x000F00F7),
        (QueueManagerAccessMask.MACHINE_WORLD_RIGHTS, 0x00020020),
        (QueueAccessMask.RECEIVE_MESSAGE, 0x00000003),
        (QueueAccessMask.RECEIVE_JOURNAL_MESSAGE, 0x0000000A),
        (QueueAccessMask.QUEUE_GENERIC_READ, 0x0002002B),
        (QueueAccessMask.QUEUE_GENERIC_WRITE, 0x00020024),
        (QueueAccessMask.QUEUE_GENERIC_ALL, 0x000F003F),
        (SiteAccessMask.SITE_GENERIC_READ, 0x00020020),
        (SiteAccessMask.SITE_GENERIC_WRITE, 0x00020024),
        (SiteAccessMask.SITE_GENERIC_ALL, 0x000F0037),
        (EnterpriseAccessMask.ENTERPRISE_GENERIC_READ, 0x00020021),
        (EnterpriseAccessMask.ENTERPRISE_GENERIC_WRITE, 0x00020027),
        (EnterpriseAccessMask.ENTERPRISE_GENERIC_ALL, 0x000F0037),
        (ConnectedNetworkAccessMask.CN_GENERIC_READ, 0x00020020),
        (ConnectedNetworkAccessMask.CN_GENERIC_ALL, 0x000F0031),
    ],
)
def test_composite_values(right: IntFlag, value: int) -> None:
    assert right == value


@pytest.mark.parametrize(
    ("mask", "everything"),
    [
        (QueueManagerAccessMask, QueueManagerAccessMask.MACHINE_GENERIC_ALL),
        (QueueAccessMask, QueueAccessMask.QUEUE_GENERIC_ALL),
        (SiteAccessMask, SiteAccessMask.SITE_GENERIC_ALL),
        (EnterpriseAccessMask, EnterpriseAccessMask.ENTERPRISE_GENERIC_ALL),
        (ConnectedNetworkAccessMask, ConnectedNetworkAccessMask.CN_GENERIC_ALL),
    ],
)
def test_generic_all_is_every_right_of_its_mask(mask: type[IntFlag], everything: IntFlag) -> None:
    # Iterating an IntFlag class gives its single bits only.
    assert sum(mask) == everything


@pytest.mark.parametrize(
    ("standard", "names"),
    [
        (
            AccessMask.DELETE,
            ("DELETE_MACHINE", "DELETE_QUEUE", "DELETE_SITE", "DELETE_ENTERPRISE", "DELETE_CN"),
        ),
        (AccessMask.READ_CONTROL, ("GET_MACHINE_PERMISSIONS", "GET_QUEUE_PERMISSIONS")),
        (AccessMask.WRITE_DAC, ("CHANGE_MACHINE_PERMISSIONS", "CHANGE_QUEUE_PERMISSIONS")),
        (AccessMask.WRITE_OWNER, ("TAKE_MACHINE_OWNERSHIP", "TAKE_QUEUE_OWNERSHIP")),
    ],
)
def test_the_upper_half_is_that_of_ms_dtyp(standard: AccessMask, names: tuple[str, ...]) -> None:
    masks = (
        QueueManagerAccessMask,
        QueueAccessMask,
        SiteAccessMask,
        EnterpriseAccessMask,
        ConnectedNetworkAccessMask,
    )
    assert {int(mask[name]) for name in names for mask in masks if name in mask.__members__} == {
        int(standard)
    }
