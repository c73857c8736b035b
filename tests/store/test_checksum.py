"""Stores are read by other builds and other machines: checksums are the same numbers everywhere."""

from __future__ import annotations

import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.store import checksum


@given(data=st.binary(max_size=5_000), start=st.integers(0, 0xFFFFFFFF))
def test_checksums_are_those_of_zlib(data: bytes, start: int) -> None:
    assert checksum.crc32(data, start) == zlib.crc32(data, start)
    assert checksum.crc32(memoryview(data)) == zlib.crc32(data)


def test_a_machine_without_a_build_of_zlib_ng_has_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    monkeypatch.delitem(sys.modules, "msmq.store.checksum")
    namespace: dict[str, object] = {"__name__": "without"}
    with open(checksum.__file__, encoding="utf-8") as source:
        exec(compile(source.read(), checksum.__file__, "exec"), namespace)
    assert namespace["crc32"] is zlib.crc32
