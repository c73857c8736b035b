"""Input that cannot be read: one line on standard error and status 2, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.captures import Capture, decode


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (["/no/such/file"], None, "/no/such/file: No such file or directory"),
        (["/"], None, "/: Is a directory"),
        (["-"], b"", "standard input: the input is empty"),
        (["--format", "raw"], b"", "standard input: the input is empty"),
        ([], b"# only words\n", "standard input: there are no hexadecimal digits in it"),
        ([], b"hello world\n", "standard input: line 1 is not hexadecimal: 'hello world'"),
        ([], b"\xd4\xc3\xb2\xa1", "standard input: the capture ends inside its header"),
        (["--format", "pcap"], b"1000", "standard input: the capture ends inside its header"),
        (["--format", "pcap"], bytes(100), "standard input: it does not begin like a capture"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_one_line_and_status_2(
    arguments: list[str], given: bytes | None, words: str, form: list[str]
) -> None:
    result = decode(*arguments, *form, given=given)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"msmq decode: {words}\n"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"1000")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    result = decode(str(path))
    assert (result.exit_code, result.stderr) == (2, f"msmq decode: {path}: Permission denied\n")


def test_a_capture_without_msmq_says_where_it_looked(tmp_path: Path) -> None:
    capture = Capture()
    capture.tcp(1, b"data", port=80)
    path = tmp_path / "web.pcap"
    path.write_bytes(capture.pcap())
    result = decode(str(path))
    assert result.exit_code == 0
    assert result.stderr == (
        f"msmq decode: {path}: nothing on TCP port 1801 or UDP port 3527 in 1 captured frame; see --port\n"
    )
