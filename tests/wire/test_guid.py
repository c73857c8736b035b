import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import EncodeError
from msmq.wire.guid import NULL_GUID, guid_from_text, guid_text

TEXT = "557358D1-9150-9595-4997-B6E611EA26C6"


@pytest.mark.spec("DMPR-2-a")
@given(st.uuids())
def test_agrees_with_the_uuid_module(value):
    assert guid_from_text(str(value)) == value.bytes_le
    assert guid_text(value.bytes_le) == str(value).upper()


def test_null_guid():
    assert guid_text(NULL_GUID) == str(uuid.UUID(int=0))


@pytest.mark.spec("MQMQ-2.1.3-b")
def test_group_lengths_and_hyphens():
    assert len(TEXT) == 36
    assert guid_text(guid_from_text(TEXT)) == TEXT
    hyphens = [i for i, c in enumerate(TEXT) if c == "-"]
    for i in hyphens:
        with pytest.raises(EncodeError):
            guid_from_text(TEXT[:i] + TEXT[i + 1 :])
        with pytest.raises(EncodeError):
            guid_from_text(TEXT[:i] + TEXT[i + 1] + "-" + TEXT[i + 2 :])
    for i in (0, *(i + 1 for i in hyphens)):
        with pytest.raises(EncodeError):
            guid_from_text(TEXT[:i] + TEXT[i + 1 :])
        with pytest.raises(EncodeError):
            guid_from_text(TEXT[:i] + "0" + TEXT[i:])


@pytest.mark.spec("MQMQ-2.1.3-c")
def test_hexadecimal_digits_of_either_case():
    assert guid_from_text(TEXT.lower()) == guid_from_text(TEXT.upper())
    with pytest.raises(EncodeError):
        guid_from_text(TEXT.replace("D", "G"))


@pytest.mark.parametrize("text", ["", f"{{{TEXT}}}", TEXT + "\n", "\u0665" + TEXT[1:], TEXT.replace("-", "")])
def test_refused_texts(text):
    with pytest.raises(EncodeError, match="8-4-4-4-12"):
        guid_from_text(text)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_refused_sizes(size):
    with pytest.raises(EncodeError, match="16 bytes"):
        guid_text(bytes(size))
