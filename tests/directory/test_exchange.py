"""Several requests on one connection, sent before the first of them is answered."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from msmq.directory import exchange
from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.exchange import Answer, Page, Request
from msmq.manager.directory import DirectoryObject, DirectoryResult, Expression, ObjectClass, Relation
from tests.directory.support import Domain, Trace

SUCCESS, END = DirectoryResult.SUCCESS, DirectoryResult.END_OF_DATA
NOT_CONNECTED = DirectoryResult.DIRECTORY_NOT_CONNECTED


class Script:
    """What ldap3 calls a strategy, with a server behind it that answers the last request first."""

    def __init__(self, answers: list[list[tuple[int, str]]]) -> None:
        self.sent: list[str] = []
        self.answers = answers
        self._outstanding: dict[int, object] = {}

    def send(self, operation: str, body: object, controls: object) -> int:
        self.sent.append(operation)
        return len(self.sent)

    def receiving(self) -> list[tuple[int, str]]:
        return self.answers.pop(0) if self.answers else []

    def decode_response_fast(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"type": message["type"], "of": message["messageID"]}


@pytest.fixture(autouse=True)
def decoded(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "script" in request.fixturenames:
        monkeypatch.setattr(
            exchange, "_decode", lambda message: {"messageID": message[0], "type": message[1]}
        )


@pytest.fixture
def script() -> Script:
    return Script(
        [[(2, "addResponse")], [(1, "searchResEntry"), (1, "searchResEntry")], [(1, "searchResDone")]]
    )


REQUESTS = [Request("searchRequest", None), Request("addRequest", None)]


def handed_out(script: Script) -> dict[int, Answer]:
    answers: dict[int, Answer] = {}
    exchange.exchange(SimpleNamespace(strategy=script), REQUESTS, answers.__setitem__)  # type: ignore[arg-type]
    return answers


def test_answers_come_in_any_order(script: Script) -> None:
    answers = handed_out(script)
    assert script.sent == ["searchRequest", "addRequest"]
    assert list(answers) == [1, 0]
    assert [entry["of"] for entry in answers[0].entries] == [1, 1]
    assert (answers[0].result["type"], answers[1].result["type"]) == ("searchResDone", "addResponse")
    assert answers[0].cookie == b""


@pytest.mark.parametrize("answers", [[], [[(0, "extendedResp")]], [[(2, "addResponse")], []]])
def test_a_connection_that_ends(script: Script, answers: list[list[tuple[int, str]]]) -> None:
    script.answers = answers
    with pytest.raises(OSError, match="the server"):
        handed_out(script)


def test_requests_are_values() -> None:
    made = exchange.search(
        "", "(cn=x)", ("cn",), subtree=True, time_limit_s=5, controls=(), page=Page(7, b"next")
    )
    assert (made.operation, len(made.controls)) == ("searchRequest", 1)
    assert exchange.add("CN=a", "mSMQQueue", {"cn": [b"a"], "empty": []}).operation == "addRequest"
    assert exchange.delete("CN=a").operation == "delRequest"
    assert exchange.replace("CN=a", {"cn": []}).operation == "modifyRequest"


def test_many_threads_create_over_one_connection(domain: Domain) -> None:
    """And whether their parent is there is asked once for those who ask together."""
    host = domain.queue_manager().attributes["computer_name"]
    trace = Trace()
    directory = domain.directory_as("Administrator", trace)
    trace.clear()

    def create(number: int) -> bytes | None:
        item = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{host}\\many{number}"})
        return directory.create(item, None, None)[1]

    with directory.held(), ThreadPoolExecutor(16) as pool:
        made = list(pool.map(create, range(40)))
    assert len(trace.sent("addRequest")) == 40
    assert len(trace.operations) < 3 * 40
    result, found = domain.directory.queues_of(host)
    assert result is SUCCESS
    assert {item.identifier: item.attributes["pathname"] for item in found} == {
        identifier: f"{host}\\many{number}" for number, identifier in enumerate(made)
    }


def test_a_long_list_comes_page_by_page(domain: Domain) -> None:
    """Only one page of it is in memory; what breaks off in the middle is not taken for the end."""
    host, label = domain.queue_manager().attributes["computer_name"], domain.name("label")
    for _ in range(5):
        domain.queue(host, label=label)
    directory = ActiveDirectory(replace(domain.settings(), page_size=2))
    assert directory.initialize()
    wanted = (Expression("label", Relation.EQUALS, label),)
    with directory.held():
        _, query = directory.read_begin(ObjectClass.QUEUE, wanted, ("pathname",), None)
        assert query is not None
        seen, sizes = set(), set()
        while (step := directory.read_next(query))[0] is SUCCESS:
            assert step[1] is not None
            seen.add(step[1].attributes["pathname"])
            sizes.add(len(directory.reading.iterators[query].ldap_state))
        assert step == (END, None)
        assert (len(seen), max(sizes)) == (5, 2)
        assert directory.read_end(query) is SUCCESS
        _, broken = directory.read_begin(ObjectClass.QUEUE, wanted, ("pathname",), None)
        assert broken is not None
        assert directory.read_next(broken)[0] is SUCCESS
        assert directory.read_next(broken)[0] is SUCCESS
        directory.connection._channel.shutdown(2)
        assert directory.read_next(broken) == (NOT_CONNECTED, None)
        assert directory.read_next(broken) == (NOT_CONNECTED, None)
        assert "broke off" in directory.last_failure
        assert directory.read_end(broken) is SUCCESS
