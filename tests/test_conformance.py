"""The conformance map: scripts/conformance.py and tests/plugins/conformance.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import conformance

pytest_plugins = ("pytester",)

ROOT = Path(__file__).resolve().parent.parent
INVENTORY = """\
id\tspec\tsection\tkind\ttitle
AA-1.1-a\tMS-AA\t1.1.7\tfield\tFirst | row
AA-1.1-b\tMS-AA\t1.1.9\trule\tSecond <1> row
AA-2.1-a\tMS-AA\t2.1\tpropid\tSNAKE_CASE_
BB-1-a\tMS-BB\t1\trule\tFourth
"""
DECLARED = '[decided]\n"AA-1.1-b" = "r"\n[empty]\n"AA-2.1-a" = "r"\n'
PASSED = {"AA-1.1-a": [{"test": "tests/test_x.py::test_one", "outcome": "passed"}]}


@pytest.fixture
def home(tmp_path: Path) -> conformance.Home:
    """A small project with two specifications, where every row but the first has its reason."""
    home = conformance.Home(tmp_path)
    home.inventory.parent.mkdir()
    home.page.parent.mkdir()
    home.inventory.write_text(INVENTORY)
    home.declarations.write_text(f'{DECLARED}[later]\n"BB-1-a" = "r"\n')
    return home


def problems(home: conformance.Home, results: conformance.Results, *, check: bool = False) -> list[str]:
    return conformance.run(home, results, check=check)[1]


def test_the_projects_inventory_is_whole() -> None:
    rows = conformance.load_inventory(conformance.Home(ROOT).inventory)
    counts = {
        spec: sum(row.spec == spec for row in rows.values())
        for spec in dict.fromkeys(r.spec for r in rows.values())
    }
    assert counts == {"MS-MQMQ": 683, "MS-MQDMPR": 500, "MS-MQQB": 589, "MS-MQRR": 380, "MS-MQDSSM": 539}
    assert all(row.section and row.kind and row.title for row in rows.values())


def test_one_line_per_specification(home: conformance.Home) -> None:
    lines, found = conformance.run(home, PASSED, check=False)
    assert lines == [
        "MS-AA rows=3 shown=1 out_of_scope=0 decided=1 empty=1 later=0 undeclared=0",
        "MS-BB rows=1 shown=0 out_of_scope=0 decided=0 empty=0 later=1 undeclared=0",
    ]
    assert found == []


def test_a_row_with_neither_test_nor_reason_is_refused(home: conformance.Home) -> None:
    home.declarations.write_text(DECLARED)
    assert problems(home, PASSED) == ["BB-1-a: no test shows it and no reason is given"]


def test_a_row_is_shown_only_when_all_its_tests_passed() -> None:
    results = {
        "AA-1.1-a": [
            {"test": "t.py::a[1]", "outcome": "passed"},
            {"test": "t.py::a[2]", "outcome": "passed"},
        ],
        "AA-1.1-b": [{"test": "t.py::a", "outcome": "passed"}, {"test": "t.py::b", "outcome": "failed"}],
        "AA-2.1-a": [{"test": "t.py::c", "outcome": "skipped"}],
        "BB-1-a": [],
    }
    assert conformance.shown(results) == {"AA-1.1-a": ["t.py::a"]}


def test_the_page_tells_every_row(home: conformance.Home) -> None:
    home.declarations.write_text(
        '[out_of_scope]\n"AA-1.1-b" = "no *such* network"\n[later]\n"BB-1-a" = "needs a session"\n'
        '[empty]\n"AA-2.1-a" = "a title only"\n'
    )
    assert problems(home, PASSED) == []
    page = home.page.read_text()
    assert "| [MS-AA](#ms-aa) | 3 | 1 | 1 | 0 | 1 | 0 | 50.0% |" in page
    assert "### MS-AA 1.1: 1 of 2" in page
    assert r"| AA-1.1-a | field | First \| row | `tests/test_x.py::test_one` |" in page
    assert r"| AA-1.1-b | rule | Second \<1\> row | *out of scope:* no \*such\* network |" in page
    assert r"| AA-2.1-a | propid | SNAKE\_CASE\_ | *empty:* a title only |" in page
    assert "| BB-1-a | rule | Fourth | *later:* needs a session |" in page


@pytest.mark.parametrize(
    ("declarations", "complaint"),
    [
        ('[out_of_scope]\n"XX-9" = "reason"', "XX-9: unknown id, in [out_of_scope]"),
        ('[later]\n"XX-9" = "reason"', "XX-9: unknown id, in [later]"),
        ('[out_of_scope]\n"BB-1-a" = " "', "BB-1-a: [out_of_scope] gives no reason"),
        ('[later]\n"BB-1-a" = 1', "BB-1-a: [later] gives no reason"),
        (
            '[out_of_scope]\n"AA-1.1-a" = "r"',
            "AA-1.1-a: in [out_of_scope], but shown by tests/test_x.py::test_one",
        ),
        ('[later]\n"AA-1.1-a" = "r"', "AA-1.1-a: in [later], but shown by tests/test_x.py::test_one"),
        (
            '[later]\n"BB-1-a" = "r"\n[out_of_scope]\n"BB-1-a" = "r"',
            "BB-1-a: in [out_of_scope] and in [later]",
        ),
    ],
)
def test_a_bad_declaration_is_refused(home: conformance.Home, declarations: str, complaint: str) -> None:
    home.declarations.write_text(declarations)
    assert complaint in problems(home, PASSED)
    assert not home.page.exists()


def test_an_unknown_table_is_refused(home: conformance.Home) -> None:
    home.declarations.write_text('[maybe]\n"BB-1-a" = "r"')
    with pytest.raises(conformance.ConformanceError, match="maybe"):
        conformance.run(home, PASSED, check=True)


def test_an_unknown_id_in_the_results_is_refused(home: conformance.Home) -> None:
    assert problems(home, PASSED | {"XX-9": [{"test": "t.py::a", "outcome": "failed"}]}) == [
        "XX-9: unknown id, marked on t.py::a"
    ]


def test_a_row_listed_twice_is_refused(home: conformance.Home) -> None:
    home.inventory.write_text(INVENTORY + "BB-1-a\tMS-BB\t1\trule\tAgain\n")
    with pytest.raises(conformance.ConformanceError, match="BB-1-a is listed twice"):
        conformance.load_inventory(home.inventory)


def test_the_ratchet_rises_and_never_falls(home: conformance.Home) -> None:
    home.declarations.write_text(DECLARED)
    fewer = PASSED | {"BB-1-a": [{"test": "t.py::b", "outcome": "failed"}]}
    more = PASSED | {"BB-1-a": [{"test": "t.py::b", "outcome": "passed"}]}
    assert problems(home, fewer) == []
    assert conformance.load_ratchet(home.ratchet) == {"MS-AA": 1, "MS-BB": 0}
    assert problems(home, more) == []
    assert conformance.load_ratchet(home.ratchet) == {"MS-AA": 1, "MS-BB": 1}
    assert problems(home, fewer) == ["MS-BB: 0 rows shown, ratchet.toml says 1; coverage may only grow"]
    assert conformance.load_ratchet(home.ratchet) == {"MS-AA": 1, "MS-BB": 1}


def test_check_compares_and_changes_nothing(home: conformance.Home) -> None:
    stale = [
        f"{name} is out of date: run `make conformance`"
        for name in ("docs/conformance.md", "conformance/ratchet.toml")
    ]
    assert problems(home, PASSED, check=True) == stale
    assert not home.page.exists()
    assert not home.ratchet.exists()
    assert problems(home, PASSED) == []
    assert problems(home, PASSED, check=True) == []


def test_the_command(home: conformance.Home, capsys: pytest.CaptureFixture[str]) -> None:
    results = home.root / "results.json"
    results.write_text(json.dumps(PASSED))
    arguments = [str(results), "--root", str(home.root)]
    assert conformance.main([*arguments, "--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert conformance.main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "MS-AA rows=3 shown=1 out_of_scope=0 decided=1 empty=1 later=0 undeclared=0",
        "MS-BB rows=1 shown=0 out_of_scope=0 decided=0 empty=0 later=1 undeclared=0",
    ]


@pytest.fixture
def project(
    home: conformance.Home, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A test tree with the two plugins, whose rows are those of INVENTORY."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for part in ("conformance", "docs"):
        (home.root / part).rename(pytester.path / part)
    # These are slow to import, anew for each run, and not needed in there.
    without = " ".join(
        f"-p no:{name}" for name in ("hypothesispytest", "schemathesis", "anyio", "cacheprovider")
    )
    pytester.makeini(f"[pytest]\nmarkers = spec(*ids): rows\naddopts = {without}\n")
    pytester.makeconftest('pytest_plugins = ("tests.plugins.conformance", "tests.plugins.no_skips")')
    return pytester


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_outcomes_are_recorded(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.spec("AA-1.1-a", "AA-1.1-b")
        @pytest.mark.parametrize("n", [1, 2])
        def test_good(n): pass

        @pytest.mark.spec("AA-1.1-b")
        def test_bad(): assert False

        @pytest.mark.spec("BB-1-a")
        @pytest.mark.xfail
        def test_expected(): assert False

        class TestFixture:
            @pytest.fixture
            def broken(self):
                yield
                raise RuntimeError

            @pytest.mark.spec("AA-2.1-a")
            def test_teardown_fails(self, broken): pass
        """
    )
    project.runpytest(*workers, "--conformance=out/results.json").assert_outcomes(
        passed=3, failed=1, errors=1, xfailed=1
    )
    results = json.loads((project.path / "out" / "results.json").read_text())
    outcomes = {row: [run["outcome"] for run in runs] for row, runs in results.items()}
    assert outcomes == {
        "AA-1.1-a": ["passed", "passed"],
        "AA-1.1-b": ["failed", "passed", "passed"],
        "AA-2.1-a": ["failed"],
        "BB-1-a": ["skipped"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
@pytest.mark.parametrize(
    ("mark", "complaint"),
    [('spec("XX-9", "AA-1.1-a")', "unknown spec id XX-9"), ("spec()", "a spec mark takes one or more ids")],
)
def test_a_bad_mark_fails_collection(
    project: pytest.Pytester, mark: str, complaint: str, workers: tuple[str, ...]
) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass")
    result = project.runpytest(*workers)
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*test_it: {complaint}*"])
    result.assert_outcomes(errors=1)


def test_the_check_fails_the_run_above_its_closing_line(project: pytest.Pytester) -> None:
    project.makepyfile('import pytest\n@pytest.mark.spec("AA-1.1-a")\ndef test_it(): pass')
    result = project.runpytest("--conformance=results.json", "--conformance-check")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["MS-AA rows=3 shown=1 *", "ERROR docs/conformance.md is out of date*", "*1 passed*"]
    )
    assert "1 passed" in result.outlines[-1]
    assert conformance.main([str(project.path / "results.json"), "--root", str(project.path)]) == 0
    assert project.runpytest("--conformance=results.json", "--conformance-check").ret == 0


@pytest.mark.parametrize(
    "body",
    [
        'def test_it(): pytest.skip("no")',
        "@pytest.mark.xfail\ndef test_it(): assert False",
        'pytest.importorskip("absent_module")',
    ],
)
def test_a_skip_fails_the_run_in_ci(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    project.makepyfile(f"import pytest\ndef test_other(): pass\n{body}")
    project.makepyfile(test_third="def test_third(): pass")
    assert project.runpytest().ret == 0
    monkeypatch.setenv("CI", "1")
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR *test_a_skip_fails_the_run_in_ci*.py* was skipped"])
