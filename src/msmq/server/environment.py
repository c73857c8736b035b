"""Configuration by environment variables, as is usual for containers.

``MSMQ_CONFIG_LOG_FORMAT=json`` is ``log_format = "json"`` of the file, and ``MSMQ_CONFIG_API__LISTEN`` is ``listen``
of its table ``[api]``: two underscores stand between a table and its option. A value is TOML where it can be read as
TOML (``512``, ``true``, ``["a", "b"]``), and a text where it cannot. The environment overrides the file, and the
command line overrides both. ``MSMQ_CONFIG`` itself is the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from msmq.server.config import Config, ConfigError, from_table

PREFIX: Final = "MSMQ_CONFIG_"


def with_environment(config: Config, environment: Mapping[str, str]) -> Config:
    """A configuration with the options of the environment. An unknown option is refused, naming its variable.

    All variables are applied together: some are valid only together, such as a certificate and its key.
    """
    tables: dict[str, dict[str, Any]] = {}
    together: dict[str, Any] = {}
    for variable in sorted(environment):
        if variable.startswith(PREFIX):
            *path, option = variable.removeprefix(PREFIX).lower().split("__")
            text = environment[variable]
            value = text if _is_text(config, [*path, option]) else _value(text)
            tables[variable] = _nested(path, option, value, {})
            _nested(path, option, value, together)
    try:
        return from_table(together, config)
    except ConfigError as error:
        for variable, table in tables.items():
            if str(error) == _refusal(table, config):
                raise ConfigError(f"{variable}: {error}") from None
        raise


def _nested(path: list[str], option: str, value: Any, top: dict[str, Any]) -> dict[str, Any]:
    """Put an option into its table below ``top``, and return ``top``."""
    table = top
    for name in path:
        table = table.setdefault(name, {})
    table[option] = value
    return top


def _refusal(table: dict[str, Any], config: Config) -> str | None:
    """The error of a table alone, or None."""
    try:
        from_table(table, config)
    except ConfigError as error:
        return str(error)
    return None


def _is_text(config: Any, path: list[str]) -> bool:
    """Whether an option is a text, which is taken literally: a computer may be called 1801 or true."""
    for name in path:
        if not is_dataclass(config) or name not in {entry.name for entry in fields(config)}:
            return False
        config = getattr(config, name)
    return isinstance(config, str)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
