"""Properties of computers; digests are in test_user."""

from __future__ import annotations

import pytest

from msmq.wire.properties.computer import sam_account
from tests.wire.properties.support import DISTINGUISHED_NAME, GUID, USER, certificate, keeps, refuses


@pytest.mark.spec("MQMQ-2.3.10.1-a")
def test_full_path() -> None:
    keeps("PROPID_COM_FULL_PATH", DISTINGUISHED_NAME)
    refuses("PROPID_COM_FULL_PATH", "", "srv")


@pytest.mark.spec("MQMQ-2.3.10.2-a")
def test_account_name() -> None:
    assert sam_account("MyComputer") == "MyComputer$"
    long = "ABCDEFGHIJKLMNOPQRSTUVWXY"
    assert len(long) == 25
    assert sam_account(long) == "ABCDEFGHIJKLMNOPQRS$"
    keeps("PROPID_COM_SAM_ACCOUNT", sam_account("M"), sam_account("MyComputer"), sam_account(long))
    refuses("PROPID_COM_SAM_ACCOUNT", "", "$", "MyComputer", long + "$")


@pytest.mark.spec("MQMQ-2.3.10.3-a")
def test_account_control() -> None:
    keeps("PROPID_COM_ACCOUNT_CONTROL", 0, 0x1000, 0x2000 | 0x80000)


@pytest.mark.spec("MQMQ-2.3.10.4-a")
def test_dns_name() -> None:
    keeps("PROPID_COM_DNS_HOSTNAME", "srv.corp.example")
    refuses("PROPID_COM_DNS_HOSTNAME", "srv")


def test_sid() -> None:
    keeps("PROPID_COM_SID", USER.encode())
    refuses("PROPID_COM_SID", b"", USER.encode()[:-1])


@pytest.mark.spec("MQMQ-2.3.10.6-a")
def test_certificate() -> None:
    der = certificate()
    keeps("PROPID_COM_SIGN_CERT", der)
    refuses("PROPID_COM_SIGN_CERT", b"", der[:-1])


@pytest.mark.spec("MQMQ-2.3.10.8-a")
def test_identifier() -> None:
    keeps("PROPID_COM_ID", GUID)
