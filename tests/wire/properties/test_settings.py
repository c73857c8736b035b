"""Properties of settings."""

from __future__ import annotations

import pytest

from tests.wire.properties.support import DISTINGUISHED_NAME, GUID, keeps, refuses, row_marks


@pytest.mark.spec("MQMQ-2.3.8.1-a")
def test_name() -> None:
    keeps("PROPID_SET_NAME", "MSMQ Settings")
    refuses("PROPID_SET_NAME", "", "msmq settings", "Settings")


@pytest.mark.parametrize(
    "name", row_marks(PROPID_SET_SERVICE="2.3.8.2-a", PROPID_SET_OLDSERVICE="2.3.8.11-a")
)
def test_services(name: str) -> None:
    keeps(name, 0, 1, 2, 4, 8)
    refuses(name, 3, 0x10)


def test_queue_manager() -> None:
    keeps("PROPID_SET_QM_ID", GUID)


@pytest.mark.spec("MQMQ-2.3.8.4-a")
def test_full_path() -> None:
    keeps("PROPID_SET_FULL_PATH", DISTINGUISHED_NAME)
    refuses("PROPID_SET_FULL_PATH", "", "settings")


@pytest.mark.parametrize(
    "name",
    row_marks(
        PROPID_SET_NT4="2.3.8.5-a",
        PROPID_SET_SERVICE_ROUTING="2.3.8.8-a",
        PROPID_SET_SERVICE_DSSERVER="2.3.8.9-a",
        PROPID_SET_SERVICE_DEPCLIENTS="2.3.8.10-a",
    ),
)
def test_switches(name: str) -> None:
    keeps(name, 0, 1)
    refuses(name, 2, 255)


@pytest.mark.spec("MQMQ-2.3.8.7-a")
def test_site_name() -> None:
    keeps("PROPID_SET_SITENAME", "", "Default-First-Site")
