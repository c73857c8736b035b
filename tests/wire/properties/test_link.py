"""Properties of routing links."""

from __future__ import annotations

import pytest

from tests.wire.properties.support import DISTINGUISHED_NAME, GUID, default_of, keeps, refuses, row_marks


@pytest.mark.parametrize(
    "name",
    row_marks(PROPID_L_NEIGHBOR1="2.3.7.1-a", PROPID_L_NEIGHBOR2="2.3.7.2-a", PROPID_L_ID="2.3.7.6-a"),
)
def test_identifiers(name: str) -> None:
    keeps(name, GUID)


@pytest.mark.spec("MQMQ-2.3.7.3-a")
def test_cost() -> None:
    keeps("PROPID_L_COST", 1, 999_999)
    refuses("PROPID_L_COST", 0, 1_000_000)
    assert default_of("PROPID_L_COST") == 1


@pytest.mark.spec("MQMQ-2.3.7.12-a")
def test_actual_cost() -> None:
    keeps("PROPID_L_ACTUAL_COST", 1, 999_999)
    refuses("PROPID_L_ACTUAL_COST", 0, 1_000_000)


@pytest.mark.spec("MQMQ-2.3.7.7-a")
def test_names_of_gates() -> None:
    keeps("PROPID_L_GATES_DN", (), (DISTINGUISHED_NAME, "CN=b"))
    refuses("PROPID_L_GATES_DN", ("gate",), (DISTINGUISHED_NAME, ""))


@pytest.mark.parametrize(
    "name",
    row_marks(
        PROPID_L_NEIGHBOR1_DN="2.3.7.8-a",
        PROPID_L_NEIGHBOR2_DN="2.3.7.9-a",
        PROPID_L_FULL_PATH="2.3.7.11-a",
    ),
)
def test_distinguished_names(name: str) -> None:
    keeps(name, DISTINGUISHED_NAME)
    refuses(name, "", "site", "CN=a;DC=b")


@pytest.mark.spec("MQMQ-2.3.7.10-a")
def test_description() -> None:
    keeps("PROPID_L_DESCRIPTION", "", "leased line")


@pytest.mark.spec("MQMQ-2.3.7.13-a")
def test_gates() -> None:
    keeps("PROPID_L_GATES", (), (GUID, GUID[::-1]))
