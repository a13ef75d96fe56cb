"""Counts, the evaluation file, and the report made of it."""

import json
import math
import re

import pytest

from erpo_jax.evaluate.drawing import ticks
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.generations import Answer
from erpo_jax.evaluate.measurement import check_plan, grade_answers, load_evaluation, measure, save_evaluation
from erpo_jax.evaluate.provenance import of_problems, weights_hash
from erpo_jax.evaluate.report import write_report
from erpo_jax.problems import Problem
from tests.evaluate.test_curve import BASE, HOT, evaluation, point

PROVENANCE = {
    "hidden_hash": "h",
    "problem_hash": "f" * 64,
    "problems": 40,
    "grader_version": "1",
    "dates": ["2024-08-03", "2025-01-30"],
    "sources": ["livecodebench release_v6"],
    "prepared": {"release": "release_v6", "start": "2024-08-01", "end": "2025-01-31", "bad": {}},
}


class FixedGrader:
    def grade(self, programs, progress=None):
        return {name: [None if p == "fault" else p == "right" for p in row] for name, row in programs.items()}


def quiet(part, done, total):
    pass


def test_answers_are_counted():
    answers = {
        "a": [
            Answer("", "right", "stop", 10),
            Answer("", "wrong", "length", 20),
            Answer("", None, "stop", 6),
            Answer("", "right", "stop", 4),
        ],
        "b": [Answer("", "fault", "stop", 0), Answer("", "right", "lost", 0)],
    }
    found = grade_answers(FixedGrader(), answers, 0.7, 1.5, quiet)
    assert found.counts == {"a": (4, 2)}
    assert found.verdicts == {"a": "1001", "b": "??"}
    assert (found.temperature, found.ungraded, found.distinct) == (0.7, 2, 5)
    assert found.truncated == pytest.approx(1 / 6)
    assert found.without_program == pytest.approx(1 / 6)
    assert found.tokens == pytest.approx(40 / 6)
    assert found.seconds_sampling == 1.5


def test_a_greedy_answer_stands_for_all_samples(monkeypatch):
    asked = []

    def sample(engine, prompts, problems, n, sampling, seed, progress):
        asked.append((n, sampling.temperature))
        return {"a": [Answer("", "right", "stop", 1)] * n, "b": [Answer("", "wrong", "stop", 1)] * n}

    monkeypatch.setattr("erpo_jax.evaluate.measurement.generate", sample)
    problems = [Problem("a", "s"), Problem("b", "s")]
    options = {"max_new_tokens": 8, "seed": 0, "progress": quiet}
    greedy, warm = measure(None, None, problems, FixedGrader(), temperatures=[0.0, 1.0], samples=4, **options)
    assert asked == [(1, 0.0), (4, 1.0)]
    assert greedy.counts == warm.counts == {"a": (4, 4), "b": (4, 0)}


@pytest.mark.parametrize(
    ("temperatures", "problems", "message"),
    [
        ([1.0], [], "no problems"),
        ([], [Problem("a", "s")], "no temperature"),
        ([1.0, -0.5], [Problem("a", "s")], "temperature -0.5: must be at least 0"),
        ([float("nan")], [Problem("a", "s")], "temperature nan"),
    ],
)
def test_what_cannot_be_measured_is_refused(temperatures, problems, message):
    with pytest.raises(EvaluationError, match=message):
        check_plan(temperatures, problems)


def test_an_evaluation_reads_back_equal(tmp_path):
    file = tmp_path / "deep" / "e.json"
    made = evaluation(point(1.0, HOT), adapted=("p00", "p01"), **PROVENANCE)
    save_evaluation(file, made)
    assert load_evaluation(file) == made
    estimates = json.loads(file.read_text())["points"][0]["estimates"]
    assert estimates["all"]["pass@1"]["value"] == 0.25
    assert (estimates["adapted"]["pass@16"]["problems"], estimates["held out"]["pass@16"]["problems"]) == (2, 38)
    assert not list(file.parent.glob("*.part"))


