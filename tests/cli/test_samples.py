"""The samples are what their script makes, and tell the whole session."""

from __future__ import annotations

from pathlib import Path

from scripts import samples
from tests.capture.captures import decode, decode_json, kinds

HOME = Path(__file__).parents[2] / "samples"
SESSION = [
    *["Ping"] * 2,
    *["EstablishConnection"] * 2,
    *["ConnectionParameters"] * 2,
    *["UserMessage", "SessionAck"],
]


def test_the_script_makes_these_files() -> None:
    assert (HOME / "session.hex").read_text(encoding="ascii") == samples.session_hex()
    assert (HOME / "session.pcap").read_bytes() == samples.session_pcap()


def test_both_tell_the_same_session() -> None:
    status, captured = decode_json(str(HOME / "session.pcap"))
    assert (status, kinds(captured)) == (0, SESSION)
    status, written = decode_json(str(HOME / "session.hex"))
    assert (status, kinds(written)) == (0, SESSION)
    for left, right in zip(captured, written, strict=True):
        assert left["explanation"] == right["explanation"]
        assert left.get("role") == right.get("role")


def test_the_story_in_sentences() -> None:
    result = decode("--brief", str(HOME / "session.pcap"))
    assert result.exit_code == 0
    sentences = [line.strip() for line in result.stdout.splitlines() if line.startswith("   ")]
    assert [sentence.split()[0] for sentence in sentences if sentence[0].isupper()] == [
        "Asks",
        "Answers",
        "Opens",
        "Accepts",
        "Proposes",
        "Answers",
        "Carries",
        "Confirms",
    ]
