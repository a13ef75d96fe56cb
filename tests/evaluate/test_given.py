"""Samples from elsewhere: the layouts, their mistakes, and the 16B model's published ones against their labels."""

import gzip
import json

import pytest

from erpo_jax.evaluate.benchmarks import prepare
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.given import Given, load_given
from erpo_jax.problems import Problem
from tests.evaluate.conftest import load_command, write_lines

PROBLEMS = {"a": Problem("a", "s", starter_code="def f():\n"), "b": Problem("b", "s")}


@pytest.mark.parametrize(
    ("row", "samples"),
    [
        ({"task_id": "a", "completion": "    x"}, [Given("def f():\n    x")]),
        ({"task_id": "a", "completion": "x", "prompt": "own "}, [Given("own x")]),
        ({"task_id": "a", "completion": "x", "passed": True}, [Given("def f():\nx", True)]),
        ({"task_id": "a", "solution": "x"}, [Given("x")]),
        ({"id": "a", "program": "x", "count": 2}, [Given("x"), Given("x")]),
        ({"id": "a", "program": None}, [Given(None)]),
        ({"id": "a", "program": ""}, [Given(None)]),
        ({"question_id": "a", "code_list": ["x", ""]}, [Given("x"), Given(None)]),
        (
            {"task_id": "a", "prompt": "p", "samples": [{"completion": "x", "count": 2, "verdict": "pass"}]},
            [Given("px", True)] * 2,
        ),
        ({"task_id": "a", "samples": [{"program": "x", "verdict": "timeout"}]}, [Given("x", False)]),
    ],
)
def test_layouts(tmp_path, row, samples):
    file = write_lines(tmp_path / "samples.jsonl", [{"id": "other", "program": "z"}, row, {"id": "b", "program": "y"}])
    assert load_given(file, PROBLEMS) == {"a": samples, "b": [Given("y")]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"program": "x"}, "needs the problem's id"),
        ({"id": 1, "program": "x"}, "needs the problem's id"),
        ({"id": "a"}, "a sample needs one of program, solution, completion"),
        ({"id": "a", "program": 1}, "is a int, must be a text or null"),
        ({"id": "a", "program": "x", "count": -1}, "'count' is -1"),
        ({"id": "a", "program": "x", "count": 10**9}, "must be a whole number from 0 to 100000"),
        ({"id": "a", "completion": "x", "prompt": 5}, "'prompt' is 5"),
        ({"id": "a", "program": "x", "passed": "yes"}, "'passed' is 'yes'"),
        ({"id": "a", "samples": "x"}, "'samples' must be a list"),
        ([1], "needs the problem's id"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path, row, message):
    file = write_lines(tmp_path / "samples.jsonl", [{"id": "b", "program": "y"}, row])
    with pytest.raises(EvaluationError, match=rf"samples\.jsonl:2: .*{message}"):
        load_given(file, PROBLEMS)


def test_no_sample_of_these_problems(tmp_path):
    file = write_lines(tmp_path / "samples.jsonl", [{"id": "other", "program": "y"}])
    with pytest.raises(EvaluationError, match="holds no sample of these 2 problems"):
        load_given(file, PROBLEMS)
    with pytest.raises(EvaluationError, match="there is no file of samples"):
        load_given(tmp_path / "absent.jsonl", PROBLEMS)


def test_evaluate_grades_given_samples_as_their_labels_say(shared_data, tmp_path, monkeypatch):
    """Every 41st problem of the 16B model's 100 samples each: pass@k of ours equals that of the labels."""
    monkeypatch.chdir(tmp_path)
    data = shared_data / "data"
    prepare("humaneval", [data / "humaneval.jsonl.gz"], tmp_path)
    with gzip.open(data / "humaneval_codegen16b_samples.jsonl.gz", "rt") as stream:
        rows = [json.loads(line) for line in stream][::41]
    main = load_command("evaluate").main
    words = [
        f"evaluate.problems={tmp_path / 'problems.jsonl'}", f"evaluate.hidden={tmp_path / 'hidden.jsonl'}",
        "evaluate.k=[1,10,100]", "evaluate.samples=100", "rollout.temperature=0.8", "sandbox.workers=2",
    ]  # fmt: skip
    samples = data / "humaneval_codegen16b_samples.jsonl.gz"
    assert main([*words, "--every", "41", "--regrade", str(samples), "--out", "found.json"]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    right = {row["task_id"]: sum(one["count"] for one in row["samples"] if one["verdict"] == "pass") for row in rows}
    assert found["points"][0]["counts"] == {name: [100, count] for name, count in right.items()}
    assert found["points"][0]["temperature"] == 0.8
    assert found["provenance"]["labels"] == {"labelled": 400, "agree": 400, "disagreements": []}
    assert 0 < sum(right.values()) < 400
