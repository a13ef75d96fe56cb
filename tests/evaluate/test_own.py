"""One's own problems, tests and programs in one file."""

import json

import pytest

from erpo_jax.evaluate.benchmarks import BadRow, own, prepare
from erpo_jax.evaluate.hidden import Case, load_hidden
from erpo_jax.evaluate.solutions import Solution, load_solutions
from erpo_jax.problems import Example, load_problems

TEST = {"input": "1\n", "output": "2\n"}
STDIN = {
    "id": "a",
    "statement": "Double.",
    "public_tests": [TEST],
    "hidden_tests": [TEST, {"input": "2", "output": "4"}],
}


def test_the_views_of_a_row():
    row = STDIN | {
        "compare": "tokens",
        "title": "not ours",
        "candidates": [
            {"code": "print(2)", "label": "incorrect", "origin": "me", "note": "not ours"},
            {"code": "x"},
        ],
    }
    problem, tests, solutions = own.split(row, "v1")
    assert (problem.id, problem.source, problem.public_tests) == ("a", "v1", (Example("1\n", "2\n"),))
    assert tests.cases == (Case("1\n", "2\n"), Case("2", "4"))  # the public one once
    assert tests.compare == "tokens"
    assert solutions == (Solution("print(2)", False, "me"), Solution("x"))


def test_functions_and_checks():
    function = STDIN | {"mode": "function", "entry_point": "f", "public_tests": []}
    function["hidden_tests"] = [{"input": "[1]", "output": "2"}]
    assert own.split(function, "").tests.kind == "function"
    views = own.split(
        {"id": "a", "statement": "s", "mode": "function", "entry_point": "f", "test": "{program}\nf()"}, ""
    )
    assert (views.tests.kind, views.tests.entry_point) == ("program", "f")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"statement": ""}, "'statement'"),
        ({"time_limit_s": -1}, "time_limit_s"),
        ({"hidden_tests": []}, "needs hidden_tests"),
        ({"hidden_tests": [{"input": 1, "output": ""}]}, "texts 'input' and 'output'"),
        ({"compare": "exact"}, "'compare' is 'exact'"),
        ({"checker": 1}, "'checker' must be the text of a Python program"),
        ({"candidates": [{"code": 1}]}, "the text 'code'"),
        ({"candidates": [{"code": "", "label": "good"}]}, 'label is "good"; allowed are correct, incorrect, or none'),
    ],
)
def test_rows_that_cannot_be_used(changes, message):
    with pytest.raises(BadRow, match=message):
        own.split(STDIN | changes, "")


def test_real_contest_problems(shared_data, tmp_path):
    summary = prepare("own", [shared_data / "data" / "codecontests_stdin.jsonl.gz"], tmp_path)
    assert (summary.written, summary.solutions, summary.bad) == (53, 1054, {})
    labels = [one.correct for row in load_solutions(tmp_path / "solutions.jsonl").values() for one in row]
    assert (labels.count(True), labels.count(False)) == (484, 570)
    assert len(load_problems(tmp_path / "problems.jsonl")) == len(load_hidden(tmp_path / "hidden.jsonl")) == 53
    assert "hidden" not in json.dumps((tmp_path / "problems.jsonl").read_text())