@pytest.mark.parametrize("value", [None, 5, -1, math.nan, True, "x", [], {}, [1], ["x"], [[]], [{}], {"a": [1, 5]}])
def test_any_value_in_a_field_is_read_or_refused(tmp_path, value):
    file = tmp_path / "e.json"
    save_evaluation(file, evaluation(point(1.0, HOT), adapted=("p00", "p01"), **PROVENANCE))
    whole = json.loads(file.read_text())
    for name in ("policy", "ks", "samples", "points", "adapted", "provenance", *whole["points"][0]):
        inside = name in whole["points"][0]
        tree = whole | ({"points": [whole["points"][0] | {name: value}]} if inside else {name: value})
        file.write_text(json.dumps(tree))
        try:
            write_report(tmp_path / "report.html", load_evaluation(file))
        except EvaluationError as error:
            assert "broken evaluation file" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not an evaluation file"),
        ("{}", "its format is None"),
        ('{"format": "x"}', "its format is 'x'"),
        ('{"format": "erpo_jax.evaluation/1"}', "broken evaluation file: KeyError: 'policy'"),
        ("[" * 100_000, "not an evaluation file"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    file = tmp_path / "e.json"
    with pytest.raises(EvaluationError, match=r"there is no evaluation file .*e\.json"):
        load_evaluation(file)
    file.write_text(content)
    with pytest.raises(EvaluationError, match=rf"e\.json.*{message}"):
        load_evaluation(file)


def test_provenance_of_problems(tmp_path):
    file = tmp_path / "problems.jsonl"
    file.write_text("abc")
    (tmp_path / "prepared.json").write_text('{"release": "v6"}')
    problems = [
        Problem("a", "s", date="2024-05-01", source="x"),
        Problem("b", "s", date="2024-02-01"),
        Problem("c", "s"),
    ]
    found = of_problems(problems, file, file)
    assert (
        found["problem_hash"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )  # SHA-256 of "abc"
    assert (found["problems"], found["dates"], found["sources"]) == (3, ["2024-02-01", "2024-05-01"], ["x"])
    assert found["prepared"] == {"release": "v6"}


def test_the_hash_of_a_policy_is_that_of_its_weights_and_shape(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("a")
    first = weights_hash(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert weights_hash(tmp_path) == first
    (tmp_path / "model.safetensors").write_text("b")
    assert weights_hash(tmp_path) != first


def test_the_report_says_it_all_and_needs_nothing_beside_it(tmp_path):
    adapted_ids = tuple(f"p{index:02d}" for index in range(20))
    base = evaluation(*BASE.points, adapted=adapted_ids, **PROVENANCE)
    after = evaluation(point(1.0, [12] * 40), adapted=adapted_ids, **PROVENANCE, weights_hash="<w>")
    page = write_report(tmp_path / "report.html", base, after).read_text()
    for said in (
        "lies above the base&#x27;s temperature curve",
        "Problems adapted on (20)",
        "Held-out problems (20)",
        "f" * 64,
        "2024-08-03 to 2025-01-30",
        "release_v6",
        "2025-01-31",
        "grader version",
        "&lt;w&gt;",
        "0.750 [0.750, 0.750]",
        "T=0.3",
    ):
        assert said in page
    assert not re.search(r'(src|href)="|url\(|<script|@import', page)
    assert page.count("<svg") == page.count("</svg>") == 6
    tree = json.loads((tmp_path / "report.json").read_text())
    assert [section["group"] for section in tree["sections"]] == ["all", "adapted", "held out"]
    assert tree["sections"][0]["comparisons"][0]["standing"] == "above"


def test_one_sample_a_problem_shows_only_pass_at_1(tmp_path):
    greedy = evaluation(point(0.0, [1, 0], n=1), samples=1)
    page = write_report(tmp_path / "report.html", greedy).read_text()
    assert "<th>pass@1</th>" in page
    assert "pass@16" not in page


def test_ticks_are_round():
    assert ticks(0.18, 0.52) == [0.2, 0.3, 0.4, 0.5]
    assert ticks(-0.05, 1.05) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
