"""CodeContests, TACO, APPS, CodeForces: rows in the hub's exact layout, and what a naive loader gets wrong in them."""

import json
from datetime import date

import pytest

from erpo_jax.evaluate.benchmarks import BadRow, codecontests, codeforces, prepare, special_judge, taco
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import Case, load_hidden
from erpo_jax.evaluate.solutions import Solution, load_solutions
from erpo_jax.problems import Example, load_problems


@pytest.fixture
def rows(shared_data):
    return shared_data / "data" / "schema_rows"


def views(folder):
    solutions = folder / "solutions.jsonl"
    return (
        {problem.id: problem for problem in load_problems(folder / "problems.jsonl")},
        load_hidden(folder / "hidden.jsonl"),
        load_solutions(solutions) if solutions.is_file() else {},
    )


# CodeContests


def test_codecontests(rows, tmp_path):
    summary = prepare("codecontests", [rows / "deepmind_code_contests.jsonl"], tmp_path, release="test")
    problems, hidden, solutions = views(tmp_path)
    assert (summary.written, summary.bad) == (13, {})
    flower = problems["1591_A. Life of a Flower"]
    assert (flower.mode, flower.time_limit_s, flower.memory_limit_mb) == ("stdin", 4.0, 1024)  # 1 s of C++
    assert flower.source == "codecontests test (codeforces)"
    assert len(flower.public_tests) == 1
    tests = hidden[flower.id]
    assert (tests.kind, tests.compare) == ("stdin", "codecontests")
    assert (tests.cases[0].input, tests.cases[0].output) == (flower.public_tests[0].input, "3\n7\n-1\n1\n")
    assert len(tests.cases) == 1 + 4 + 8  # public, private, generated
    assert sum("codechef" in problem.source for problem in problems.values()) == 3
    chef = next(problem for problem in problems.values() if "codechef" in problem.source)
    assert chef.time_limit_s == 8.0  # no limit named: 2 s of C++
    assert {one.source for one in solutions[flower.id]} == {
        "codecontests solutions",
        "codecontests incorrect_solutions",
    }
    assert {one.correct for one in solutions[flower.id]} == {True, False}
    assert summary.solutions == sum(map(len, solutions.values())) == 100


def contest_row(**changes):
    row = {
        "name": "1_A. Sum",
        "description": "Add.",
        "public_tests": {"input": ["1 2\r\n"], "output": ["3\r\n"]},
        "private_tests": {"input": [], "output": []},
        "generated_tests": {"input": ["1 2\n", "2 2\n"], "output": ["3\n", "4\n"]},
        "source": 5,
        "solutions": {"language": [1, 3, 2], "solution": ["print 3", "print(3)", "int main"]},
        "incorrect_solutions": {"language": [4], "solution": ["class Main"]},
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 0,
        "input_file": "",
        "output_file": "",
    }
    return row | changes


def test_codecontests_enums_lists_and_limits():
    problem, tests, solutions = codecontests.split(contest_row(), "")
    assert problem.source == "codecontests (atcoder)"  # 5 on the hub; 6 in the proto on GitHub
    assert problem.time_limit_s == 6.0
    assert tests.cases == (Case("1 2\n", "3\n"), Case("2 2\n", "4\n"))  # the first one is the public one again
    assert solutions == (Solution("print(3)", True, "codecontests solutions"),)  # neither Python 2 nor C++ nor Java
    assert codecontests.split(contest_row(memory_limit_bytes=2**32), "").problem.memory_limit_mb == 4096


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "in.txt"}, "reads or writes a file"),
        ({"generated_tests": None}, "neither private nor generated tests"),
        ({"generated_tests": {"input": ["1"], "output": []}}, "of one length"),
        ({"private_tests": [{"input": "1", "output": "2"}]}, "must hold the lists 'input' and 'output'"),
        ({"private_tests": {"input": [1], "output": ["1"]}}, "a value that is no text"),
        ({"time_limit": {"seconds": "soon"}}, "must hold seconds and nanos"),
        ({"name": None}, "field 'name' is NoneType"),
    ],
)
def test_codecontests_rows_that_cannot_be_used(changes, message):
    with pytest.raises(BadRow, match=message):
        codecontests.split(contest_row(**changes), "")


