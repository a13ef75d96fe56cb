"""Sampling by problem, and the file of generations."""

import pytest

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.generations import FORMAT, Answer, fitting, generate, load_generations, save_generations, seed_of
from erpo_jax.problems import Problem
from erpo_jax.problems.prompts import Prompt
from erpo_jax.rollout import Completion, Sampling

PROBLEMS = [Problem(f"p{index}", "s" * (index + 1)) for index in range(5)]


class Prompts:
    def solve(self, problem):
        return Prompt(tuple(range(len(problem.statement))), "```python\n")

    def text(self, ids):
        return " ".join(f"x = {number}" for number in ids)


class Engine:
    """Answers each prompt with its length, its seed's parity and the sample's number; remembers how it was asked."""

    def __init__(self):
        self.calls = []

    def generate(self, prompts, n, sampling, seeds, progress=None):
        self.calls.append((len(prompts), n, sampling))
        if progress:
            progress(len(prompts) * n, len(prompts) * n)
        return [
            [Completion((1000 * len(ids) + seed % 2 * 100 + j,), (0.0,), "stop", 0) for j in range(n)]
            for ids, seed in zip(prompts, seeds, strict=True)
        ]


def test_answers_by_problem_in_blocks(monkeypatch):
    monkeypatch.setattr("erpo_jax.evaluate.generations.BLOCK", 4)
    engine, told = Engine(), []
    answers = generate(engine, Prompts(), PROBLEMS, 2, Sampling(0.5, 8), 7, lambda *at: told.append(at))
    assert [count for count, _, _ in engine.calls] == [2, 2, 1]
    assert {(n, sampling) for _, n, sampling in engine.calls} == {(2, Sampling(0.5, 8))}
    assert told == [(4, 10), (8, 10), (10, 10)]
    parity = seed_of(7, PROBLEMS[2]) % 2 * 100
    assert answers["p2"] == [
        Answer(f"x = {3000 + parity}", f"x = {3000 + parity}", "stop", 1),
        Answer(f"x = {3001 + parity}", f"x = {3001 + parity}", "stop", 1),
    ]


def test_a_problem_has_its_own_seed():
    seeds = {seed_of(seed, problem) for seed in (0, 1) for problem in PROBLEMS}
    assert len(seeds) == 10
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_prompts_that_are_too_long_are_named():
    kept, too_long = fitting(PROBLEMS, Prompts(), 3)
    assert [problem.id for problem in kept] == ["p0", "p1", "p2"]
    assert too_long == ["p3", "p4"]


ANSWERS = {
    "a": [Answer("text é\u2028\x85\n", "x = 1", "stop", 3), Answer("", None, "length", 4)],
    "b": [Answer("t", None, "lost", 0)],
}


@pytest.mark.parametrize("name", ["g.jsonl", "deep/g.jsonl.zst"])
def test_generations_read_back_equal(tmp_path, name):
    save_generations(tmp_path / name, {"temperature": 0.5, "policy": "p"}, ANSWERS)
    header, answers = load_generations(tmp_path / name)
    assert (header["temperature"], header["policy"], answers) == (0.5, "p", ANSWERS)


HEADER = f'{{"format": "{FORMAT}", "policy": "p", "temperature": 1}}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a file of generations"),
        ('{"id": "a"}\n', r"g\.jsonl:1: is not a file of generations"),
        (f'{{"format": "{FORMAT}"}}\n', r"g\.jsonl:1: must name its policy and its temperature"),
        (HEADER.replace("1}", "NaN}"), r"g\.jsonl:1: must name its policy and its temperature"),
        (HEADER + '{"id": "a"}\n', r"g\.jsonl:2: not a line"),
        (HEADER + "[" * 100_000, r"g\.jsonl:2: not a line"),
        (
            HEADER + '{"id": "a", "answers": [{"text": "", "program": 1, "finish_reason": "", "tokens": 1}]}',
            "program is 1",
        ),
        (HEADER + '{"id": "a", "answers": []}\n' * 2, r"g\.jsonl:3: the id 'a' is no text, or stands twice"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "g.jsonl").write_text(content)
    with pytest.raises(EvaluationError, match=message):
        load_generations(tmp_path / "g.jsonl")
    with pytest.raises(EvaluationError, match="there is no file"):
        load_generations(tmp_path / "absent.jsonl")
