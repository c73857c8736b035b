"""``msmq certificate`` against a live daemon."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from tests.cli.support import Live

SHAPE = {"certificate", "digest", "sid", "subject", "issuer", "expires_time", "internal"}


def test_an_internal_certificate(live: Live, tmp_path: Path) -> None:
    key, out = tmp_path / "me.key", tmp_path / "me.pem"
    made = live.object("certificate", "new", "--key", str(key), "--out", str(out))
    assert set(made) == SHAPE
    assert made["internal"] is True
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    certificate = load_pem_x509_certificate(out.read_bytes())
    private = load_pem_private_key(key.read_bytes(), None)
    assert certificate.public_key() == private.public_key()
    assert made["digest"] in live.good("certificate", "list")
    assert made in live.objects("certificate", "list")

    assert "is there already" in live.bad("certificate", "new", "--key", str(key))
    live.good("certificate", "remove", made["digest"])
    assert made not in live.objects("certificate", "list")
    assert "MQ_ERROR" in live.bad("certificate", "remove", made["digest"])

    registered = live.object("certificate", "enable", str(out))
    live.good("certificate", "remove", made["digest"])
    assert live.object("certificate", "register", str(out)) == registered
    assert (registered["digest"], registered["internal"]) == (made["digest"], False)
    assert live.object("certificate", "remove", made["digest"]) == {"digest": made["digest"], "removed": True}


def test_enable_without_a_certificate_makes_one(live: Live) -> None:
    assert live.object("certificate", "enable")["internal"] is True


def test_renew_takes_the_old_one_back(live: Live) -> None:
    old, new = live.object("certificate", "new"), live.object("certificate", "renew")
    assert new["internal"] is True
    listed = live.objects("certificate", "list")
    assert new in listed
    assert old not in listed


def test_failures_are_one_line(live: Live, tmp_path: Path) -> None:
    assert "hexadecimal" in live.bad("certificate", "remove", "xyz", code=2)
    assert "No such file" in live.bad("certificate", "enable", str(tmp_path / "none"))
    (tmp_path / "bad").write_bytes(b"no certificate")
    live.bad("certificate", "enable", str(tmp_path / "bad"))
    live.bad("certificate", "new", "--key", str(tmp_path / "none" / "key"))
