"""``msmq directory`` as an operator runs it, against a real domain controller."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msmq.cli import app
from msmq.directory.local import LocalDirectory
from msmq.manager.directory import DirectoryObject, ObjectClass
from msmq.wire.guid import guid_text
from scripts.samba_dc import ADMINISTRATOR, HOST, PASSWORD, DomainController
from tests.directory.support import DEFAULT_SITE, ENTERPRISE_DN, Domain, domain_of


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


def configuration(path: Path, controller: DomainController, name: str, **options: str) -> Path:
    """A configuration as the operator writes it; a user who may nothing is in it unless ``options`` say otherwise."""
    (path / "password").write_text(PASSWORD, encoding="utf-8")
    values = {
        "principal": "alice@MSMQ.TEST",
        "password_file": "password",
        "mechanism": "ntlm",
        "site": DEFAULT_SITE,
    } | options
    lines = [f'{key} = "{value}"' for key, value in values.items()]
    server = f"{HOST}@{controller.address}:{controller.ports['ldap']}"
    file = path / f"{name}.toml"
    text = "\n".join([f'name = "{name}"', "[directory]", f'servers = ["{server}"]', *lines])
    file.write_text(text, encoding="utf-8")
    return file


def run(command: str, file: Path, *arguments: str, admin: bool = False) -> tuple[int, str]:
    given = ["directory", command, *arguments, "--config", str(file)]
    given += ["--as", ADMINISTRATOR] if admin else []
    result = CliRunner().invoke(app, given, input=PASSWORD + "\n")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_a_host_joins_is_found_and_leaves(domain: Domain, tmp_path: Path) -> None:
    name = domain.computer()
    file = configuration(tmp_path, domain.controller, name)
    status, told = run("status", file)
    assert (status, "WRONG queue manager: not in the directory" in told) == (1, True)
    assert "msmq directory join" in told
    status, guid = run("join", file, admin=True)
    assert status == 0, guid
    seen = domain.look(domain.directory.objects.names.queue_manager(name))
    assert guid_text(seen["objectGUID"][0]) == guid.strip()
    assert run("join", file, admin=True) == (0, guid)  # once more changes nothing
    status, told = run("status", file)
    assert "ok    queue manager: " + guid.strip() in told
    assert f"ok    sites: {DEFAULT_SITE}" in told
    assert "WRONG keys: none" in told
    queue = domain.queue(name, label="The (*) label")
    status, told = run("find", file, "queues", "label=The (*) label")
    assert (status, told) == (0, f"{guid_text(queue.identifier)} {queue.attributes['pathname']}\n")
    status, told = run("show", file, "queues", f"identifier={guid_text(queue.identifier)}")
    assert status == 0
    assert "label: The (*) label" in told.splitlines()
    assert f"pathname: {queue.attributes['pathname']}" in told.splitlines()
    as_json(file, queue, guid.strip())
    status, told = run("leave", file, admin=True)
    assert (status, "--with-queues" in told) == (1, True)
    status, told = run("leave", file, "--with-queues", admin=True)
    assert (status, told) == (0, f"{name} has left, with 1 public queues\n")
    assert not domain.exists(domain.directory.objects.names.queue_manager(name))
    status, told = run("leave", file, admin=True)
    assert (status, "is not in the directory" in told) == (1, True)


def as_json(file: Path, queue: DirectoryObject, manager: str) -> None:
    """The same questions, for scripts."""
    identifier = guid_text(queue.identifier)
    status, told = run("find", file, "queues", f"identifier={identifier}", "--json")
    assert status == 0
    assert json.loads(told) == {"identifier": identifier, "name": queue.attributes["pathname"]}
    status, told = run("show", file, "queues", f"identifier={identifier}", "--json")
    assert status == 0
    (shown,) = map(json.loads, told.splitlines())
    assert shown["identifier"] == identifier
    assert shown["attributes"]["pathname"] == queue.attributes["pathname"]
    assert shown["attributes"]["label"] == "The (*) label"
    status, told = run("status", file, "--json")
    assert status == 1
    findings = {finding["what"]: finding for finding in map(json.loads, told.splitlines())}
    assert findings["queue manager"]["good"] is True
    assert manager in findings["queue manager"]["detail"]
    assert findings["keys"]["good"] is False
    assert all(set(finding) == {"what", "good", "detail", "remedy"} for finding in findings.values())


def test_the_account_of_the_computer_is_made_on_request(domain: Domain, tmp_path: Path) -> None:
    name = domain.name("made")
    file = configuration(tmp_path, domain.controller, name)
    status, told = run("join", file, admin=True)
    assert (status, "--create-computer" in told) == (1, True)
    assert f"WRONG computer account: no CN={name}" in run("status", file)[1]
    status, told = run("join", file, "--create-computer", admin=True)
    assert status == 0, told
    seen = domain.look(domain.directory.objects.names.computer(name))
    assert seen["dNSHostName"] == [f"{name}.msmq.test".encode()]
    assert "ok    queue manager: " in run("status", file)[1]


def test_an_ordinary_user_is_told_about_rights(domain: Domain, tmp_path: Path) -> None:
    file = configuration(tmp_path, domain.controller, domain.computer())
    status, told = run("join", file)
    assert status == 1
    assert "may not do this" in told


def test_a_site_that_is_not_there(domain: Domain, tmp_path: Path) -> None:
    file = configuration(tmp_path, domain.controller, domain.computer(), site="Atlantis")
    status, told = run("join", file, admin=True)
    assert (status, "There is no site Atlantis" in told) == (1, True)


def test_a_wrong_password(domain: Domain, tmp_path: Path) -> None:
    file = configuration(tmp_path, domain.controller, domain.computer(), principal="nobody@MSMQ.TEST")
    status, told = run("status", file)
    assert status == 1
    assert "WRONG domain controller" in told
    assert "does not believe the account" in told


def test_no_controller(domain: Domain, tmp_path: Path) -> None:
    file = configuration(tmp_path, domain.controller, "QM1")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(f":{domain.controller.ports['ldap']}", ":1"), encoding="utf-8")
    for command in ("status", "join", "leave", "export"):
        status, told = run(command, file)
        assert status == 1
        assert "No domain controller can be reached" in told


def test_no_enterprise(own_domain_controller: DomainController, tmp_path: Path) -> None:
    domain = Domain(own_domain_controller)
    file = configuration(tmp_path, own_domain_controller, domain.computer())
    domain.remove(ENTERPRISE_DN)
    status, told = run("status", file)
    assert status == 1
    assert "WRONG enterprise" in told
    assert "CN=MsmqServices" in told


def test_a_configuration_without_a_domain(tmp_path: Path) -> None:
    file = tmp_path / "qm.toml"
    file.write_text('name = "QM1"', encoding="utf-8")
    status, told = run("status", file)
    assert (status, "servers" in told) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("cats",), "cats is none of queues"),
        (("queues", "colour=red"), "colour is no attribute"),
        (("queues", "identifier=red"), "identifier=red"),
        (("queues", "quota_kb=abc"), "it is a number"),
        (("queues", "security=1"), "cannot be searched for"),
    ],
    ids=["kind", "attribute", "value", "number", "unsearchable"],
)
def test_questions_that_make_no_sense(
    domain: Domain, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    file = configuration(tmp_path, domain.controller, "QM1")
    status, told = run("find", file, *arguments)
    assert (status, complaint in told) == (1, True), told


def test_a_label_that_looks_like_something_else(domain: Domain, tmp_path: Path) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    queue = domain.queue(host, label="true", quota_kb=0xFFFFFFFE)
    file = configuration(tmp_path, domain.controller, host)
    status, told = run("find", file, "queues", "label=true", "quota_kb=4294967294")
    assert (status, told) == (0, f"{guid_text(queue.identifier)} {queue.attributes['pathname']}\n")


def test_kerberos_that_fails_is_told_in_words(domain: Domain, tmp_path: Path) -> None:
    """A keytab that is not there, one that is none, and tickets that nobody has."""
    (tmp_path / "nonsense").write_bytes(b"no keys")
    for options in ({"keytab": "missing"}, {"keytab": "nonsense"}, {"ticket_cache": "missing"}):
        file = configuration(
            tmp_path, domain.controller, "QM1", password_file="", mechanism="kerberos", **options
        )
        for command in ("status", "join"):
            status, told = run(command, file)
            assert status == 1
            assert "Kerberos gets no ticket" in told
            assert "Traceback" not in told


def test_a_password_is_never_sent_in_clear(domain: Domain, tmp_path: Path) -> None:
    file = configuration(tmp_path, domain.controller, "QM1", protection="none")
    status, told = run("status", file)
    assert (status, "not sent without encryption" in told) == (2, True)


def test_an_export_is_a_directory_file(domain: Domain, tmp_path: Path) -> None:
    (paris, paris_guid), (_, rome_guid) = domain.site(), domain.site()
    host = domain.queue_manager(site_identifier_list=(paris_guid,))
    computer = host.attributes["computer_name"]
    queue = domain.queue(computer, base_priority=3)
    odd = domain.queue(computer, f"not a name {domain.name()}")
    file = configuration(tmp_path, domain.controller, computer)
    status, told = run("export", file)
    assert status == 0
    document = tomllib.loads(told)
    assert {"name": paris, "guid": guid_text(paris_guid)} in document["sites"]
    directory = LocalDirectory(document)
    known = {item.identifier: item for item in directory.objects}
    assert known[host.identifier].attributes["site_identifier_list"] == (paris_guid,)
    assert known[queue.identifier].attributes["pathname"] == queue.attributes["pathname"]
    assert known[queue.identifier].attributes["base_priority"] == 3
    assert odd.identifier not in known
    assert odd.attributes["pathname"].partition("\\")[2] in told  # as a remark
    assert known[rome_guid].object_class is ObjectClass.SITE
