"""Configuration: defaults, files, and what is refused."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from msmq.security.policy import CryptoPolicy
from msmq.server.config import Config, ConfigError, from_table, load, show
from msmq.transfer.timers import TimerSettings
from msmq.wire.algorithms import HashAlgorithm, PrivacyLevel


@pytest.mark.spec("MQQB-2.1.2-d", "MQQB-2.2.1-h")
def test_what_windows_has_too() -> None:
    config = Config()
    assert not config.ping_before_connecting
    assert (config.ping_port, config.enable_ping_service) == (3527, False)
    assert config.max_in_sessions == 0xFFFFFFFF


@pytest.mark.spec("MQQB-3.1.1.3-f", "MQQB-3.1.1.3-g", "MQQB-3.1.1.3-h", "MQQB-3.1.1.3-i", "MQQB-5.1-b")
def test_keys_and_algorithms() -> None:
    timers, policy = TimerSettings(), Config().crypto_policy
    assert timers.symmetric_key_short_lifetime_ms == policy.symmetric_key_short_lifetime_ms == 600_000
    assert timers.symmetric_key_long_lifetime_ms == 43_200_000
    assert {int(level): int(algorithm) for level, algorithm in policy.preferred.items()} == {
        1: 0x6801,
        3: 0x6801,
        5: 0x6610,
    }
    assert policy == CryptoPolicy(preferred=policy.preferred)
    other = from_table(
        {
            "preferred_advanced_algorithm": "aes128",
            "accepted_hashes": ["sha256", "SHA512"],
            "accepted_ciphers": "rc4",
            "user_cert_cache_size": 5,
            "timers": {"user_cert_lifetime_ms": 7},
        }
    ).crypto_policy
    assert other.preferred[PrivacyLevel.ADVANCED] == 0x660E
    assert other.hashes.accepted == {HashAlgorithm.SHA256, HashAlgorithm.SHA512}
    assert other.ciphers == {0x6801}
    assert (other.user_cert_cache_size, other.user_cert_lifetime_ms) == (5, 7)


@pytest.mark.spec("MQQB-3.1.1.3-s")
def test_insecure_nacks_are_off() -> None:
    assert Config().send_insecure_nacks is False


def test_what_is_shown_can_be_read_again() -> None:
    text = show(Config())
    assert from_table(tomllib.loads(text)) == Config()


def test_every_option_is_shown_with_its_meaning() -> None:
    lines = show(Config()).splitlines()
    tables = [entry for entry in fields(Config) if is_dataclass(getattr(Config(), entry.name))]
    wanted = len(fields(Config)) - len(tables)
    wanted += sum(len(fields(getattr(Config(), entry.name))) for entry in tables)
    options = [number for number, line in enumerate(lines) if re.match("[a-z_0-9]+ = ", line)]
    assert len(options) == wanted
    assert not [lines[number] for number in options if not lines[number - 1].startswith("# ")]
    assert max(map(len, lines)) <= 120


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "msmq.toml"
    file.write_text(
        'name = "SRV"\nlisten = ["127.0.0.2", "::1"]\ndata = "/srv/msmq"\n[timers]\nping_response_ms = 5\n'
    )
    config = load(file)
    assert config.name == "SRV"
    assert config.listen == ("127.0.0.2", "::1")
    assert config.data == Path("/srv/msmq")
    assert config.timers.ping_response_ms == 5
    assert config.port == 1801


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", "prot is no option"),
        ('port = "1801"', "not like 1801"),
        ("port = 70000", "0 to 65535"),
        ("max_connections = -1", "negative"),
        ("enable_ping_service = 1", "not like false"),
        ('listen = "host"', "no IP address"),
        ("listen = []", "at least one"),
        ("listen = [1]", "not like"),
        ("window_size = 0", "1 to 65535"),
        ('accepted_hashes = ["sha3"]', "sha3 is none of md2"),
        ('accepted_ciphers = "des"', "des is none of rc2"),
        ('preferred_base_algorithm = "aes256"', "BASE does not allow AES256"),
        ("timers = 5", r"\[timers\]"),
        ("[timers]\nnoon_ms = 5", "timers.noon_ms is no option"),
        ("port = ", "msmq.toml"),
    ],
)
def test_what_cannot_be(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "msmq.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load(file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml"):
        load(tmp_path / "nothing.toml")


def test_where_connections_start() -> None:
    config = Config(listen=("10.0.0.1", "::"))
    assert config.own_addresses == {"10.0.0.1"}
    assert config.source_for("10.0.0.2") == "10.0.0.1"
    assert config.source_for("2001:db8::1") is None
    assert Config(listen=("::1",)).source_for("10.0.0.2") is None


def test_the_directory_file_is_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "msmq.toml"
    file.write_text('[directory]\nfile = "enterprise.toml"\n')
    assert load(file).directory.file == str(tmp_path / "enterprise.toml")
    elsewhere = tmp_path / "elsewhere" / "enterprise.toml"
    file.write_text(f'[directory]\nfile = "{elsewhere}"\n')
    assert load(file).directory.file == str(elsewhere)
    assert Config().directory.file == ""
    with pytest.raises(ConfigError, match=r"directory.files is no option"):
        from_table({"directory": {"files": ""}})
    with pytest.raises(ConfigError, match=r"directory is a table"):
        from_table({"directory": "enterprise.toml"})


def test_the_channel_of_applications() -> None:
    config = from_table(
        {
            "api": {
                "listen": ["unix:/x", "tls:0.0.0.0:1"],
                "socket_mode": "0660",
                "certificate": "c.pem",
                "administrators": "@wheel",
                "users": {"alice": "S-1-5-21-1-2-3-1001"},
            }
        }
    )
    plate = config.api.plate
    assert plate.listen == ("unix:/x", "tls:0.0.0.0:1")
    assert (plate.socket_mode, plate.certificate, plate.private_key) == (0o660, Path("c.pem"), None)
    assert plate.rules.administrators == ("@wheel",)
    assert from_table(tomllib.loads(show(config))) == config
    assert not replace(config.api, enabled=False).plate.listen


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"api": 1}, "write \\[api\\]"),
        ({"api": {"doors": 1}}, "api.doors is no option"),
        ({"api": {"users": {"alice": "bob"}}}, "is no SID"),
        ({"api": {"users": {"alice": 5}}}, "api.users"),
        ({"api": {"socket_mode": "rw"}}, "socket_mode"),
    ],
)
def test_a_channel_that_cannot_be(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_table(table)
