"""Wrong usages of the command line: each is answered by one line on standard error that says what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from msmq.cli import app
from tests.cli.support import Live

Q = ".\\private$\\wrong"
GONE = ".\\private$\\nothing"
SEE = "See msmq{} --help."
MISSING_QUEUE = "create the queue"
A_SIZE = "a size such as 500MB or 8GB"
WHO = "give a SID such as"

WRONG: list[tuple[str, int, str]] = [
    ("frobnicate", 2, SEE.format("")),
    ("sned", 2, "Did you mean 'send'? See msmq --help."),
    ("--server", 2, "requires an argument. See msmq --help."),
    ("--token", 2, "requires an argument. See msmq --help."),
    ("--frob queue list", 2, SEE.format("")),
    ("--connect-timeout 0 queue list", 2, "x>=0.1"),
    ("--connect-timeout soon queue list", 2, "a valid number"),
    ("queue list --server", 2, SEE.format(" queue list")),
    ("queue list --server 127.0.0.1:1 --connect-timeout 1", 4, "No queue manager answers at 127.0.0.1:1"),
    ("queue list --connect-timeout soon", 2, "a valid number"),
    (f"peek {Q} --id -1", 2, "is not in the range"),
    (f"receive {Q} --id 99999999999999999999999", 2, "is not in the range"),
    (f"send {Q} --body x --time-to-be-received -5", 2, "is not in the range"),
    (
        f"send {Q} --body x --time-to-reach-queue 1e12",
        1,
        "time_to_reach_queue is 1000000000000.0, and has to be",
    ),
    (f"send {Q} --message /dev/null", 1, "/dev/null is no JSON"),
    ("queue frob", 2, SEE.format(" queue")),
    ("queue create", 2, "Missing argument 'PATH'. See msmq queue create --help."),
    ("queue create orders", 1, "computer\\private$\\queue"),
    ("queue create .\\private$\\", 1, "computer\\private$\\queue"),
    (f"queue create {Q}", 1, "choose another name"),
    ("queue create other\\private$\\x", 1, "other is another computer; this one is HOST"),
    ("queue create .\\private$\\new --quota lots", 2, A_SIZE),
    ("queue create .\\private$\\new --quota -5", 2, A_SIZE),
    ("queue create .\\private$\\new --quota 9999TB", 2, A_SIZE),
    ("queue create .\\private$\\new --privacy secret", 2, "not one of 'none', 'optional', 'body'"),
    ("queue create .\\private$\\new --priority 99999", 2, "-32768<=x<=32767"),
    ("queue create .\\private$\\new --type guid", 1, "8-4-4-4-12 hexadecimal digits"),
    ("queue create .\\private$\\new --multicast nowhere", 1, "looks like 234.1.1.1:8001"),
    ("queue create .\\private$\\new extra", 2, "unexpected extra argument"),
    ("queue create .\\private$\\new --transactonal", 2, "Possible options: --transactional"),
    (f"queue create {Q} --transactional --if-missing", 1, "is not transactional"),
    ("queue show", 2, "Missing argument 'QUEUE'. See msmq queue show --help."),
    (f"queue show {GONE}", 1, MISSING_QUEUE),
    ("queue show DIRECT=XYZ:foo\\bar", 1, "TCP:, OS:"),
    (f"queue set {Q}", 2, "see msmq queue set --help"),
    (f"queue set {Q} --label", 2, "requires an argument"),
    (f"queue set {Q} --multicast 10.0.0.1:80", 1, "looks like 234.1.1.1:8001"),
    (f"queue set {GONE} --label x", 1, MISSING_QUEUE),
    ("queue delete", 2, SEE.format(" queue delete")),
    (f"queue delete {GONE} --yes", 1, MISSING_QUEUE),
    ("queue delete .\\deadletter$ --yes", 1, "belongs to the queue manager"),
    (f"queue purge {GONE} --yes", 1, MISSING_QUEUE),
    ("queue list --frob", 2, SEE.format(" queue list")),
    (f"queue acl set {Q}", 1, "--allow, --deny, --remove, --owner or --sddl"),
    (f"queue acl set {Q} --allow EVERYONE", 1, "write WHO=RIGHTS"),
    (f"queue acl set {Q} --allow nobody=send", 1, WHO),
    (f"queue acl set {Q} --allow EVERYONE=fly", 1, "These are known: receive, peek, send, full"),
    (f"queue acl set {Q} --allow user:nosuchuser=send", 1, "getent passwd"),
    (f"queue acl set {Q} --allow group:nosuchgroup=send", 1, "getent group"),
    (f"queue acl set {Q} --allow token:none=send", 1, "msmq token create none"),
    (f"queue acl set {Q} --sddl nonsense", 1, "O:, G:, D: or S: is expected"),
    (f"queue acl set {Q} --owner nobody", 1, WHO),
    (f"queue acl set {Q} --remove nobody", 1, WHO),
    (f"queue acl show {GONE}", 1, MISSING_QUEUE),
    ("send", 2, "Missing argument 'QUEUE'. See msmq send --help."),
    (f"send {Q} --body x --file y", 2, "exclude each other"),
    (f"send {Q} --body x --priority 9", 2, "0<=x<=7"),
    (f"send {Q} --body x --priority high", 2, "a valid integer"),
    (f"send {Q} --file /nonexistent/file", 1, "/nonexistent/file"),
    (f"send {GONE} --body x", 1, MISSING_QUEUE),
    ("send DIRECT=OS:\\private$\\q --body x", 1, "A computer name is"),
    ("send FormatName:DIRECT=OS:a..b\\private$\\q --body x", 1, "single dots between"),
    (f"send {Q} --body x --frob", 2, SEE.format(" send")),
    (f"send {Q} --body x --time-to-be-received soon", 2, "a valid number"),
    (f"send {Q} --body x --correlation-id 12", 1, "looks like GUID\\number"),
    (f"send {Q} --body x --response-queue !!", 1, "computer\\private$\\queue"),
    (f"send {Q} --body x --count 0", 2, "x>=1"),
    ("receive", 2, SEE.format(" receive")),
    (f"receive {Q} --timeout soon", 2, "a valid number"),
    (f"receive {Q} --timeout -1", 2, "x>=0"),
    (f"receive {GONE} --timeout 0", 1, MISSING_QUEUE),
    (f"receive {Q} --id abc", 2, "a valid integer"),
    (f"receive {Q} --id 999999", 1, "start from the first"),
    (f"receive {Q} --count 0", 2, "x>=1"),
    (f"receive {Q} --count 2 --all", 2, "--count N or --all"),
    (f"peek {Q} --frob", 2, SEE.format(" peek")),
    (f"peek {GONE}", 1, MISSING_QUEUE),
    (f"peek {Q} --id xyz", 2, "a valid integer"),
    ("message frob", 2, SEE.format(" message")),
    ("message export", 2, SEE.format(" message export")),
    (f"message export {GONE} /nonexistent/x", 1, "/nonexistent/x"),
    (f"message import {Q} /nonexistent", 1, "/nonexistent"),
    (f"message move {Q}", 2, "Missing argument 'TARGET'"),
    ("dead-letter frob", 2, SEE.format(" dead-letter")),
    ("dead-letter resend abc", 2, SEE.format(" dead-letter resend")),
    ("outgoing pause", 2, SEE.format(" outgoing pause")),
    ("outgoing pause DIRECT=OS:nobody\\private$\\q", 1, "No messages wait here"),
    ("outgoing purge nothing --yes", 1, "computer\\private$\\queue"),
    ("manager frob", 2, SEE.format(" manager")),
    ("manager set", 2, "see msmq manager set --help"),
    ("manager set --quota lots", 2, A_SIZE),
    ("manager set --journal-quota 1.5GB", 2, A_SIZE),
    ("manager acl set", 1, "--allow, --deny"),
    ("manager acl set --allow EVERYONE=fly", 1, "These are known: full"),
    ("certificate remove xyz", 2, "as 'msmq certificate list' shows it"),
    ("certificate remove abcd --yes", 1, "No certificate with this digest"),
    ("certificate enable /nonexistent.pem", 1, "/nonexistent.pem"),
    (f"certificate enable {__file__}", 1, "give one in PEM or DER"),
    ("token create", 2, SEE.format(" token create")),
    ("token create bad --as nobody", 1, WHO),
    ("token remove nothing --yes", 1, "`msmq token list`"),
    ("top --interval 0", 2, "x>=0.1"),
    ("ping", 2, SEE.format(" ping")),
    ("ping 127.0.0.1 --timeout never", 2, "a valid number"),
    ("serve --port 99999", 2, "from 0 to 65535"),
    ("serve --port many", 2, "a valid integer"),
    ("serve --config /nonexistent.toml", 2, "/nonexistent.toml"),
    ("serve --listen nowhere", 2, "like 10.0.0.5"),
    ("decode /nonexistent.pcap", 2, "/nonexistent.pcap"),
    (f"decode {__file__}", 2, "not hexadecimal"),
    ("config show --config /nonexistent", 2, "/nonexistent"),
    ("store check /nonexistent", 2, "is no directory"),
    ("store info", 2, SEE.format(" store info")),
    ("directory status --config /nonexistent", 2, "/nonexistent"),
    ("user list", 2, SEE.format(" user list")),
    ("pipeline archive", 2, SEE.format(" pipeline archive")),
]


@pytest.fixture(scope="module", autouse=True)
def _queue(live: Live) -> None:
    live.good("queue", "create", Q, "--if-missing")


@pytest.mark.parametrize(("words", "status", "told"), WRONG, ids=[row[0][:50] for row in WRONG])
def test_a_wrong_usage_is_one_line_that_says_what_to_do(
    live: Live, words: str, status: int, told: str
) -> None:
    line = live.bad(*words.split(" "), code=status)
    assert line.startswith("msmq")
    assert told in line


def test_there_are_a_hundred() -> None:
    assert len(WRONG) >= 100


def leaves(command: Any, path: str = "msmq") -> Iterator[tuple[str, str]]:
    if hasattr(command, "commands"):
        for name, member in command.commands.items():
            yield from leaves(member, f"{path} {name}")
    else:
        yield path, command.help or ""


@pytest.mark.parametrize(
    ("path", "text"), list(leaves(typer.main.get_command(app))), ids=lambda given: given[:30]
)
def test_every_command_has_an_example_in_its_help(path: str, text: str) -> None:
    assert path in text or path.replace(" message ", " ") in text


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("dpkt", "msmq[capture]", ["decode", "samples/session.pcap"]),
        ("pyspark", "msmq[spark]", ["pipeline", "report", "/nonexistent"]),
        ("pyarrow", "msmq[spark]", ["pipeline", "report", "/nonexistent"]),
        ("pyarrow", "msmq[spark]", ["pipeline", "decode", "/nonexistent", "--to", "/nonexistent"]),
        ("asyncpg", "msmq[ha]", ["ha", "status", "--store", "postgresql://nobody@127.0.0.1:1/queues"]),
        ("asyncpg", "msmq[ha]", ["ha", "switchover", "--store", "postgresql://nobody@127.0.0.1:1/queues"]),
        ("ldap3", "msmq[directory,kerberos]", ["directory", "status", "--config", "{config}"]),
    ],
)
def test_an_extra_that_is_missing_is_one_line(
    module: str, extra: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "msmq.toml"
    config.write_text('[directory]\nkind = "ldap"\ndomain = "corp.example"\nprincipal = "A@CORP.EXAMPLE"\n')
    anew = (f"{module}.", "msmq.directory.", "msmq.spark", "msmq.ha")
    for name in [name for name in sys.modules if name == module or name.startswith(anew)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(Path(__file__).parents[2])
    result = CliRunner().invoke(app, [word.format(config=config) for word in arguments], prog_name="msmq")
    assert result.exit_code != 0
    assert result.stderr.count("\n") == 1, result.stderr
    assert f"pip install '{extra}'" in result.stderr


def test_a_right_that_is_missing_is_named_with_the_command_that_gives_it(live: Live) -> None:
    queue = live.queue()
    everyone = "EVERYONE=get-queue-properties,change-queue-permissions"
    live.good("queue", "acl", "set", queue, "--deny", "EVERYONE=receive,send", "--allow", everyone)
    for command, right in (
        (("send", queue, "--body", "x"), "write-message"),
        (("receive", queue), "receive-message"),
    ):
        line = live.bad(*command)
        assert f"the right {right} to HOST" in line
        assert f"`msmq queue acl set '{queue.replace('.', 'HOST', 1)}' --allow S-1-22-1-" in line


def test_a_quota_that_is_reached_is_named_with_the_command_that_raises_it(live: Live) -> None:
    queue = live.queue("--quota", "1KB")
    line = live.bad("send", queue, "--body", "x" * 2000)
    assert f"The quota of HOST{queue[1:]} is 1 KB" in line
    assert f"`msmq queue set 'HOST{queue[1:]}' --quota SIZE`" in line
    live.good("queue", "set", queue, "--quota", "8GB")
    assert live.object("queue", "show", queue)["quota_kb"] == 8 << 20
    live.good("queue", "set", queue, "--quota", "unlimited")
    live.good("send", queue, "--body", "x" * 2000)