def test_statements_without_their_pictures_are_named(tmp_path):
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps(contest_row(description="See <image>")) + "\n")
    assert list(prepare("codecontests", [source], tmp_path).known_bad_kept) == ["1_A. Sum"]
    with pytest.raises(EvaluationError, match="no usable row"):
        prepare("codecontests", [source], tmp_path, drop_known_bad=True)


# TACO and APPS


def test_taco(rows, tmp_path):
    faulty = special_judge(rows / "TACO_test_special_judge.jsonl")
    assert len(faulty) == 137 + 42 + 37 + 2
    summary = prepare("taco", [rows / "BAAI_TACO.jsonl"], tmp_path, faulty=faulty)
    problems, hidden, solutions = views(tmp_path)
    assert (list(problems), summary.bad) == ([f"taco/{index}" for index in range(6)], {})
    assert summary.known_bad_kept == {"taco/5": "several answers are right, one is accepted"}
    flower = problems["taco/0"]
    assert (flower.mode, flower.time_limit_s, flower.starter_code) == ("stdin", 10.0, None)
    assert flower.public_tests[0].output.split() == ["3", "7", "-1", "1"]  # it stands in the statement
    assert all("\n" in case.input for case in hidden["taco/2"].cases)  # lists of lines, joined
    functions = [problem for problem in problems.values() if problem.mode == "function"]
    assert len(functions) == 2
    assert {hidden[problem.id].entry_point for problem in functions} == {problem.entry_point for problem in functions}
    assert {tests.compare for tests in hidden.values()} == {"apps"}
    assert all(one.correct for row in solutions.values() for one in row)


def test_apps(rows, tmp_path):
    summary = prepare("apps", [rows / "codeparrot_apps.jsonl"], tmp_path)
    problems, hidden, solutions = views(tmp_path)
    assert (summary.written, summary.bad) == (5, {})
    method = problems["apps/2404"]
    assert method.mode == hidden[method.id].kind == "function"
    assert method.starter_code.startswith("class Solution")
    assert problems["apps/1"].public_tests == (Example("3\n2 2 3\n4 3 7\n10 1 9\n", "1\n6\n-1\n"),)
    assert "class Solution" not in solutions["apps/4184"][0].program
    assert problems["apps/1"].time_limit_s == 4.0


def taco_row(tests, **changes):
    tests = tests if isinstance(tests, str) else json.dumps(tests)
    return {"question": "Add.", "input_output": tests, "solutions": "[]", "starter_code": ""} | changes


STDIN = {"inputs": ["1 2\r\n", ["3", "4"]], "outputs": ["3\n", ["7"]]}


@pytest.mark.parametrize("wrapped", [json.dumps(STDIN), repr(STDIN), json.dumps(json.dumps(STDIN))])
def test_wrapped_once_more_or_as_a_python_literal(wrapped):
    problem, tests, _ = taco.split_taco(taco_row(wrapped), "", 7)
    assert (problem.id, tests.cases) == ("taco/7", (Case("1 2\n", "3\n"), Case("3\n4", "7")))


def test_integers_longer_than_4300_digits(tmp_path):
    long = "9" * 5000
    row = taco_row(f'{{"fn_name": "f", "inputs": [[{long}]], "outputs": [{long}]}}')
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps(row) + "\n")
    assert prepare("taco", [source], tmp_path).written == 1
    assert load_hidden(tmp_path / "hidden.jsonl")["taco/0"].cases == (Case(f"[{long}]", long),)


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("", "has no tests"),
        ({"inputs": [], "outputs": []}, "has no tests"),
        ({"inputs": ["1"], "outputs": []}, "of one length"),
        ("{'inputs': oops}", "neither JSON nor a Python literal"),
        ("[1]", "must hold inputs and outputs"),
        ({"inputs": [1], "outputs": ["1"]}, "is a int, must be a text or a list of lines"),
        ({"inputs": ["1"], "outputs": ["1"], "fn_name": "f"}, "arguments are a str"),
        ({"inputs": [["1"]], "outputs": ["1"], "fn_name": "a b"}, "must be the name of a function"),
        ({"inputs": [[{"1": 2}]], "outputs": ["1"], "fn_name": "f"}, "integer keys"),
    ],
)
def test_taco_rows_that_cannot_be_used(tests, message):
    with pytest.raises(BadRow, match=message):
        taco.split_taco(taco_row(tests), "")


