"""mSMQSettings (MS-MQDSSM 3.1.6.1.1.3); what comes and goes with it is in test_creating and test_writing."""

from __future__ import annotations

from uuid import uuid4

from msmq.directory.settings_objects import SettingsObjects, repeated
from tests.directory.support import Domain


def test_which_attributes_are_repeated() -> None:
    configuration = {"objectGUID": [b"g"], "mSMQServiceType": [b"1"], "mSMQQuota": [b"5"]}
    assert repeated(configuration) == {"mSMQQMID": [b"g"], "mSMQServices": [b"1"]}


def test_a_site_that_is_not_there_is_passed_over(domain: Domain) -> None:
    settings = SettingsObjects(domain.directory.objects)
    nowhere = uuid4().bytes_le
    settings.create("qm", nowhere, {})
    settings.update("qm", nowhere, {})
    settings.delete("qm", nowhere)
    assert set(domain.trace.operations) == {"searchRequest"}
