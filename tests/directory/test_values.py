"""The syntaxes of attribute values (MS-MQDSSM 2.2.2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.directory import values
from msmq.directory.values import Codec
from msmq.errors import DecodeError, EncodeError
from msmq.manager.model import OperatingSystemType, QueuePrivacyLevel


@given(st.integers(0, 0xFFFFFFFF))
def test_double_words_are_signed_on_the_wire(number: int) -> None:
    (raw,) = values.DWORD.encode(number)
    assert -(1 << 31) <= int(raw) < 1 << 31
    assert values.DWORD.decode([raw]) == number


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text(text: str) -> None:
    raw = values.TEXT.encode(text)
    assert raw == ([text.encode()] if text else [])
    if raw:
        assert values.TEXT.decode(raw) == text


@given(st.lists(st.binary(min_size=16, max_size=16)))
def test_lists_of_identifiers(identifiers: list[bytes]) -> None:
    assert values.GUIDS.decode(values.GUIDS.encode(identifiers)) == tuple(identifiers)


@pytest.mark.spec("DSSM-3.1.6.11.1-e")
def test_times() -> None:
    assert values.TIME.decode([b"20261115060936.0Z"]) == 1794722976
    assert values.TIME.encode(1794722976) == [b"20261115060936.0Z"]


@pytest.mark.spec("DSSM-3.1.6.11.1.2-a")
def test_operating_systems() -> None:
    read = [values.OPERATING_SYSTEM.decode([b"%d" % number]) for number in (0, 256, 512, 768, 1024, 1280, 77)]
    kinds = OperatingSystemType
    assert read == [
        kinds.OTHER,
        kinds.FOREIGN,
        kinds.WIN95,
        kinds.WIN_CLIENT,
        kinds.WIN_SERVER,
        kinds.WIN_ENT,
        kinds.OTHER,
    ]


@pytest.mark.spec("DSSM-3.1.6.11.2.3-a")
def test_privacy_levels() -> None:
    levels = [values.PRIVACY.decode([b"%d" % number]) for number in range(3)]
    assert levels == [QueuePrivacyLevel.NONE, QueuePrivacyLevel.OPTIONAL, QueuePrivacyLevel.BODY]


@pytest.mark.spec("DSSM-3.1.6.11.3.3-a")
def test_yes_and_no() -> None:
    assert values.YES_NO.decode([b"Y"]) is True
    assert values.YES_NO.decode([b"N"]) is False


@pytest.mark.parametrize(
    ("codec", "raw"),
    [
        (values.TEXT, b"\xff"),
        (values.DWORD, b"many"),
        (values.DWORD, b"4294967296"),
        (values.BOOLEAN, b"1"),
        (values.GUID, b"short"),
        (values.TIME, b"yesterday"),
        (values.YES_NO, b"?"),
        (values.PRIVACY, b"3"),
    ],
    ids=["text", "dword", "large-dword", "boolean", "guid", "time", "yes-no", "privacy"],
)
def test_what_cannot_be_read(codec: Codec, raw: bytes) -> None:
    with pytest.raises(DecodeError):
        codec.decode([raw])


@pytest.mark.parametrize(
    "codec",
    [values.TEXT, values.OCTETS, values.GUIDS, values.TEXTS],
    ids=["text", "octets", "guids", "texts"],
)
def test_empty_is_not_there(codec: Codec) -> None:
    empty: Any = () if codec in (values.GUIDS, values.TEXTS) else codec.decode([b""])
    assert codec.encode(empty) == []


def test_a_time_has_four_digits_for_the_year() -> None:
    with pytest.raises(EncodeError):
        values.TIME.encode(1 << 60)
