"""The statements, as far as they can be wrong without a database."""

from __future__ import annotations

from msmq.ha import schema


def test_there_is_a_way_to_each_version() -> None:
    assert sorted(schema.MIGRATIONS) == list(range(1, schema.VERSION + 1))


def test_every_statement_names_the_schema() -> None:
    """Nothing depends on a search path, which others may set."""
    for name, value in vars(schema).items():
        for text in value if isinstance(value, tuple) else (value,):
            if (
                name.isupper()
                and isinstance(text, str)
                and " {schema}" not in text
                and "'{schema}" not in text
            ):
                assert name in ("FIND", "FIND_SCHEMA", "ONE_AT_A_TIME", "SETTINGS"), name
