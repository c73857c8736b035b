"""LDAP result codes (MS-MQDSSM 2.2.6)."""

from __future__ import annotations

import pytest

from msmq.directory.results import DirectoryFailure, generic, result_of
from msmq.manager.directory import DirectoryResult


@pytest.mark.spec("DSSM-2.2.6-a")
def test_zero_is_success() -> None:
    assert result_of(0) is DirectoryResult.SUCCESS


def test_the_codes_with_a_meaning_of_their_own() -> None:
    assert result_of(32) is DirectoryResult.OBJECT_NOT_FOUND
    assert result_of(16) is DirectoryResult.ATTRIBUTE_NOT_FOUND
    assert result_of(68) is DirectoryResult.OBJECT_ALREADY_EXISTS


def test_all_others_are_a_generic_error() -> None:
    others = set(range(124)) - {0, 16, 32, 68}
    assert {result_of(code) for code in others} == {DirectoryResult.GENERIC_ERROR}


def test_a_failure_says_why() -> None:
    assert generic("because").reason == "because"
    assert DirectoryFailure(DirectoryResult.OBJECT_NOT_FOUND).reason == "ObjectNotFound"
