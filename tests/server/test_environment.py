"""What environment variables say goes before the file, and mistakes are named by their variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.server.config import Config, ConfigError, load, served
from msmq.server.environment import with_environment


def test_options_of_every_kind() -> None:
    config = with_environment(
        Config(),
        {
            "MSMQ_CONFIG_LOG_FORMAT": "json",
            "MSMQ_CONFIG_NAME": "1801",
            "MSMQ_CONFIG_PORT": "1901",
            "MSMQ_CONFIG_ENABLE_PING_SERVICE": "true",
            "MSMQ_CONFIG_DATA": "/var/lib/msmq",
            "MSMQ_CONFIG_LISTEN": '["10.0.0.5", "::1"]',
            "MSMQ_CONFIG_API__LISTEN": "unix:/run/msmq/api.sock",
            "MSMQ_CONFIG_RPC__PORT": "0",
            "MSMQ_CONFIG_TIMERS__ORDER_ACK_TIMEOUT_MS": "250",
            "MSMQ_SERVER": "another matter",
            "PATH": "/bin",
        },
    )
    assert (config.log_format, config.name, config.port) == ("json", "1801", 1901)
    assert config.enable_ping_service
    assert config.data == Path("/var/lib/msmq")
    assert config.listen == ("10.0.0.5", "::1")
    assert config.api.listen == ("unix:/run/msmq/api.sock",)
    assert (config.rpc.port, config.timers.order_ack_timeout_ms) == (0, 250)


def test_the_file_goes_behind_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "msmq.toml"
    file.write_text('log_level = "debug"\nlog_format = "json"\n')
    config = with_environment(load(file), {"MSMQ_CONFIG_LOG_LEVEL": "error"})
    assert (config.log_level, config.log_format) == ("error", "json")


def test_without_variables_nothing_changes() -> None:
    assert with_environment(served(), {"MSMQ_CONFIG": "/etc/msmq.toml"}) == served()


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("MSMQ_CONFIG_LOG_COLOUR", "red", "log_colour is no option"),
        ("MSMQ_CONFIG_PORT", "many", "port is 'many'"),
        ("MSMQ_CONFIG_PORT", "70000", "ports go from 0 to 65535"),
        ("MSMQ_CONFIG_API__NOTHING", "1", "api.nothing is no option"),
        ("MSMQ_CONFIG_LOG_LEVEL__X", "1", "log_level"),
    ],
)
def test_a_mistake_is_named_by_its_variable(variable: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=variable) as raised:
        with_environment(Config(), {variable: value})
    assert says in str(raised.value)


def test_variables_count_together() -> None:
    """A certificate and its key belong together, and are two variables."""
    given = {"MSMQ_CONFIG_WEB__CERTIFICATE": "/console.pem", "MSMQ_CONFIG_WEB__PRIVATE_KEY": "/console.key"}
    assert with_environment(Config(), given).web.private_key == "/console.key"
    for variable, value in given.items():
        with pytest.raises(ConfigError, match=rf"^{variable}: .*belong together"):
            with_environment(Config(), {variable: value})