def test_taco_dates_and_missing_columns():
    assert taco.split_taco(taco_row(STDIN, date="2021-03-01 00:00"), "").problem.date == "2021-03-01"
    assert taco.split_taco(taco_row(STDIN, date=None, solutions=None), "").problem.date is None


def test_apps_as_folders(tmp_path):
    folder = tmp_path / "test" / "0042"
    folder.mkdir(parents=True)
    (folder / "question.txt").write_text("Add.")
    (folder / "input_output.json").write_text(json.dumps(STDIN))
    (folder / "solutions.json").write_text(json.dumps(["print(3)"]))
    summary = prepare("apps", [tmp_path / "test"], tmp_path)
    assert (summary.written, summary.solutions) == (1, 1)
    assert load_problems(tmp_path / "problems.jsonl")[0].id == "apps/0042"


def test_a_list_of_special_judges_is_nothing_else(rows):
    with pytest.raises(EvaluationError, match="is not TACO's list of special judges"):
        special_judge(rows / "BAAI_TACO.jsonl")


# CodeForces


def test_codeforces(rows, tmp_path):
    source = rows / "open_r1_codeforces.jsonl"
    summary = prepare("codeforces", [source], tmp_path, generated_tests=rows / "generated_tests")
    problems, hidden, _ = views(tmp_path)
    assert (summary.written, summary.bad, summary.known_bad_kept) == (6, {}, {})
    assert not (tmp_path / "solutions.jsonl").exists()
    riddle = problems["1594/A"]
    assert (riddle.time_limit_s, riddle.memory_limit_mb) == (8.0, 1024)
    assert riddle.statement.startswith("Consecutive Sum Riddle\n\nTheofanis")
    assert "\nInput:\nThe first line contains" in riddle.statement
    assert len(riddle.public_tests) == 2
    assert "sys.argv" in hidden["1594/A"].checker
    assert hidden["1591/A"].checker is None
    assert hidden["1591/A"].compare == "tokens"
    alone = prepare("codeforces", [source], tmp_path / "alone")
    assert (
        list(alone.known_bad_kept.values())
        == ["the official tests are incomplete, and there are no generated ones here"] * 6
    )
    without = load_hidden(tmp_path / "alone" / "hidden.jsonl")
    assert len(hidden["1591/A"].cases) == len(without["1591/A"].cases) + 4
    assert not any("\r" in case.input + case.output for case in hidden["1613/A"].cases)


def test_missing_generated_tests_are_an_error(rows, tmp_path):
    with pytest.raises(EvaluationError, match=r"1594/A are missing: there is no file .*test_cases_1594\.parquet"):
        prepare("codeforces", [rows / "open_r1_codeforces.jsonl"], tmp_path, generated_tests=tmp_path)
    with pytest.raises(EvaluationError, match="belong to codeforces, not to taco"):
        prepare("taco", [rows / "BAAI_TACO.jsonl"], tmp_path, generated_tests=tmp_path)


def forces_row(**changes):
    test = {"input": "1", "output": "2"}
    return {
        "id": "1/A",
        "description": "Add.",
        "official_tests": [test],
        "examples": [test],
        "executable": True,
    } | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"interaction_format": "Ask."}, "interactive"),
        ({"executable": False}, "not executable"),
        ({"input_mode": "file"}, "reads input.txt"),
        ({"official_tests": []}, "has no tests"),
        ({"official_tests": [{"input": "1"}]}, "field 'output' is NoneType"),
    ],
)
def test_codeforces_rows_that_cannot_be_used(changes, message):
    with pytest.raises(BadRow, match=message):
        codeforces.split(forces_row(**changes), "")


def test_codeforces_dates_come_from_the_contest(tmp_path):
    assert codeforces.split(forces_row(contest_start=1_732_000_000), "").problem.date == "2024-11-19"
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps(forces_row(contest_start=1_732_000_000, official_tests_complete=True)) + "\n")
    summary = prepare("codeforces", [source], tmp_path, start=date(2024, 11, 19), end=date(2024, 11, 19))
    assert (summary.written, summary.known_bad_kept) == (1, {})
