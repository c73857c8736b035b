"""Distinguished names and queue names (MS-MQDSSM 2.2.1, 2.2.5, 3.1.6.1.2.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.directory import names
from msmq.directory.names import HASH_TABLE, Names, queue_name_hash, split_queue_name
from msmq.errors import DecodeError, EncodeError
from tests.directory.hash_table import PRINTED

PLACES = Names("DC=msmq,DC=test", "CN=Configuration,DC=msmq,DC=test")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=124)


@pytest.mark.spec("DSSM-2.2.1-c")
def test_a_computer() -> None:
    assert PLACES.computer("QM1") == "CN=QM1,CN=Computers,DC=msmq,DC=test"


@pytest.mark.spec("DSSM-2.2.1-f")
def test_a_user() -> None:
    assert PLACES.user("alice") == "CN=alice,CN=Users,DC=msmq,DC=test"


def test_a_queue_and_its_queue_manager() -> None:
    assert PLACES.queue_manager("QM1") == "CN=msmq,CN=QM1,CN=Computers,DC=msmq,DC=test"
    assert PLACES.queue("QM1\\q1") == "CN=q1,CN=msmq,CN=QM1,CN=Computers,DC=msmq,DC=test"


def test_settings_are_below_the_server_of_a_site() -> None:
    expected = "CN=MSMQ Settings,CN=QM1,CN=Servers,CN=Paris,CN=Sites,CN=Configuration,DC=msmq,DC=test"
    assert PLACES.settings("QM1", "Paris") == expected


@pytest.mark.parametrize("pathname", ["", "qm1", "qm1\\", "\\q1"])
def test_a_path_name_has_two_parts(pathname: str) -> None:
    with pytest.raises(EncodeError):
        PLACES.queue(pathname)


@given(TEXT)
def test_what_is_escaped_is_read_back(text: str) -> None:
    dn = names.child(text, "DC=msmq,DC=test")
    assert names.first_value(dn) == text
    assert names.parent(dn) == "DC=msmq,DC=test"


@given(TEXT, TEXT)
def test_a_name_never_reaches_into_its_parent(first: str, second: str) -> None:
    dn = names.child(first, names.child(second, "DC=msmq"))
    assert names.parent(dn) == names.child(second, "DC=msmq")


def test_what_the_server_escapes_by_digits_is_read() -> None:
    assert names.first_value("CN=a\\3Db\\2C,DC=x") == "a=b,"
    assert names.first_value("CN= \\ ab\\  , DC=x") == " ab "
    assert names.parent("CN=a\\\\ , DC=x") == "DC=x"


@pytest.mark.parametrize(
    "dn", ["", "CN=", "nothing", "CN=a\\", "CN=\\FF"], ids=["", "no-value", "no-equals", "slash", "utf8"]
)
def test_a_bad_distinguished_name(dn: str) -> None:
    with pytest.raises(DecodeError):
        names.first_value(dn)


def test_the_computer_in_a_distinguished_name() -> None:
    assert names.first_value(names.parent(PLACES.queue_manager("a,b=c"))) == "a,b=c"


@pytest.mark.spec("DSSM-2.2.5-b")
def test_the_hash_of_nothing() -> None:
    assert queue_name_hash("") == "00000000"


@pytest.mark.spec("DSSM-2.2.5-c")
def test_the_hash_ignores_case() -> None:
    assert queue_name_hash("A") == queue_name_hash("a") == "3f590a6e"


@pytest.mark.spec("DSSM-2.2.5-d")
def test_known_hashes() -> None:
    assert queue_name_hash("q" * 64) == "a3a15b81"
    assert queue_name_hash("x" * 100) == "afd888b4"
    assert queue_name_hash("orderqueue" * 8) == "42f83e6a"


@pytest.mark.spec("DSSM-2.2.5-e")
def test_the_table_is_the_printed_one() -> None:
    assert [index for index in range(256) if HASH_TABLE[index] != PRINTED[index]] == [87]


@pytest.mark.spec("DSSM-2.2.5-f")
def test_the_misprint() -> None:
    assert HASH_TABLE[87] == 0xAFE3050F
    assert HASH_TABLE[87] == HASH_TABLE[64] ^ HASH_TABLE[16] ^ HASH_TABLE[4] ^ HASH_TABLE[2] ^ HASH_TABLE[1]


@pytest.mark.spec("DSSM-2.2.5-g")
def test_the_hash_keeps_its_zeros() -> None:
    small = next(name for name in map(str, range(1000)) if queue_name_hash(name).startswith("0"))
    assert len(queue_name_hash(small)) == 8
    assert queue_name_hash(small) == queue_name_hash(small).lower()


def test_a_name_of_63_characters_is_kept() -> None:
    assert split_queue_name("n" * 63) == ("n" * 63, "")


def test_a_longer_name_is_cut() -> None:
    assert split_queue_name("x" * 100) == ("x" * 55 + "-afd888b4", "x" * 45)
    assert split_queue_name("q" * 64) == ("q" * 55 + "-a3a15b81", "q" * 9)


@given(TEXT)
def test_a_cut_name_is_joined_again(name: str) -> None:
    try:
        common_name, extension = split_queue_name(name)
    except EncodeError:
        assert any(ord(character) > 0xFFFF for character in name)
        return
    assert len(common_name.encode("utf-16-le")) <= 128
    if len(name.encode("utf-16-le")) != 128 or extension:
        assert names.join_queue_name(common_name, extension) == name


def test_the_name_of_a_link() -> None:
    one, two = bytes(range(16)), bytes(range(16, 32))
    assert (
        names.routing_link_name(one, two)
        == "03020100050407060809" + "0A0B0C0D0E0F" + "1312111015141716" + "18191A1B1C1D1E1F"
    )
