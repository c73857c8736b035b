"""The ways to read a body, and bodies that cannot be read that way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from msmq.spark.bodies import BODY_READERS


@pytest.mark.parametrize(
    ("how", "body_type", "body", "expected"),
    [
        ("text", 0, b"\xef\xbb\xbfplain", "plain"),
        ("text", 0, b"\xff", None),
        ("utf-16", 0, "größer".encode("utf-16-le"), "größer"),
        ("utf-16", 0, b"\xff\xfea\0", "a"),
        ("utf-16", 0, b"odd", None),
        ("activex", 8, "bstr".encode("utf-16-le"), "bstr"),
        ("activex", 3, b"\x05\0\0\0", "5"),
        ("activex", 13, b"\x00\xff\x80", None),
        ("value", 0, b"<?xml version='1.0'?><ArrayOfInt><int>5</int></ArrayOfInt>", "[5]"),
        ("value", 0, b'{"a": 1}', '{"a": 1}'),
        ("value", 3, b"\x05\0\0\0", "5"),
        ("value", 768, b"\x05\0\0\0", None),
    ],
)
def test_reading(how: str, body_type: int, body: bytes, expected: str | None) -> None:
    read = BODY_READERS[how]
    assert read is not None
    assert read(body_type, body) == expected


@given(
    st.sampled_from(["text", "utf-16", "activex", "value"]),
    st.integers(0, 70) | st.just(768),
    st.binary(max_size=200),
)
def test_no_body_costs_a_row(how: str, body_type: int, body: bytes) -> None:
    read = BODY_READERS[how]
    assert read is not None
    found = read(body_type, body)
    assert found is None or isinstance(found, str)


def test_values_are_variants_by_spark_s_own_function(spark: SparkSession) -> None:
    """Whatever the formatters wrote: fields of it without a schema, and null where there is none."""
    read = BODY_READERS["value"]
    assert read is not None
    bodies = [b'{"customer": {"name": "Ada"}}', b"<?xml version='1.0'?><int>5</int>", b"\xff\x00"]
    rows = spark.createDataFrame([(read(0, body),) for body in bodies], "body STRING")
    values = rows.selectExpr("try_parse_json(body) AS value")
    assert values.dtypes == [("value", "variant")]
    found = values.selectExpr(
        "try_variant_get(value, '$.customer.name', 'string')", "value IS NULL"
    ).collect()
    assert [tuple(row) for row in found] == [("Ada", False), (None, False), (None, True)]
