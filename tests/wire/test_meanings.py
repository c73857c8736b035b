"""The tables of meanings fit the structures they speak of."""

from __future__ import annotations

import pytest

from msmq.wire import meanings
from msmq.wire.declare import Wire
from msmq.wire.headers import BaseHeader, UserHeader
from msmq.wire.meanings import MEANINGS, UNUSED_BITS, duration, meaning_of, meaning_of_bits, moment

# Variable tails have no declaration of their own.
TAILS = {
    "ConnectorType", "ConnectorQMGuid", "EncryptionKey", "Signature", "SenderCert", "ProviderType",
    "ProviderName", "Label", "ExtensionData", "QueueIdentifier", "Data",
}  # fmt: skip


@pytest.mark.parametrize("structure", MEANINGS, ids=lambda structure: structure.__name__)
def test_every_meaning_belongs_to_a_field(structure: type[Wire]) -> None:
    fields = {spec.name: spec.spec_name for spec in structure.FIELDS}
    bits = [*(bits for _, bits in structure.BITS), *UNUSED_BITS.get(structure, ())]
    known = {*fields.values(), *(f"{fields[run.field]}.{run.spec_name}" for run in bits)}
    assert MEANINGS[structure].keys() <= known | TAILS


@pytest.mark.parametrize("structure", MEANINGS, ids=lambda structure: structure.__name__)
def test_every_used_bit_means_something(structure: type[Wire]) -> None:
    fields = {spec.name: spec.spec_name for spec in structure.FIELDS}
    for _, bits in structure.BITS:
        assert f"{fields[bits.field]}.{bits.spec_name}" in MEANINGS[structure]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0xFFFFFFFF, "no limit"),
        (0, "no time at all"),
        (1, "1 second"),
        (345600, "4 days"),
        (90061, "1 day 1 hour 1 minute 1 second"),
    ],
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_moments_are_utc_up_to_the_last_one() -> None:
    assert moment(1141966310) == "2006-03-10 04:51:50 UTC"
    assert moment(0xFFFFFFFF) == "2106-02-07 06:28:15 UTC"


def test_values_without_an_entry() -> None:
    assert meaning_of(UserHeader, "Flags.DM", 3) == "not assigned"
    assert meaning_of(UserHeader, "Flags.X1", 1) == ""
    assert (
        meaning_of(meanings.MessagePropertiesHeader, "MessageClass", 0x1234)
        == "a class of the application's own"
    )
    assert meaning_of(meanings.MessagePropertiesHeader, "EncryptionAlgorithm", 0) == "none"
    assert meaning_of(meanings.MessagePropertiesHeader, "HashAlgorithm", 7) == "not assigned"


def test_a_clear_bit_means_something_only_by_a_table() -> None:
    assert meaning_of_bits(BaseHeader, "Flags.IN", 0, 1) == ""
    assert meaning_of_bits(BaseHeader, "Flags.IN", 1, 1) == "an internal packet of the session"
    assert meaning_of_bits(meanings.Ping, "Flags.RF", 0, 1) == "a session would be accepted"
